//! Memory, expressions and what an execution comes to: values keep their types.

use serde_json::json;

use super::Play;

use midex_test::assert_has;

#[tokio::test(start_paused = true)]
async fn values_keep_their_types_from_inputs_through_memory_to_the_end() {
    let inputs = json!({ "n": 3, "flag": false, "list": [1, "two"], "map": { "z": 1, "a": null }, "text": "" });
    let lines = "memory: { count: 0, said: '${{ inputs.text }}' }
steps:
  - { id: keep, set: { count: '${{ inputs.n + 1 }}', flag: '${{ inputs.flag }}', list: '${{ inputs.list }}', map: '${{ inputs.map }}' } }
  - { id: more, set: { count: '${{ memory.count * 2 }}', told: 'n is ${{ inputs.n }}, said ${{ memory.said }}.' } }
final_output: { count: '${{ memory.count }}', flag: '${{ memory.flag }}', list: '${{ memory.list }}', map: '${{ memory.map }}',
  told: '${{ memory.told }}', kept: '${{ steps.keep.count }}', inputs: '${{ memory.__workflow_input__.n }}', visits: '${{ run.visits.keep }}' }";
    let play = Play::begin(lines, inputs).await;
    assert_eq!(play.state(), "completed");
    let whole = play.last.final_output.clone().unwrap();
    let expected = json!({
        "count": 8, "flag": false, "list": [1, "two"], "map": { "z": 1, "a": null }, "told": "n is 3, said .",
        "kept": 4, "inputs": 3, "visits": 1
    });
    assert_eq!(whole, expected);
    // Not only equal: maps keep their order.
    assert_eq!(whole.to_string(), expected.to_string());
    assert_eq!(play.path().await, ["keep completed", "more completed"]);
}

#[tokio::test(start_paused = true)]
async fn memory_and_outputs_are_found_again_after_a_restart() {
    let long = "x".repeat(5000);
    let lines = "steps:
  - { id: ask, guidance: Ask., result: {} }
  - { id: keep, set: { said: '${{ steps.ask.words }}' } }
  - { id: wait, guidance: Wait., result: {} }
  - { id: end, set: { both: '${{ memory.said ~ steps.ask.more }}' } }
final_output: '${{ memory.both }}'";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("ask", json!({ "words": long, "more": "!" })).await;
    play.restart().await;
    play.done("wait", json!(null)).await;
    assert_eq!(play.state(), "completed");
    let history = play.history().await;
    let end = history.last().unwrap();
    assert_eq!(end.output.as_ref().unwrap()["both"], format!("{long}!"));
}

#[tokio::test(start_paused = true)]
async fn what_leads_to_nothing_fails_the_step_before_anything_happens() {
    let lines = "steps:\n  - { id: a, set: { x: '${{ inputs.no.such }}' } }\n  - { id: b, guidance: Never., result: {} }\n";
    let play = Play::begin(lines, json!({ "no": 1 })).await;
    assert_eq!(play.state(), "failed");
    let failure = play.last.failure.clone().unwrap();
    assert_eq!(failure.code.as_str(), "EXPRESSION_FAILED");
    assert_eq!(failure.step_name.as_deref(), Some("a"));
    assert_has(&failure.message, &["inputs.no.such"]);
}

#[tokio::test(start_paused = true)]
async fn one_input_and_all_of_them_may_stand_side_by_side() {
    let inputs = json!({ "n": 3, "list": [1, "two"], "more": { "z": 1 } });
    for (first, second) in [("inputs.n", "inputs"), ("inputs", "inputs.n")] {
        let lines = format!(
            "steps:\n  - {{ id: a, set: {{ first: '${{{{ {first} }}}}', second: '${{{{ {second} }}}}' }} }}\nfinal_output: '${{{{ steps.a }}}}'\n"
        );
        let play = Play::begin(&lines, inputs.clone()).await;
        let whole = play.last.final_output.clone().unwrap();
        let value = |name: &str| match name {
            "inputs" => inputs.clone(),
            _ => json!(3),
        };
        assert_eq!(whole, json!({ "first": value(first), "second": value(second) }));
    }
}
