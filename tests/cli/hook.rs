//! `midex hook`: what a host's events call for, in every state of a project; and that no fault of ours reaches the host.

use midex_test::{Fields, Shows};

use std::fs;

use midex_domain::limits;
use serde_json::{Value, json};

use super::{Place, Ran, Running};

/// Runs a hook as a host does: with its event on standard input.
fn hook(place: &Place, event: &str, told: &Value) -> Ran {
    place.with_stdin(&["hook", event], &told.to_string())
}

fn session_start(place: &Place) -> String {
    let told = json!({ "session_id": "s", "cwd": place.project(), "source": "compact" });
    context(&hook(place, "session-start", &told).ends_quietly(0).out)
}

/// What is added to the context of the session.
fn context(said: &str) -> String {
    assert!(said.len() <= limits::HOOK_BYTES_MAX, "{}", said.len());
    if said.is_empty() {
        return String::new();
    }
    let said: Value = serde_json::from_str(said).expect("JSON");
    let output = &said["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "SessionStart", "{said}");
    output["additionalContext"].as_str().expect("text").to_owned()
}

fn stop(place: &Place, session: &str) -> String {
    let told = json!({ "session_id": session, "stop_hook_active": false });
    hook(place, "stop", &told).ends_quietly(0).out
}

/// The reason for which an agent is kept from the end of its turn.
#[track_caller]
fn reason(said: &str) -> String {
    let said: Value = serde_json::from_str(said).expect("JSON");
    assert_eq!(said["decision"], "block", "{said}");
    said["reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn where_nothing_is_open_nothing_is_said_and_nothing_is_made() {
    let place = Place::new();
    assert_eq!(session_start(&place) + &stop(&place, "s"), "");
    assert!(!place.data.exists());
    place.begun("x");
    place.done("abandon x");
    assert_eq!(session_start(&place) + &stop(&place, "s"), "");
}

#[test]
fn a_fresh_context_gets_what_was_going_on_without_persona_and_token() {
    let place = Place::new();
    place.begun("x");
    let alone = session_start(&place);
    let about_x = [
        "'x' of workflow 'bug-fix', running",
        "decided in 'diagnose': the cause",
        "open step: 'fix': Write the failing test",
        "execution.resume with execution_id 'x'",
    ];
    alone.shows(&about_x);
    let server = place.listening();
    let moved = |text: &str| text.split(", moved ").next().map(str::to_owned);
    assert_eq!(moved(&session_start(&place)), moved(&alone));
    drop(server);
    place.begun("y");
    let both = session_start(&place);
    both.shows(&about_x);
    both.shows("'y' of workflow…execution_id 'y'");
    both.shows("If another window is at it");
    for text in [alone, both] {
        assert!(!text.contains("eyJ") && !text.contains("## "), "{text}");
    }
}

#[test]
fn what_is_told_is_bounded_and_of_one_line_each() {
    let place = Place::new();
    let long = format!("what\nis it? {}", "x".repeat(1900));
    let workflow = json!({
        "workflow": "long", "description": "d",
        "inputs": { "task": { "type": "string" } },
        "steps": [{ "id": "one", "guidance": long, "description": long }]
    });
    place.file("workflows/long.json", &workflow.to_string());
    for n in 0..12 {
        let (id, input) = (format!("e{n}"), format!("task={long}"));
        let ran = place.with_stdin(&["run", "long", "--id", &id, "--input", &input], "");
        ran.out.shows("Started long");
        let told = session_start(&place);
        told.shows("Execution 'e…open step: 'one': what is it? ");
    }
    session_start(&place).shows("more open: execution.list");
}

#[test]
fn the_end_of_a_turn_is_held_up_once_for_each_open_step() {
    let place = Place::new();
    place.begun("x");
    let first = reason(&stop(&place, "s"));
    let calls = ["workflow.next_step", "execution.resume", "execution.pause"];
    first.shows("'fix' of execution 'x'");
    first.shows(&calls);
    assert_eq!(stop(&place, "s"), "");
    reason(&stop(&place, "another")).shows("'fix'");
    place.run(1, "x", "{\"summary\":\"fixed\"}\n");
    reason(&stop(&place, "s")).shows("'verify' of execution 'x'");
    // Hosts that name no session say themselves that a hook has kept the agent from its end.
    let told = json!({ "stop_hook_active": true });
    assert_eq!(hook(&place, "stop", &told).ends_quietly(0).out, "");
    let told = json!({ "stop_hook_active": false });
    reason(&hook(&place, "stop", &told).ends_quietly(0).out);
    assert_eq!(hook(&place, "stop", &told).ends_quietly(0).out, "");
    // Only what is new is named.
    place.begun("y");
    let second = reason(&stop(&place, "s"));
    second.shows("'fix' of execution 'y'");
    assert!(!second.contains("'x'"), "{second}");
}

#[test]
fn each_host_is_answered_in_its_own_form() {
    let place = Place::new();
    place.begun("x");
    let said = |event: &str, told: Value| -> Value {
        let ran = hook(&place, event, &told).ends_quietly(0);
        serde_json::from_str(&ran.out).unwrap_or_default()
    };
    // VS Code, by https://code.visualstudio.com/docs/agent-customization/hooks
    let code = json!({ "hookEventName": "Stop", "sessionId": "v", "cwd": place.project() });
    let output = said("stop", code.clone());
    let output = &output["hookSpecificOutput"];
    output.has_fields(json!({ "hookEventName": "Stop", "decision": "block" }));
    output["reason"].as_str().unwrap().shows("'fix'");
    assert_eq!(said("stop", code), Value::Null);
    // Cursor, by https://cursor.com/docs/hooks; it runs the hooks of a user elsewhere.
    let cursor = |more: Value| {
        let mut told = json!({
            "cursor_version": "2", "conversation_id": "c", "workspace_roots": [place.project()], "status": "completed"
        });
        told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        told
    };
    let started = said("session-start", cursor(json!({ "session_id": "c" })));
    started["additional_context"].as_str().unwrap().shows("'x'");
    for silent in [json!({ "loop_count": 1 }), json!({ "status": "aborted" })] {
        assert_eq!(said("stop", cursor(silent)), Value::Null);
    }
    let output = said("stop", cursor(json!({ "loop_count": 0 })));
    output["followup_message"].as_str().unwrap().shows("'fix'");
}

#[test]
fn a_paused_execution_is_told_and_holds_nobody_up() {
    let place = Place::new();
    place.begun("x");
    place.done("pause x --reason lunch");
    session_start(&place).shows("'x'…paused…once it may go on: ");
    assert_eq!(stop(&place, "s"), "");
}

#[test]
fn an_approval_is_told_with_the_command_for_the_user() {
    let place = Place::new();
    let ship = json!({
        "workflow": "ship", "description": "d",
        "steps": [{ "id": "ask", "gate": "Ship it on a Friday?" }, { "id": "go", "guidance": "Go." }]
    });
    place.file("workflows/ship.json", &ship.to_string());
    let begin = |id: &str| {
        place.with_stdin(&["run", "ship", "--id", id], "");
    };
    begin("x");
    let told = session_start(&place);
    let command = told.split('`').nth(1).expect("a command").to_owned();
    told.shows("waits for your user: …Ship it on a Friday?…Ask your user to run `midex approve x");
    assert!(!told.contains("execution.resume"), "which cannot answer for a person: {told}");
    assert_eq!(stop(&place, "s"), "");
    begin("y");
    let both = session_start(&place);
    both.shows("`midex approve x…`midex approve y");
    // The command is one of a terminal.
    let words: Vec<_> = command.split(' ').skip(1).map(|word| word.trim_matches('\'')).collect();
    let ran = place.midex(&words);
    ran.err.shows("in a terminal");
}

#[test]
fn it_is_told_when_an_execution_moved_and_what_a_step_without_a_description_is_about() {
    let place = Place::new();
    let talk = json!({
        "workflow": "talk", "description": "d",
        "steps": [{ "id": "say", "guidance": "Greet the new ones. Then leave.\nQuietly." }]
    });
    place.file("workflows/talk.json", &talk.to_string());
    for id in ["x", "y"] {
        place.with_stdin(&["run", "talk", "--id", id], "");
        let told = session_start(&place);
        told.shows("running…moved … s ago…open step: 'say': Greet the new ones.\n");
    }
}

#[test]
fn the_end_of_a_turn_is_held_up_in_the_session_alone_that_took_a_step() {
    let place = Place::new();
    place.begun("x");
    place.begun("y");
    let transcript = place.project().join("transcript.jsonl");
    let reply =
        json!({ "success": true, "execution_id": "x", "workflow_name": "bug-fix" }).to_string();
    let said = |lines: &[Value], session: &str| {
        let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
        fs::write(&transcript, lines.join("\n")).unwrap();
        let told = json!({ "session_id": session, "transcript_path": transcript });
        hook(&place, "stop", &told).ends_quietly(0).out
    };
    // Whoever was told of the work has not taken it up.
    let recap = json!({ "content": session_start(&place) });
    let looked = json!({ "content": json!({ "execution_id": "x", "workflow_state": "running" }).to_string() });
    assert_eq!(said(&[recap.clone(), looked.clone()], "a"), "");
    let taken = json!({ "message": { "content": [{ "type": "tool_result", "content": [{ "type": "text", "text": reply }] }] } });
    let first = reason(&said(&[recap, taken, looked], "b"));
    first.shows("'fix' of execution 'x'");
    assert!(!first.contains("'y'"), "{first}");
}

#[test]
fn the_project_is_that_of_the_session_wherever_its_shell_stands() {
    let place = Place::new();
    fs::create_dir(place.project().join(".git")).unwrap();
    place.begun("x");
    let elsewhere = tempfile::tempdir().unwrap();
    let below = place.project().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let run = |cwd: &Value, host: Option<&str>| {
        let mut command = place.command("hook session-start");
        command.current_dir(elsewhere.path());
        command.env_remove("CLAUDE_PROJECT_DIR");
        command.envs(host.map(|dir| ("CLAUDE_PROJECT_DIR", dir)));
        let mut running = Running::start_piped(command);
        running.write(&json!({ "cwd": cwd }).to_string());
        running.end().ends_quietly(0).out
    };
    assert_eq!(run(&Value::Null, None), "");
    assert_eq!(run(&json!("src"), None), "");
    run(&json!(below), None).shows("'x'");
    let project = place.project();
    run(&json!("/"), project.to_str()).shows("'x'");
}

#[test]
fn a_hook_never_fails_its_host() {
    let place = Place::new();
    place.begun("x");
    let silent = |ran: Ran| assert_eq!((ran.code, &*ran.out), (Some(0), ""), "{ran:?}");
    silent(place.midex("hook no-such-event"));
    silent(place.midex("hook stop --no-such-flag"));
    let data = place.data.display().to_string();
    silent(place.midex(&["--data-dir", &data, "hook", "no-such-event"]));
    silent(place.midex("--json hook stop --no-such-flag"));
    // What merely has the name is no hook.
    assert_eq!(place.midex("show hook").code, Some(1));
    // What is no event counts as none told.
    for told in ["", "no JSON", "[1]", "{\"cwd\": 7, \"session_id\": []}"] {
        let ran = place.with_stdin("hook session-start", told);
        ran.ends_quietly(0).out.shows("'x'");
    }
    // A host that keeps standard input open.
    let mut open = Running::start_piped(place.command("hook session-start"));
    let stdin = open.child.stdin.take();
    open.end().ends_quietly(0).out.shows("'x'");
    drop(stdin);
    let lock = place.lock();
    silent(place.midex("hook session-start"));
    drop(lock);
    fs::write(place.data.join("hooks"), "in the way").unwrap();
    silent(hook(&place, "stop", &json!({ "session_id": "s" })));
    place.file("midex.toml", "nonsense = [");
    silent(place.midex(&["--data-dir", &data, "hook", "stop"]));
    silent(place.midex("hook session-start"));
    fs::remove_file(place.project().join("midex.toml")).unwrap();
    fs::write(place.data.join("executions.redb"), [7; 5000]).unwrap();
    silent(place.midex("hook stop"));
    silent(place.midex("hook session-start"));
}

#[test]
fn sessions_long_ago_are_forgotten() {
    let place = Place::new();
    place.begun("x");
    let kept = place.data.join("hooks");
    fs::create_dir(&kept).unwrap();
    for n in 0..limits::HOOK_SESSIONS_MAX {
        fs::write(kept.join(format!("{n}")), "").unwrap();
    }
    reason(&stop(&place, "s"));
    assert_eq!(fs::read_dir(&kept).unwrap().count(), limits::HOOK_SESSIONS_MAX);
    assert_eq!(stop(&place, "s"), "");
}
