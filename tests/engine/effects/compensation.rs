//! Effects that are taken back where the execution fails, newest first.

use super::*;
use midex_test::list_of;

const SAGA: &str = "steps:
  - id: book
    activity: book
    with: { what: flight }
    compensate: { activity: cancel, with: { id: '${{ steps.book.did.what }}', why: '${{ run.outcome }}' } }
  - id: pay
    activity: pay
    with: { what: hotel }
    compensate: { activity: refund, with: { id: '${{ run.output.did.what }}' } }
  - { id: send, activity: send }
";

fn fails_in_send(name: &str, context: &Context) -> Outcome {
    match name {
        "send" => Err(OperationFailure::new("broken", "it broke")),
        _ => Ok(json!({ "did": context.input })),
    }
}

#[tokio::test(start_paused = true)]
async fn effects_are_taken_back_newest_first_where_the_execution_fails() {
    let log = Log::new();
    let engine =
        told_of(&log, ["book", "pay", "send", "cancel", "refund"], SAGA, fails_in_send).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "BROKEN");
    assert_eq!(status.not_compensated, []);
    assert_eq!(log.lines(), ["book 1", "pay 1", "send 1", "refund 1", "cancel 1"]);
    assert_eq!(
        beside(&engine).await,
        ["compensate of pay 1: completed", "compensate of book 1: completed"]
    );
    let rows = history(&engine).await;
    let cancel = rows.iter().find(|row| row.body.is_some() && row.step_name == "book").unwrap();
    assert_eq!(cancel.output, Some(json!({ "did": { "id": "flight", "why": "failed" } })));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_back_where_nothing_fails() {
    let log = Log::new();
    let engine = told(&log, ["book", "pay", "send", "cancel", "refund"], SAGA).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["book 1", "pay 1", "send 1"]);
}

/// The first failure stays the one that the execution fails with.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_taken_back_is_told_and_the_others_are_taken_back_all_the_same() {
    let log = Log::new();
    let lines = SAGA.replace(
        "activity: refund,",
        "activity: refund, retry: { max_attempts: 2, backoff: 1s, jitter: false },",
    );
    let engine =
        told_of(&log, ["book", "pay", "send", "cancel", "refund"], &lines, |name, context| {
            match name {
                "refund" => fails("network"),
                _ => fails_in_send(name, context),
            }
        })
        .await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "BROKEN");
    let [left] = status.not_compensated.as_slice() else {
        panic!("{status:?}");
    };
    assert_eq!(left.step.as_str(), "pay");
    assert_eq!(left.visit, 1);
    assert_eq!(left.why.as_str(), "it failed");
    assert_eq!(log.lines(), ["book 1", "pay 1", "send 1", "refund 1", "refund 2", "cancel 1"]);
}

