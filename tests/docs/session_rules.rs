//! What a session never does, and what the tests of activities and session stores elsewhere demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use midex::{
    ExecutionId,
    activity::{Activities, OperationFailure, function},
    workflow::{Step, Workflow},
};
use serde_json::{Value, json};

use crate::sessions::{Program, essay};

/// `flaky` fails the first time, `fail` each time, `sleep` never ends, `ok` does nothing.
fn activities() -> Activities {
    let was_called = Arc::new(AtomicBool::new(false));
    let fail = || OperationFailure::new("disk", "the disk is full");
    let flaky = function("flaky", move |_| {
        let was_called = was_called.swap(true, Ordering::SeqCst);
        async move { if was_called { Ok(json!("done")) } else { Err(fail().as_retryable()) } }
    });
    let fail = function("fail", move |_| async move { Err(fail()) });
    let sleep = function("sleep", |_| async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(Value::Null)
    });
    let ok = function("ok", |_| async { Ok(json!("ok")) });
    Activities::default()
        .with_activity(flaky)
        .and_then(|all| all.with_activity(fail))
        .and_then(|all| all.with_activity(sleep))
        .and_then(|all| all.with_activity(ok))
        .unwrap()
}

fn exposed(steps: impl IntoIterator<Item = Step>) -> Workflow {
    let workflow = Workflow::new("work").description("Works.");
    steps
        .into_iter()
        .fold(workflow, Workflow::step)
        .set("expose", json!({ "tools": { "pace": "step" } }))
}

fn program(steps: impl IntoIterator<Item = Step>) -> Program {
    Program::with_activities(vec![exposed(steps), essay()], activities())
}

async fn continue_session(program: &Program, last: &Value) -> Value {
    let arguments = json!({ "sessionId": last["sessionId"], "token": last["token"] });
    program.done("work_continue", arguments).await
}

#[tokio::test]
async fn a_retried_activity_goes_on_after_its_second_attempt() {
    let retry = json!({ "max_attempts": 2, "backoff": "1ms" });
    let program = program([Step::activity("flaky").set("retry", retry)]);
    let ended = program.done("work_start", json!({})).await;
    assert_eq!((&ended["status"], &ended["stepResult"]), (&json!("completed"), &json!("done")));
    let id = ended["sessionId"].as_str().unwrap();
    let history = program.app.history(&ExecutionId::parse(id).unwrap()).await.unwrap();
    let attempts: Vec<_> = history.iter().map(|row| (row.attempt, row.error.is_some())).collect();
    assert_eq!(attempts, [(1, true), (2, false)]);
}

#[tokio::test]
async fn a_step_over_its_time_limit_fails_and_says_so() {
    let program = program([Step::activity("sleep").set("timeout", "10ms")]);
    let failed = program.refused("work_start", json!({})).await;
    assert_eq!(failed["status"], "failed");
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("Workflow failed at step 'sleep': "), "{message}");
    assert!(message.contains("timed out"), "{message}");
}

#[tokio::test]
async fn a_failed_step_that_may_fail_is_not_answered_as_done() {
    let fail = Step::activity("fail").set("on_error", "continue");
    let program = program([fail, Step::activity("ok")]);
    let first = program.done("work_start", json!({})).await;
    assert_eq!(first["stepResult"], Value::Null);
    let id = first["sessionId"].as_str().unwrap();
    assert_eq!(
        first["message"],
        format!(
            "Step 'fail' failed: the disk is full. Step 'ok' is next: call work_continue with sessionId '{id}' and token"
        )
    );
    let ended = continue_session(&program, &first).await;
    assert_eq!(ended["message"], "Workflow completed");
    assert_eq!(ended["stepResult"], "ok");
}

#[tokio::test]
async fn an_error_in_a_condition_fails_the_session_at_its_step() {
    let broken = Step::activity("ok").id("b").set("if", "steps.a.rest.first > 1");
    let program = program([Step::activity("ok").id("a"), broken]);
    let failed = program.refused("work_start", json!({})).await;
    assert_eq!((&failed["status"], &failed["error"]["step_id"]), (&json!("failed"), &json!("b")));
    let status = program.done("work_status", json!({ "sessionId": failed["sessionId"] })).await;
    assert_eq!(status["status"], "failed", "no session stays open");
}

#[tokio::test]
async fn sessions_skip_their_own_steps() {
    let skipped = Step::activity("fail").id("b").set("if", "false");
    let program = program([Step::activity("ok").id("a"), skipped, Step::activity("ok").id("c")]);
    let start = || program.done("work_start", json!({}));
    let (one, two) = tokio::join!(start(), start());
    assert_eq!((&one["nextActivity"], &two["nextActivity"]), (&json!("c"), &json!("c")));
    let one = continue_session(&program, &one).await;
    assert_eq!((&one["status"], &one["sessionId"]), (&json!("completed"), &one["sessionId"]));
    let read = program.done("work_status", json!({ "sessionId": two["sessionId"] })).await;
    assert_eq!(read, two, "the other session stands where it stood");
    assert_eq!(continue_session(&program, &two).await["status"], "completed");
}

