//! What a relay makes of an owner that a test plays: what it sends again, what it answers itself, what it keeps to itself.

use std::{
    fs::File,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::net::{UnixListener, UnixStream},
};

use midex_domain::limits;
use serde_json::{Value, json};

use super::{hold, stateless};
use midex_test::{
    Client, Fields, Server,
    project::{Project, line, list},
    says,
};

/// A process that owns a directory and answers what a test tells it to.
struct Stub {
    input: Lines<BufReader<UnixStream>>,
    output: UnixStream,
}

impl Stub {
    /// Takes the directory of the project before anybody serves it.
    fn own(project: &Project) -> (File, UnixListener) {
        let socket = project.data_dir().join("control.sock");
        std::fs::create_dir_all(socket.parent().expect("a directory")).expect("it is made");
        let lock = hold(project);
        (lock, UnixListener::bind(socket).expect("a socket"))
    }

    /// Greets the relay that comes.
    fn greet(listener: &UnixListener) -> Self {
        let output = listener.accept().expect("a relay").0;
        let input = BufReader::new(output.try_clone().expect("a stream")).lines();
        let mut stub = Self { input, output };
        assert_eq!(stub.next()["role"], "relay");
        stub.say(&json!({ "midex": "0", "protocol": midex_mcp::control::CONTROL_PROTOCOL_VERSION, "pid": 1 }));
        stub
    }

    /// Answers the handshake of its client.
    fn shake_hands(mut self) -> Self {
        let hello = self.next();
        let result = json!({
            "protocolVersion": hello["params"]["protocolVersion"], "capabilities": {},
            "serverInfo": { "name": "midex", "version": "0" }
        });
        self.answer(&hello["id"], &result);
        assert_eq!(self.next()["method"], "notifications/initialized");
        self
    }

    fn next(&mut self) -> Value {
        let line = self.input.next().expect("a line").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    fn answer(&mut self, id: &Value, result: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.output, "{message}").expect("it is read");
    }
}

/// A relay whose owner is a stub, and what holds the directory for that. Its client has said nothing.
fn greeted(project: &Project) -> (Server, Stub, (File, UnixListener)) {
    let owned = Stub::own(project);
    let relay = Server::run(project.command("serve"));
    let stub = Stub::greet(&owned.1);
    (relay, stub, owned)
}

