//! Hooks of steps and of the workflow: what the server does at an end, before anything follows.

use midex_domain::execution::Report;

use super::*;
use midex_test::list_of;

pub(super) const STEP: &str = "steps:
  - id: build
    activity: build
    hooks:
      on_success: { activity: good, with: { outcome: '${{ run.outcome }}', output: '${{ run.output.did }}' } }
      on_failure: { activity: bad, with: { outcome: '${{ run.outcome }}', code: '${{ run.failure.code }}' } }
      on_complete: { set: { ended: '${{ run.outcome }}' } }
    with: { n: 1 }
  - { id: after, activity: after, with: { ended: '${{ memory.ended }}' } }
";

#[tokio::test(start_paused = true)]
async fn hooks_of_a_step_run_before_what_follows_it() {
    let log = Log::new();
    let engine = told(&log, ["build", "good", "bad", "after"], STEP).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["build 1", "good 1", "after 1"]);
    assert_eq!(
        beside(&engine).await,
        ["on_success of build 1: completed", "on_complete of build 1: completed"]
    );
    let rows = history(&engine).await;
    let good = rows.iter().find(|row| row.body.as_deref() == Some("on_success")).unwrap();
    let seen = json!({ "did": { "outcome": "completed", "output": { "n": 1 } } });
    assert_eq!(good.output, Some(seen));
    brought(&engine, "after", json!({ "did": { "ended": "completed" } })).await;
}

#[tokio::test(start_paused = true)]
async fn hooks_of_a_failed_step_run_before_the_execution_fails() {
    let log = Log::new();
    let engine = broken_at("build", &log, ["build", "good", "bad", "after"], STEP).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "BROKEN");
    assert_eq!(log.lines(), ["build 1", "bad 1"]);
    let rows = history(&engine).await;
    let bad = rows.iter().find(|row| row.body.as_deref() == Some("on_failure")).unwrap();
    let seen = json!({ "did": { "outcome": "failed", "code": "BROKEN" } });
    assert_eq!(bad.output, Some(seen));
}

