//! Tasks of protocol version 2025-11-25: over lines, in the process that owns the data directory and through a relay.

use std::collections::HashSet;

use serde_json::{Value, json};

use midex_domain::limits;
use midex_test::{
    Client, Fields, Server, Shows,
    http::{HttpServer, Session},
    project::{Project, eventually, list, text},
    reader::stateless,
};

use super::tasks::{RESTS, TASKS, project};

const VERSION: &str = "2025-11-25";
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
const METHODS: [&str; 4] = ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"];

/// A client of protocol version 2025-11-25.
struct Host {
    server: Server,
    greeting: Value,
    /// The lines that came before answers: questions and notifications.
    others: Vec<Value>,
}

impl Host {
    fn new(project: &Project, capabilities: Value) -> Self {
        Self::of_version(project, VERSION, capabilities)
    }

    fn of_version(project: &Project, version: &str, capabilities: Value) -> Self {
        let mut server = Server::run(project.command("serve"));
        let info = json!({ "name": "test", "version": "0" });
        let params =
            json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info });
        let greeting = server.request("initialize", params)["result"].clone();
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Self { server, greeting, others: Vec::new() }
    }

    /// The answer to the request with this id.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.server.next_line();
            if line["method"].is_null() {
                assert_eq!(line["id"], id, "{line}");
                return line;
            }
            self.others.push(line);
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.server.post(method, params);
        self.answer(id)
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code of a refusal.
    fn refusal(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// The next line with this method, also one that came before an answer.
    fn other(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.others.iter().position(|line| line["method"] == method) {
                return self.others.remove(at);
            }
            let line = self.server.next_line();
            assert!(line["method"].is_string(), "{method} was awaited: {line}");
            self.others.push(line);
        }
    }

    /// Runs a workflow as a task, and answers with the id.
    fn run(&mut self, workflow: &str) -> Value {
        let params = run_params(workflow);
        let created = self.result("tools/call", params);
        let task = &created["task"];
        task.has_fields(json!({ "status": "working", "ttl": null }));
        assert_eq!(created["_meta"]["run_id"], task["taskId"], "{created}");
        assert!(!self.others.iter().any(|line| line["params"]["taskId"] == task["taskId"]));
        task["taskId"].clone()
    }

    fn task(&mut self, id: &Value) -> Value {
        self.result("tasks/get", json!({ "taskId": id }))
    }

    fn task_in(&mut self, id: &Value, status: &str) -> Value {
        eventually(status, || Some(self.task(id)).filter(|task| task["status"] == status))
    }

    /// The next notification of a status, which must be one of this task.
    fn told(&mut self, id: &Value) -> Value {
        let told = self.other("notifications/tasks/status");
        assert_eq!(told["params"]["taskId"], *id, "{told}");
        told["params"].clone()
    }

    /// The next question of this task. It needs no request.
    fn question(&mut self, id: &Value) -> Value {
        let question = self.other("elicitation/create");
        assert_eq!(question["params"]["_meta"][RELATED_TASK], json!({ "taskId": id }));
        question
    }

    fn reply(&mut self, question: &Value, result: Value) {
        let id = &question["id"];
        self.server.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }
}

fn run_params(workflow: &str) -> Value {
    json!({ "name": "workflow.run", "arguments": { "workflow_id": workflow }, "task": { "ttl": 60_000 } })
}

