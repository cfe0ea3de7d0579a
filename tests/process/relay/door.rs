//! The door of an owner: who is let in, and what is said to those who are not.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::PathBuf,
};

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{
    Client, Server, Shows,
    project::{Project, eventually, line},
    says,
};

fn socket(project: &Project) -> PathBuf {
    project.data_dir().join("control.sock")
}

/// A server whose door is open.
fn open(project: &Project) -> Server {
    let mut server = project.serve();
    server.done("execution.list", json!({}));
    eventually("the door opens", || UnixStream::connect(socket(project)).ok());
    server
}

/// What an owner answers this first line with; nothing where it hangs up.
fn answer(project: &Project, line: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(socket(project)).expect("a door");
    // It may hang up before it has read all.
    let _ = stream.write_all(line.as_bytes());
    let answer = BufReader::new(stream).lines().next()?.ok()?;
    Some(serde_json::from_str(&answer).expect("JSON"))
}

/// A first line as a relay writes it, with these fields otherwise.
fn preamble(project: &Project, fields: Value) -> String {
    let mut line = json!({
        "protocol": midex_mcp::control::CONTROL_PROTOCOL_VERSION, "midex": "9.9.9", "pid": 1, "role": "relay",
        "project_dir": project.root(), "env": {}, "token_ttl_ms": 1, "snapshot_every": 1
    });
    let all = line.as_object_mut().expect("an object");
    all.extend(fields.as_object().expect("fields").clone());
    format!("{line}\n")
}

#[test]
fn a_first_line_that_says_nothing_is_refused_and_the_owner_goes_on() {
    let project = line();
    let mut owner = open(&project);
    for junk in ["junk\n", "{}\n", "[]\n", "{\"midex\":1}\n"] {
        let answer = answer(&project, junk).expect("an answer");
        assert_eq!(answer["error"]["error_code"], "USAGE_INVALID", "{junk}");
    }
    // Too long, it is not even answered.
    assert_eq!(answer(&project, &"x".repeat(1 << 20)), None);
    let other = answer(&project, &preamble(&project, json!({ "protocol": 99 })));
    let error = other.expect("an answer")["error"].clone();
    says(&error["message"], "9.9.9 speaks protocol 99");
    says(&error["suggested_action"], "restart the older one");
    owner.begin("line", "e");
}

#[test]
fn another_version_of_the_same_protocol_is_let_in() {
    let project = line();
    let _owner = open(&project);
    let fields = json!({ "toolsets": ["run", "later"], "field_of_a_later_build": true });
    let answer = answer(&project, &preamble(&project, fields)).expect("an answer");
    assert_eq!(answer["error"], Value::Null, "{answer}");
    assert_eq!(answer["protocol"], midex_mcp::control::CONTROL_PROTOCOL_VERSION);
}

#[test]
fn a_program_with_activities_of_its_own_is_told_of_a_directory_of_its_own() {
    let project = line();
    let _owner = open(&project);
    let fields = json!({ "activities": ["upload"] });
    let answer = answer(&project, &preamble(&project, fields)).expect("an answer");
    says(&answer["error"]["message"], "has not the activities of this program: upload");
    says(&answer["error"]["suggested_action"], "--data-dir");
}

#[test]
fn relays_past_their_number_are_refused_and_commands_still_get_in() {
    let project = line();
    let _owner = open(&project);
    let greeted = |stream: &UnixStream| {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a line");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    let come_as = |role| {
        let mut stream = UnixStream::connect(socket(&project)).expect("a door");
        let line = preamble(&project, json!({ "role": role }));
        stream.write_all(line.as_bytes()).expect("it is read");
        (greeted(&stream), stream)
    };
    let come = || come_as("relay");
    let is_in = |(greeting, _): &(Value, UnixStream)| greeting["error"].is_null();
    let relays: Vec<_> = (0..limits::RELAYS_MAX).map(|_| come()).collect();
    assert!(relays.iter().all(is_in));
    assert_eq!(come().0["error"]["error_code"], "LIMIT_EXCEEDED");
    let listed = project.command("list executions").output().expect("it runs");
    assert!(listed.status.success(), "{listed:?}");
    let commands = 0..limits::CONTROL_CLIENTS_MAX;
    let commands: Vec<_> = commands.map(|_| come_as("command")).collect();
    assert!(commands.iter().all(is_in));
    drop((relays, commands));
    eventually("there is room again", || is_in(&come()).then_some(()));
}