fn fails_in_good(name: &str, context: &Context) -> Outcome {
    match name {
        "good" => Err(OperationFailure::new("broken", "the hook broke")),
        _ => Ok(json!({ "did": context.input })),
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_hook_is_told_and_changes_nothing() {
    let log = Log::new();
    let engine = told_of(&log, ["build", "good", "bad", "after"], STEP, fails_in_good).await;
    let status = until_state(&engine, "completed").await;
    let [failed] = status.hook_failures.as_slice() else {
        panic!("{status:?}");
    };
    assert_eq!((failed.step.as_deref(), failed.visit), (Some("build"), 1));
    assert_eq!(failed.hook.as_str(), "on_success");
    assert_eq!(failed.error.code.as_str(), "BROKEN");
    assert_eq!(log.lines(), ["build 1", "good 1", "after 1"]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_required_hook_is_that_of_its_step() {
    let log = Log::new();
    let lines = STEP.replace("{ activity: good,", "{ required: true, activity: good,");
    let engine = told_of(&log, ["build", "good", "bad", "after"], &lines, fails_in_good).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "BROKEN");
    // The work was done: what is for a failure of the work does not run.
    assert_eq!(log.lines(), ["build 1", "good 1"]);
    assert_eq!(
        beside(&engine).await,
        ["on_success of build 1: failed", "on_complete of build 1: completed"]
    );
    let rows = history(&engine).await;
    assert_eq!(rows[0].step_name.as_str(), "build");
    assert_eq!(rows[0].status, "failed");
}

const WHOLE: &str = "steps:
  - { id: build, activity: build, with: { n: 2 } }
final_output: '${{ steps.build.did }}'
hooks:
  on_success: { activity: good, with: { outcome: '${{ run.outcome }}', output: '${{ run.output }}' } }
  on_failure: { activity: bad, with: { outcome: '${{ run.outcome }}', code: '${{ run.failure.code }}' } }
  on_complete: { activity: whole, with: { outcome: '${{ run.outcome }}' } }
";

#[tokio::test(start_paused = true)]
async fn hooks_of_the_workflow_run_before_its_final_state() {
    let log = Log::new();
    let engine = told(&log, ["build", "good", "bad", "whole"], WHOLE).await;
    let ending = until(&engine, |status| status.ending.is_some()).await;
    assert_eq!(ending.state.as_str(), "running");
    assert_eq!(ending.ending.as_deref(), Some("completed"));
    let waits = &ending.waits[0];
    assert_eq!(waits.step_name.as_str(), "$workflow");
    assert_eq!(waits.body.as_deref(), Some("on_success"));
    let status = until_state(&engine, "completed").await;
    assert_eq!(status.ending, None);
    assert_eq!(log.lines(), ["build 1", "good 1", "whole 1"]);
    let rows = history(&engine).await;
    let outputs: Vec<_> = rows
        .iter()
        .filter(|row| row.body.is_some())
        .map(|row| row.output.clone().unwrap())
        .collect();
    assert_eq!(
        outputs,
        [
            json!({ "did": { "outcome": "completed", "output": { "n": 2 } } }),
            json!({ "did": { "outcome": "completed" } })
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn hooks_of_the_workflow_run_where_it_fails_or_is_abandoned() {
    let log = Log::new();
    let engine = broken_at("build", &log, ["build", "good", "bad", "whole"], WHOLE).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "BROKEN");
    assert_eq!(log.lines(), ["build 1", "bad 1", "whole 1"]);

    let log = Log::new();
    let lines = WHOLE
        .replace("activity: build", "guidance: Build, result: {}")
        .replace(", with: { n: 2 }", "")
        .replace("final_output: '${{ steps.build.did }}'\n", "");
    let engine = told(&log, ["good", "bad", "whole"], &lines).await;
    let status = change(&engine, LifecycleAction::Abandon).await;
    assert_eq!(status.state.as_str(), "running");
    assert_eq!(status.ending.as_deref(), Some("abandoned"));
    until_state(&engine, "abandoned").await;
    assert_eq!(log.lines(), ["whole 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_required_hook_of_the_workflow_makes_it_fail_with_all_that_follows() {
    let log = Log::new();
    let lines = WHOLE.replace("{ activity: good,", "{ required: true, activity: good,")
        + "on_failure: [{ id: mend, activity: mend }]\n";
    let engine =
        told_of(&log, ["build", "good", "bad", "whole", "mend"], &lines, fails_in_good).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "BROKEN");
    assert_eq!(log.lines(), ["build 1", "good 1", "mend 1", "bad 1", "whole 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_has_thirty_seconds_unless_it_says_so() {
    for (says, took) in [("", 30), ("timeout: 90s, ", 60)] {
        let log = Log::new();
        let lines = format!(
            "steps:
  - {{ id: build, activity: build, hooks: {{ on_complete: {{ {says}activity: slow }} }} }}"
        );
        let build = log.activity("build", Duration::ZERO, |_| Ok(json!(1)));
        let slow = log.activity("slow", seconds(60), |_| Ok(json!(1)));
        let engine = engine(&log, only([build, slow])).await;
        let definition = play::defined_with(&lines, &["build", "slow"]);
        begin(&engine, definition, json!({})).await;
        let status = until_state(&engine, "completed").await;
        assert_eq!(log.passed(), seconds(took));
        let codes = list_of(&status.hook_failures, |failed| failed.error.code.as_str());
        assert_eq!(codes, if took == 30 { vec!["STEP_TIMED_OUT"] } else { vec![] });
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_left_out_where_its_condition_does_not_hold_and_tried_again_as_it_says() {
    let log = Log::new();
    let lines = "steps:
  - id: build
    activity: build
    hooks:
      on_success: { if: run.output.did.n == 2, activity: never }
      on_complete: { activity: flaky, retry: { max_attempts: 3, backoff: 1s, jitter: false } }
    with: { n: 1 }";
    let engine = told_of(&log, ["build", "never", "flaky"], lines, |name, context| {
        match (name, context.attempt) {
            ("flaky", 1) => fails("network"),
            _ => Ok(json!({ "did": context.input })),
        }
    })
    .await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["build 1", "flaky 1", "flaky 2"]);
}

/// The step has failed, whatever it brought: expressions see no output of it, and neither does whoever asks what came of all.
#[tokio::test(start_paused = true)]
async fn what_a_step_brought_whose_required_hook_failed_is_no_output() {
    let lines = "memory: { n: 0 }
steps:
  - id: only
    guidance: Do it
    result: {}
    on_error: continue
    hooks: { on_complete: { set: { n: \"${{ memory.n < 'x' }}\" }, required: true } }
";
    let engine = told(&Log::new(), ["work"], lines).await;
    let token = engine.current_now("e").await.continuation_token.unwrap();
    let answer = engine.report(&token, Report::Output(json!(7))).await;
    assert_eq!(answer.workflow_state, "completed");
    assert_eq!(answer.final_output, Some(json!({})));
}
