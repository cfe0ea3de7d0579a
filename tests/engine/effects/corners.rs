//! Where hooks, compensations, joins and the end of an execution meet each other, and what people do meanwhile.

use std::sync::atomic::Ordering;

use midex_domain::{
    LifecycleChange, PauseReason, StepId,
    execution::{Report, Resolution, Verdict},
    limits,
};
use midex_engine::store::MemoryStore;
use midex_test::{TokioClock, play::Play};

use super::{crash::process, *};

const ANY: &str = "result: {}";

/// The steps of `on_failure` are for a failure, whatever else they wait for.
#[tokio::test(start_paused = true)]
async fn a_join_in_on_failure_waits_for_a_failure() {
    let lines = format!(
        "steps:
  - {{ id: a, guidance: A, {ANY} }}
  - {{ id: b, guidance: B, {ANY} }}
on_failure:
  - {{ id: look, guidance: L, {ANY}, depends_on: [a, b], join: any }}
"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    play.done("a", json!(1)).await;
    assert_eq!(play.open(), ["b"]);
    play.done("b", json!(1)).await;
    assert_eq!(play.state(), "completed");

    let mut play = Play::begin(&lines, json!({})).await;
    play.done("a", json!(1)).await;
    play.fails("b", "BROKEN").await;
    assert_eq!(play.open(), ["look"]);
}

/// Control goes its way among the steps of `on_failure` too.
#[tokio::test(start_paused = true)]
async fn a_branch_in_on_failure_chooses() {
    let lines = format!(
        "steps:
  - {{ id: a, guidance: A, {ANY} }}
on_failure:
  - {{ id: choose, branch: [{{ if: run.failure.code == 'BROKEN', next: mend }}, {{ next: tell }}] }}
  - {{ id: mend, guidance: M, {ANY}, next: $end }}
  - {{ id: tell, guidance: T, {ANY} }}
"
    );
    for (code, opens) in [("BROKEN", "mend"), ("OTHER", "tell")] {
        let mut play = Play::begin(&lines, json!({})).await;
        play.fails("a", code).await;
        assert_eq!(play.open(), [opens]);
        play.done(opens, json!(1)).await;
        assert_eq!((play.state(), play.open().len()), ("failed", 0), "{code}");
    }
}

/// What a loser does next is its own way, and no other step's.
#[tokio::test(start_paused = true)]
async fn losers_go_their_own_way_and_lead_nowhere_else() {
    let lines = format!(
        "memory: {{ n: 0 }}
steps:
  - {{ id: quick, guidance: Q, {ANY} }}
  - {{ id: slow, guidance: S, {ANY}, depends_on: [] }}
  - {{ id: choose, depends_on: [slow], branch: [{{ if: steps.slow == 1, next: left }}, {{ if: steps.slow == 2, next: right }}, {{ next: quick }}], max_visits: 2 }}
  - {{ id: left, guidance: L, {ANY}, depends_on: [choose], next: join, max_visits: 2 }}
  - {{ id: right, guidance: R, {ANY}, depends_on: [choose], max_visits: 2 }}
  - {{ id: join, guidance: J, {ANY}, depends_on: [quick, left, right], join: any, max_visits: 2 }}
"
    );
    for (brings, opens) in [(1, vec!["left"]), (2, vec!["right"]), (3, vec![])] {
        let mut play = Play::begin(&lines, json!({})).await;
        let slow = play.token("slow");
        play.done("quick", json!(1)).await;
        assert_eq!(play.open(), ["join"]);
        let join = play.token("join");
        play.report(&slow, Report::Output(json!(brings))).await;
        assert_eq!(play.open(), opens, "{brings}");
        for step in opens {
            play.done(step, json!(1)).await;
            assert_eq!(play.open(), Vec::<&str>::new(), "{brings}");
        }
        play.report(&join, Report::Output(json!(1))).await;
        assert_eq!(play.state(), "completed", "{brings}");
        let history = play.history().await;
        assert!(history.iter().all(|row| row.visit < 2), "{history:#?}");
    }
}

/// What control goes back past may wait for what is not done again.
#[tokio::test(start_paused = true)]
async fn a_join_that_has_enough_goes_on_in_each_round() {
    let lines = format!(
        "steps:
  - {{ id: once, guidance: O, {ANY} }}
  - {{ id: each, guidance: E, {ANY}, depends_on: [], max_visits: 2 }}
  - {{ id: join, guidance: J, {ANY}, depends_on: [once, each], join: any, max_visits: 2 }}
  - {{ id: again, guidance: A, {ANY}, depends_on: [each], next: each, max_visits: 2 }}
"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let each = play.token("each");
    play.done("once", json!(1)).await;
    play.report(&each, Report::Output(json!(1))).await;
    play.done("again", json!(1)).await;
    assert_eq!(play.open(), ["each", "join"]);
}

/// Nothing leads to the steps of `on_failure`, which may refer to any other.
#[tokio::test(start_paused = true)]
async fn a_loser_that_on_failure_refers_to_is_one_all_the_same() {
    let lines = format!(
        "steps:
  - {{ id: quick, guidance: Q, {ANY} }}
  - {{ id: slow, guidance: S, {ANY}, depends_on: [] }}
  - {{ id: join, guidance: J, {ANY}, depends_on: [quick, slow], join: any, losers: cancel }}
on_failure:
  - {{ id: look, guidance: 'What the slow one said: ${{{{ steps.slow | default(0) }}}}', {ANY} }}
"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let slow = play.token("slow");
    play.done("quick", json!(1)).await;
    play.refused(&slow, json!(1)).await;
    play.done("join", json!(1)).await;
    assert_eq!(play.state(), "completed");
}

/// Each has an output of its own, which is looked up.
#[tokio::test(start_paused = true)]
async fn thousands_of_items_are_taken_back() {
    let count = limits::COMPENSATIONS_MAX;
    let lines = format!(
        "memory: {{ n: 0 }}
inputs: {{ list: {{ type: array, example: [1] }} }}
steps:
  - id: each
    foreach:
      in: ${{{{ inputs.list }}}}
      parallel: 100
      do:
        set: {{ n: '${{{{ item }}}}' }}
        compensate: {{ set: {{ n: '${{{{ run.output.n + index }}}}' }} }}
  - {{ id: send, guidance: Send, {ANY} }}
"
    );
    let list: Vec<_> = (0..count).collect();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine =
        engine_on(store.clone(), TokioClock::starting_at(EPOCH), Activities::default()).await;
    begin(&engine, play::defined(&lines), json!({ "list": list })).await;
    let status = until_step(&engine, "send").await;
    assert_eq!(status.state, "running");
    let current = engine.current_now("e").await;
    // Everything is looked up anew by whoever wakes it.
    let engine =
        engine_on(store.clone(), TokioClock::starting_at(EPOCH), Activities::default()).await;
    let token = current.continuation_token.unwrap();
    engine.report(&token, play::failed("it broke", Some("BROKEN"))).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status).as_str(), "BROKEN");
    assert_eq!(status.not_compensated.len(), 0);
    let rows = store.load_history(&id()).await.unwrap();
    let rebuilt = midex_domain::Execution::replay(&rows).unwrap();
    let done = view_of_compensations(&rows);
    assert_eq!(done, count);
    assert_eq!(rebuilt.memory()["n"], midex_domain::JsonText::from_value(&json!(0)).digest());
}

fn view_of_compensations(rows: &[midex_domain::Row]) -> usize {
    let history = midex_domain::view::build_history(rows.iter(), |_| None);
    let done = history.iter().filter(|row| row.body.as_deref() == Some("compensate"));
    done.filter(|row| row.status == "completed").count()
}

/// What several steps are to remember together counts before each is done.
#[tokio::test(start_paused = true)]
async fn no_more_is_begun_than_can_be_remembered() {
    let lines = format!(
        "inputs: {{ list: {{ type: array, example: [1] }} }}
steps:
  - {{ id: one, foreach: {{ in: '${{{{ inputs.list }}}}', do: {{ guidance: G, {ANY}, compensate: {{ set: {{ n: 1 }} }} }} }} }}
  - {{ id: two, depends_on: [], foreach: {{ in: '${{{{ inputs.list }}}}', do: {{ guidance: G, {ANY}, compensate: {{ set: {{ n: 1 }} }} }} }} }}
"
    );
    let list: Vec<_> = (0..=limits::COMPENSATIONS_MAX / 2).collect();
    let play = Play::begin(&lines, json!({ "list": list })).await;
    assert_eq!(play.state(), "failed");
    let status = play.status().await;
    assert_eq!(failure(&status), "LIMIT_EXCEEDED");
}

/// A visit that was completed is taken back, also the very one after which there were too many at once.
#[tokio::test(start_paused = true)]
async fn the_last_of_too_many_at_once_is_taken_back_too() {
    let most = limits::STEPS_AT_ONCE_MAX;
    let lines = format!(
        "memory: {{ n: 0, back: 0 }}
limits: {{ max_visits: 10000 }}
steps:
  - {{ id: count, set: {{ n: '${{{{ memory.n + 1 }}}}' }}, compensate: {{ set: {{ back: '${{{{ memory.back + 1 }}}}' }} }} }}
  - {{ id: again, branch: [{{ if: memory.n < {most}, next: count }}] }}
"
    );
    let play = Play::begin(&lines, json!({})).await;
    let status = until_state(&play.engine, "failed").await;
    assert_eq!(failure(&status), "STEPS_AT_ONCE");
    let rows = play.store.load_history(&id()).await.unwrap();
    let history = play.history().await;
    let done = history.iter().filter(|row| row.step_name == "count" && row.body.is_none());
    assert_eq!(view_of_compensations(&rows), done.count());
}

/// The reason why somebody gave it up is that of the state that it came to.
#[tokio::test(start_paused = true)]
async fn the_reason_of_an_end_outlives_what_is_left_to_do() {
    let lines = format!(
        "compensate_when: [abandoned]
steps:
  - {{ id: a, activity: a, compensate: {{ activity: back }} }}
  - {{ id: b, guidance: B, {ANY} }}
"
    );
    let log = Log::new();
    let engine = told(&log, ["a", "back"], &lines).await;
    until_step(&engine, "b").await;
    let change = LifecycleChange {
        action: LifecycleAction::Abandon,
        reason: Some("nobody wants it".into()),
    };
    let status = engine.commanded(change).await;
    assert_eq!(status.reason.as_deref(), Some("nobody wants it"));
    let status = until_state(&engine, "abandoned").await;
    assert_eq!(status.reason.as_deref(), Some("nobody wants it"));
    assert_eq!(log.lines(), ["a 1", "back 1"]);
}

const ENDING_WELL: &str = "compensate_when: [failed, abandoned]
steps:
  - { id: a, activity: a, compensate: { activity: back } }
on_failure: [{ id: look, activity: look }]
hooks:
  on_success: { activity: good }
  on_failure: { activity: bad }
  on_complete: { activity: whole }
";

/// The first who gives up an execution that comes to a good end waits for what is left, as at any other time.
#[tokio::test(start_paused = true)]
async fn who_ends_what_was_ending_well_has_its_effects_taken_back() {
    for (lifecycle, state, left) in [
        (LifecycleAction::Abandon, "abandoned", &["back 1", "whole 1"][..]),
        (LifecycleAction::Fail, "failed", &["look 1", "back 1", "bad 1", "whole 1"]),
    ] {
        let log = Log::new();
        let engine = told(&log, ["a", "back", "look", "good", "bad", "whole"], ENDING_WELL).await;
        until(&engine, |status| status.ending.as_deref() == Some("completed")).await;
        let status = change(&engine, lifecycle).await;
        assert_eq!(status.state.as_str(), "running");
        assert_eq!(status.ending.as_deref(), Some(state));
        let status = until_state(&engine, state).await;
        assert_eq!(status.not_compensated, []);
        assert_eq!(status.final_output, None);
        let mut lines = log.lines();
        lines.retain(|line| !line.ends_with("broken off"));
        assert_eq!(lines[..2], ["a 1", "good 1"]);
        assert_eq!(lines[2..], *left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_jump_back_into_a_step_whose_hook_is_open_voids_the_hook() {
    let log = Log::new();
    let lines = format!(
        "memory: {{ n: 0 }}
steps:
  - {{ id: a, activity: a, hooks: {{ on_success: {{ activity: hook, with: {{ n: '${{{{ run.visit }}}}' }}, timeout: 100s }} }}, max_visits: 3 }}
  - {{ id: b, guidance: B, {ANY}, depends_on: [], next: a }}
"
    );
    let quick = log.activity("a", seconds(1), |_| Ok(json!(1)));
    let slow = log.activity("hook", seconds(50), |_| Ok(json!(1)));
    let engine = engine(&log, only([quick, slow])).await;
    let begun = begin(&engine, play::defined_with(&lines, &["a", "hook"]), json!({})).await;
    tokio::time::sleep(seconds(10)).await;
    engine.report(&begun.new_token.unwrap(), Report::Output(json!(1))).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["a 1", "hook 1", "hook broken off", "a 1", "hook 1"]);
    assert_eq!(
        beside(&engine).await,
        ["on_success of a 1: skipped", "on_success of a 2: completed"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_brings_during_a_pause_counts_at_the_resume() {
    let log = Log::new();
    let engine = told(&log, ["build", "good", "bad", "after"], hooks::STEP).await;
    until(&engine, |status| status.waits.iter().any(|wait| wait.body.is_some())).await;
    change(&engine, LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(10)).await;
    assert_eq!(log.lines(), ["build 1", "good 1"]);
    change(&engine, LifecycleAction::Resume).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["build 1", "good 1", "after 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_required_hook_of_a_foreach_fails_it_as_any_other_step() {
    let log = Log::new();
    let lines = "steps:
  - id: each
    foreach: { in: [1, 2], do: { activity: one, compensate: { activity: undo } } }
    hooks: { on_success: { activity: hook, required: true } }
    optional: true
  - { id: after, activity: after }
";
    let engine = broken_at("hook", &log, ["one", "undo", "hook", "after"], lines).await;
    let status = until_state(&engine, "completed").await;
    assert_eq!((status.steps.failed, status.steps.completed), (1, 1));
    assert_eq!(log.lines(), ["one 1", "one 1", "hook 1", "after 1"]);
}

/// Cuts the process off once `name` is in work, and lets `then` go on in the next one.
fn cut_off<F: Future<Output = ()>>(
    lines: &str,
    name: &'static str,
    then: impl FnOnce(Engine, Log) -> F,
) {
    const NAMES: [&str; 6] = ["a", "back", "look", "good", "bad", "whole"];
    let store = Arc::new(FailingStore::default());
    let all = |log: &Log| only(NAMES.map(|name| log.activity(name, seconds(10), |_| Ok(json!(1)))));
    let process_one = process();
    process_one.block_on(async {
        let log = Log::new();
        let engine = engine_on(store.clone(), log.clock, all(&log)).await;
        begin(&engine, play::defined_with(lines, &NAMES), json!({})).await;
        let begun = format!("{name} 1");
        for _ in 0..100 {
            if log.lines().contains(&begun) {
                return;
            }
            tokio::time::sleep(seconds(1)).await;
            let status = engine.status_now("e").await;
            if status.current_step.as_deref() == Some("b") {
                change(&engine, LifecycleAction::Fail).await;
            }
        }
        panic!("{begun} never came");
    });
    drop(process_one);
    process().block_on(async {
        let log = Log::new();
        let clock = TokioClock::starting_at(EPOCH.plus(seconds(3600)));
        let engine = engine_on(store, clock, all(&log)).await;
        let status = until_state(&engine, "paused").await;
        assert_eq!(status.pause_reasons, [PauseReason::OutcomeUnknown]);
        then(engine, log).await;
    });
}

async fn resolve(engine: &Engine, step: &str, verdict: Verdict) -> StatusView {
    let step = StepId::parse(step).expect("an id");
    engine.commanded(Resolution { step, item: None, attempt: None, verdict }).await
}

#[test]
fn somebody_says_what_came_of_a_hook_of_the_workflow_that_was_cut_off() {
    let lines =
        ENDING_WELL.replace("on_success: { activity", "on_success: { required: true, activity");
    cut_off(&lines, "good", async |engine, log| {
        resolve(&engine, "$workflow", Verdict::Retry).await;
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["good 2", "whole 1"]);
    });
    cut_off(&lines, "good", async |engine, log| {
        let output = Verdict::Output(Arc::new(json!("found")));
        resolve(&engine, "$workflow", output).await;
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["whole 1"]);
    });
    cut_off(&lines, "good", async |engine, log| {
        resolve(&engine, "$workflow", Verdict::Failed("it did not".into())).await;
        let status = until_state(&engine, "failed").await;
        assert_eq!(log.lines(), ["look 1", "back 1", "bad 1", "whole 1"]);
        let error = status.error.expect("a failure");
        assert_eq!(error.step_name, None);
        assert_eq!(error.message.as_str(), "it did not");
    });
}

const SAGA: &str = "steps:
  - { id: a, activity: a, compensate: { activity: back } }
  - { id: b, guidance: B, result: {} }
";

#[test]
fn somebody_says_what_came_of_a_compensation_that_was_cut_off() {
    cut_off(SAGA, "back", async |engine, log| {
        resolve(&engine, "a", Verdict::Retry).await;
        let status = until_state(&engine, "failed").await;
        assert_eq!(log.lines(), ["back 2"]);
        assert_eq!(status.not_compensated, []);
    });
    cut_off(SAGA, "back", async |engine, log| {
        resolve(&engine, "a", Verdict::Failed("it was too late".into())).await;
        let status = until_state(&engine, "failed").await;
        assert!(log.lines().is_empty());
        assert_eq!(status.not_compensated[0].why, "it was too late");
    });
    // Nobody waits for what came of it.
    cut_off(SAGA, "back", async |engine, log| {
        let status = change(&engine, LifecycleAction::Abandon).await;
        assert_eq!(status.state.as_str(), "failed");
        assert_eq!(status.not_compensated.len(), 1);
        assert!(log.lines().is_empty());
    });
}

/// The end of an execution is as it was begun, whatever a person asks for while it waits.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_paused_goes_on_as_the_end_that_it_was() {
    let log = Log::new();
    let lines = format!(
        "{SAGA}on_failure:\n  - {{ id: told, if: run.failure.code != 'NONE', fail: {{ code: WORSE, message: it is worse }} }}\n  - {{ id: look, activity: look }}\ntimeout: 1h\n"
    );
    let engine = told(&log, ["a", "back", "look"], &lines).await;
    let open = until_step(&engine, "b").await;
    assert_eq!(open.ending, None);
    change(&engine, LifecycleAction::Fail).await;
    change(&engine, LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(2 * 3600)).await;
    let status = change(&engine, LifecycleAction::Resume).await;
    assert_eq!(status.ending.as_deref(), Some("failed"));
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "FAILED_ON_REQUEST");
    assert_eq!(log.lines(), ["a 1", "look 1", "back 1"]);
}

/// A limit on time counts until the end begins.
#[tokio::test(start_paused = true)]
async fn a_workflow_out_of_time_is_taken_back() {
    let log = Log::new();
    let lines = format!(
        "{SAGA}timeout: 5s\nhooks: {{ on_failure: {{ activity: slow, if: \"run.failure.code == 'WORKFLOW_TIMED_OUT'\" }} }}\n"
    );
    let quick = |name: &str| log.activity(name, seconds(1), |_| Ok(json!(1)));
    let slow = log.activity("slow", seconds(20), |_| Ok(json!(1)));
    let engine = engine(&log, only([quick("a"), quick("back"), slow])).await;
    begin(&engine, play::defined_with(&lines, &["a", "back", "slow"]), json!({})).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "WORKFLOW_TIMED_OUT");
    assert_eq!(status.hook_failures, []);
    assert_eq!(log.lines(), ["a 1", "back 1", "slow 1"]);
    assert_eq!(log.passed(), seconds(26));
}

/// What was passed had no effect.
#[tokio::test(start_paused = true)]
async fn an_item_that_was_passed_is_not_taken_back() {
    let log = Log::new();
    let lines = "steps:
  - id: each
    foreach: { in: [1, 2, 3], do: { if: item != 2, activity: one, compensate: { activity: undo } } }
  - { id: send, activity: send }
";
    let engine = broken_at("send", &log, ["one", "undo", "send"], lines).await;
    until_state(&engine, "failed").await;
    assert_eq!(
        beside(&engine).await,
        ["compensate of each[2] 1: completed", "compensate of each[0] 1: completed"]
    );
}

/// What a step decided is what its latest visit brought, and not its hook or an earlier visit of the same moment.
#[tokio::test(start_paused = true)]
async fn what_a_step_decided_is_the_output_of_its_latest_visit() {
    let lines = "memory: { n: 0, seen: 0 }
steps:
  - { id: count, set: { n: '${{ memory.n + 1 }}' }, hooks: { on_complete: { set: { seen: '${{ memory.n }}' } } } }
  - { id: again, depends_on: [], branch: [{ if: run.visits.count < 2, next: count }] }
";
    let play = Play::begin(lines, json!({})).await;
    let status = play.status().await;
    let told = status.final_output.expect("it is completed");
    assert_eq!(told["count"], json!({ "n": 2 }), "{told}");
}

/// The execution goes to another server while the transition that begins the work is stored.
#[tokio::test(start_paused = true)]
async fn work_does_not_begin_on_an_execution_that_was_given_away() {
    for is_given_away in [false, true] {
        let (log, store) = (Log::new(), Arc::new(FailingStore::default()));
        let activities = only([log.activity("a", seconds(1), |_| Ok(json!(1)))]);
        let engine = engine_on(store.clone(), log.clock, activities).await;
        store.commits_to_delay.store(1, Ordering::SeqCst);
        let definition = play::defined_with("steps:\n  - { id: a, activity: a }\n", &["a"]);
        let start = engine.start(play::request(definition, "e"));
        let give = async {
            tokio::time::sleep(seconds(1)).await;
            store.is_owned_elsewhere.store(is_given_away, Ordering::SeqCst);
        };
        let _ = tokio::join!(start, give);
        tokio::time::sleep(seconds(120)).await;
        assert_eq!(log.lines().is_empty(), is_given_away, "{:?}", log.lines());
    }
}
