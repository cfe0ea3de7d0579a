//! What a token is good for: not to be forged, renewed when it expires, and safe to send again.

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, output,
    project::{Project, eventually, forge, line, outlive, payload, text},
};

/// Fault F3 of the study: tokens could be forged, and the forger locked the real holder out.
#[test]
fn f03_a_forged_token_is_refused_and_its_holder_not_locked_out() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let real = payload(&token);
    assert_eq!(forge(&real), token, "what is forged below is written as midex writes it");
    let before = server.status("e");
    let garbage = server.refuse("garbage", output("x"));
    let expected = json!({
        "success": false, "error": "Invalid or malformed token", "error_code": "TOKEN_MALFORMED",
        "execution_id": "", "workflow_state": "failed", "retryable": false
    });
    garbage.has_fields(expected);
    for field in ["category", "message", "context", "suggested_action", "correlation_id"] {
        assert!(garbage.get(field).is_some(), "{field}: {garbage}");
    }
    let cases = [
        ("nonce", json!("x"), "TOKEN_MALFORMED"),
        ("nonce", json!("0".repeat(32)), "TOKEN_MISMATCH"),
        ("issued_at", json!("2025-01-01T00:00:00.000Z"), "TOKEN_MISMATCH"),
        ("issued_at", json!("9025-01-01T00:00:00.000Z"), "TOKEN_FROM_FUTURE"),
        ("step_name", json!("b"), "TOKEN_MISMATCH"),
        ("step_name", json!("c"), "TOKEN_MISMATCH"),
        ("step_name", json!("nowhere"), "TOKEN_MISMATCH"),
        ("execution_id", json!("f"), "EXECUTION_NOT_FOUND"),
    ];
    for (field, value, code) in cases {
        let mut forged = real.clone();
        forged[field] = value.clone();
        let refused = server.refuse(forge(&forged), output("forged"));
        assert_eq!(refused["error_code"], code, "{field} {value}: {refused}");
        if code == "TOKEN_MISMATCH" {
            refused.has_fields(json!({ "execution_id": "e", "workflow_state": "running" }));
        }
        assert_eq!(server.status("e"), before, "{field} {value}");
    }
    assert_eq!(server.finish(&token, "the real one")["step_name"], "b");
}

/// Fault F3 of the study: who forged the time of issue escaped expiry.
#[test]
fn f03_a_forged_time_of_issue_does_not_bring_an_expired_token_back() {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    let first = server.begin("line", "e");
    outlive(&first["expires_at"]);
    let mut forged = payload(&first["new_token"]);
    // A second later than it was issued: past by now, and not expired.
    forged["issued_at"] = first["expires_at"].clone();
    let refused = server.refuse(forge(&forged), output("forged"));
    assert_eq!(refused["error_code"], "TOKEN_MISMATCH", "{refused}");
    let refused = server.refuse(&first["new_token"], output("late"));
    assert_eq!(refused["error_code"], "TOKEN_EXPIRED", "{refused}");
    assert_eq!(server.status("e")["revision"], 1);
}

/// Fault F20 of the study: a token that had expired could not be renewed.
#[test]
fn f20_an_expired_token_is_renewed_by_reading_the_current_step() {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    let first = server.begin("line", "e");
    let token = &first["new_token"];
    outlive(&first["expires_at"]);
    let refused = server.refuse(token, output("late"));
    assert_eq!(refused["error_code"], "TOKEN_EXPIRED", "{refused}");
    assert!(text(&refused["error"]).starts_with("Token expired (issued "));
    assert!(text(&refused["suggested_action"]).contains("midex://workflow/current_step/e"));
    assert_ne!(server.current("e")["continuation_token"], *token);
    let refused = server.refuse(token, output("late"));
    assert_eq!(refused["error_code"], "TOKEN_SUPERSEDED", "{refused}");
    // On a machine that is busy with other things a second may pass between the two calls.
    let reply = eventually("a renewed token is used in time", || {
        let fresh = server.current("e")["continuation_token"].clone();
        let call = json!({ "token": fresh, "output": output("in time") });
        let answer = server.call("workflow.next_step", call);
        (answer["isError"] == false).then(|| answer["structuredContent"].clone())
    });
    assert_eq!(reply["step_name"], "b");
}

/// Answers `call` twice: now, and after a crash.
fn twice(project: &Project, server: &mut Server, call: &Value) -> (Value, Value) {
    let first = server.next_step(call.clone());
    let mut again = server.next_step(call.clone());
    assert_eq!(again["replayed"], true);
    server.kill();
    *server = project.serve();
    assert_eq!(server.next_step(call.clone()), again);
    again.as_object_mut().unwrap().remove("replayed");
    (first, again)
}

/// Fault F21 of the study: who sent a call again, because the answer was lost, got an error.
#[test]
fn f21_the_same_call_again_gets_the_same_answer() {
    let project = line();
    let mut server = project.serve();
    let artifact = json!({ "type": "file", "name": "n", "content": "c" });
    let outputs = [
        output("first"),
        json!({ "summary": "with an artifact", "artifacts": [artifact] }),
        output("last"),
    ];
    let mut token = server.begin("line", "e")["new_token"].clone();
    for (at, output) in outputs.iter().enumerate() {
        let call = json!({ "token": token, "output": output });
        let (first, again) = twice(&project, &mut server, &call);
        assert_eq!(first, again);
        assert_eq!(server.status("e")["revision"], at + 2, "one transition each");
        token = first["new_token"].clone();
    }
    assert_eq!(server.status("e")["artifacts"], 1);
    assert_eq!(server.status("e")["state"], "completed");
    let token = server.begin("line", "f")["new_token"].clone();
    let call = json!({ "token": token, "error": { "message": "no" } });
    let (first, again) = twice(&project, &mut server, &call);
    assert_eq!(first, again);
    assert_eq!(first["workflow_state"], "failed");
}

#[test]
fn a_token_is_accepted_once_and_only_for_its_execution_and_step() {
    let project = line();
    let mut server = project.serve();
    let one = server.begin("line", "one")["new_token"].clone();
    let two = server.begin("line", "two")["new_token"].clone();
    assert_ne!(one, two);
    let second = server.finish(&one, "done");
    assert_ne!(second["new_token"], one);
    assert_eq!(server.status("two")["revision"], 1, "another execution is not moved");
    let again = server.refuse(&one, output("done otherwise"));
    assert_eq!(again["error_code"], "TOKEN_ALREADY_USED");
    assert!(text(&again["error"]).contains("running, at 'b'"), "{again}");
    assert_eq!(server.status("one")["steps"]["completed"], 1);
    assert_eq!(server.current("one")["continuation_token"], second["new_token"]);
    server.finish(&second["new_token"], "done");
    assert_eq!(server.finish(&two, "done")["execution_id"], "two");
}
