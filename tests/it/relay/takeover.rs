//! What a client notices when the owner of its directory goes: nothing, but for calls whose outcome nobody knows.

use std::{
    fs::File,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};

use super::two_of;
use crate::support::{
    Client, Server, fails_with,
    long::{Dice, rounds, seed},
    project::{Project, eventually, line, list},
    says,
};

#[test]
fn after_a_kill_another_process_goes_on_with_the_same_tokens() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let mut third = project.serve();
    let first = owner.begin("line", "e");
    let uri = "midex://workflow/workflow_status/e";
    third.request("resources/subscribe", json!({ "uri": uri }));
    owner.kill();
    let second = relay.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    // The subscription outlives the owner that it was made with: what came meanwhile is told too.
    let told = third.next_line();
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri))
    );
    let third_step = third.finish(&second["new_token"], "b is done");
    assert_eq!(third_step["step_name"], "c");
}

#[test]
fn the_end_of_the_owner_s_client_hands_the_directory_over() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let first = owner.begin("line", "e");
    let (status, _, lines) = owner.close();
    assert!(status.success() && lines.is_empty(), "{lines:?}");
    let second = relay.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    // The next one finds the new owner.
    let mut third = project.serve();
    assert_eq!(
        third.finish(&second["new_token"], "b is done")["step_name"],
        "c"
    );
}

#[test]
fn calls_in_flight_when_the_owner_is_killed_are_answered_once_and_done_once() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let call = |n: u64| {
        let arguments = json!({ "workflow_name": "line", "execution_id": format!("e{n}") });
        json!({ "name": "workflow.start", "arguments": arguments })
    };
    let mut waiting: std::collections::HashSet<_> = (0..200)
        .map(|n| relay.post("tools/call", call(n)))
        .collect();
    let first = relay.next_line();
    assert!(waiting.remove(&first["id"].as_u64().expect("a number")));
    owner.kill();
    while !waiting.is_empty() {
        let answer = relay.next_line();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        assert!(
            waiting.remove(&answer["id"].as_u64().expect("a number")),
            "{answer}"
        );
    }
    for n in 0..200 {
        assert_eq!(relay.status(&format!("e{n}"))["revision"], 1);
    }
}

/// Holds the directory of the project, as a process does that opens no door.
fn hold(project: &Project) -> File {
    let lock = project.data_file().with_file_name("executions.lock");
    let lock = File::options()
        .create(true)
        .write(true)
        .truncate(false)
        .open(lock);
    let lock = lock.expect("a lock");
    lock.lock().expect("nobody has it");
    lock
}

/// A process that owns a directory and answers what a test tells it to.
struct Stub {
    input: Lines<BufReader<UnixStream>>,
    output: UnixStream,
}

impl Stub {
    /// Takes the directory of the project before anybody serves it.
    fn own(project: &Project) -> (File, UnixListener) {
        let socket = project.data_file().with_file_name("control.sock");
        std::fs::create_dir_all(socket.parent().expect("a directory")).expect("it is made");
        let lock = hold(project);
        (lock, UnixListener::bind(socket).expect("a socket"))
    }

    /// Greets the relay that comes, and answers its client's handshake.
    fn greet(listener: &UnixListener) -> Self {
        let output = listener.accept().expect("a relay").0;
        let input = BufReader::new(output.try_clone().expect("a stream")).lines();
        let mut stub = Self { input, output };
        assert_eq!(stub.next()["role"], "relay");
        stub.say(&json!({ "midex": "0", "protocol": midex::mcp::control::PROTOCOL, "pid": 1 }));
        let hello = stub.next();
        let result = json!({
            "protocolVersion": hello["params"]["protocolVersion"], "capabilities": {},
            "serverInfo": { "name": "midex", "version": "0" }
        });
        stub.say(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": result }));
        assert_eq!(stub.next()["method"], "notifications/initialized");
        stub
    }

    fn next(&mut self) -> Value {
        let line = self.input.next().expect("a line").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.output, "{message}").expect("it is read");
    }
}