/// The same whose client has shaken hands.
fn with_stub(project: &Project) -> (Server, Stub, (File, UnixListener)) {
    let (mut relay, stub, owned) = greeted(project);
    let stub = std::thread::scope(|scope| {
        let stub = scope.spawn(|| stub.shake_hands());
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
    let reads = relay.post("resources/read", json!({ "uri": "midex://workflow/limits" }));
    for _ in 0..4 {
        stub.next();
    }
    drop((stub, owned));
    let mut answers = std::collections::HashMap::new();
    for _ in 0..4 {
        let answer = relay.next_line();
        answers.insert(answer["id"].as_u64().expect("an id"), answer["result"].clone());
    }
    assert_eq!(answers[&again]["structuredContent"]["step_name"], "a");
    assert!(answers[&reads]["contents"].is_array());
    let unknown = &answers[&once]["structuredContent"];
    unknown.has_fields(json!({ "error_code": "SERVER_STOPPING", "retryable": true }));
    says(&unknown["message"], "not known whether the call was done");
    says(&unknown["suggested_action"], "midex://workflow/workflow_status/e");
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
    stub.answer(&json!(id), &result);
    drop((stub, owned));
    let answer = relay.next_line();
    answer.has_fields(json!({ "id": id, "/result/isError": false }));
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
    stub.answer(&json!(once), &result);
    // It goes while the relay still writes.
    drop((stub, owned));
    let answer = relay.next_line();
    answer.has_fields(json!({ "id": once, "/result/structuredContent/done": true }));
    assert_eq!(relay.next_line()["id"], read);
}

/// The names of what an answer has, at its top and in its content.
fn shape(answer: &Value) -> [Vec<String>; 2] {
    let result = &answer["result"];
    [result, &result["structuredContent"]].map(|part| {
        let fields = part.as_object().expect("an object");
        fields.keys().cloned().collect()
    })
}

#[test]
fn a_relay_refuses_as_a_server_does_in_the_protocol_of_its_client() {
    let signal = json!({ "execution_id": "e", "signal": "n" });
    let (plain, modern) =
        (call("execution.signal", signal.clone()), stateless("execution.signal", signal));
    for (params, begin) in [(plain, with_stub as fn(&Project) -> _), (modern, greeted)] {
        let project = line();
        let (mut relay, mut stub, owned) = begin(&project);
        let id = relay.post("tools/call", params.clone());
        stub.next();
        drop((stub, owned));
        let refused = relay.next_line();
        assert_eq!(refused["id"], id);
        // Its next owner is a real server, which refuses the same call.
        let expected = relay.request("tools/call", params);
        assert_eq!(shape(&refused)[0], shape(&expected)[0], "{refused}");
        refused.has_fields(json!({ "/result/_meta": expected["result"]["_meta"] }));
        let [ours, theirs] =
            [&refused, &expected].map(|answer| &answer["result"]["structuredContent"]);
        assert_eq!(ours["context"]["tool"], theirs["context"]["tool"]);
        assert_eq!(ours["execution_id"], "e");
    }
}

#[test]
fn what_a_client_just_unsubscribed_from_is_not_subscribed_to_anew() {
    let project = line();
    let (mut relay, mut stub, owned) = with_stub(&project);
    let status = json!({ "uri": "midex://workflow/workflow_status/e" });
    let id = relay.post("resources/subscribe", status.clone());
    stub.next();
    stub.answer(&json!(id), &json!({}));
    assert_eq!(relay.next_line()["id"], id);
    relay.post("resources/unsubscribe", status);
    stub.next();
    // The relay finds the next owner behind the same door.
    drop(stub);
    let mut next = Stub::greet(&owned.1);
    relay.post("ping", json!({}));
    let said = std::iter::repeat_with(|| next.next()["method"].clone());
    let said: Vec<_> = said.take_while(|method| method != "ping").collect();
    let expected = ["initialize", "notifications/initialized", "resources/unsubscribe"];
    assert_eq!(said, expected);
}

/// What the owner asks the client under this id of its own.
fn question(id: u64) -> Value {
    let params = json!({ "mode": "form", "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
}

#[test]
fn a_question_of_a_task_outlives_every_call() {
    let project = line();
    let (mut relay, mut stub, _owned) = with_stub(&project);
    let id = relay.post("tools/call", call("execution.list", json!({})));
    stub.next();
    let mut of_a_task = question(7);
    of_a_task["params"]["_meta"] =
        json!({ "io.modelcontextprotocol/related-task": { "taskId": "e" } });
    stub.say(&of_a_task);
    stub.answer(&json!(id), &json!({ "content": [] }));
    let asked = relay.next_line();
    assert_eq!(relay.next_line()["id"], id);
    super::approve(&mut relay, &asked);
    assert_eq!(stub.next()["id"], 7);
}

#[test]
fn of_more_questions_than_calls_may_wait_the_oldest_is_forgotten() {
    let project = line();
    let (mut relay, mut stub, _owned) = with_stub(&project);
    relay.post("tools/call", call("execution.list", json!({})));
    stub.next();
    let last = limits::CLIENT_CALLS_MAX as u64;
    let questions = std::thread::scope(|scope| {
        scope.spawn(|| (0..=last).for_each(|id| stub.say(&question(id))));
        (0..=last).map(|_| relay.next_line()).collect::<Vec<_>>()
    });
    for at in [0, 1] {
        super::approve(&mut relay, &questions[at]);
    }
    assert_eq!(stub.next()["id"], questions[1]["id"]);
}
