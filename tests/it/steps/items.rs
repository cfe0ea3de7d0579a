//! `foreach`: as many items at once as it says, outputs in the order of the list.

use midex::domain::execution::Report;
use serde_json::json;

use super::Play;

const EACH: &str = "steps:
  - id: each
    foreach: { in: '${{ inputs.files }}', as: file, parallel: 2, do: { guidance: 'Read ${{ file.name }}', result: {} } }
final_output: '${{ steps.each }}'
";

fn files(count: usize) -> serde_json::Value {
    let files: Vec<_> = (0..count)
        .map(|at| json!({ "name": format!("f{at}") }))
        .collect();
    json!({ "files": files })
}

#[tokio::test(start_paused = true)]
async fn items_are_opened_two_at_a_time_and_their_outputs_stand_in_order() {
    let mut play = Play::begin(EACH, files(4)).await;
    let told: Vec<_> = play.offers().iter().map(|offer| offer.item).collect();
    assert_eq!(told, [Some(0), Some(1)]);
    assert!(play.words().contains("Read f0"), "{}", play.words());
    assert!(play.offers()[1].instructions.contains("Read f1"));
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    play.report(&one, Report::Output(json!("one"))).await;
    assert_eq!(play.offers()[0].item, Some(2));
    assert!(play.words().contains("Read f2"), "{}", play.words());
    let two = play.last.new_token.clone().unwrap();
    play.restart().await;
    play.report(&two, Report::Output(json!("two"))).await;
    let three = play.last.new_token.clone().unwrap();
    play.report(&three, Report::Output(json!("three"))).await;
    assert_eq!((play.state(), play.last.open_steps.len()), ("running", 1));
    play.report(&zero, Report::Output(json!("zero"))).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(
        play.last.final_output,
        Some(json!(["zero", "one", "two", "three"]))
    );
    let history = play.history().await;
    let items: Vec<_> = history.iter().map(|row| row.item).collect();
    assert_eq!(items, [None, Some(0), Some(1), Some(2), Some(3)]);
    // The answer to the last call of an item is kept as any other's.
    let repeated = play
        .engine
        .advance(&one, Report::Output(json!("one")))
        .await
        .unwrap();
    assert!(repeated.replayed);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nothing_is_done_at_once() {
    let play = Play::begin(EACH, files(0)).await;
    assert_eq!(
        (play.state(), play.last.final_output.clone()),
        ("completed", Some(json!([])))
    );
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_item_fails_the_step_and_voids_its_siblings() {
    let mut play = Play::begin(EACH, files(3)).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    let report = Report::Error {
        message: "no".into(),
        code: Some("BAD".into()),
        retryable: None,
    };
    play.report(&one, report).await;
    assert_eq!(play.state(), "failed");
    assert_eq!(play.last.failure.clone().unwrap().code, "BAD");
    let refused = play
        .engine
        .advance(&zero, Report::Output(json!(1)))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), midex::error::Code::TokenSuperseded);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_optional_item_leaves_a_gap() {
    let lines = EACH.replace("result: {} }", "result: {}, optional: true }");
    let mut play = Play::begin(&lines, files(2)).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    let report = Report::Error {
        message: "no".into(),
        code: None,
        retryable: None,
    };
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
        .map(|offer| (offer.item.unwrap(), offer.continuation_token.clone()))
        .collect();
    let mut done = 0;
    while let Some((item, token)) = open.pop() {
        play.report(&token, Report::Output(json!(item))).await;
        open.extend(
            play.last
                .new_tokens
                .iter()
                .map(|offer| (offer.item.unwrap(), offer.continuation_token.clone())),
        );
        done += 1;
    }
    assert_eq!((done, play.state()), (1000, "completed"));
    let history = play.history().await;
    let output = history[0].output.clone().unwrap();
    assert_eq!(output, json!((0..1000).collect::<Vec<u32>>()));
}
