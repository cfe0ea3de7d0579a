//! An owner that is stopped (`SIGSTOP`) answers nothing and holds its directory: what its relays and commands say then, and
//! that they use it again once it goes on.

use std::{fs, os::unix::net::UnixListener, time::Duration};

use midex_domain::{error::Code, limits};
use midex_mcp::client::Client as ClientOfServer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::two_of;
use midex_test::{
    Client, Server, fails_with,
    project::{Project, eventually, line, list, text},
    says,
};

/// How long an answer takes at most beside an owner that is stopped, on a busy machine.
const SOON: Duration = Duration::from_secs(9);

/// Runs `ask`, which must not take longer than [`SOON`].
#[expect(clippy::disallowed_methods, reason = "measures a real process")]
fn soon<T>(what: &str, ask: impl FnOnce() -> T) -> T {
    let start = std::time::Instant::now();
    let answer = ask();
    let took = start.elapsed();
    assert!(took < SOON, "{what} took {took:?}");
    answer
}

/// Stops a server, and waits until all of its threads stand still: the first of them to run takes the signal for all.
fn stop(server: &Server) {
    server.signal(Signal::STOP);
    let status = format!("/proc/{}/stat", server.pid());
    eventually("it is stopped", || {
        let status = fs::read_to_string(&status).expect("Linux");
        status.contains(") T ").then_some(())
    });
}

/// The content of a call that a relay refused because its owner is stopped.
fn busy(relay: &mut Server, tool: &str, arguments: Value) -> Value {
    let refused = soon(tool, || relay.refused(tool, arguments));
    assert_eq!(refused["error_code"], "STORE_BUSY", "{refused}");
    assert_eq!(refused["retryable"], true, "{refused}");
    refused
}

#[test]
fn a_relay_answers_beside_an_owner_that_is_stopped_and_uses_it_again_when_it_goes_on() {
    let project = line();
    let (owner, mut relay) = two_of(&project);
    relay.begin("line", "e");
    stop(&owner);
    // These calls are sent to the owner: the relay does not know yet that it is stopped.
    let nameless = json!({ "name": "workflow.start", "arguments": { "workflow_name": "line" } });
    let uri = "midex://workflow/workflow_status/e";
    let (once, read, tools) = (
        relay.post("tools/call", nameless),
        relay.post("resources/read", json!({ "uri": uri })),
        relay.post("tools/list", json!({})),
    );
    let answers = soon("three calls", || [(); 3].map(|()| relay.next_line()));
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).expect("an answer");
    let unknown = &answer(once)["result"]["structuredContent"];
    assert_eq!(unknown["error_code"], "STORE_BUSY", "{unknown}");
    says(&unknown["message"], "not known whether the call was done");
    says(&unknown["suggested_action"], "Call execution.list");
    fails_with(&answer(read)["error"], -32603, "STORE_BUSY");
    assert!(!list(&answer(tools)["result"]["tools"]).is_empty());
    // The relay knows it now.
    assert!(soon("a list", || relay.request("ping", json!({})))["error"].is_null());
    soon("a definition", || relay.available("line"));
    let refused = busy(&mut relay, "execution.list", json!({}));
    assert!(!text(&refused["message"]).contains("not known"), "{refused}");
    owner.signal(Signal::CONT);
    eventually("the owner is used again", || {
        let answer = relay.call("execution.list", json!({}));
        (answer["isError"] == false).then_some(())
    });
    // The owner has read the unanswered start by now; its late answer does not reach the client.
    let (id, line) = (relay.post("ping", json!({})), relay.next_line());
    assert_eq!(line["id"], id, "{line}");
    assert_eq!(relay.status("e")["state"], "running");
}

#[test]
fn a_call_may_take_longer_than_an_owner_may_be_silent_while_the_owner_lives() {
    let project = line();
    let (_owner, mut relay) = two_of(&project);
    let first = relay.begin("line", "e");
    let seconds = (limits::OWNER_SILENT_MAX + limits::OWNER_ALIVE_MAX).as_secs() + 1;
    let arguments = json!({ "execution_id": "e", "timeout_s": seconds });
    let waited = relay.done("execution.wait", arguments);
    assert_eq!(waited["state"], "running", "{waited}");
    relay.finish(&first["new_token"], "a is done");
}

#[test]
fn who_comes_to_an_owner_that_is_stopped_is_greeted_by_its_own_server() {
    let project = line();
    let (mut owner, _relay) = two_of(&project);
    owner.begin("line", "e");
    stop(&owner);
    let listed = std::thread::scope(|scope| {
        let listed = scope
            .spawn(|| soon("midex show", || project.command("show e").output().expect("it runs")));
        let mut relay = soon("a handshake", || project.serve());
        assert!(!soon("a list", || super::tools(&mut relay)).is_empty());
        busy(&mut relay, "execution.list", json!({}));
        listed.join().expect("it ends")
    });
    assert_eq!(listed.status.code(), Some(75), "{listed:?}");
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    says(&json!(said), "another midex");
    owner.signal(Signal::CONT);
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "no time of an execution")]
async fn a_command_does_not_wait_for_an_owner_that_was_stopped_during_its_call() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(ours);
    // It shakes hands, and is stopped then.
    let owner = async {
        let (read, mut write) = tokio::io::split(theirs);
        let mut lines = BufReader::new(read).lines();
        let hello = lines.next_line().await.expect("a line").expect("a greeting");
        let hello: Value = serde_json::from_str(&hello).expect("JSON");
        let server = json!({ "name": "owner", "version": "0" });
        let result = json!({ "protocolVersion": hello["params"]["protocolVersion"], "capabilities": {}, "serverInfo": server });
        let answer = json!({ "jsonrpc": "2.0", "id": hello["id"], "result": result });
        write.write_all(format!("{answer}\n").as_bytes()).await.expect("it is read");
        (lines, write)
    };
    let (client, _owner) = tokio::join!(ClientOfServer::connect(input, output), owner);
    let client = client.expect("a handshake");
    let start = tokio::time::Instant::now();
    let called = client.call_tool("execution.list", json!({})).await;
    let refused = called.expect_err("nobody answers");
    assert_eq!(refused.code(), Code::StoreBusy, "{refused}");
    says(&json!(refused.message()), "not known whether execution.list was done");
    let within = limits::OWNER_SILENT_MAX + limits::OWNER_ALIVE_MAX;
    assert!(start.elapsed() < within + Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a_socket_that_was_removed_or_replaced_is_made_again() {
    let project = line();
    let mut owner = project.serve();
    owner.begin("line", "e");
    let socket = project.data_dir().join("control.sock");
    let finds_it = |project: &Project| {
        eventually("a command finds the owner", || {
            let listed = project.command("show e --json").output().expect("it runs");
            listed.status.success().then_some(())
        });
    };
    fs::remove_file(&socket).expect("it is there");
    finds_it(&project);
    fs::remove_file(&socket).expect("it is there");
    let other = UnixListener::bind(&socket).expect("another socket");
    // A command that connects to the other socket is not answered until the owner replaces it.
    finds_it(&project);
    drop(other);
    assert_eq!(owner.status("e")["state"], "running");
}