fn forms() -> Value {
    json!({ "elicitation": {} })
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn approve() -> Value {
    accept(json!({ "decision": "approve" }))
}

/// The status in this version of a task that has this status in the extension.
fn session_status(workflow: &str, status: &'static str) -> &'static str {
    if workflow == "failed" { "failed" } else { status }
}

fn however_a_run_rests(project: &Project) {
    let mut plain = Host::new(project, json!({}));
    let mut asking = Host::new(project, forms());
    for (name, of_plain, of_asking) in TASKS {
        for (host, status) in [(&mut plain, of_plain), (&mut asking, of_asking)] {
            let status = session_status(name, status);
            let id = host.run(name);
            let task = host.task_in(&id, status);
            for field in ["createdAt", "lastUpdatedAt", "statusMessage"] {
                assert!(task[field].is_string(), "{name}: {field} of {task}");
            }
            assert!(task["ttl"].is_null() && task["ttlMs"].is_null(), "{name}: {task}");
            assert_eq!(task["pollInterval"].is_u64(), !is_terminal(status), "{name}: {task}");
            assert!(task["result"].is_null() && task["inputRequests"].is_null(), "{name}: {task}");
            if status == "failed" {
                text(&task["statusMessage"]).shows("no luck");
                text(&task["statusMessage"]).shows("execution.retry");
            }
            if status != "working" {
                let told = host.told(&id);
                assert_eq!((&told["status"], &told["ttl"]), (&json!(status), &Value::Null));
            }
            if !is_terminal(status) {
                continue;
            }
            let result = host.result("tasks/result", json!({ "taskId": id }));
            assert_eq!(result["_meta"][RELATED_TASK], json!({ "taskId": id }), "{name}: {result}");
            assert_eq!(result["isError"], status == "failed", "{name}: {result}");
            assert!(result["resultType"].is_null(), "{name}: {result}");
            let shown: Value = serde_json::from_str(text(&result["content"][0]["text"])).unwrap();
            assert_eq!(shown, result["structuredContent"], "{name}");
            match name {
                "failed" => {
                    shown.has_fields(json!({ "error_code": "RUN_FAILED", "step_id": "one" }));
                }
                "ended" => assert_eq!(shown["final_output"], json!({ "a": 1 }), "{shown}"),
                _ => assert!(shown["awaiting"]["continuation_token"].is_string(), "{shown}"),
            }
        }
    }
    assert!(plain.others.is_empty(), "{:?}", plain.others);
    for _ in ["gate", "input", "child"] {
        asking.other("elicitation/create");
    }
    assert!(asking.others.is_empty(), "{:?}", asking.others);
}

#[test]
fn a_pause_of_a_person_is_named() {
    let project = project();
    for capabilities in [json!({}), forms()] {
        let mut host = Host::new(&project, capabilities);
        let id = host.run("timer");
        let pause = json!({ "execution_id": id });
        host.result("tools/call", json!({ "name": "execution.pause", "arguments": pause }));
        let task = host.task(&id);
        assert_eq!(task["status"], "working", "{task}");
        text(&task["statusMessage"]).shows("execution.resume");
    }
}

fn is_terminal(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

#[test]
fn a_run_is_a_task_however_it_rests() {
    let project = project();
    let owner = Host::new(&project, json!({}));
    however_a_run_rests(&project);
    drop(owner);
    however_a_run_rests(&project);
}

#[test]
fn tasks_are_offered_to_clients_that_negotiate_this_version_alone() {
    let project = project();
    let mut owner = Host::new(&project, json!({}));
    let offered = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    for (version, has_tasks) in [
        ("2024-11-05", false),
        ("2025-03-26", false),
        ("2025-06-18", false),
        (VERSION, true),
        // For a version without a handshake, and for an unknown one, the server offers the latest version with one.
        ("2026-07-28", true),
        ("2099-01-01", true),
    ] {
        let mut host = Host::of_version(&project, version, json!({}));
        assert_eq!(host.greeting["protocolVersion"] == VERSION, has_tasks, "{version}");
        let capabilities = &host.greeting["capabilities"];
        assert_eq!(capabilities.get("tasks"), has_tasks.then_some(&offered), "{version}");
        let tools = list(&host.result("tools/list", json!({}))["tools"]);
        let names: Vec<_> = tools.iter().filter(|tool| !tool["execution"].is_null()).collect();
        if has_tasks {
            assert_eq!(names.len(), 1, "{names:?}");
            names[0].has_fields(
                json!({ "name": "workflow.run", "/execution/taskSupport": "optional" }),
            );
            // A client that declares tasks is shown the tools that require them.
            let mut host = Host::of_version(&project, version, json!({ "tasks": {} }));
            let tools = list(&host.result("tools/list", json!({}))["tools"]);
            let requiring =
                tools.iter().filter(|tool| tool["execution"]["taskSupport"] == "required");
            let names: Vec<_> = requiring.map(|tool| text(&tool["name"])).collect();
            assert_eq!(
                names,
                ["workflow.execute", "workflow.author_and_run", "workflow.repair_and_rerun"]
            );
            continue;
        }
        assert!(names.is_empty(), "{version}: {names:?}");
        let ran = host.result("tools/call", run_params("ended"));
        assert_eq!(ran["structuredContent"]["state"], "completed", "{version}: {ran}");
        for method in ["tasks/result", "tasks/list"] {
            assert_eq!(
                host.refusal(method, json!({ "taskId": "x" })),
                -32601,
                "{version} {method}"
            );
        }
    }
    assert_eq!(owner.greeting["capabilities"]["tasks"], offered);
    let discovered = owner.server.request("server/discover", json!({ "_meta": stateless(None) }));
    assert!(discovered["result"]["capabilities"]["tasks"].is_null(), "{discovered}");
    // A client cannot name a method that the server takes for a marked request.
    for method in METHODS.iter().map(|method| format!("midex/{method}")) {
        assert_eq!(owner.refusal(&method, json!({ "taskId": "x" })), -32601, "{method}");
    }
}

#[test]
fn over_http_a_session_of_this_version_has_handles() {
    let project = project();
    let server = HttpServer::run(project.command("serve --http 127.0.0.1:0"));
    let mut session = Session::open(server.loopback(), VERSION);
    let info = json!({ "name": "test", "version": "0" });
    let params = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": info });
    let greeting = session.request("initialize", params);
    assert!(greeting["result"]["capabilities"]["tasks"].is_null(), "{greeting}");
    let tools = session.request("tools/list", json!({}));
    assert!(list(&tools["result"]["tools"]).iter().all(|tool| tool["execution"].is_null()));
    let ran = session.request("tools/call", run_params("ended"));
    assert_eq!(ran["result"]["structuredContent"]["state"], "completed", "{ran}");
    let refused = session.request("tasks/list", json!({}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
}

fn a_result_is_waited_for(host: &mut Host) {
    for name in ["gate", "child"] {
        let id = host.run(name);
        assert_eq!(host.told(&id)["status"], "input_required");
        let question = host.question(&id);
        text(&question["params"]["message"]).shows("Ship it?");
        // A request for the result waits, asks nothing anew, and others are answered meanwhile.
        let request = host.server.post("tasks/result", json!({ "taskId": id }));
        assert_eq!(host.task(&id)["status"], "input_required");
        // An answer that is none is asked for again.
        host.reply(&question, accept(json!({ "decision": "perhaps" })));
        let question = host.question(&id);
        host.reply(&question, approve());
        let answer = host.answer(request);
        assert_eq!(answer["result"]["structuredContent"]["status"], "succeeded", "{answer}");
        let mut told = host.told(&id);
        if told["status"] == "working" {
            told = host.told(&id);
        }
        assert_eq!(told["status"], "completed", "{told}");
        assert!(host.others.iter().all(|line| line["method"] != "elicitation/create"));
    }
}

#[test]
fn the_user_is_asked_what_a_task_waits_for() {
    let project = project();
    let mut owner = Host::new(&project, forms());
    a_result_is_waited_for(&mut owner);
    let mut relay = Host::new(&project, forms());
    a_result_is_waited_for(&mut relay);
}

#[test]
fn what_the_user_declines_is_asked_again_after_a_new_connection() {
    let project = project();
    let mut host = Host::new(&project, forms());
    let id = host.run("gate");
    let question = host.question(&id);
    host.reply(&question, json!({ "action": "decline" }));
    let params = json!({ "taskId": id });
    host.server.post("tasks/result", params.clone());
    assert_eq!(host.task(&id)["status"], "input_required");
    assert!(host.others.iter().all(|line| line["method"] != "elicitation/create"));
    drop(host);
    let mut host = Host::new(&project, forms());
    let request = host.server.post("tasks/result", params);
    let question = host.question(&id);
    host.reply(&question, approve());
    let answer = host.answer(request);
    assert_eq!(answer["result"]["structuredContent"]["status"], "succeeded", "{answer}");
}

#[test]
fn a_question_that_somebody_else_answers_is_withdrawn() {
    let project = project();
    let (mut one, mut other) = (Host::new(&project, forms()), Host::new(&project, forms()));
    let id = one.run("gate");
    let question = one.question(&id);
    // A second client that reads the task is asked too.
    other.task_in(&id, "input_required");
    let other_question = other.question(&id);
    other.reply(&other_question, approve());
    let withdrawn = one.other("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    one.task_in(&id, "completed");
    assert!(other.others.iter().all(|line| line["method"] != "notifications/cancelled"));
}

/// A request that waits is sent to the next owner, whether the last one refused it or had no time to.
fn a_result_comes_from_the_next_owner(end: fn(&mut Server)) {
    let project = project();
    let mut gone = Host::new(&project, forms());
    let id = gone.run("gate");
    gone.server.kill();
    let (mut owner, mut relay) = (Host::new(&project, json!({})), Host::new(&project, forms()));
    assert_eq!(owner.task(&id)["status"], "working");
    let request = relay.server.post("tasks/result", json!({ "taskId": id }));
    let question = relay.question(&id);
    end(&mut owner.server);
    let anew = relay.other("elicitation/create");
    assert_ne!(anew["id"], question["id"]);
    let withdrawn = relay.other("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    relay.reply(&anew, approve());
    let answer = relay.answer(request);
    assert_eq!(answer["result"]["structuredContent"]["status"], "succeeded", "{answer}");
}

#[test]
fn a_task_outlives_its_client_and_its_server() {
    a_result_comes_from_the_next_owner(Server::kill);
    a_result_comes_from_the_next_owner(|server| {
        server.terminate();
        server.wait();
    });
}

#[test]
fn a_task_is_cancelled_once() {
    let project = project();
    let mut host = Host::new(&project, json!({}));
    for name in ["timer", "child", "signal"] {
        let id = host.run(name);
        let params = json!({ "taskId": id });
        let request = host.server.post("tasks/result", params.clone());
        let cancel = host.server.post("tasks/cancel", params.clone());
        let (mut answers, mut told) = (Vec::new(), 0);
        while answers.len() < 2 || told < 1 {
            let line = host.server.next_line();
            if line["method"].is_null() {
                answers.push(line);
            } else {
                assert_eq!(line["params"]["status"], "cancelled", "{line}");
                told += 1;
            }
        }
        let of = |id: u64| {
            let answer = answers.iter().find(|line| line["id"] == id).expect("an answer");
            assert!(answer["error"].is_null(), "{name}: {answer}");
            answer["result"].clone()
        };
        of(cancel).has_fields(json!({ "taskId": id, "status": "cancelled" }));
        // What the call returns of a run that is cancelled while it waits.
        of(request).has_fields(json!({
            "/structuredContent/status": "canceled", "/structuredContent/state": "abandoned",
            "/_meta": { RELATED_TASK: { "taskId": id } }
        }));
        assert_eq!(host.refusal("tasks/cancel", params.clone()), -32602);
        assert_eq!(host.task(&id)["status"], "cancelled");
    }
    // Once a model had a step, the task stays completed, even if the execution fails later.
    let id = host.run("model");
    host.task_in(&id, "completed");
    assert_eq!(host.refusal("tasks/cancel", json!({ "taskId": id })), -32602);
    let fail = json!({ "execution_id": id, "reason": "it will not do" });
    let failed = host.result("tools/call", json!({ "name": "execution.fail", "arguments": fail }));
    assert_eq!(failed["isError"], false, "{failed}");
    assert_eq!(host.task(&id)["status"], "completed");
}

#[test]
fn tasks_are_listed_in_pages() {
    let project = project();
    let mut host = Host::new(&project, forms());
    let mut ids: Vec<_> = RESTS.iter().map(|(name, _)| host.run(name)).collect();
    while ids.len() <= limits::LIST_LIMIT_DEFAULT {
        ids.push(host.run("ended"));
    }
    for (id, (name, _, status)) in ids.iter().zip(TASKS) {
        let status = session_status(name, status);
        host.task_in(id, status);
    }
    let (mut tasks, mut cursor) = (Vec::new(), json!(null));
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = host.result("tasks/list", params);
        let rows = list(&page["tasks"]);
        assert!((1..=limits::LIST_LIMIT_DEFAULT).contains(&rows.len()));
        tasks.extend(rows);
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let listed: HashSet<_> = tasks.iter().map(|task| text(&task["taskId"]).to_owned()).collect();
    assert_eq!(listed, ids.iter().map(|id| text(id).to_owned()).collect());
    assert_eq!(tasks.len(), ids.len(), "each once");
    for task in &tasks {
        assert_eq!(*task, host.task(&task["taskId"]));
    }
    for cursor in [json!("x"), json!(7)] {
        assert_eq!(host.refusal("tasks/list", json!({ "cursor": cursor })), -32602, "{cursor}");
    }
}

#[test]
fn what_is_no_task_and_no_call_of_one_is_refused() {
    let project = project();
    let mut host = Host::new(&project, json!({}));
    for method in &METHODS[..3] {
        for params in ["exec_none", "", " a", "a\u{7}"].map(|id| json!({ "taskId": id })) {
            assert_eq!(host.refusal(method, params.clone()), -32602, "{method} {params}");
        }
        assert_eq!(host.refusal(method, json!({ "taskId": 7 })), -32602, "{method}");
        assert_eq!(host.refusal(method, json!({})), -32602, "{method}");
    }
    let arguments = json!({ "workflow_name": "ended" });
    let start = json!({ "name": "workflow.start", "arguments": arguments, "task": {} });
    let refused = host.ask("tools/call", start);
    refused["error"].has_fields(json!({ "code": -32601, "/data/error_code": "METHOD_NOT_FOUND" }));
    let refused = host.ask("tools/call", json!({ "name": "workflow.none", "task": {} }));
    refused["error"].has_fields(json!({ "code": -32602, "/data/error_code": "TOOL_NOT_FOUND" }));
    for (arguments, code) in [
        (json!({ "workflow_id": "nothing" }), "WORKFLOW_NOT_FOUND"),
        (json!({ "workflow_id": 7 }), "ARGUMENTS_INVALID"),
    ] {
        let call = json!({ "name": "workflow.run", "arguments": arguments, "task": {} });
        let refused = host.ask("tools/call", call);
        refused["error"].has_fields(json!({ "code": -32602, "/data/error_code": code }));
    }
    // `task` is a parameter of the call, and no argument of the tool or anything else that is named so.
    for call in [
        json!({ "name": "workflow.run", "arguments": { "workflow_id": "ended" } }),
        json!({ "name": "workflow.run", "arguments": { "workflow_id": "ended" }, "task": null }),
        json!({ "name": "workflow.run", "arguments": { "workflow_id": "ended" }, "_meta": { "task": {} } }),
    ] {
        let ran = host.result("tools/call", call);
        assert_eq!(ran["structuredContent"]["state"], "completed", "{ran}");
    }
    let call = json!({ "name": "workflow.list", "arguments": { "task": {} } });
    let refused = host.result("tools/call", call);
    assert_eq!(refused["structuredContent"]["error_code"], "ARGUMENTS_INVALID", "{refused}");
}

#[test]
fn of_many_tasks_some_are_told_of_and_all_can_be_asked_for() {
    let project = project();
    let mut host = Host::new(&project, json!({}));
    let ids: Vec<_> = (0..=limits::LISTENS_MAX).map(|_| host.run("signal")).collect();
    for id in &ids {
        host.result("tasks/cancel", json!({ "taskId": id }));
    }
    let mut told = HashSet::new();
    for _ in 0..limits::LISTENS_MAX {
        let line = host.other("notifications/tasks/status");
        assert_eq!(line["params"]["status"], "cancelled", "{line}");
        told.insert(text(&line["params"]["taskId"]).to_owned());
    }
    let (last, watched) = ids.split_last().expect("tasks");
    assert_eq!(told, watched.iter().map(|id| text(id).to_owned()).collect());
    assert_eq!(host.task(last)["status"], "cancelled");
    // With the tasks that have ended, there is room for others.
    let id = host.run("ended");
    assert_eq!(host.told(&id)["status"], "completed");
}
