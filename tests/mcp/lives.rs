//! The life of a server: many calls at once, a second server, and its end.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use super::{next, start};
use midex_test::{
    Client, Fields, Server, address,
    door::{Door, until},
    wait,
};

#[test]
fn four_thousand_calls_written_before_a_reply_is_read_are_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn(dir.path(), &[]);
    let client = json!({ "name": "test", "version": "0" });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let mut waiting = HashSet::from([server.post("initialize", hello)]);
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let mut start = |server: &mut Server, n: usize| {
        let arguments = json!({ "workflow_name": "bug-fix", "execution_id": format!("e{n}") });
        waiting.insert(server.post_call("workflow.start", arguments));
    };
    for n in 0..2000 {
        start(&mut server, n);
    }
    // Replies of several megabytes wait for their reader when the other calls are written.
    let mut door = Door::enter(dir.path(), dir.path());
    let last = json!({ "uri": address("workflow_status", "e1999") });
    until("the last of these executions", || {
        door.request("resources/read", last.clone())["error"].is_null().then_some(())
    });
    for n in 2000..4000 {
        start(&mut server, n);
    }
    // Nothing has been read until here.
    while !waiting.is_empty() {
        let answer = server.next_line();
        assert!(answer["result"]["isError"] != true && answer["error"].is_null(), "{answer}");
        assert!(waiting.remove(&answer["id"].as_u64().unwrap()));
    }
}

#[test]
fn a_killed_server_is_followed_by_one_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let inputs = json!({ "task": "a dark mode" });
    let arguments = json!({ "workflow_name": "bug-fix", "execution_id": "e", "inputs": inputs });
    let first = server.begin_with(arguments);
    let second = next(&mut server, &first["new_token"], "found it");
    server.kill();
    let mut server = Server::start(dir.path());
    let current = server.current("e");
    current.has_fields(json!({ "continuation_token": second["new_token"], "inputs": inputs }));
    assert_eq!(
        next(&mut server, &first["new_token"], "found it")["replayed"],
        true,
        "the old answer survives too"
    );
    let third = next(&mut server, &second["new_token"], "fixed it");
    assert_eq!(third["step_name"], "verify");
}

/// An end comes within a second of the end of input: the two waits that it consists of say so. A machine
/// that is busy with other things may take longer to run them.
const A_BUSY_MACHINES_SECOND: Duration = Duration::from_secs(10);

#[test]
fn the_waits_at_the_end_of_input_add_up_to_less_than_a_second() {
    let limits = [midex_domain::limits::EOF_GRACE, midex_domain::limits::EOF_CLOSE_MAX];
    assert!(limits.iter().sum::<Duration>() <= Duration::from_millis(900));
}

#[test]
fn the_server_ends_with_its_input_and_pending_replies_leave_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    // The first call of a process reads all definitions.
    start(&mut server, "first");
    for n in 0..20 {
        let arguments = json!({ "workflow_name": "bug-fix", "execution_id": format!("e{n}") });
        server.post_call("workflow.start", arguments);
    }
    let (status, took, lines) = server.close();
    assert!(status.success());
    assert!(took < A_BUSY_MACHINES_SECOND, "{took:?}");
    assert_eq!(lines.len(), 20, "every line on stdout is an answer");
    assert!(
        lines
            .iter()
            .all(|line| serde_json::from_str::<Value>(line).unwrap()["result"]["isError"] == false)
    );
    let (status, took, lines) = Server::start(dir.path()).close();
    assert!(status.success() && took < A_BUSY_MACHINES_SECOND && lines.is_empty());
    let (status, _, lines) = Server::spawn(dir.path(), &[]).close();
    assert!(status.success() && lines.is_empty(), "an end before the handshake is no failure");
}

#[test]
fn a_signal_ends_the_server_in_order_while_its_input_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "e");
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    let mut server = Server::start(dir.path());
    next(&mut server, &first["new_token"], "still there");
}

#[test]
fn a_signal_ends_a_server_whose_streams_are_sockets() {
    use std::{
        io::{BufRead, BufReader, Write},
        os::{fd::OwnedFd, unix::net::UnixStream},
        process::Command,
    };
    let dir = tempfile::tempdir().unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    let output = OwnedFd::from(far.try_clone().unwrap());
    let mut child = Command::new(midex_test::binary())
        .args(["serve", "--data-dir"])
        .arg(dir.path())
        .stdin(OwnedFd::from(far))
        .stdout(output)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    near.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(near.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
    midex_test::terminate(&child);
    assert_eq!(wait(&mut child).code(), Some(0));
}
