//! The commands and the control socket: who owns the store, and what happens when they go.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use midex_domain::limits;
use midex_mcp::control::CONTROL_PROTOCOL_VERSION;
use serde_json::{Value, json};

use super::{OUTPUTS, Place, Running, Words};
use midex_test::{Client, Shows};

#[test]
fn the_socket_is_the_user_s_alone_and_gone_when_its_server_is() {
    let place = Place::new();
    let server = place.listening();
    let mode = fs::metadata(place.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.close().0.success());
    assert!(!place.socket().exists());
    // A command that owns the store for a moment leaves none either.
    place.begun("x");
    assert!(!place.socket().exists());
}

#[test]
fn a_server_on_its_own_is_no_cluster() {
    let place = Place::new();
    let refusal = ["no server of a cluster runs on the data directory", "--data-dir"];
    place.ends(2, "cluster status").says(&refusal);
    let _server = place.listening();
    place.ends(2, "cluster status").says(&refusal);
    place.ends(0, "doctor").out.lacks("cluster");
}

#[test]
fn commands_at_once_share_one_store() {
    let place = Place::new();
    let file = place.file("outputs.jsonl", OUTPUTS);
    let names = ["a", "b", "c", "d"];
    let running: Vec<_> = names
        .iter()
        .map(|id| {
            let args = ["run", "bug-fix", "--id", id, "--outputs", &file];
            Running::start(place.command(&args))
        })
        .collect();
    for running in running {
        running.end().ends_quietly(0);
    }
    let listed = place.rows("list executions --state completed");
    assert_eq!(listed.as_array().unwrap().len(), names.len());
}

#[test]
fn a_command_marks_what_it_starts_with_its_own_project() {
    let place = Place::new();
    let mut server = place.listening();
    place.begun("mine");
    let mine = place.rows("list executions");
    assert_eq!(mine[0]["execution_id"], "mine");
    assert_eq!(mine[0]["project"], place.project().to_str().unwrap());
    // The server runs elsewhere, so it is none of its own.
    let listed = server.done("execution.list", json!({}));
    assert_eq!(listed["executions"], json!([]));
    server.begin("bug-fix", "theirs");
    assert_eq!(place.rows("list executions").as_array().unwrap().len(), 1);
    let all = place.rows("list executions --all-projects");
    assert_eq!(all.as_array().unwrap().len(), 2);
    place.done("show").shows("mine  bug-fix");
}

/// What the commands that change executions do, wherever the store is.
fn lifecycle(place: &Place) {
    place.begun("x");
    place.done("list executions").shows("x…bug-fix…running…fix");
    place.done("pause x --reason lunch").shows("'x' is paused");
    place.done("list executions --state paused").shows("x");
    place.done("resume").shows("x…fix of bug-fix, paused");
    assert_eq!(place.json("resume x")["workflow_state"], "running");
    // Where nothing is to be lifted it says where the execution stands.
    place.done("resume x").shows("'x' is running, at 'fix'");
    place.done("abandon x").shows("'x' is abandoned");
    assert_eq!(place.done("abandon x"), "'x' is abandoned already\n");
    let refused = place.midex("pause x");
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    refused.says("STATE_TRANSITION_REFUSED…help: ");
    assert_eq!(place.rows("list executions --state open"), json!([]));
    for command in ["pause", "abandon", "show", "tail"] {
        place.ends(1, &[command, "nobody"]);
        place.ends(2, &[command, "x", "--nonsense"]);
    }
    place.ends(2, "list executions --state odd");
    let json = place.midex("pause nobody --json");
    assert_eq!(super::lines(&json.err)[0]["error_code"], "EXECUTION_NOT_FOUND");
}

#[test]
fn executions_are_changed_without_a_server() {
    lifecycle(&Place::new());
}

#[test]
fn executions_are_changed_through_a_server() {
    let place = Place::new();
    let mut server = place.listening();
    lifecycle(&place);
    assert_eq!(server.status("x")["state"], "abandoned");
}

#[test]
fn a_store_that_somebody_holds_without_a_door_is_worth_another_try() {
    let place = Place::new();
    place.begun("x");
    let lock = place.lock();
    let commands = ["list executions", "pause x", "show x", "run bug-fix"];
    // Each of them waits for the store, so they wait side by side.
    let running = commands.map(|command| {
        let args: Vec<_> = command.split(' ').collect();
        Running::start(place.command(&args))
    });
    for (running, command) in running.into_iter().zip(commands) {
        let ran = running.end();
        assert_eq!((ran.code, &*ran.out), (Some(75), ""), "{command}: {ran:?}");
        ran.says("STORE_BUSY");
    }
    drop(lock);
    place.done("show x").shows("running");
}

/// Greets a command, shakes hands with it, and goes away at its first request.
fn go_away(stream: UnixStream) -> std::io::Result<()> {
    let mut caller = greet(stream)?;
    caller.input.next().unwrap_or(Ok(String::new()))?;
    Ok(())
}

