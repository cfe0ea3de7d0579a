//! What is larger, or more of it, than the limits allow.

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{Client, Fields, address, output, says, table, witness::Witness};

/// A refusal names the limit and does not send back what it refuses.
fn too_much(refused: &Value, limit: usize) {
    refused.has_fields(json!({ "error_code": "LIMIT_EXCEEDED", "retryable": false }));
    let words = format!("{}{}", refused["message"], refused["suggested_action"]);
    assert!(words.contains(&limit.to_string()), "{refused}");
    refused.is_below(4000);
}

fn artifact(name: &str, bytes: usize) -> Value {
    json!({ "type": "file", "name": name, "content": "x".repeat(bytes) })
}

#[test]
fn an_output_of_ten_megabytes_is_refused_and_its_token_stays_valid() {
    let mut witness = Witness::new();
    let refused = witness.server.refuse(&witness.token, output(&"x".repeat(10 << 20)));
    too_much(&refused, limits::OUTPUT_BYTES_MAX);
    refused.has_fields(json!({ "step_id": "diagnose", "workflow_state": "running" }));
    witness.unharmed();
    // One byte too many, and exactly as many as may be.
    let around = limits::OUTPUT_BYTES_MAX - output("").to_string().len();
    too_much(
        &witness.server.refuse(&witness.token, output(&"x".repeat(around + 1))),
        limits::OUTPUT_BYTES_MAX,
    );
    let token = witness.victim("victim");
    let accepted = witness.finish(&token, &"x".repeat(around));
    assert_eq!(accepted["step_name"], "fix");
    assert!(accepted.to_string().len() < 64 << 10, "what was decided is told in short");
    let history = witness.read(&address("step_history", "victim"));
    assert_eq!(history[0]["output"]["summary"].as_str().unwrap().len(), around);
    witness.survives();
}

#[test]
fn an_artifact_past_its_limit_is_refused_however_often_and_stores_nothing() {
    let mut witness = Witness::new();
    let outputs = |bytes: usize| json!({ "summary": "s", "artifacts": [artifact("small", 1), artifact("large", bytes)] });
    // More often than an output may be wrong: what is too large is not judged at all.
    for _ in 0..=limits::OUTPUT_ATTEMPTS_MAX {
        let refused =
            witness.server.refuse(&witness.token, outputs(limits::ARTIFACT_BYTES_MAX + 1));
        too_much(&refused, limits::ARTIFACT_BYTES_MAX);
        says(&refused["message"], "`large`");
    }
    assert_eq!(
        witness.read(&address("workflow_artifacts", midex_test::witness::WITNESS)),
        json!([])
    );
    witness.unharmed();
    let token = witness.victim("victim");
    witness.hand_in(&token, outputs(limits::ARTIFACT_BYTES_MAX));
    let kept = witness.read(&address("workflow_artifacts", "victim"));
    assert_eq!(kept[1]["size_bytes"], limits::ARTIFACT_BYTES_MAX);
    let uri = format!("{}/large?limit=10", address("artifact", "victim"));
    assert_eq!(witness.read(&uri)["content"], "x".repeat(10));
    witness.survives();
}

#[test]
fn too_many_artifacts_are_refused_and_the_token_stays_valid() {
    let mut witness = Witness::new();
    let token = witness.victim("victim");
    let references = |count: usize| json!(vec!["doc"; count]);
    let contents =
        |count: usize| (0..count).map(|at| artifact(&format!("a{at}"), 1)).collect::<Value>();
    let most = limits::OUTPUT_ARTIFACTS_MAX;
    for artifacts in [references(most + 1), contents(most + 1), references(100_000)] {
        let refused = witness.refuse(&token, json!({ "summary": "s", "artifacts": artifacts }));
        assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID", "{refused}");
        let violation = &refused["violations"][0];
        violation.has_fields(json!({ "path": "/artifacts", "rule": "maxItems" }));
        refused.is_below(4000);
    }
    witness.hand_in(&token, json!({ "summary": "s", "artifacts": contents(most) }));
    let kept = witness.read(&address("workflow_artifacts", "victim"));
    assert_eq!(kept.as_array().unwrap().len(), most);
    witness.survives();
}

#[test]
fn artifacts_that_are_none_are_refused_with_their_place() {
    let mut witness = Witness::new();
    let token = witness.victim("victim");
    // Four at most: with the fifth wrong output the step has failed.
    for [artifact, place] in table(
        r#"{"type": "diagram", "name": "a", "content": "c"} | /artifacts/1/type
        {"type": "file", "name": "a", "content": 5} | /artifacts/1/content
        {"type": "file", "name": "", "content": "c"} | /artifacts/1/name
        {"type": "file", "name": "a", "content": "c", "path": "/etc"} | /artifacts/1"#,
    ) {
        let artifact: Value = serde_json::from_str(&artifact).unwrap();
        let refused =
            witness.refuse(&token, json!({ "summary": "s", "artifacts": ["doc", artifact] }));
        assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID", "{refused}");
        assert_eq!(refused["violations"][0]["path"], *place, "{refused}");
    }
    witness.survives();
}

#[test]
fn a_reason_past_its_limit_changes_no_state() {
    let mut witness = Witness::new();
    let most = limits::REASON_CHARS_MAX;
    for tool in ["pause", "resume", "abandon", "diverge", "fail"] {
        for chars in [most + 1, 1 << 20] {
            let arguments = json!({ "execution_id": midex_test::witness::WITNESS, "reason": "ä".repeat(chars) });
            let refused = witness.refused(&format!("execution.{tool}"), arguments);
            assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{tool}");
            let violation = &refused["violations"][0];
            violation.has_fields(json!({ "path": "/reason", "rule": "maxLength" }));
        }
    }
    witness.unharmed();
    witness.victim("victim");
    let longest = "ä".repeat(most);
    let paused =
        witness.done("execution.pause", json!({ "execution_id": "victim", "reason": longest }));
    assert_eq!(paused["reason"], longest);
    witness.survives();
}

#[test]
fn inputs_past_their_limit_start_nothing() {
    let mut witness = Witness::new();
    let around = limits::INPUTS_BYTES_MAX - json!({ "task": "" }).to_string().len();
    let start = |bytes: usize| {
        let inputs = json!({ "task": "y".repeat(bytes) });
        json!({ "workflow_name": "bug-fix", "execution_id": "victim", "inputs": inputs })
    };
    for bytes in [around + 1, 10 << 20] {
        let refused = witness.refused("workflow.start", start(bytes));
        too_much(&refused, limits::INPUTS_BYTES_MAX);
    }
    let unknown = witness.read_error(&address("workflow_status", "victim"));
    assert_eq!(unknown["data"]["error_code"], "EXECUTION_NOT_FOUND");
    witness.begin_with(start(around));
    witness.survives();
}

#[test]
fn a_failure_of_ten_megabytes_is_kept_in_short() {
    let mut witness = Witness::new();
    let token = witness.victim("victim");
    let error = json!({ "message": "ü".repeat(5 << 20), "code": "C".repeat(1 << 20) });
    let failed = witness.next_step(json!({ "token": token, "error": error }));
    assert_eq!(failed["workflow_state"], "failed");
    let kept = &witness.status("victim")["error"];
    let bytes = |name: &str| kept[name].as_str().unwrap().len();
    assert!((1..=limits::FAILURE_MESSAGE_BYTES_MAX).contains(&bytes("message")));
    assert!((1..=limits::FAILURE_CODE_BYTES_MAX).contains(&bytes("code")));
    witness.survives();
}
