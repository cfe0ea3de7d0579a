//! `app-scaffold` on its several ways.

use serde_json::{Value, json};

use super::led::Led;
use midex_test::{Client, has_fields};

const WORKFLOW: &str = "app-scaffold";

/// A start that leaves nothing open.
fn whole() -> Value {
    json!({
        "request": "A service that shortens links", "name": "tinylink", "kind": "web service", "stack": "Go",
        "storage": "SQLite", "confirm": false
    })
}

fn plan(storage: &str) -> Value {
    json!({
        "summary": "One binary, one table.", "name": "tinylink", "stack": "Go 1.24", "storage": storage, "plan": "# Plan",
        "commands": [
            { "purpose": "build", "command": "go build ./..." },
            { "purpose": "test", "command": "go test ./..." }
        ],
        "criteria": ["a link that was stored is found again"]
    })
}

fn created() -> Value {
    json!({ "summary": "It is there.", "directory": "tinylink", "files": ["main.go", "main_test.go"] })
}

/// What came of the commands, each `(command, passed)`.
fn ran(commands: &[(&str, bool)]) -> Value {
    let ran = |(command, passed): &(&str, bool)| json!({ "command": command, "passed": passed, "output": "…" });
    json!({ "ran": commands.iter().map(ran).collect::<Vec<_>>() })
}

fn passes() -> Value {
    ran(&[("go build ./...", true), ("go test ./...", true)])
}

fn fails() -> Value {
    ran(&[("go build ./...", true), ("go test ./...", false)])
}

fn mended(cause: &str) -> Value {
    json!({ "cause": cause, "change": "main.go" })
}

fn documented() -> Value {
    json!({ "summary": "Run `go run .`.", "files": ["README.md"] })
}

#[test]
fn where_the_start_says_everything_nobody_is_asked() {
    let mut led = Led::start(WORKFLOW, &whole());
    assert_eq!(led.current["agent_name"], "architect");
    assert_eq!(
        led.input(),
        &json!({
            "name": "tinylink", "kind": "web service", "stack": "Go", "storage": "SQLite",
            "directory": "tinylink", "tests": true, "wishes": []
        })
    );
    led.told("A service that shortens links");
    // An output that later steps could not build on is refused.
    let mut vague = plan("SQLite");
    vague["commands"] = json!([]);
    assert_eq!(led.refuse("design", vague), ["commands minItems"]);
    led.hand("design", plan("SQLite"));
    led.hand("create", created());
    led.hand("check", passes());
    assert_eq!(led.input()["ran"], json!(["go build ./...", "go test ./..."]));
    led.hand("document", documented());
    assert_eq!(
        led.completed(),
        json!({
            "name": "tinylink", "kind": "web service", "stack": "Go 1.24", "storage": "SQLite", "directory": "tinylink",
            "summary": "Run `go run .`.", "checks": ["go build ./...", "go test ./..."], "mended": [], "departures": [],
            "not_yet": []
        })
    );
    assert_eq!(led.path(), "hear ask design create check document");
}

#[test]
fn what_the_request_leaves_open_is_asked_for_until_each_answer_is_sound() {
    let mut led = Led::start(WORKFLOW, &json!({}));
    assert_eq!(led.asked(), ["request"]);
    let request = "Something in Go for my links, as a microservice. No tests, just do it";
    led.hand("hear", json!({ "request": request }));
    led.told(request);
    let found = json!({
        "name": null, "kind": "microservice", "stack": "Go", "storage": null, "directory": null, "tests": false,
        "confirm": false
    });
    led.hand("read", found);
    // What was refused is asked for, what was found is not.
    assert_eq!(led.asked(), ["name", "kind", "storage"]);
    let sloppy = json!({ "name": "Tiny Link", "kind": "web service" });
    let violations = led.refuse("ask", sloppy);
    assert_eq!(violations, ["name pattern", "storage required"]);
    // The good one of the answers was kept, and why the other was not is told.
    assert_eq!(led.asked(), ["name", "storage"]);
    led.told("`name` does not match");
    led.hand("ask", json!({ "userUtterance": "tinylink then, and you choose the database" }));
    led.told("tinylink then, and you choose the database");
    led.crash();
    led.hand("ask", json!({ "name": "tinylink", "storage": null }));
    assert_eq!(led.asked(), ["storage"]);
    led.hand("ask", json!({ "storage": "you choose" }));
    let input = led.input();
    has_fields(input, json!({ "name": "tinylink", "tests": false, "storage": "you choose" }));
    led.hand("design", plan("SQLite"));
    // The request said that no plan need be shown.
    assert_eq!(led.input()["tests"], false);
    led.hand("create", created());
    led.hand("check", passes());
    led.hand("document", documented());
    assert_eq!(led.completed()["storage"], "SQLite");
}