/// The same, but that it shows a workflow until it is to do something.
fn go_away_at_calls(stream: UnixStream) -> std::io::Result<()> {
    let mut caller = greet(stream)?;
    for line in caller.input.by_ref() {
        let call: Value = serde_json::from_str(&line?)?;
        if call["method"] != "resources/read" {
            return Ok(());
        }
        let details = json!({ "name": "bug-fix", "phases": [] }).to_string();
        let contents = json!([{ "uri": call["params"]["uri"], "text": details }]);
        let answer =
            json!({ "jsonrpc": "2.0", "id": call["id"], "result": { "contents": contents } });
        writeln!(caller.output, "{answer}")?;
    }
    Ok(())
}

/// A command that was greeted.
struct Caller {
    input: std::io::Lines<BufReader<UnixStream>>,
    output: UnixStream,
}

fn greet(stream: UnixStream) -> std::io::Result<Caller> {
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream).lines();
    let mut next = || input.next().unwrap_or(Ok(String::new()));
    next()?;
    writeln!(output, "{}", json!({ "midex": "0", "protocol": CONTROL_PROTOCOL_VERSION }))?;
    let call: Value = serde_json::from_str(&next()?)?;
    let result = json!({
        "protocolVersion": call["params"]["protocolVersion"], "capabilities": {},
        "serverInfo": { "name": "midex", "version": "0" }
    });
    writeln!(output, "{}", json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }))?;
    next()?;
    Ok(Caller { input, output })
}

/// A server that is just ending while `x` is to be paused: it takes its door away, does `last`, and goes. What the
/// command that asked it came to.
fn pause_at_the_last_moment(
    place: &Place,
    last: impl FnOnce(&mut Caller, Value) + Send,
) -> super::Ran {
    let listener = UnixListener::bind(place.socket()).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut caller = greet(listener.accept().unwrap().0).unwrap();
            let call = caller.input.next().unwrap().unwrap();
            fs::remove_file(place.socket()).unwrap();
            last(&mut caller, serde_json::from_str(&call).unwrap());
            drop((caller, listener));
        });
        let ran = place.midex("pause x --json");
        server.join().unwrap();
        ran
    })
}

#[test]
fn a_server_that_is_just_ending_does_not_refuse_a_change() {
    let place = Place::new();
    place.begun("x");
    let ran = pause_at_the_last_moment(&place, |caller, call| {
        let refusal = json!({ "error_code": "SERVER_STOPPING", "message": "shutting down" });
        let result = json!({ "content": [], "structuredContent": refusal, "isError": true });
        let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
        writeln!(caller.output, "{answer}").unwrap();
    });
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let paused: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(paused["workflow_state"], "paused");
    assert_eq!(place.state("x"), "paused");
}

#[test]
fn a_change_whose_answer_went_away_with_its_server_is_done() {
    let place = Place::new();
    place.begun("x");
    let mut first = Value::Null;
    let ran = pause_at_the_last_moment(&place, |_, _| first = place.json("pause x")).ends(0);
    let again: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(again, first, "it is told as if the answer had come");
    // What stands otherwise than it was to stand was refused all the same.
    let ran = pause_at_the_last_moment(&place, |_, _| {
        place.done("abandon x");
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ran.says("STATE_TRANSITION_REFUSED");
}

#[test]
fn a_command_does_not_ask_server_after_server_for_ever() {
    let place = Place::new();
    fs::create_dir_all(&place.data).unwrap();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = go_away(stream.unwrap());
        }
    });
    let ran = place.midex("show x");
    assert_eq!((ran.code, ran.out.as_str()), (Some(75), ""));
    ran.says("SERVER_STOPPING");
    assert_eq!(asked.load(Ordering::SeqCst), limits::LINK_ATTEMPTS_MAX);
}

#[test]
fn a_start_that_nobody_answered_is_told_to_go_on_with_its_id_and_inputs() {
    let place = Place::new();
    fs::create_dir_all(&place.data).unwrap();
    let listener = UnixListener::bind(place.socket()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = go_away_at_calls(stream.unwrap());
        }
    });
    let run = "run bug-fix --agent true --agent-format json";
    place.file("given.json", "{}");
    let odd = format!("task={}", "x".repeat(limits::FLAGS_TOLD_BYTES_MAX));
    for (given, flags) in [
        (
            "--inputs @given.json --input".and(&["task=it's \u{fc}"]),
            " --inputs @given.json --input 'task=it'\\''s \u{fc}'",
        ),
        ("--input".and(&odd), ""),
        ("--input task=a\u{200d}b".words(), ""),
        (Vec::new(), ""),
    ] {
        let ran = place.midex(run.and("--agent-timeout 2m").and(&given));
        assert_eq!(ran.code, Some(75), "{ran:?}");
        ran.says("SERVER_STOPPING");
        let told = ran.out.lines().find_map(|line| line.strip_prefix("To go on: "));
        let told = told.unwrap_or_else(|| panic!("{ran:?}"));
        told.shows("midex run bug-fix --id exec_");
        let end = format!("{flags} --agent true --agent-format json --agent-timeout 120s");
        assert!(told.ends_with(&end), "{told}");
        // The advice names the same command, and not the one that would begin another execution.
        ran.err.shows(&[told]);
        let is_left_out = flags.is_empty() && !given.is_empty();
        assert_eq!(ran.out.contains("add their flags"), is_left_out, "{ran:?}");
    }
}
