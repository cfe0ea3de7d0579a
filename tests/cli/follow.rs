//! `midex tail` while others work: nothing is lost, nothing comes twice.

use std::{
    io::{BufRead, BufReader},
    process::{ChildStdout, Stdio},
};

use midex_domain::telemetry::EventType;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Place, Ran, Running, Words, lines, until};
use midex_test::{Client, Server, address, wait};

/// Every event of an execution, asked for by type: that reaches further back than all of them at once.
fn told(server: &mut Server, id: &str) -> Vec<u64> {
    let mut ids = Vec::new();
    for kind in EventType::ALL {
        let query = format!("?limit=1000&event_type={}", kind.as_str());
        let events = server.read(&(address("telemetry", id) + &query));
        let events = events.as_array().unwrap();
        assert!(events.len() < 1000, "too many of one type to compare with");
        ids.extend(events.iter().map(|event| event["id"].as_u64().unwrap()));
    }
    ids.sort_unstable();
    ids
}

fn ids(ran: &Ran) -> Vec<u64> {
    let events = lines(&ran.out);
    events.iter().map(|event| event["id"].as_u64().unwrap()).collect()
}

/// Finishes the steps that are left, each with so many artifacts.
fn finish(server: &mut Server, id: &str, artifacts: usize) {
    let mut token = server.current(id)["continuation_token"].clone();
    while token != Value::Null {
        let artifacts: Vec<_> = (0..artifacts)
            .map(|at| json!({ "type": "data", "name": format!("a{at}"), "content": "x" }))
            .collect();
        let output = json!({ "summary": "done", "artifacts": artifacts });
        let reply = server.hand_in(&token, &output);
        token = reply["new_token"].clone();
    }
}

type Reader = BufReader<ChildStdout>;

/// A tail that has written a line that holds `part`, and what it wrote until then.
fn tail(place: &Place, args: impl Words, part: &str) -> (Running, Reader, String) {
    let mut command = place.command("tail --json -n 1000".and(args));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let err = super::drain(child.stderr.take().unwrap());
    let out = std::thread::spawn(String::new);
    let mut reader = BufReader::new(stdout);
    let begun = read_to(&mut reader, part);
    (Running { child, out, err }, reader, begun)
}

/// The rest of what a tail writes, and its end.
fn rest(mut running: Running, reader: Reader, begun: String) -> Ran {
    let mut out = begun;
    let more = super::drain(reader);
    let code = wait(&mut running.child).code();
    out += &more.join().unwrap();
    Ran { code, out, err: running.err.join().unwrap() }
}

/// Reads until a line that holds `part`.
fn read_to(reader: &mut Reader, part: &str) -> String {
    let mut text = String::new();
    while !text.lines().last().is_some_and(|line| line.contains(part)) {
        assert_ne!(reader.read_line(&mut text).unwrap(), 0, "it ended: {text}");
    }
    text
}

#[test]
fn tail_follows_an_execution_that_another_client_drives_to_its_end() {
    let place = Place::new();
    let mut server = place.listening();
    server.begin("bug-fix", "t");
    let (running, reader, begun) = tail(&place, "t", "token_generated");
    finish(&mut server, "t", 1);
    let ran = rest(running, reader, begun).ends_quietly(0);
    assert_eq!(ids(&ran), told(&mut server, "t"));
}

#[test]
fn more_than_one_answer_holds_between_two_looks_is_not_lost() {
    let place = Place::new();
    let mut server = place.listening();
    let ids_of = |at: usize| format!("s{at}");
    let names: Vec<_> = (0..9).map(ids_of).collect();
    let steps: Vec<_> =
        names.iter().map(|name| json!({ "id": name, "agent": "reviewer" })).collect();
    let workflow = json!({ "workflow": "long", "description": "x", "steps": steps });
    place.file("workflows/long.json", &workflow.to_string());
    // Started by a command, which knows this project's workflows.
    place.ends(1, "run long --id l");
    let (running, reader, begun) = tail(&place, "l", "token_generated");
    running.signal(Signal::STOP);
    finish(&mut server, "l", 110);
    running.signal(Signal::CONT);
    let ran = rest(running, reader, begun).ends_quietly(0);
    let told = told(&mut server, "l");
    assert!(told.len() > 1000, "{} events are too few for this test", told.len());
    assert_eq!(ids(&ran), told);
}

#[test]
fn tail_goes_on_with_the_next_server() {
    let place = Place::new();
    let mut server = place.listening();
    server.begin("bug-fix", "t");
    let (running, reader, begun) = tail(&place, "t", "token_generated");
    server.kill();
    // Without a server the tail leaves the store to whoever comes.
    let mut server = place.listening();
    finish(&mut server, "t", 1);
    let ran = rest(running, reader, begun).ends_quietly(0);
    assert_eq!(ids(&ran), told(&mut server, "t"));
}

#[test]
fn tail_gives_up_where_the_store_stays_shut() {
    let place = Place::new();
    let mut server = place.listening();
    server.begin("bug-fix", "t");
    let (running, reader, _) = tail(&place, "t", "token_generated");
    running.signal(Signal::STOP);
    server.kill();
    let lock = place.lock();
    running.signal(Signal::CONT);
    let ran = rest(running, reader, String::new()).ends(75);
    ran.says("STORE_BUSY");
    drop(lock);
}

#[test]
fn tail_of_all_executions_sees_commands_that_come_after_it_and_leaves_them_the_store() {
    let place = Place::new();
    place.begun("before");
    let (running, mut reader, _) =
        tail(&place, "", r#""token_generated","execution_id":"before","step_name":"fix""#);
    place.begun("after");
    let seen = read_to(&mut reader, "\"after\"");
    assert!(!seen.contains("before"), "{seen}");
    running.signal(Signal::INT);
    rest(running, reader, String::new()).ends_quietly(0);
}

#[test]
fn a_closed_pipe_ends_a_tail_quietly_though_nothing_happens() {
    let place = Place::new();
    place.begun("t");
    let (mut running, reader, _) = tail(&place, "t", "workflow_created");
    drop(reader);
    assert_eq!(wait(&mut running.child).code(), Some(0));
    assert_eq!(running.err.join().unwrap(), "");
    until(|| !place.socket().exists(), "the socket is removed");
}
