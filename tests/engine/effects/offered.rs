//! What an activity offers the client to do next.

use midex_domain::view::CurrentStep;

use super::*;
use midex_test::{assert_has, list_of};

const CHECK: &str = "check";

fn steps() -> Value {
    let branches = json!([
        { "pattern": "valid:false", "tool_name": "correct", "parameters": { "errors": "${{ steps.check.errors }}" }, "continue_workflow": true },
        { "pattern": "valid:true", "tool_name": "publish", "continue_workflow": true }
    ]);
    json!([
        activity(
            CHECK,
            None,
            json!({ "branches": branches, "result": {
            "type": "object", "properties": { "valid": {}, "errors": {} }, "additionalProperties": false
        } })
        ),
        step(
            "after",
            Some(CHECK),
            json!({ "guidance": { "text": "Go on." } }),
            json!({ "result": {} })
        ),
    ])
}

fn told(current: &CurrentStep) -> Vec<&str> {
    let options = current.next_step_options.iter();
    options.map(|option| option.id.as_str()).collect()
}

/// An execution whose activity has answered this.
async fn answered(answer: Value) -> Engine {
    let log = Log::new();
    let check = function(CHECK, move |_| {
        let answer = answer.clone();
        async move { Ok(answer) }
    });
    let engine = engine(&log, Activities::default().with_activity(check).expect("one")).await;
    begin(&engine, defined(steps(), json!({})), json!({})).await;
    while engine.current_now("e").await.continuation_token.is_none() {
        tokio::time::sleep(seconds(1)).await;
    }
    engine
}

#[tokio::test(start_paused = true)]
async fn its_branches_and_its_suggestions_are_offered_with_the_step_after_it() {
    let engine = answered(json!({ "valid": false, "errors": ["Invalid email"], "toolCallSuggestions": [
        { "toolName": "manual_review_start", "parameters": { "data": 1 }, "condition": "Send to manual review", "priority": 60 }
    ] }))
    .await;
    let current = engine.current_now("e").await;
    let options = &current.next_step_options;
    let told = list_of(options, |one| (one.id.as_str(), one.priority));
    assert_eq!(told, [("check.1", 100), ("check.2", 60), ("continue", 50)]);
    assert_eq!(options[0].parameters["errors"], json!(["Invalid email"]));
    let output = json!({ "valid": false, "errors": ["Invalid email"] });
    assert_eq!(output_of(&engine, CHECK).await, output);
}

#[tokio::test(start_paused = true)]
async fn malformed_suggestions_are_left_out_and_its_output_is_not_lost() {
    let engine =
        answered(json!({ "valid": true, "toolCallSuggestions": [{ "toolName": 1 }] })).await;
    let current = engine.current_now("e").await;
    assert_eq!(told(&current), ["check.1", "continue"]);
    let left_out = current.options_left_out.join("\n");
    assert_has(&left_out, &["/toolCallSuggestions/0/toolName"]);
    assert_eq!(output_of(&engine, CHECK).await, json!({ "valid": true }));
}

#[tokio::test(start_paused = true)]
async fn what_comes_during_a_pause_is_offered_after_it() {
    let log = Log::new();
    let check = function(CHECK, |_| async {
        tokio::time::sleep(seconds(5)).await;
        Ok(json!({ "valid": true }))
    });
    let engine = engine(&log, Activities::default().with_activity(check).expect("one")).await;
    begin(&engine, defined(steps(), json!({})), json!({})).await;
    engine.changed("e", LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(10)).await;
    engine.changed("e", LifecycleAction::Resume).await;
    let current = engine.current_now("e").await;
    assert_eq!(told(&current), ["check.1", "continue"]);
}

#[tokio::test(start_paused = true)]
async fn an_option_whose_parameters_lead_to_nothing_is_not_called_undone() {
    let engine = answered(json!({ "valid": false })).await;
    let current = engine.current_now("e").await;
    let [why] = &current.options_left_out[..] else {
        panic!("{:?}", current.options_left_out);
    };
    assert_has(why, &["`steps.check.errors` leads to nothing"]);
    assert!(!why.contains("not done yet"), "{why}");
}