/// `b` ends before `a`, which began first, and `c` is skipped.
#[tokio::test]
async fn the_result_is_that_of_the_step_that_ended_last() {
    let released = Arc::new(tokio::sync::Notify::new());
    let releasing = released.clone();
    let wait = function("wait_for_other", move |_| {
        let released = released.clone();
        async move {
            released.notified().await;
            // Timestamps are in milliseconds.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(json!("waited"))
        }
    });
    let release = function("release", move |_| {
        releasing.notify_one();
        async { Ok(json!("released")) }
    });
    let steps = [
        Step::activity("wait_for_other").id("a").depends_on(&[]),
        Step::activity("release").id("b").depends_on(&[]),
        Step::activity("release").id("c").set("if", "false").depends_on(&["a", "b"]),
        Step::guidance("Do.").id("d").depends_on(&["c"]),
    ];
    let workflow = exposed(steps).set("expose", json!({ "tools": true }));
    let activities = Activities::default().with_activity(wait);
    let activities = activities.and_then(|all| all.with_activity(release)).unwrap();
    let program = Program::with_activities(vec![workflow], activities);
    let first = program.done("work_start", json!({})).await;
    assert_eq!((&first["nextActivity"], &first["stepResult"]), (&json!("d"), &json!("waited")));
}

#[tokio::test]
async fn a_session_that_has_ended_is_not_changed() {
    let program = program([Step::activity("ok")]);
    let ended = program.done("work_start", json!({})).await;
    let id = json!({ "execution_id": ended["sessionId"] });
    for tool in ["execution.pause", "execution.abandon", "execution.fail"] {
        let refused = program.refused(tool, id.clone()).await;
        assert_eq!(refused["error_code"], "STATE_TRANSITION_REFUSED", "{tool}: {refused}");
    }
    let id = json!({ "sessionId": ended["sessionId"] });
    assert_eq!(program.done("work_status", id.clone()).await, ended);
    assert_eq!(program.done("work_continue", id).await, ended);
}

#[tokio::test]
async fn a_cancelled_session_takes_no_results() {
    let program = program([Step::activity("ok")]);
    let first = program.done("essay_start", json!({ "topic": "rain" })).await;
    program.done("execution.abandon", json!({ "execution_id": first["sessionId"] })).await;
    let next = json!({ "sessionId": first["sessionId"], "token": first["token"], "result": "x" });
    let refused = program.refused("essay_continue", next).await;
    assert_eq!(refused["error_code"], "TOKEN_SUPERSEDED", "{refused}");
    assert_eq!(refused["workflow_state"], "abandoned");
    let read = program.done("essay_status", json!({ "sessionId": first["sessionId"] })).await;
    assert_eq!(read["status"], "cancelled");
}

#[tokio::test]
async fn a_paused_session_refuses_results_and_goes_on_with_the_same_token() {
    let program = program([Step::activity("ok")]);
    let first = program.done("essay_start", json!({ "topic": "rain" })).await;
    let id = json!({ "execution_id": first["sessionId"] });
    program.done("execution.pause", id.clone()).await;
    let next = json!({ "sessionId": first["sessionId"], "token": first["token"], "result": "x" });
    let refused = program.refused("essay_continue", next.clone()).await;
    assert_eq!(refused["error_code"], "EXECUTION_PAUSED");
    program.done("execution.resume", id).await;
    let read = program.done("essay_status", json!({ "sessionId": first["sessionId"] })).await;
    assert_eq!(read["nextActivity"], "draft");
    assert_eq!(program.done("essay_continue", next).await["nextActivity"], "polish");
}

#[tokio::test]
async fn sessions_are_counted_by_workflow_and_state_and_paused_ones_too() {
    let program = program([Step::activity("ok").id("a"), Step::activity("ok").id("b")]);
    let paced = program.done("work_start", json!({})).await;
    assert_eq!(paced["status"], "paused");
    program.done("essay_start", json!({ "topic": "rain" })).await;
    let cancelled = program.done("essay_start", json!({ "topic": "snow" })).await;
    program.done("execution.abandon", json!({ "execution_id": cancelled["sessionId"] })).await;
    let stats = program.app.stats(None).await.unwrap();
    let counts: Vec<_> = (stats.workflows.iter())
        .flat_map(|one| {
            one.states.iter().map(|(state, count)| (&*one.workflow_name, &**state, *count))
        })
        .collect();
    assert_eq!(counts, [("essay", "abandoned", 1), ("essay", "running", 1), ("work", "paused", 1)]);
    assert_eq!(stats.executions, 3);
}