/// A relay whose owner is a stub, and what holds the directory for that.
fn with_stub(project: &Project) -> (Server, Stub, (File, UnixListener)) {
    let owned = Stub::own(project);
    let mut relay = Server::run(project.command(&["serve"]));
    let stub = std::thread::scope(|scope| {
        let stub = scope.spawn(|| Stub::greet(&owned.1));
        relay.shake_hands();
        stub.join().expect("it greets")
    });
    (relay, stub, owned)
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

#[test]
fn what_may_be_done_twice_is_asked_again_and_of_the_rest_nobody_knows() {
    let project = line();
    let (mut relay, mut stub, owned) = with_stub(&project);
    let start = json!({ "workflow_name": "line", "execution_id": "e" });
    let again = relay.post("tools/call", call("workflow.start", start));
    let signal = json!({ "execution_id": "e", "name": "n" });
    let once = relay.post("tools/call", call("execution.signal", signal));
    let nameless = json!({ "workflow_name": "line" });
    let nameless = relay.post("tools/call", call("workflow.start", nameless));
    let reads = relay.post(
        "resources/read",
        json!({ "uri": "midex://workflow/limits" }),
    );
    for _ in 0..4 {
        stub.next();
    }
    drop((stub, owned));
    let mut answers = std::collections::HashMap::new();
    for _ in 0..4 {
        let answer = relay.next_line();
        answers.insert(
            answer["id"].as_u64().expect("an id"),
            answer["result"].clone(),
        );
    }
    assert_eq!(answers[&again]["structuredContent"]["step_name"], "a");
    assert!(answers[&reads]["contents"].is_array());
    let unknown = &answers[&once]["structuredContent"];
    assert_eq!(
        (&unknown["error_code"], &unknown["retryable"]),
        (&json!("SERVER_STOPPING"), &json!(true))
    );
    says(&unknown["message"], "not known whether the call was done");
    says(
        &unknown["suggested_action"],
        "midex://workflow/workflow_status/e",
    );
    let unknown = &answers[&nameless]["structuredContent"];
    says(&unknown["suggested_action"], "Call execution.list");
    // Only the one that has an id of its own was begun.
    let listed = relay.done("execution.list", json!({}));
    assert_eq!(list(&listed["executions"]).len(), 1);
}

#[test]
fn what_an_ending_owner_refuses_its_successor_answers() {
    let project = line();
    let (mut relay, mut stub, owned) = with_stub(&project);
    let start = json!({ "workflow_name": "line", "execution_id": "e" });
    let id = relay.post("tools/call", call("workflow.start", start));
    stub.next();
    let refusal = json!({ "error_code": "SERVER_STOPPING", "message": "shutting down" });
    let result = json!({ "content": [], "structuredContent": refusal, "isError": true });
    stub.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    drop((stub, owned));
    let answer = relay.next_line();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(id), &json!(false)),
        "{answer}"
    );
}

#[test]
fn a_question_of_an_owner_that_has_gone_is_withdrawn_and_asked_anew() {
    let (_project, mut owner, mut relay, id, asked) = super::asked();
    owner.kill();
    let withdrawn = relay.next_line();
    assert_eq!(
        withdrawn["method"], "notifications/cancelled",
        "{withdrawn}"
    );
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    let anew = relay.next_line();
    assert_eq!(anew["method"], "elicitation/create", "{anew}");
    assert_ne!(anew["id"], asked["id"]);
    // An answer to the old question is for nobody.
    super::approve(&mut relay, &asked);
    super::approve(&mut relay, &anew);
    let reply = relay.next_line();
    assert_eq!(reply["id"], id);
    assert_eq!(
        reply["result"]["structuredContent"]["step_name"], "tell",
        "{reply}"
    );
}

