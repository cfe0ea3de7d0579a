//! Forks, retries and rewinds: the steps that are kept, the steps that run again, and the state that a fork drops.

mod faults;

use super::*;
use midex_domain::{
    StepId,
    error::{Code, Error},
    event::Channel,
    execution::{ForkPlan, GateAnswer, PastValues, RewindRequest, StepFate},
    limits,
    view::{ForkView, PastPoint, RewindView},
};
use midex_engine::ForkRequest;
use midex_test::{
    assert_has,
    play::{Play, gate_answer},
};

fn step(id: &str) -> StepId {
    StepId::parse(id).unwrap()
}

fn retry_request(source: &str) -> ForkRequest {
    ForkRequest { is_retry: true, ..ForkRequest::new(named(source)) }
}

fn fork_request(source: &str, from_step: &str) -> ForkRequest {
    ForkRequest { from_step: Some(step(from_step)), ..ForkRequest::new(named(source)) }
}

async fn forked(engine: &Engine, request: ForkRequest) -> (ForkView, AdvanceReply) {
    engine.fork(request).await.expect("a fork")
}

async fn not_forked(engine: &Engine, request: ForkRequest) -> Error {
    engine.fork(request).await.map(drop).expect_err("a refusal")
}

fn rewind_to(to_step: &str) -> RewindRequest {
    RewindRequest {
        to_step: step(to_step),
        reason: None,
        compensates: false,
        past: PastValues::default(),
    }
}

async fn rewound(engine: &Engine, request: RewindRequest) -> RewindView {
    engine.rewind(&id(), request).await.expect("a rewind")
}

/// The steps with this fate, in order.
fn with_fate(view: &ForkView, fate: StepFate) -> Vec<&str> {
    let steps = view.steps.iter().filter(|planned| planned.fate == fate);
    steps.map(|planned| planned.step.as_str()).collect()
}

const NINE: &str = "labels: { pr: '123' }
steps:
  - { id: s1, guidance: One., result: {} }
  - { id: s2, guidance: 'Two after ${{ steps.s1.n }}.', result: {} }
  - { id: s3, set: { count: '${{ steps.s2.n }}' } }
  - { id: s4, guidance: Four., result: {} }
  - { id: s5, guidance: 'Five: ${{ steps.s1.n }}, ${{ memory.count }}.', result: {} }
  - { id: s6, guidance: 'Six after ${{ steps.s4.n }}.', result: {} }
";