#[test]
fn a_socket_that_others_may_open_lets_them_in_no_more_than_before() {
    let project = line();
    let _owner = open(&project);
    let all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(socket(&project), all).expect("it is ours");
    let mut relay = project.serve();
    relay.begin("line", "e");
}

#[test]
fn a_socket_that_nobody_listens_on_keeps_nobody_out() {
    let project = line();
    let mut owner = open(&project);
    owner.kill();
    assert!(socket(&project).exists());
    let mut next = project.serve();
    next.begin("line", "e");
    let refused = project.command("show e").output().expect("it runs");
    String::from_utf8_lossy(&refused.stdout).shows("running");
}

#[test]
fn a_caller_that_says_nothing_does_not_hold_up_the_end() {
    let project = line();
    let mut owner = open(&project);
    let mut relay = project.serve();
    relay.begin("line", "e");
    let silent: Vec<_> =
        (0..4).map(|_| UnixStream::connect(socket(&project)).expect("a door")).collect();
    owner.done("execution.list", json!({}));
    assert!(owner.close().0.success());
    assert_eq!(relay.status("e")["state"], "running");
    drop(silent);
}

#[test]
fn a_relay_that_takes_nothing_and_one_that_says_nothing_hold_up_nobody() {
    let project = line();
    let mut owner = open(&project);
    let mut relay = project.serve();
    let come = || {
        let mut stream = UnixStream::connect(socket(&project)).expect("a door");
        let line = preamble(&project, json!({}));
        stream.write_all(line.as_bytes()).expect("it is read");
        stream
    };
    let (silent, mut deaf) = (come(), come());
    let uri = json!({ "uri": "midex://workflow/available_workflows" });
    let params = super::stateless("workflow.read", uri);
    for id in 0..1000 {
        let read = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        writeln!(deaf, "{read}").expect("it is read");
    }
    let first = owner.begin("line", "e");
    let second = relay.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    assert!(owner.close().0.success());
    let third = relay.finish(&second["new_token"], "b is done");
    assert_eq!(third["step_name"], "c");
    drop((silent, deaf));
}

#[test]
fn the_socket_of_a_directory_that_took_the_place_of_another_stays() {
    let project = line();
    let first = open(&project);
    std::fs::rename(project.data_dir(), project.path("moved")).expect("it is moved");
    let mut second = open(&project);
    second.begin("line", "e");
    first.close();
    assert!(socket(&project).exists());
    let mut relay = project.serve();
    assert_eq!(relay.status("e")["state"], "running");
}

#[test]
fn callers_with_long_names_keep_nobody_out() {
    let project = line();
    let _owner = open(&project);
    let fields = json!({ "project_dir": "x".repeat(100_000), "midex": "y".repeat(100_000) });
    let long = preamble(&project, fields);
    let come = |_| {
        let mut stream = UnixStream::connect(socket(&project)).expect("a door");
        stream.write_all(long.as_bytes()).expect("it is read");
        let mut greeting = String::new();
        BufReader::new(&stream).read_line(&mut greeting).expect("a line");
        (stream, greeting.len() as u64)
    };
    let relays: Vec<_> = (0..100).map(come).collect();
    assert!(relays.iter().all(|(_, bytes)| *bytes < limits::CONTROL_PREAMBLE_BYTES_MAX));
    project.serve().begin("line", "e");
}
