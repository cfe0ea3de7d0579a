//! Tokens: made and recognised.

use serde_json::json;

use crate::support::{
    Client, output,
    project::{line, list, text},
};

/// "should generate and validate tokens"
#[test]
fn a_token_is_accepted_once_and_only_for_its_execution_and_step() {
    let project = line();
    let mut server = project.serve();
    let one = server.begin("line", "one")["new_token"].clone();
    let two = server.begin("line", "two")["new_token"].clone();
    assert_ne!(one, two);
    let second = server.finish(&one, "done");
    assert_ne!(second["new_token"], one);
    assert_eq!(
        server.status("two")["revision"],
        1,
        "another execution is not moved"
    );
    let again = server.refuse(&one, output("done otherwise"));
    assert_eq!(again["error_code"], "TOKEN_ALREADY_USED");
    assert_eq!(server.status("one")["steps"]["completed"], 1);
    assert_eq!(
        server.current("one")["continuation_token"],
        second["new_token"]
    );
    server.finish(&second["new_token"], "done");
    assert_eq!(server.finish(&two, "done")["execution_id"], "two");
}

/// "should reject invalid tokens"
#[test]
fn garbage_truncated_and_changed_tokens_are_refused_and_change_nothing() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let real = text(&token).to_owned();
    let before = (server.status("e"), server.current("e"), server.history("e"));
    let mut bad: Vec<_> = ["", " ", "x", "null", "e30", "====", "ключ", "\0"]
        .map(str::to_owned)
        .into();
    bad.extend((1..real.len()).step_by(7).map(|end| real[..end].to_owned()));
    bad.extend([
        format!("{real}="),
        format!("{real}A"),
        format!("{real} x"),
        real.repeat(2),
    ]);
    bad.push("A".repeat(100_000));
    // Every character changed into another one of its alphabet.
    bad.extend((0..real.len()).map(|at| {
        let other = if real.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        format!("{}{other}{}", &real[..at], &real[at + 1..])
    }));
    for token in &bad {
        let shown: String = token.chars().take(300).collect();
        let refused = server.refuse(json!(token), output("s"));
        let code = text(&refused["error_code"]);
        let known = [
            "TOKEN_MALFORMED",
            "TOKEN_MISMATCH",
            "TOKEN_FROM_FUTURE",
            "EXECUTION_NOT_FOUND",
        ];
        assert!(
            known.contains(&code) || (token.is_empty() && code == "ARGUMENTS_INVALID"),
            "{shown}: {refused}"
        );
    }
    assert_eq!(
        (server.status("e"), server.current("e"), server.history("e")),
        before
    );
    let reply = server.finish(&token, "the real one");
    assert_eq!(reply["step_name"], "b");
    let told = server.read("midex://workflow/telemetry?event_type=error");
    assert!(!list(&told).is_empty(), "refusals are told");
}
