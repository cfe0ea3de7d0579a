//! `foreach`: as many items at once as it says, outputs in the order of the list.

use std::time::Duration;

use midex_domain::{
    execution::{Report, SignalRequest},
    limits,
};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::{Value, json};

use super::{Play, id};
use midex_test::play::{Calls, failed, gate_answer};

const EACH: &str = "steps:
  - id: each
    foreach: { in: '${{ inputs.files }}', as: file, parallel: 2, do: { guidance: 'Read ${{ file.name }}', result: {} } }
final_output: '${{ steps.each }}'
";

fn files(count: usize) -> Value {
    let files: Vec<_> = (0..count).map(|at| json!({ "name": format!("f{at}") })).collect();
    json!({ "files": files })
}

#[tokio::test(start_paused = true)]
async fn items_are_opened_two_at_a_time_and_their_outputs_stand_in_order() {
    let mut play = Play::begin(EACH, files(4)).await;
    let told: Vec<_> = play.offers().iter().map(|offer| offer.step.item).collect();
    assert_eq!(told, [Some(0), Some(1)]);
    assert!(play.words().contains("Read f0"), "{}", play.words());
    assert!(play.offers()[1].instructions.contains("Read f1"));
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    play.report(&one, Report::Output(json!("one"))).await;
    assert_eq!(play.offers()[0].step.item, Some(2));
    assert!(play.words().contains("Read f2"), "{}", play.words());
    let two = play.last.new_token.clone().unwrap();
    play.restart().await;
    play.report(&two, Report::Output(json!("two"))).await;
    let three = play.last.new_token.clone().unwrap();
    play.report(&three, Report::Output(json!("three"))).await;
    assert_eq!((play.state(), play.last.open_steps.len()), ("running", 1));
    play.report(&zero, Report::Output(json!("zero"))).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(play.last.final_output, Some(json!(["zero", "one", "two", "three"])));
    let history = play.history().await;
    let items: Vec<_> = history.iter().map(|row| row.item).collect();
    assert_eq!(items, [None, Some(0), Some(1), Some(2), Some(3)]);
    // The answer to the last call of an item is kept as any other's.
    let repeated = play.engine.report(&one, Report::Output(json!("one"))).await;
    assert!(repeated.replayed);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nothing_is_done_at_once() {
    let play = Play::begin(EACH, files(0)).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(play.last.final_output.clone(), Some(json!([])));
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_item_fails_the_step_and_voids_its_siblings() {
    let mut play = Play::begin(EACH, files(3)).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    let report = failed("no", Some("BAD"));
    play.report(&one, report).await;
    assert_eq!(play.state(), "failed");
    assert_eq!(play.last.failure.clone().unwrap().code, "BAD");
    let refused = play.engine.refuse(&zero, Report::Output(json!(1))).await;
    assert_eq!(refused.code(), midex_domain::error::Code::TokenSuperseded);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_optional_item_leaves_a_gap() {
    let lines = EACH.replace("result: {} }", "result: {}, optional: true }");
    let mut play = Play::begin(&lines, files(2)).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    let report = failed("no", None);
    play.report(&zero, report).await;
    play.report(&one, Report::Output(json!("one"))).await;
    assert_eq!(play.last.final_output, Some(json!([null, "one"])));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_fails_the_step() {
    let play = Play::begin(EACH, json!({ "files": "a.txt" })).await;
    assert_eq!(play.last.failure.clone().unwrap().code, "NOT_A_LIST");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_items_come_out_in_order() {
    let lines = EACH.replace("parallel: 2", "parallel: 50");
    let mut play = Play::begin(&lines, files(1000)).await;
    let mut open: Vec<_> = play
        .last
        .new_tokens
        .iter()
        .map(|offer| (offer.step.item.unwrap(), offer.continuation_token.clone()))
        .collect();
    let mut done = 0;
    while let Some((item, token)) = open.pop() {
        play.report(&token, Report::Output(json!(item))).await;
        open.extend(
            play.last
                .new_tokens
                .iter()
                .map(|offer| (offer.step.item.unwrap(), offer.continuation_token.clone())),
        );
        done += 1;
    }
    assert_eq!((done, play.state()), (1000, "completed"));
    let history = play.history().await;
    let output = history[0].output.clone().unwrap();
    assert_eq!(output, json!((0..1000).collect::<Vec<u32>>()));
}

/// An execution of one `foreach` over this list that does this with each.
async fn over(list: Value, parallel: u32, body: &str) -> Play {
    let lines = format!(
        "inputs: {{ list: {{ type: array }}, platform: {{ type: string, optional: true }} }}
memory: {{ last: null }}
steps:
  - id: each
    foreach: {{ in: '${{{{ inputs.list }}}}', parallel: {parallel}, do: {{ {body} }} }}
final_output: {{ all: '${{{{ steps.each }}}}', last: '${{{{ memory.last }}}}' }}
"
    );
    Play::begin(&lines, json!({ "list": list })).await
}

#[tokio::test(start_paused = true)]
async fn a_list_past_the_limit_fails_the_step() {
    let most = limits::FOREACH_ITEMS_MAX;
    let list = |count: usize| json!((0..count).collect::<Vec<_>>());
    let play = over(list(most + 1), 4, "guidance: G., result: {}").await;
    assert_eq!(play.last.failure.clone().unwrap().code, "LIMIT_EXCEEDED");
    let play = over(list(most), 4, "guidance: G., result: {}").await;
    assert_eq!((play.state(), play.offers().len()), ("running", 4));
}

#[tokio::test(start_paused = true)]
async fn items_that_need_nobody_are_done_in_rows_of_bounded_size() {
    let most = limits::FOREACH_ITEMS_MAX;
    let list: Vec<_> = (0..most).collect();
    let play = over(json!(list), 4, "if: item < 0, guidance: G., result: {}").await;
    assert_eq!(play.state(), "running");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = play.status().await;
    assert_eq!(status.state, "completed");
    let rows = play.store.load_history(&id()).await.unwrap();
    let events: Vec<_> = rows.iter().map(|row| row.events.len()).collect();
    assert!(events.len() >= most / limits::ITEMS_AT_ONCE_MAX, "{events:?}");
    assert!(events.iter().all(|count| *count < limits::ITEMS_AT_ONCE_MAX + 10), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_row_of_an_item_does_not_grow_with_the_list() {
    let mut bytes = Vec::new();
    for count in [100, limits::FOREACH_ITEMS_MAX] {
        let list: Vec<_> = (0..count).map(|_| "one of many").collect();
        let mut play = over(json!(list), 4, "guidance: G., result: {}").await;
        play.done("each", json!(1)).await;
        let rows = play.store.load_history(&id()).await.unwrap();
        let row = rows.last().unwrap();
        bytes.push(serde_json::to_string(&row.events).unwrap().len());
    }
    assert_eq!(bytes[0], bytes[1]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_item_says_which_it_was() {
    let mut play = Play::begin(EACH, files(3)).await;
    let token = play.last.new_tokens[1].continuation_token.clone();
    let report = failed("no", None);
    play.report(&token, report).await;
    let failure = play.last.failure.clone().unwrap();
    assert_eq!(failure.item, Some(1));
    assert_eq!(failure.message, "item 2 of 3 (`f1`): no");
}

#[tokio::test(start_paused = true)]
async fn an_item_may_be_a_wait() {
    let play = over(json!([3, 1, 2]), 2, "wait: { for: '${{ item }}s' }").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(play.status().await.state, "completed");
    let play = over(json!(["a", "b"]), 2, "wait: { signal: 'go-${{ item }}' }").await;
    for (name, payload) in [("go-b", 2), ("go-a", 1)] {
        let sent = play.engine.apply_command(&id(), SignalRequest::new(name, json!(payload))).await;
        sent.unwrap();
    }
    let output = play.status().await.final_output.unwrap();
    assert_eq!(output["all"], json!([1, 2]));
}

#[tokio::test(start_paused = true)]
async fn an_item_may_be_a_gate_and_an_answer_is_to_one_of_them() {
    let play = over(json!(["a", "b"]), 2, "gate: Ship?").await;
    let status = play.status().await;
    assert_eq!((status.state.as_str(), status.waits.len()), ("paused", 2));
    assert_ne!(
        status.waits[0].gate.as_ref().unwrap().shown,
        status.waits[1].gate.as_ref().unwrap().shown
    );
    let mut second = status.clone();
    second.waits.remove(0);
    let after = play.engine.commanded(gate_answer(&second, true, None)).await;
    assert_eq!(after.waits.len(), 1);
    assert_eq!(after.waits[0].item, Some(0));
    let after = play.engine.commanded(gate_answer(&after, false, None)).await;
    let error = after.error.unwrap();
    assert_eq!(error.code.as_str(), "GATE_REJECTED");
    assert_eq!(error.item, Some(0));
    assert!(error.message.starts_with("item 1 of 2 (`a`): "), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn an_item_may_write_memory_fail_or_ask_for_inputs() {
    let play = over(json!([1, 2]), 2, "set: { last: '${{ item }}' }").await;
    let output = play.last.final_output.clone().unwrap();
    assert_eq!(output, json!({ "all": [{ "last": 1 }, { "last": 2 }], "last": 2 }));

    let play = over(json!([1, 2]), 2, "if: item > 1, fail: { code: BAD, message: bad }").await;
    let failure = play.last.failure.clone().unwrap();
    assert_eq!((failure.code.as_str(), failure.item), ("BAD", Some(1)));

    let mut play = over(
        json!(["iOS", "none"]),
        1,
        "extract: { from: 'It says ${{ item }}', properties: [platform] }",
    )
    .await;
    assert!(play.words().contains("It says iOS"), "{}", play.words());
    play.done("each", json!({ "platform": "iOS" })).await;
    play.done("each", json!({ "platform": null })).await;
    assert_eq!(play.last.final_output.clone().unwrap()["all"][1]["missing"], json!([]));

    // Once it is known nobody is asked again.
    let mut play = over(json!([1, 2, 3]), 1, "input: { properties: [platform] }").await;
    play.done("each", json!({ "platform": "iOS" })).await;
    let output = play.last.final_output.clone().unwrap();
    assert_eq!(
        output["all"],
        json!([{ "platform": "iOS" }, { "platform": "iOS" }, { "platform": "iOS" }])
    );
}

#[test]
fn what_an_item_cannot_be_is_said_with_what_to_write() {
    for (body, words) in [
        ("branch: [{ next: $end }]", "branch after the `foreach`"),
        ("foreach: { in: [1], do: { guidance: G. } }", "one list of all items"),
    ] {
        let text = format!(
            "workflow: w\ndescription: d\nsteps:\n  - id: each\n    foreach: {{ in: [1], do: {{ {body} }} }}\n"
        );
        let registry = Registry::load(&Sources::default());
        let (_, findings) = registry::check_text("w.yaml", &text, &registry);
        let said = format!("{findings:?}");
        assert!(said.contains(words), "{said}");
        assert!(!said.contains("run, "), "{said}");
    }
}