async fn failed_at_five() -> Play {
    let mut play = Play::begin(NINE, json!({})).await;
    play.done("s1", json!({ "n": 1 })).await;
    play.done("s2", json!({ "n": 2 })).await;
    play.done("s4", json!({ "n": 4 })).await;
    play.fails("s5", "DISK_FULL").await;
    assert_eq!(play.state(), "failed");
    play
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_what_is_done_and_opens_the_step_that_failed() {
    let mut play = failed_at_five().await;
    let old_token = play.last.clone();
    let (view, reply) = forked(&play.engine, retry_request("e")).await;
    assert_eq!(reply.execution_id, "e~2");
    assert_eq!(with_fate(&view, StepFate::Kept), ["s1", "s2", "s3", "s4"]);
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["s5"]);
    assert_eq!(with_fate(&view, StepFate::Pending), ["s6"]);
    assert!(reply.instructions.as_deref().unwrap().contains("Five: 1, 2."), "{reply:?}");
    play.last = reply;
    play.done("s5", json!({})).await;
    assert!(play.words().contains("Six after 4."));
    play.restart().await;
    play.done("s6", json!({})).await;
    assert_eq!(play.state(), "completed");
    let history = play.engine.history_now("e~2").await;
    let kept: Vec<_> = history.iter().map(|row| (row.step_name.as_str(), row.inherited)).collect();
    assert_eq!(
        kept,
        [("s1", true), ("s2", true), ("s3", true), ("s4", true), ("s5", false), ("s6", false)]
    );
    assert_eq!(history[0].output, Some(json!({ "n": 1 })));
    // The source stays as it was, and both know each other.
    let source = play.engine.status_now("e").await;
    assert_eq!((source.state.as_str(), source.forks), ("failed", vec!["e~2".to_owned()]));
    let origin = play.engine.status_now("e~2").await.forked_from.unwrap();
    assert_eq!((origin.execution_id.as_str(), origin.revision), ("e", source.revision));
    drop(old_token);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_made_once_while_it_is_open_and_then_counts_on() {
    let mut play = failed_at_five().await;
    let (_, first) = forked(&play.engine, retry_request("e")).await;
    let (_, again) = forked(&play.engine, retry_request("e")).await;
    assert_eq!((again.execution_id.as_str(), again.replayed), ("e~2", true));
    assert_eq!(again.new_token, first.new_token);
    play.last = first;
    play.done("s5", json!({})).await;
    let refused = not_forked(&play.engine, retry_request("e")).await;
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_has(refused.message(), &["is being retried already", "'e~2' is running"]);
    play.fails("s6", "BROKEN").await;
    let (view, third) = forked(&play.engine, retry_request("e~2")).await;
    assert_eq!(third.execution_id, "e~3");
    assert_eq!(with_fate(&view, StepFate::Kept), ["s1", "s2", "s3", "s4", "s5"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_forks_of_forks_still_know_every_output() {
    let mut play = failed_at_five().await;
    for number in 2..=101 {
        let source = if number == 2 { "e".to_owned() } else { format!("e~{}", number - 1) };
        let (_, reply) = forked(&play.engine, retry_request(&source)).await;
        assert_eq!(reply.execution_id, format!("e~{number}"));
        assert!(reply.instructions.as_deref().unwrap().contains("Five: 1, 2."));
        play.last = reply;
        if number < 101 {
            play.fails("s5", "DISK_FULL").await;
        }
    }
    play.done("s5", json!({})).await;
    assert!(play.words().contains("Six after 4."));
}

#[tokio::test(start_paused = true)]
async fn a_fork_from_a_step_does_it_and_all_after_it_again_with_the_memory_of_then() {
    let mut play = failed_at_five().await;
    let request = fork_request("e", "s2");
    let (view, reply) = forked(&play.engine, request).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["s1"]);
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["s2", "s3", "s4", "s5"]);
    play.last = reply;
    play.done("s2", json!({ "n": 20 })).await;
    play.done("s4", json!({ "n": 4 })).await;
    assert!(play.words().contains("Five: 1, 20."));
    // Memory and inputs can be replaced.
    let memory = json!({ "count": "many" }).as_object().unwrap().clone();
    let request = ForkRequest { memory, ..fork_request("e", "s5") };
    let (_, reply) = forked(&play.engine, request).await;
    assert!(reply.instructions.as_deref().unwrap().contains("Five: 1, many."));
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_revision_knows_nothing_of_what_came_later() {
    let mut play = failed_at_five().await;
    let request = ForkRequest { revision: Some(2), ..ForkRequest::new(named("e")) };
    let (view, reply) = forked(&play.engine, request).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["s1"]);
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["s2"]);
    assert_eq!(view.forked_from.unwrap().revision, 2);
    play.last = reply;
    play.done("s2", json!({ "n": 7 })).await;
    assert_eq!(play.open(), ["s4"]);
    let future = ForkRequest { revision: Some(99), ..ForkRequest::new(named("e")) };
    let refused = not_forked(&play.engine, future).await;
    assert_eq!(refused.code(), Code::ArgumentsInvalid);
    assert_has(refused.message(), &["has the revisions 1 to 5"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_again_is_refused_with_what_can() {
    let mut play = Play::begin(NINE, json!({})).await;
    let refused = not_forked(&play.engine, fork_request("e", "s6")).await;
    assert_eq!(refused.code(), Code::ArgumentsInvalid);
    assert_has(refused.message(), &["'s6' was not entered yet", "'s1'"]);
    let refused = not_forked(&play.engine, fork_request("e", "nope")).await;
    assert_has(refused.message(), &["'nope' is no step of this execution"]);
    let refused = not_forked(&play.engine, retry_request("e")).await;
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_has(refused.message(), &["is running", "nothing to retry yet"]);
    for (step, output) in [
        ("s1", json!({ "n": 1 })),
        ("s2", json!({ "n": 2 })),
        ("s4", json!({ "n": 4 })),
        ("s5", json!({})),
        ("s6", json!({})),
    ] {
        play.done(step, output).await;
    }
    assert_eq!(play.state(), "completed");
    let refused = not_forked(&play.engine, retry_request("e")).await;
    assert_has(refused.message(), &["is completed", "nothing to retry"]);
    let refused = not_forked(&play.engine, ForkRequest::new(named("e"))).await;
    assert_has(refused.message(), &["is completed: name the step to do again"]);
    let (_, reply) = forked(&play.engine, fork_request("e", "s6")).await;
    assert!(reply.instructions.as_deref().unwrap().contains("Six after 4."));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_cancelled_at_the_end_is_not_done_again() {
    let lines = "steps:
  - { id: watch, guidance: Watch., result: {} }
  - { id: work, guidance: Work., result: {}, depends_on: [], cancel: [watch] }
";
    let play = Play::begin(lines, json!({})).await;
    let open = play.engine.current_now("e").await.open_steps();
    let token = &open.iter().find(|step| step.step_name == "work").unwrap().continuation_token;
    play.engine.finish(token, "done").await;
    assert_eq!(play.engine.status_now("e").await.state, "completed");
    let refused = not_forked(&play.engine, ForkRequest::new(named("e"))).await;
    assert_has(refused.message(), &["is completed: name the step to do again"]);
    let (_, reply) = forked(&play.engine, fork_request("e", "work")).await;
    play.engine.finish(&reply.new_token.unwrap(), "done").await;
    assert_eq!(play.engine.status_now(&reply.execution_id).await.state, "completed");
}

#[tokio::test(start_paused = true)]
async fn the_same_fork_under_the_same_id_is_made_once() {
    let mut play = failed_at_five().await;
    let request = || ForkRequest { new_execution_id: Some(named("f")), ..fork_request("e", "s5") };
    let (_, first) = forked(&play.engine, request()).await;
    let (_, again) = forked(&play.engine, request()).await;
    assert_eq!((&first.new_token, true), (&again.new_token, again.replayed));
    let other = ForkRequest { new_execution_id: Some(named("f")), ..fork_request("e", "s4") };
    for refused in [
        not_forked(&play.engine, other.clone()).await,
        play.engine.plan_fork(&other).await.expect_err("a refusal"),
    ] {
        assert_eq!(refused.code(), Code::ExecutionIdTaken);
        assert_has(&refused.suggested_action(), &["new_execution_id", "f-2"]);
    }
    // Also later: the reply may have been lost.
    play.last = first.clone();
    play.done("s5", json!({})).await;
    let (_, late) = forked(&play.engine, request()).await;
    assert_eq!((&late.execution_id, late.replayed), (&first.execution_id, true));
    let (_, one) = forked(&play.engine, fork_request("e", "s5")).await;
    let (_, two) = forked(&play.engine, fork_request("e", "s5")).await;
    assert_ne!(one.execution_id, two.execution_id);
}

const GATED: &str = "steps:
  - { id: build, guidance: Build., result: {} }
  - { id: ship, gate: { ask: 'Ship ${{ steps.build.tag }}?' } }
  - { id: notes, guidance: 'Approved by ${{ steps.ship.by }}.', result: {} }
  - { id: deploy, guidance: 'Deploy for ${{ steps.ship.by }}.', result: {} }
";

#[tokio::test(start_paused = true)]
async fn an_approval_is_never_inherited_and_what_was_done_after_it_is_kept() {
    let mut play = Play::begin(GATED, json!({})).await;
    play.done("build", json!({ "tag": "v1" })).await;
    play.engine.commanded(gate_answer(&play.status().await, true, None)).await;
    play.goes_on(json!({ "text": "notes" })).await;
    play.fails("deploy", "DISK_FULL").await;
    let (view, reply) = forked(&play.engine, retry_request("e")).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["build", "notes"]);
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["ship", "deploy"]);
    assert_eq!(reply.workflow_state, "paused");
    let status = play.engine.status_now("e~2").await;
    let answer = GateAnswer { person: "bea".into(), ..gate_answer(&status, true, None) };
    assert_eq!(answer.channel, Channel::Terminal);
    let after = play.engine.apply_command(&named("e~2"), answer).await.unwrap();
    assert_eq!((after.state.as_str(), after.current_step.as_deref()), ("running", Some("deploy")));
    let current = play.engine.current_now("e~2").await;
    assert!(current.instructions.unwrap().contains("Deploy for bea."));
    assert_eq!(after.steps.completed, 3);
}

#[tokio::test(start_paused = true)]
async fn work_whose_outcome_is_unknown_is_repeated_only_on_a_persons_word() {
    let log = Log::new();
    let lines = "steps:\n  - { id: a, guidance: A., result: {} }\n  - { id: pay, activity: pay, idempotent: false }\n";
    let engine = told(&log, ["pay"], lines).await;
    let first = engine.current_now("e").await.continuation_token.unwrap();
    engine.finish(&first, "a").await;
    let refused = not_forked(&engine, fork_request("e", "a")).await;
    assert_has(refused.message(), &["the server works on step 'pay'", "not known yet"]);
    engine.changed("e", LifecycleAction::Abandon).await;
    let refused = not_forked(&engine, retry_request("e")).await;
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_has(refused.message(), &["the outcome of step 'pay' is unknown"]);
    let again = ForkRequest { repeats_unknown: true, ..retry_request("e") };
    let (view, _) = forked(&engine, again).await;
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["pay"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_again_what_was_taken_back_and_all_that_was_built_on_it() {
    let log = Log::new();
    let lines = "steps:
  - { id: plan, activity: plan }
  - { id: book, activity: book, compensate: { activity: cancel } }
  - { id: note, activity: note }
  - { id: send, activity: send }
";
    let broken = Arc::new(Mutex::new(true));
    let fails = broken.clone();
    let engine =
        told_of(&log, ["plan", "book", "note", "send", "cancel"], lines, move |name, _| {
            if name == "send" && *fails.lock().unwrap() {
                return Err(OperationFailure::new("broken", "it broke"));
            }
            Ok(json!({}))
        })
        .await;
    until_state(&engine, "failed").await;
    *broken.lock().unwrap() = false;
    // A fork of an earlier revision too, at which the effect stood yet.
    let mut fates = Vec::new();
    for revision in 1..=engine.status_now("e").await.revision {
        let request = ForkRequest { revision: Some(revision), ..ForkRequest::new(named("e")) };
        if let Ok(plan) = engine.plan_fork(&request).await {
            fates.extend(
                plan.steps
                    .iter()
                    .find(|planned| planned.step == step("book"))
                    .map(|step| step.fate),
            );
        }
    }
    assert!(fates.contains(&StepFate::OpenAgain) && !fates.contains(&StepFate::Kept), "{fates:?}");
    let (view, _) = forked(&engine, retry_request("e")).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["plan"]);
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["book", "note", "send"]);
    let why: Vec<_> = view.steps.iter().filter_map(|step| step.why.as_deref()).collect();
    assert_eq!(why, ["its effect was taken back", "it follows 'book'", "it failed"]);
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(engine.status_now("e~2").await.state, "completed");
}

#[tokio::test(start_paused = true)]
async fn a_rewind_opens_the_step_again_with_the_memory_of_then() {
    let mut play = Play::begin(NINE, json!({})).await;
    let before = play.token("s1");
    play.done("s1", json!({ "n": 1 })).await;
    let spent = play.token("s2");
    play.done("s2", json!({ "n": 2 })).await;
    play.done("s4", json!({ "n": 4 })).await;
    let undone = play.token("s5");
    let view =
        rewound(&play.engine, RewindRequest { reason: Some("wrong".into()), ..rewind_to("s2") })
            .await;
    assert_eq!(view.done_again, ["s2", "s3", "s4", "s5"]);
    assert_eq!(view.status.current_step.as_deref(), Some("s2"));
    assert_eq!(view.status.steps.completed, 1);
    // Tokens of visits that the rewind undid are superseded, spent or not. Earlier ones are still answered.
    for token in [&undone, &spent] {
        assert_eq!(play.refused(token, json!({ "n": 2 })).await.code(), Code::TokenSuperseded);
    }
    let report = midex_domain::execution::Report::Output(json!({ "n": 1 }));
    assert!(play.engine.report(&before, report).await.replayed);
    play.restart().await;
    play.goes_on(json!({ "n": 20 })).await;
    play.done("s4", json!({ "n": 40 })).await;
    assert!(play.words().contains("Five: 1, 20."), "{}", play.words());
    play.done("s5", json!({})).await;
    play.done("s6", json!({})).await;
    assert_eq!(play.state(), "completed");
    let refused = play.engine.rewind(&id(), rewind_to("s2")).await.unwrap_err();
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_has(refused.message(), &["is completed", "cannot be rewound"]);
}

#[tokio::test(start_paused = true)]
async fn a_rewind_past_a_gate_asks_for_the_approval_again() {
    let mut play = Play::begin(GATED, json!({})).await;
    play.done("build", json!({ "tag": "v1" })).await;
    play.engine.commanded(gate_answer(&play.status().await, true, None)).await;
    let view = rewound(&play.engine, rewind_to("build")).await;
    assert_eq!(view.done_again, ["build", "ship", "notes"]);
    play.goes_on(json!({ "tag": "v2" })).await;
    let status = play.status().await;
    assert_eq!(status.state, "paused");
    assert_eq!(status.waits[0].gate.as_ref().unwrap().ask, "Ship v2?");
}

#[tokio::test(start_paused = true)]
async fn rewinds_by_hand_do_not_use_up_the_visits_of_a_loop() {
    let lines = "steps:\n  - { id: a, guidance: A., max_visits: 2, result: {} }\n  - { id: b, guidance: B., result: {} }\n";
    let mut play = Play::begin(lines, json!({})).await;
    for _ in 0..5 {
        play.goes_on(json!({})).await;
        let view = rewound(&play.engine, rewind_to("a")).await;
        assert_eq!(view.status.current_step.as_deref(), Some("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rewind_tells_what_stays_in_the_world_or_takes_it_back_first() {
    let lines = "steps:
  - { id: start, guidance: Start., result: {} }
  - { id: book, activity: book, compensate: { activity: cancel } }
  - { id: mail, activity: mail }
  - { id: check, guidance: Check., result: {} }
";
    for compensates in [false, true] {
        let log = Log::new();
        let engine = told(&log, ["book", "mail", "cancel"], lines).await;
        let first = engine.current_now("e").await.continuation_token.unwrap();
        engine.finish(&first, "go").await;
        until_step(&engine, "check").await;
        let view = rewound(&engine, RewindRequest { compensates, ..rewind_to("book") }).await;
        assert_eq!(view.compensating, compensates);
        let left: &[&str] = if compensates { &["mail"] } else { &["book", "mail"] };
        assert_eq!(view.not_undone, left);
        until_step(&engine, "check").await;
        let undone: &[&str] = if compensates { &["cancel 1"] } else { &[] };
        let lines = [&["book 1", "mail 1"], undone, &["book 1", "mail 1"]].concat();
        assert_eq!(log.lines(), lines);
    }
}

#[tokio::test(start_paused = true)]
async fn two_rewinds_at_once_both_answer_with_what_is_true() {
    let mut play = Play::begin(NINE, json!({})).await;
    play.done("s1", json!({ "n": 1 })).await;
    play.done("s2", json!({ "n": 2 })).await;
    let (id, engine) = (id(), &play.engine);
    let (one, two) =
        tokio::join!(engine.rewind(&id, rewind_to("s1")), engine.rewind(&id, rewind_to("s2")));
    let one = one.unwrap();
    assert_eq!(one.status.current_step.as_deref(), Some("s1"));
    // The other one came before, or finds its step not entered any more.
    match two {
        Ok(two) => assert!(two.status.revision < one.status.revision),
        Err(error) => assert_eq!(error.code(), Code::ArgumentsInvalid),
    }
    assert_eq!(play.status().await.current_step.as_deref(), Some("s1"));
}

#[tokio::test(start_paused = true)]
async fn a_plan_says_beforehand_what_a_fork_would_do() {
    let play = failed_at_five().await;
    let before = play.engine.status_now("e").await;
    let ForkPlan { steps, .. } = play.engine.plan_fork(&fork_request("e", "s4")).await.unwrap();
    let fates: Vec<_> = steps.iter().map(|step| step.fate).collect();
    let kept = [StepFate::Kept; 3];
    let rest = [StepFate::OpenAgain, StepFate::OpenAgain, StepFate::Pending];
    assert_eq!(fates, [&kept[..], &rest[..]].concat());
    assert_eq!(play.engine.status_now("e").await, before);
}

#[tokio::test(start_paused = true)]
async fn the_status_lists_so_many_forks_and_no_more() {
    let play = failed_at_five().await;
    for number in 0..=limits::FORKS_SHOWN_MAX {
        let new_execution_id = Some(named(&format!("a{number}")));
        forked(&play.engine, ForkRequest { new_execution_id, ..fork_request("e", "s5") }).await;
    }
    let status = play.engine.status_now("e").await;
    assert_eq!(status.forks.len(), limits::FORKS_SHOWN_MAX);

    // The open retry comes after all of them, and is found anyway.
    let (_, retry) = forked(&play.engine, retry_request("e")).await;
    assert_eq!(retry.execution_id, "e~2");
    let (_, again) = forked(&play.engine, retry_request("e")).await;
    assert_eq!(again.execution_id, "e~2");
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_missed_quorum_asks_the_failed_steps_again() {
    let three: String = ["a", "b", "c"]
        .map(|id| format!("  - {{ id: {id}, guidance: Do it., optional: true, depends_on: [] }}\n"))
        .concat();
    let join = "  - { id: join, guidance: Go on., depends_on: [a, b, c], join: quorum(2) }\n";
    let mut play = Play::begin(&format!("steps:\n{three}{join}"), json!({})).await;
    play.done("a", json!({ "summary": "done" })).await;
    play.fails("b", "BROKEN").await;
    play.fails("c", "BROKEN").await;
    assert_eq!(play.state(), "failed");
    let (view, reply) = forked(&play.engine, retry_request("e")).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["a"]);
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["b", "c", "join"]);
    let open: Vec<_> = reply.new_tokens.iter().map(|ready| ready.step_name.as_str()).collect();
    assert_eq!(open, ["b", "c"]);
}

/// An execution whose gate was approved and whose step after the next one failed.
async fn failed_after_approval(lines: &str) -> Play {
    let mut play = Play::begin(lines, json!({})).await;
    play.done("build", json!({ "tag": "v1" })).await;
    play.engine.commanded(gate_answer(&play.status().await, true, None)).await;
    play.goes_on(json!({ "text": "notes" })).await;
    play.fails("deploy", "DISK_FULL").await;
    play
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_fork_waits_for_the_approval_too() {
    let play = failed_after_approval(GATED).await;
    forked(&play.engine, retry_request("e")).await;
    let copy =
        ForkRequest { new_execution_id: Some(named("copy")), ..ForkRequest::new(named("e~2")) };
    let (_, reply) = forked(&play.engine, copy).await;
    assert_eq!((reply.workflow_state.as_str(), reply.new_tokens.len()), ("paused", 0));
    // Also after a rejection.
    let answer = gate_answer(&play.engine.status_now("e~2").await, false, None);
    play.engine.apply_command(&named("e~2"), answer).await.unwrap();
    let (_, reply) = forked(&play.engine, retry_request("e~2")).await;
    assert_eq!((reply.workflow_state.as_str(), reply.new_tokens.len()), ("paused", 0));
    // Nor does a rewind lead past it.
    let refused = play.engine.rewind(&named("e~3"), rewind_to("notes")).await.unwrap_err();
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_has(refused.message(), &["waits for an approval"]);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_in_a_fork_takes_the_way_of_a_rejection() {
    let lines = "steps:
  - { id: build, guidance: Build., result: {} }
  - { id: ship, gate: Ship?, on_error: revise }
  - { id: notes, guidance: Notes., result: {} }
  - { id: deploy, guidance: Deploy., result: {}, next: $end }
  - { id: revise, guidance: Revise., result: {} }
";
    let play = failed_after_approval(lines).await;
    forked(&play.engine, retry_request("e")).await;
    let answer = gate_answer(&play.engine.status_now("e~2").await, false, None);
    let status = play.engine.apply_command(&named("e~2"), answer).await.unwrap();
    assert_eq!(status.current_step.as_deref(), Some("revise"));
}

#[tokio::test(start_paused = true)]
async fn effects_of_items_are_taken_back_by_a_fork_that_fails_too() {
    let lines = "steps:
  - id: book
    foreach: { in: [a, b], do: { activity: book, with: { of: '${{ item }}' }, compensate: { activity: cancel, with: { of: '${{ run.output.did.of }}' } } } }
  - { id: last, guidance: Last., result: {} }
";
    let log = Log::new();
    let engine = told(&log, ["book", "cancel"], lines).await;
    until_step(&engine, "last").await;
    engine.changed("e", LifecycleAction::Abandon).await;
    let (view, reply) = forked(&engine, retry_request("e")).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["book"]);
    let token = reply.new_token.unwrap();
    engine.report(&token, play::failed("no", None)).await;
    tokio::time::sleep(seconds(10)).await;
    let status = engine.status_now("e~2").await;
    assert_eq!((status.state.as_str(), status.not_compensated.len()), ("failed", 0));
    let undone = log.lines().into_iter().filter(|line| line.starts_with("cancel")).count();
    assert_eq!(undone, 2);
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_what_is_completed_leaves_its_effects_alone() {
    let lines = "steps:
  - { id: book, activity: book, compensate: { activity: cancel } }
  - { id: mail, guidance: Mail., result: {} }
";
    let log = Log::new();
    let engine = told(&log, ["book", "cancel"], lines).await;
    until_step(&engine, "mail").await;
    let token = engine.current_now("e").await.continuation_token.unwrap();
    engine.finish(&token, "sent").await;
    let (_, reply) = forked(&engine, fork_request("e", "mail")).await;
    engine.report(&reply.new_token.unwrap(), play::failed("no", None)).await;
    assert_eq!(engine.status_now(&reply.execution_id).await.state, "failed");
    assert_eq!(log.lines(), ["book 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_compensating_rewind_takes_back_the_last_round_alone() {
    let lines = "steps:
  - { id: pick, guidance: Pick., result: {} }
  - { id: publish, activity: publish, compensate: { activity: withdraw } }
  - { id: more, branch: [{ if: '${{ steps.pick.more }}', next: pick }, { next: last }] }
  - { id: last, guidance: Last., result: {} }
";
    let log = Log::new();
    let engine = told(&log, ["publish", "withdraw"], lines).await;
    for more in [true, true, false] {
        until_step(&engine, "pick").await;
        let token = engine.current_now("e").await.continuation_token.unwrap();
        let output = midex_domain::execution::Report::Output(json!({ "more": more }));
        engine.report(&token, output).await;
    }
    until_step(&engine, "last").await;
    rewound(&engine, RewindRequest { compensates: true, ..rewind_to("publish") }).await;
    until_step(&engine, "last").await;
    let withdrawn = log.lines().into_iter().filter(|line| line.starts_with("withdraw")).count();
    assert_eq!(withdrawn, 1);
}

#[tokio::test(start_paused = true)]
async fn values_that_kept_steps_wrote_stay_and_others_are_as_they_were() {
    let lines = "memory: { notes: '' }
steps:
  - { id: a, depends_on: [], guidance: A., result: {} }
  - { id: r, depends_on: [], guidance: R., result: {} }
  - { id: k, depends_on: [r], set: { x: kept } }
  - { id: n, depends_on: [a], set: { notes: '${{ memory.notes }}+' } }
  - { id: z, depends_on: [n, k], guidance: 'Notes ${{ memory.notes }}, ${{ memory.x }}.', result: {} }
";
    let mut play = Play::begin(lines, json!({})).await;
    let r = play.token("r");
    play.done("a", json!({})).await;
    play.report(&r, midex_domain::execution::Report::Output(json!({}))).await;
    assert!(play.words().contains("Notes +, kept."));
    rewound(&play.engine, rewind_to("a")).await;
    play.goes_on(json!({})).await;
    assert!(play.words().contains("Notes +, kept."), "{}", play.words());
    play.fails("z", "BROKEN").await;
    let (_, reply) = forked(&play.engine, retry_request("e")).await;
    play.last = reply;
    // What the fork inherited tells nothing of the time before: the forked execution does.
    let refused = play.engine.rewind(&named("e~2"), rewind_to("a")).await.unwrap_err();
    assert_has(refused.message(), &["was done by execution 'e'", "fork that one"]);
    let (_, reply) = forked(&play.engine, fork_request("e", "a")).await;
    play.last = reply;
    play.done("a", json!({})).await;
    assert!(play.words().contains("Notes +, kept."), "{}", play.words());
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_ended_is_not_made_again() {
    let mut play = failed_at_five().await;
    play.last = forked(&play.engine, retry_request("e")).await.1;
    play.fails("s5", "BROKEN").await;
    let refused = not_forked(&play.engine, retry_request("e")).await;
    assert_has(refused.message(), &["was retried already: 'e~2' is failed"]);
    assert_has(&refused.suggested_action(), &["execution.retry with execution_id 'e~2'"]);
    play.last = forked(&play.engine, retry_request("e~2")).await.1;
    play.done("s5", json!({})).await;
    play.done("s6", json!({})).await;
    let refused = not_forked(&play.engine, retry_request("e~2")).await;
    assert_has(refused.message(), &["was retried already: 'e~3' is completed"]);
    // From a named step it is something else.
    forked(&play.engine, ForkRequest { from_step: Some(step("s4")), ..retry_request("e~2") }).await;
}

/// An approval that only large amounts need.
const LIMITED: &str = "inputs: { amount: { type: integer } }
steps:
  - { id: allow, if: 'inputs.amount > 100', gate: 'Pay ${{ inputs.amount }}?' }
  - { id: prepare, guidance: Prepare., result: {} }
  - { id: pay, guidance: Pay., result: {} }
";

#[tokio::test(start_paused = true)]
async fn an_approval_that_was_not_needed_is_checked_with_other_values() {
    let mut play = Play::begin(LIMITED, json!({ "amount": 1 })).await;
    play.done("prepare", json!({})).await;
    play.fails("pay", "DISK_FULL").await;
    let with_amount = |id: &str, amount: i64| ForkRequest {
        inputs: json!({ "amount": amount }).as_object().unwrap().clone(),
        new_execution_id: Some(named(id)),
        ..fork_request("e", "pay")
    };
    // The same values: nothing is asked.
    let (view, reply) = forked(&play.engine, retry_request("e")).await;
    assert_eq!(with_fate(&view, StepFate::Kept), ["allow", "prepare"]);
    assert_eq!(view.steps[0].why.as_deref(), Some("it was skipped"));
    assert_eq!(reply.step_name.as_deref(), Some("pay"));
    // Another small amount: the condition does not hold either, so the fork continues without the gate.
    let (_, reply) = forked(&play.engine, with_amount("small", 7)).await;
    assert_eq!(reply.step_name.as_deref(), Some("pay"), "{reply:?}");
    // A large amount: the person is asked before what follows.
    let (view, reply) = forked(&play.engine, with_amount("large", 1_000_000)).await;
    assert_eq!(with_fate(&view, StepFate::OpenAgain), ["allow", "pay"]);
    assert_eq!((reply.workflow_state.as_str(), reply.new_tokens.len()), ("paused", 0));
    let answer = gate_answer(&play.engine.status_now("large").await, true, None);
    let after = play.engine.apply_command(&named("large"), answer).await.unwrap();
    assert_eq!(after.current_step.as_deref(), Some("pay"));
}