#[tokio::test(start_paused = true)]
async fn each_visit_and_each_item_is_taken_back_with_its_own_output() {
    let log = Log::new();
    let lines = "steps:
  - id: each
    foreach:
      in: [a, b, c]
      parallel: 1
      do:
        activity: open
        with: { name: '${{ item }}' }
        compensate: { activity: shut, with: { name: '${{ item }}', at: '${{ index }}', out: '${{ run.output.did.name }}' } }
  - { id: send, activity: send }
";
    let engine = told_of(&log, ["open", "shut", "send"], lines, fails_in_send).await;
    until_state(&engine, "failed").await;
    let rows = history(&engine).await;
    let shut: Vec<_> = rows
        .iter()
        .filter(|row| row.body.is_some())
        .map(|row| row.output.clone().unwrap()["did"].clone())
        .collect();
    assert_eq!(
        shut,
        [
            json!({ "name": "c", "at": 2, "out": "c" }),
            json!({ "name": "b", "at": 1, "out": "b" }),
            json!({ "name": "a", "at": 0, "out": "a" }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn items_that_were_done_are_taken_back_where_another_one_fails() {
    let log = Log::new();
    let lines = "steps:
  - id: each
    foreach:
      in: [a, b, c]
      parallel: 1
      do: { activity: open, with: { name: '${{ item }}' }, compensate: { activity: shut, with: { name: '${{ item }}' } } }
";
    let engine = told_of(&log, ["open", "shut"], lines, |name, context| match name {
        "open" if context.input["name"] == "c" => Err(OperationFailure::new("broken", "it broke")),
        _ => Ok(json!({ "did": context.input })),
    })
    .await;
    until_state(&engine, "failed").await;
    assert_eq!(
        beside(&engine).await,
        ["compensate of each[1] 1: completed", "compensate of each[0] 1: completed"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_loop_takes_back_each_of_its_visits() {
    let log = Log::new();
    let lines = "memory: { n: 0 }
steps:
  - { id: count, set: { n: '${{ memory.n + 1 }}' } }
  - { id: open, activity: open, with: { n: '${{ memory.n }}' }, compensate: { activity: shut, with: { n: '${{ steps.open.did.n }}' } } }
  - { id: again, branch: [{ if: memory.n < 3, next: count }] }
  - { id: send, activity: send }
";
    let engine = told_of(&log, ["open", "shut", "send"], lines, fails_in_send).await;
    until_state(&engine, "failed").await;
    let rows = history(&engine).await;
    let shut: Vec<_> = rows
        .iter()
        .filter(|row| row.body.is_some())
        .map(|row| (row.visit, row.output.clone().unwrap()["did"]["n"].clone()))
        .collect();
    assert_eq!(shut, [(3, json!(3)), (2, json!(2)), (1, json!(1))]);
}

#[tokio::test(start_paused = true)]
async fn effects_are_taken_back_at_the_ends_that_the_workflow_names() {
    let asked = SAGA.replace("activity: send", "guidance: Send, result: {}");
    for (when, taken_back) in [("", false), ("compensate_when: [failed, abandoned]\n", true)] {
        let log = Log::new();
        let lines = format!("{when}{asked}");
        let engine = told(&log, ["book", "pay", "cancel", "refund"], &lines).await;
        let open = until_step(&engine, "send").await;
        assert_eq!(open.state, "running");
        let status = change(&engine, LifecycleAction::Abandon).await;
        let told = (status.state.as_str(), status.ending.as_deref());
        assert_eq!(
            told,
            if taken_back { ("running", Some("abandoned")) } else { ("abandoned", None) }
        );
        until_state(&engine, "abandoned").await;
        let made: &[&str] = if taken_back {
            &["book 1", "pay 1", "refund 1", "cancel 1"]
        } else {
            &["book 1", "pay 1"]
        };
        assert_eq!(log.lines(), made);
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_for_an_end_outlives_what_is_left_to_do() {
    let log = Log::new();
    let lines = SAGA.replace("activity: send", "guidance: Send, result: {}")
        + "compensate_when: [abandoned]\n";
    let engine = told(&log, ["book", "pay", "cancel", "refund"], &lines).await;
    until_step(&engine, "send").await;
    let change = midex_domain::LifecycleChange {
        action: LifecycleAction::Abandon,
        reason: Some("no longer wanted".to_owned()),
    };
    engine.commanded(change).await;
    let status = until_state(&engine, "abandoned").await;
    assert_eq!(status.reason.as_deref(), Some("no longer wanted"));
}

/// Also of one that is paused, which runs until it has ended.
#[tokio::test(start_paused = true)]
async fn who_gives_up_a_second_time_does_not_wait_for_what_is_left() {
    for is_paused in [false, true] {
        let log = Log::new();
        let lines = SAGA.replace("activity: send", "guidance: Send, result: {}")
            + "compensate_when: [abandoned]\n";
        let definition = play::defined_with(&lines, &["book", "pay", "cancel", "refund"]);
        let quick = |name: &str| {
            log.activity(name, Duration::ZERO, |context| Ok(json!({ "did": context.input })))
        };
        let slow = log.activity("refund", seconds(100), |_| Ok(json!(1)));
        let engine = engine(&log, only([quick("book"), quick("pay"), quick("cancel"), slow])).await;
        begin(&engine, definition, json!({})).await;
        until_step(&engine, "send").await;
        if is_paused {
            change(&engine, LifecycleAction::Pause).await;
        }
        let status = change(&engine, LifecycleAction::Abandon).await;
        assert_eq!(status.state.as_str(), "running");
        assert_eq!(status.pause_reasons.len(), 0);
        until(&engine, |status| !status.waits.is_empty()).await;
        let status = change(&engine, LifecycleAction::Abandon).await;
        assert_eq!(status.state, "abandoned");
        let left = list_of(&status.not_compensated, |left| left.step.as_str());
        assert_eq!(left, ["pay", "book"]);
    }
}

#[tokio::test(start_paused = true)]
async fn steps_for_a_failure_come_first_and_may_be_a_models() {
    let log = Log::new();
    let lines = SAGA.to_owned()
        + "on_failure:
  - { id: look, guidance: 'Look at ${{ run.failure.code }}', result: {} }
  - { id: tell, activity: tell, with: { saw: '${{ steps.look }}' } }
";
    let engine =
        told_of(&log, ["book", "pay", "send", "cancel", "refund", "tell"], &lines, fails_in_send)
            .await;
    let status = until_step(&engine, "look").await;
    assert_eq!(status.state.as_str(), "running");
    assert_eq!(status.ending.as_deref(), Some("failed"));
    let current = engine.current_now("e").await;
    assert!(current.instructions.unwrap().contains("Look at BROKEN"));
    engine
        .report(
            &current.continuation_token.unwrap(),
            midex_domain::execution::Report::Output(json!("it")),
        )
        .await;
    until_state(&engine, "failed").await;
    assert_eq!(log.lines(), ["book 1", "pay 1", "send 1", "tell 1", "refund 1", "cancel 1"]);
    brought(&engine, "tell", json!({ "did": { "saw": "it" } })).await;
}

#[tokio::test(start_paused = true)]
async fn steps_for_a_failure_are_passed_where_nothing_fails() {
    let log = Log::new();
    let lines = SAGA.to_owned() + "on_failure:\n  - { id: tell, activity: tell }\n";
    let engine = told(&log, ["book", "pay", "send", "cancel", "refund", "tell"], &lines).await;
    let status = until_state(&engine, "completed").await;
    assert_eq!((status.steps.completed, status.steps.skipped), (3, 1));
    // What it came to is the output of its last step, and not of those.
    assert_eq!(status.final_output, Some(json!({ "did": { "did": { "what": "hotel" } } })));
}

/// What was sent when another step failed may have been done: it is named, for nobody takes it back.
#[tokio::test(start_paused = true)]
async fn an_effect_that_was_cut_off_is_told_as_not_taken_back() {
    let log = Log::new();
    let lines = "steps:
  - { id: slow, depends_on: [], activity: slow, compensate: { activity: refund } }
  - { id: read, depends_on: [], activity: slow }
  - { id: send, depends_on: [], activity: send }
";
    let slow = log.activity("slow", seconds(10), |_| Ok(json!({})));
    let send = log.activity("send", seconds(1), |context| fails_in_send("send", context));
    let refund = log.activity("refund", seconds(1), |_| Ok(json!({})));
    let engine = engine(&log, only([slow, send, refund])).await;
    let definition = play::defined_with(lines, &["slow", "send", "refund"]);
    begin(&engine, definition, json!({})).await;
    let status = until_state(&engine, "failed").await;
    let left = status.not_compensated.iter();
    let left: Vec<_> = left.map(|left| (&*left.step, &*left.why)).collect();
    assert_eq!(left, [("slow", "it was cut off, and nobody knows what came of it")]);
}