#[test]
fn while_nobody_can_own_the_directory_lists_are_answered_and_calls_refused() {
    let project = line();
    let mut first = project.serve();
    first.begin("line", "e");
    first.kill();
    let lock = hold(&project);
    let mut server = project.serve();
    assert!(!super::tools(&mut server).is_empty());
    let id = server.post(
        "resources/read",
        json!({ "uri": "midex://workflow/workflow_status/e" }),
    );
    let refused = server.next_line();
    assert_eq!(refused["id"], id);
    fails_with(&refused["error"], -32603, "STORE_BUSY");
    drop(lock);
    let uri = "midex://workflow/workflow_status/e";
    eventually("the server owns the directory", || {
        let answer = server.request("resources/read", json!({ "uri": uri }));
        answer["error"].is_null().then_some(())
    });
}

#[test]
fn of_servers_that_start_at_one_instant_one_owns_and_no_client_is_refused() {
    for round in 0..rounds(5, 100) {
        let project = line();
        let mut servers: Vec<_> = (0..2)
            .map(|_| Server::run(project.command(&["serve"])))
            .collect();
        for (at, server) in servers.iter_mut().enumerate() {
            server.shake_hands();
            let id = format!("e{round}-{at}");
            assert_eq!(server.begin("line", &id)["step_name"], "a");
        }
        for server in &mut servers {
            let listed = server.done("execution.list", json!({}));
            assert_eq!(list(&listed["executions"]).len(), 2, "round {round}");
        }
    }
}

/// Serves under load while owners are killed: nothing acknowledged is lost, nothing is done twice, nobody is disconnected.
#[test]
fn under_load_and_kills_no_acknowledged_transition_is_lost_and_none_is_done_twice() {
    let project = line();
    let mut dice = Dice(seed(13));
    let (clients, kills) = (rounds(3, 8), rounds(2, 5));
    let mut victims: Vec<_> = (0..kills).map(|_| project.serve()).collect();
    let first = victims.first_mut().expect("a victim");
    first.done("execution.list", json!({}));
    let workers: Vec<_> = (0..clients).map(|_| project.serve()).collect();
    let stop = &AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        let work = |(at, mut server): (usize, Server)| {
            scope.spawn(move || {
                let mut ended = Vec::new();
                while !stop.load(Ordering::Relaxed) || ended.is_empty() {
                    let id = format!("w{at}-{}", ended.len());
                    let begun = server.begin("line", &id);
                    assert_eq!(server.run_to_end(&begun), ["a", "b", "c"]);
                    ended.push(id);
                }
                (server, ended)
            })
        };
        let workers: Vec<_> = workers.into_iter().enumerate().map(work).collect();
        for victim in &mut victims {
            // Others may own the directory: then a relay dies, which nobody notices either.
            for _ in 0..=dice.roll(20) {
                victim.done("execution.list", json!({}));
            }
            victim.kill();
        }
        stop.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .map(|worker| worker.join().expect("it works"))
            .collect::<Vec<_>>()
    });
    for (mut server, ended) in done {
        for id in ended {
            let status = server.status(&id);
            assert_eq!(
                (&status["state"], &status["revision"]),
                (&json!("completed"), &json!(4)),
                "{id}"
            );
        }
    }
}

#[test]
fn what_an_owner_said_before_it_went_is_passed_on() {
    let project = line();
    let (mut relay, mut stub, owned) = with_stub(&project);
    let signal = json!({ "execution_id": "e", "name": "n" });
    let once = relay.post("tools/call", call("execution.signal", signal));
    stub.next();
    let large = json!({ "uri": "x".repeat(8 << 20) });
    let read = relay.post("resources/read", large);
    let result = json!({ "content": [], "structuredContent": { "done": true }, "isError": false });
    stub.say(&json!({ "jsonrpc": "2.0", "id": once, "result": result }));
    // It goes while the relay still writes.
    drop((stub, owned));
    let answer = relay.next_line();
    assert_eq!(
        (
            &answer["id"],
            &answer["result"]["structuredContent"]["done"]
        ),
        (&json!(once), &json!(true)),
        "{answer}"
    );
    assert_eq!(relay.next_line()["id"], read);
}