#[test]
fn a_plan_is_shown_until_the_user_agrees() {
    let mut inputs = whole();
    inputs["confirm"] = json!(true);
    let mut led = Led::start(WORKFLOW, &inputs);
    led.hand("design", plan("SQLite"));
    assert_eq!(led.input()["plan"], "# Plan");
    // A refusal must say what should change.
    assert_eq!(led.refuse("agree", json!({ "agreed": false })), [" required"]);
    led.hand("agree", json!({ "agreed": false, "wishes": "PostgreSQL after all" }));
    assert_eq!(led.input()["wishes"], json!(["PostgreSQL after all"]));
    led.hand("design", plan("PostgreSQL"));
    led.hand("agree", json!({ "agreed": true }));
    led.hand("create", created());
    led.hand("check", passes());
    led.hand("document", documented());
    assert_eq!(led.completed()["storage"], "PostgreSQL");
    assert_eq!(led.path(), "hear ask design agree design agree create check document");
}

#[test]
fn four_plans_that_nobody_agrees_on_are_the_end() {
    let mut inputs = whole();
    inputs["confirm"] = json!(true);
    let mut led = Led::start(WORKFLOW, &inputs);
    for wish in ["smaller", "larger", "greener", "rounder"] {
        led.hand("design", plan("SQLite"));
        led.hand("agree", json!({ "agreed": false, "wishes": wish }));
    }
    let (code, message) = led.failed();
    assert_eq!(code, "PLAN_NOT_AGREED");
    assert!(message.contains("nothing was created") && message.ends_with("rounder"), "{message}");
}

#[test]
fn what_fails_is_mended_until_it_passes_across_a_crash() {
    let mut led = Led::start(WORKFLOW, &whole());
    led.hand("design", plan("SQLite"));
    led.hand("create", created());
    led.hand("check", fails());
    led.told("attempt 1 of 3");
    assert_eq!(led.input()["failed"], json!([fails()["ran"][1]]));
    assert_eq!(led.input()["tried"], json!([]));
    led.hand("mend", mended("no table"));
    led.crash();
    led.hand("check", ran(&[("go build ./...", false)]));
    led.crash();
    led.told("attempt 2 of 3");
    assert_eq!(led.input()["tried"], json!([mended("no table")]));
    led.hand("mend", mended("a typing slip"));
    led.hand("check", passes());
    led.hand("document", documented());
    let end = led.completed();
    assert_eq!(end["mended"], json!([mended("no table"), mended("a typing slip")]));
    assert_eq!(led.path(), "hear ask design create check mend check mend check document");
}

#[test]
fn what_never_passes_is_given_up_after_as_many_attempts_as_were_allowed() {
    for attempts in [0, 2] {
        let mut inputs = whole();
        inputs["attempts"] = json!(attempts);
        let mut led = Led::start(WORKFLOW, &inputs);
        led.hand("design", plan("SQLite"));
        led.hand("create", created());
        led.hand("check", fails());
        for _ in 0..attempts {
            led.hand("mend", mended("something"));
            led.hand("check", fails());
        }
        let (code, message) = led.failed();
        assert_eq!(code, "APP_DOES_NOT_PASS");
        let told = format!("after {attempts} attempts to mend it these still fail: go test ./....");
        assert!(message.starts_with(&told) && message.ends_with("in tinylink"), "{message}");
    }
}

/// The bounds of the loop fit: as many checks may be made as the greatest number of attempts needs.
#[test]
fn the_most_attempts_that_may_be_asked_for_are_made() {
    let mut inputs = whole();
    inputs["attempts"] = json!(10);
    let mut led = Led::start(WORKFLOW, &inputs);
    led.hand("design", plan("SQLite"));
    led.hand("create", created());
    for _ in 0..10 {
        led.hand("check", fails());
        led.hand("mend", mended("something"));
    }
    led.hand("check", passes());
    led.hand("document", documented());
    assert_eq!(led.completed()["mended"].as_array().unwrap().len(), 10);
}

#[test]
fn a_project_that_cannot_be_created_ends_with_the_reason() {
    let mut led = Led::start(WORKFLOW, &whole());
    led.hand("design", plan("SQLite"));
    led.at("create");
    let error = json!({ "message": "tinylink/ holds somebody else's files" });
    let arguments = json!({ "token": led.current["continuation_token"], "error": error });
    led.reply = led.server.done("workflow.next_step", arguments);
    let (_, message) = led.failed();
    assert_eq!(message, "tinylink/ holds somebody else's files");
}
