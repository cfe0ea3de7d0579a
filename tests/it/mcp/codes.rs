//! Every code of the table is met: most of them here, by a client over MCP; the others where their surface is tested.

use std::{fs, path::Path};

use midex::error::Code;
use serde_json::{Value, json};

use crate::support::{
    Client, Server, has_fields, output,
    project::{forge, line, outlive, payload, text},
};

/// Codes that nobody sees: prompts are still to come, and of a call that was withdrawn no answer is sent.
const UNSEEN: [Code; 2] = [Code::PromptNotFound, Code::Cancelled];

/// Holds an error to its code, and to all that S2 asks of an error.
#[track_caller]
fn is(error: &Value, code: &str) {
    assert_eq!(error["error_code"], code, "{error}");
    for field in [
        "category",
        "message",
        "failure_stage",
        "suggested_action",
        "correlation_id",
    ] {
        assert!(!text(&error[field]).is_empty(), "{field}: {error}");
    }
    let code = Code::parse(code).expect("a code");
    let expected = json!({
        "category": code.category(), "failure_stage": code.stage(), "retryable": code.retryable()
    });
    has_fields(error, expected);
    assert!(error["context"].is_object(), "{error}");
}

#[track_caller]
fn refused(server: &mut Server, tool: &str, arguments: Value, code: &str) {
    is(&server.refused(tool, arguments), code);
}

#[track_caller]
fn fault(server: &mut Server, method: &str, params: Value, code: &str) {
    is(&server.request(method, params)["error"]["data"], code);
}

fn next(token: &Value, output: Value) -> Value {
    json!({ "token": token, "output": output })
}

/// A workflow with an input, which a person must approve.
const GATED: &str = "\
workflow: gated
description: d
inputs: { n: { type: integer, default: { from: literal, value: 1 } } }
steps:
  - id: approve
    gate: { ask: May it go on? }
";

#[test]
fn refusals_of_tokens_and_executions_carry_all_that_an_error_has() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();

    refused(
        &mut server,
        "workflow.next_step",
        next(&json!("nonsense"), output("a")),
        "TOKEN_MALFORMED",
    );
    let mut forged = payload(&token);
    forged["issued_at"] = json!("2999-01-01T00:00:00.000Z");
    refused(
        &mut server,
        "workflow.next_step",
        next(&forge(&forged), output("a")),
        "TOKEN_FROM_FUTURE",
    );
    let mut forged = payload(&token);
    forged["nonce"] = json!("0123456789abcdef0123456789abcdef");
    refused(
        &mut server,
        "workflow.next_step",
        next(&forge(&forged), output("a")),
        "TOKEN_MISMATCH",
    );
    refused(
        &mut server,
        "workflow.next_step",
        next(&token, json!({})),
        "STEP_OUTPUT_INVALID",
    );
    let second = server.done("workflow.next_step", next(&token, output("a")))["new_token"].clone();
    refused(
        &mut server,
        "workflow.next_step",
        next(&token, output("b")),
        "TOKEN_ALREADY_USED",
    );
    let again = json!({ "workflow_name": "line", "execution_id": "e" });
    refused(&mut server, "workflow.start", again, "EXECUTION_ID_TAKEN");
    refused(
        &mut server,
        "execution.wait",
        json!({ "execution_id": "nobody" }),
        "EXECUTION_NOT_FOUND",
    );
    let unknown = json!({ "execution_id": "e", "step_name": "a", "verdict": "retry" });
    refused(&mut server, "execution.resolve", unknown, "OUTCOME_KNOWN");
    server.done("execution.pause", json!({ "execution_id": "e" }));
    refused(
        &mut server,
        "workflow.next_step",
        next(&second, output("b")),
        "EXECUTION_PAUSED",
    );
    refused(
        &mut server,
        "execution.fail",
        json!({ "execution_id": "e", "reason": "x" }),
        "STATE_TRANSITION_REFUSED",
    );
    server.done("execution.abandon", json!({ "execution_id": "e" }));
    refused(
        &mut server,
        "workflow.next_step",
        next(&second, output("b")),
        "TOKEN_SUPERSEDED",
    );
    let signal = json!({ "execution_id": "e", "signal": "s" });
    refused(
        &mut server,
        "execution.signal",
        signal,
        "EXECUTION_FINISHED",
    );
}

#[test]
fn refusals_of_starts_and_faults_of_the_protocol_do_so_too() {
    let project = line();
    project.write("workflows/gated.yaml", GATED);
    let wrong = GATED.replace("gated", "wrong").replace("gate:", "gat:");
    project.write("workflows/wrong.yaml", &wrong);
    let mut server = project.serve();
    refused(
        &mut server,
        "workflow.start",
        json!({}),
        "ARGUMENTS_INVALID",
    );
    refused(
        &mut server,
        "workflow.start",
        json!({ "workflow_name": "gone" }),
        "WORKFLOW_NOT_FOUND",
    );
    refused(
        &mut server,
        "workflow.start",
        json!({ "workflow_name": "wrong" }),
        "WORKFLOW_VALIDATION_FAILED",
    );
    let inputs = json!({ "workflow_name": "gated", "inputs": { "n": "x" } });
    refused(&mut server, "workflow.start", inputs, "INPUTS_INVALID");
    let large = json!({ "workflow_name": "line", "inputs": { "x": "x".repeat(2 << 20) } });
    refused(&mut server, "workflow.start", large, "LIMIT_EXCEEDED");

    fault(
        &mut server,
        "tools/call",
        json!({ "name": "no.tool" }),
        "TOOL_NOT_FOUND",
    );
    fault(
        &mut server,
        "resources/read",
        json!({ "uri": "midex://nothing" }),
        "RESOURCE_NOT_FOUND",
    );
    fault(&mut server, "nothing/at_all", json!({}), "METHOD_NOT_FOUND");
    fault(
        &mut server,
        "tools/call",
        json!({ "name": 1 }),
        "PARAMS_INVALID",
    );
}

#[test]
fn the_refusal_of_an_expired_token_does_so_too() {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    let started = server.begin("line", "e");
    outlive(&started["expires_at"]);
    let late = next(&started["new_token"], output("a"));
    refused(&mut server, "workflow.next_step", late, "TOKEN_EXPIRED");
}

#[test]
fn every_code_is_met_by_a_test() {
    let mut texts = Vec::new();
    read_below(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it"),
        &mut texts,
    );
    for code in Code::ALL.iter().filter(|code| !UNSEEN.contains(code)) {
        let (name, variant) = (format!("\"{code}\""), format!("Code::{code:?}"));
        let is_met = texts
            .iter()
            .any(|text| text.contains(&name) || text.contains(&variant));
        assert!(is_met, "no test meets {code}");
    }
}

/// The texts of tests, but for the one that has a list of codes.
fn read_below(directory: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_below(&path, texts);
        } else if !path.ends_with("grammar.rs") {
            texts.push(fs::read_to_string(&path).unwrap_or_default());
        }
    }
}
