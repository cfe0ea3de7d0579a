//! Runs, and runs as tasks: every kind of client against every way in which a run can rest.

use serde_json::{Value, json};

use midex_test::{
    Client, Shows,
    http::HttpServer,
    project::{Project, eventually, text},
    reader::stateless_with,
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A workflow for each way in which a run can rest.
pub(super) const RESTS: [(&str, &str); 9] = [
    ("ended", "steps:\n  - { id: one, set: { a: 1 } }\nfinal_output: { a: '${{ memory.a }}' }\n"),
    ("failed", "steps:\n  - { id: one, fail: { code: ODD, message: no luck } }\n"),
    ("model", "steps:\n  - { id: one, guidance: Think., result: {} }\n"),
    ("gate", "steps:\n  - { id: one, gate: 'Ship it?' }\n  - { id: two, set: { a: 1 } }\n"),
    (
        "input",
        "inputs: { a: { type: string, optional: true } }\nsteps:\n  - { id: one, input: { properties: [a] } }\n",
    ),
    ("timer", "steps:\n  - { id: one, wait: { for: 1h } }\n"),
    ("signal", "steps:\n  - { id: one, wait: { signal: news } }\n"),
    ("child", "steps:\n  - { id: one, workflow: gate }\n"),
    ("thinks", "steps:\n  - { id: one, workflow: model }\n  - { id: two, wait: { for: 1h } }\n"),
];

pub(super) fn project() -> Project {
    let files = RESTS.map(|(name, rest)| {
        (format!("workflows/{name}.yaml"), format!("workflow: {name}\ndescription: d\n{rest}"))
    });
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Project::new(&files)
}

/// A client without a handshake, with these capabilities.
struct Caller<'a> {
    client: &'a mut dyn Client,
    capabilities: Value,
}

impl Caller<'_> {
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = stateless_with(self.capabilities.clone());
        self.client.request(method, params)
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    fn run(&mut self, workflow: &str) -> Value {
        self.tool("workflow.run", json!({ "workflow_id": workflow, "wait_s": 0.5 }))
    }

    fn task(&mut self, id: &Value) -> Value {
        self.result("tasks/get", json!({ "taskId": id }))
    }

    /// The task once its status is one of these.
    fn task_in(&mut self, id: &Value, status: &str) -> Value {
        eventually(status, || Some(self.task(id)).filter(|task| task["status"] == status))
    }
}

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn tasks() -> Value {
    json!({ "extensions": { EXTENSION: {} } })
}

fn tasks_and_forms() -> Value {
    json!({ "extensions": { EXTENSION: {} }, "elicitation": { "form": {} } })
}

/// What a task of the extension is, of a client that cannot show forms and of one that can.
pub(super) const TASKS: [(&str, &str, &str); 9] = [
    ("ended", "completed", "completed"),
    ("failed", "completed", "completed"),
    ("model", "completed", "completed"),
    ("gate", "working", "input_required"),
    ("input", "working", "input_required"),
    ("timer", "working", "working"),
    ("signal", "working", "working"),
    ("child", "working", "input_required"),
    ("thinks", "completed", "completed"),
];

fn every_kind_of_client(client: &mut dyn Client) {
    let mut caller = Caller { client, capabilities: tasks() };
    for (name, plain, asking) in TASKS {
        for (capabilities, status) in [(tasks(), plain), (tasks_and_forms(), asking)] {
            caller.capabilities = capabilities;
            let begun = caller.run(name);
            assert_eq!(
                (&begun["resultType"], &begun["status"], &begun["ttlMs"]),
                (&json!("task"), &json!("working"), &Value::Null),
                "{name}: {begun}"
            );
            assert_eq!(begun["_meta"]["run_id"], begun["taskId"], "{name}: {begun}");
            let task = caller.task_in(&begun["taskId"], status);
            assert_eq!(task["resultType"], "complete", "{name}: {task}");
            assert_eq!(task["_meta"]["run_id"], begun["taskId"], "{name}: {task}");
            for field in ["createdAt", "lastUpdatedAt", "statusMessage"] {
                assert!(task[field].is_string(), "{name}: {field} of {task}");
            }
            let result = &task["result"];
            match (name, status) {
                ("failed", _) => {
                    assert_eq!(result["isError"], true, "{task}");
                    assert_eq!(result["structuredContent"]["error_code"], "RUN_FAILED", "{task}");
                    assert_eq!(result["structuredContent"]["step_id"], "one", "{task}");
                }
                ("ended", _) => {
                    assert_eq!(result["structuredContent"]["final_output"], json!({ "a": 1 }));
                    assert_eq!(task["_meta"]["progress"], "succeeded", "{task}");
                }
                ("model" | "thinks", _) => {
                    let step = &result["structuredContent"]["awaiting"];
                    assert!(step["continuation_token"].is_string(), "{task}");
                }
                (_, "input_required") => {
                    let requests = task["inputRequests"].as_object().expect("requests");
                    assert_eq!(requests.len(), 1, "{task}");
                    let request = requests.values().next().expect("one");
                    assert_eq!(request["method"], "elicitation/create", "{task}");
                }
                ("gate", _) => text(&task["statusMessage"]).shows("midex approve"),
                ("signal", _) => text(&task["statusMessage"]).shows("signal 'news'"),
                ("timer", _) => assert_eq!(task["pollIntervalMs"], 60_000, "{task}"),
                _ => {}
            }
        }
    }
    for (name, _) in RESTS {
        caller.capabilities = json!({});
        let ran = caller.run(name);
        let handle = &ran["structuredContent"];
        assert!(handle["execution_id"].is_string(), "{name}: {ran}");
        assert_eq!(ran["isError"], name == "failed", "{name}: {ran}");
        assert_eq!(
            handle["awaiting"].is_object(),
            ["model", "thinks", "input"].contains(&name),
            "{ran}"
        );
        if ["gate", "child"].contains(&name) {
            let waits = handle["waits"].as_array().expect("waits");
            assert!(waits.iter().any(|wait| wait["gate"]["ask"] == "Ship it?"), "{ran}");
        }

        caller.capabilities = forms();
        let asked = caller.run(name);
        let is_asked = ["gate", "child", "input"].contains(&name);
        assert_eq!(asked["resultType"] == "input_required", is_asked, "{name}: {asked}");
    }
}

#[test]
fn every_kind_of_client_is_answered_in_its_way_however_a_run_rests() {
    let project = project();
    let mut owner = project.serve();
    every_kind_of_client(&mut owner);
    let mut relay = project.serve();
    every_kind_of_client(&mut relay);
}

#[test]
fn over_http_it_is_the_same() {
    let project = project();
    let server = HttpServer::run(project.command("serve --http 127.0.0.1:0"));
    every_kind_of_client(&mut server.stateless());
}

#[test]
fn a_task_is_answered_and_ends_as_its_execution() {
    let project = project();
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: tasks_and_forms() };
    let id = caller.run("gate")["taskId"].clone();
    let asked = caller.task_in(&id, "input_required");
    let requests = asked["inputRequests"].as_object().expect("requests");
    let key = requests.keys().next().expect("a key").clone();
    let update = |form: Value| json!({ "taskId": id, "inputResponses": { &key: form } });
    let accept =
        |decision: &str| json!({ "action": "accept", "content": { "decision": decision } });

    // What is no answer changes nothing.
    let nothing =
        json!({ "taskId": id, "inputResponses": { "gate:of:another": accept("approve") } });
    caller.result("tasks/update", nothing);
    caller.result("tasks/update", update(json!({ "action": "decline" })));
    let refused = caller.ask("tasks/update", update(accept("perhaps")));
    assert_eq!(refused["error"]["data"]["error_code"], "STEP_OUTPUT_INVALID", "{refused}");
    assert_eq!(caller.task(&id)["inputRequests"], asked["inputRequests"], "the same question");

    let done = caller.result("tasks/update", update(accept("approve")));
    assert_eq!(done["resultType"], "complete", "{done}");
    let ended = caller.task_in(&id, "completed");
    assert_eq!(ended["result"]["structuredContent"]["status"], "succeeded", "{ended}");
    // Another answer, after the end, is taken and changes nothing; nor does a cancellation.
    caller.result("tasks/update", update(accept("reject")));
    caller.result("tasks/cancel", json!({ "taskId": id }));
    assert_eq!(caller.task(&id), ended);
}

fn tasks_and_sampling() -> Value {
    json!({ "extensions": { EXTENSION: {} }, "sampling": {} })
}

/// The only request of a task that waits for its client.
fn only_request(task: &Value) -> (String, Value) {
    let requests = task["inputRequests"].as_object().expect("requests");
    assert_eq!(requests.len(), 1, "{task}");
    let (key, request) = requests.iter().next().expect("one");
    (key.clone(), request.clone())
}

#[test]
fn a_client_that_samples_takes_the_turns_of_the_model() {
    let persona = "---\nname: judge\ndescription: d\n---\nYou judge without mercy.\n";
    let lines = "inputs: { who: { type: string, default: { from: literal, value: Ada } } }
steps:
  - { id: one, guidance: 'Judge ${{ inputs.who }}.', result: { type: object, required: [ok], properties: { ok: { type: boolean } } } }
  - { id: two, agent: judge, instructions: Say why. }
  - { id: three, gate: { ask: 'Ship it?' } }
final_output: { ok: '${{ steps.one.ok }}', why: '${{ steps.two.summary }}' }
";
    let manifest = format!("workflow: judged\ndescription: d\n{lines}");
    let project =
        Project::new(&[("workflows/judged.yaml", &manifest), ("agents/judge.md", persona)]);
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: tasks_and_sampling() };
    let begun = caller.run("judged");
    let id = begun["taskId"].clone();
    assert!(id.is_string(), "{begun}");
    let answer = |key: &str, text: &str| {
        let content = json!({ "type": "text", "text": text });
        let sampled = json!({ "role": "assistant", "content": content, "model": "m" });
        json!({ "taskId": id, "inputResponses": { key: sampled } })
    };

    let (key, request) = only_request(&caller.task_in(&id, "input_required"));
    assert_eq!(request["method"], "sampling/createMessage", "{request}");
    let asked = text(&request["params"]["messages"][0]["content"]["text"]).to_owned();
    for part in ["Judge Ada.", "\"ok\"", "Answer with JSON alone"] {
        asked.shows(part);
    }
    assert!(!asked.contains("next_step"), "a sampled model calls no tools: {asked}");
    // A form is no answer of a model, and changes nothing. An output that breaks the schema is refused, and asked for again.
    let form = json!({ "taskId": id, "inputResponses": { &key: { "action": "accept" } } });
    caller.result("tasks/update", form);
    let refused = caller.ask("tasks/update", answer(&key, "{\"ok\": 7}"));
    let refused = &refused["error"]["data"];
    assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID", "{refused}");
    assert_eq!(refused["violations"][0]["path"], "/ok", "{refused}");
    let (again, request) = only_request(&caller.task(&id));
    assert_ne!(again, key);
    text(&request["params"]["messages"][0]["content"]["text"]).shows("refused");
    caller.result("tasks/update", answer(&again, "```json\n{\"ok\": true}\n```"));

    let (key, request) = only_request(&caller.task_in(&id, "input_required"));
    text(&request["params"]["systemPrompt"]).shows("without mercy");
    text(&request["params"]["messages"][0]["content"]["text"]).shows("Say why.");
    caller.result("tasks/update", answer(&key, "She is good."));
    // This client cannot show the form of the approval.
    assert_eq!(caller.task(&id)["status"], "working");
    caller.capabilities["elicitation"] = json!({ "form": {} });
    let (key, _) = only_request(&caller.task(&id));
    let form = json!({ "action": "accept", "content": { "decision": "approve" } });
    caller.result("tasks/update", json!({ "taskId": id, "inputResponses": { key: form } }));
    let ended = caller.task_in(&id, "completed");
    let output = &ended["result"]["structuredContent"]["final_output"];
    assert_eq!(output, &json!({ "ok": true, "why": "She is good." }), "{ended}");
}

#[test]
fn a_pause_of_a_person_is_named_to_every_kind_of_client() {
    let project = project();
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: tasks() };
    for capabilities in [tasks(), tasks_and_forms(), tasks_and_sampling(), json!({}), forms()] {
        caller.capabilities = tasks();
        let id = caller.run("timer")["taskId"].clone();
        caller.tool("execution.pause", json!({ "execution_id": id }));
        caller.capabilities = capabilities.clone();
        if capabilities["extensions"].is_null() {
            let wait = json!({ "execution_id": id, "timeout_s": 0 });
            let waited = caller.tool("execution.wait", wait);
            assert_eq!(waited["structuredContent"]["pause_reasons"], json!(["person"]), "{waited}");
            continue;
        }
        let task = caller.task(&id);
        assert_eq!(task["status"], "working", "{task}");
        text(&task["statusMessage"]).shows("execution.resume");
    }
}

#[test]
fn an_input_is_asked_again_with_what_is_wrong_under_a_key_of_its_own() {
    let lines = "inputs: { n: { type: integer, validate: { min: 3 }, optional: true } }
steps:
  - { id: one, input: { properties: [n] } }
final_output: { n: '${{ inputs.n }}' }
";
    let manifest = format!("workflow: counts\ndescription: d\n{lines}");
    let project = Project::new(&[("workflows/counts.yaml", &manifest)]);
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: tasks_and_forms() };
    let id = caller.run("counts")["taskId"].clone();
    let mut keys = Vec::new();
    for n in [1, 2, 3] {
        let task = caller.task_in(&id, "input_required");
        let requests = task["inputRequests"].as_object().expect("requests");
        let (key, request) = requests.iter().next().expect("a question");
        assert!(!keys.contains(key), "{key} was answered already");
        if n > 1 {
            text(&request["params"]["message"]).shows("3");
        }
        keys.push(key.clone());
        let form = json!({ "action": "accept", "content": { "n": n } });
        let update = json!({ "taskId": id, "inputResponses": { key: form } });
        caller.result("tasks/update", update);
    }
    let ended = caller.task_in(&id, "completed");
    assert_eq!(ended["result"]["structuredContent"]["final_output"], json!({ "n": 3 }));
}

#[test]
fn a_task_is_cancelled_with_its_children_and_stays_so() {
    let project = project();
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: tasks() };
    for name in ["timer", "child", "signal"] {
        let id = caller.run(name)["taskId"].clone();
        assert_eq!(caller.task(&id)["status"], "working", "{name}");
        caller.result("tasks/cancel", json!({ "taskId": id }));
        let ended = caller.task_in(&id, "cancelled");
        assert_eq!(ended["_meta"]["progress"], "canceled", "{ended}");
        caller.result("tasks/cancel", json!({ "taskId": id }));
        assert_eq!(caller.task(&id), ended);
    }
    let open = caller.tool("execution.list", json!({ "state": "open", "children": true }));
    assert_eq!(open["structuredContent"]["executions"], json!([]), "{open}");

    // A task that has handed its model a step has ended, whatever becomes of the execution.
    let id = caller.run("model")["taskId"].clone();
    caller.task_in(&id, "completed");
    caller.result("tasks/cancel", json!({ "taskId": id }));
    let cancelled = caller.tool("workflow.cancel", json!({ "operation_id": id }));
    assert_eq!(cancelled["structuredContent"]["status"], "canceled", "{cancelled}");
    assert_eq!(caller.task(&id)["status"], "completed");
}

#[test]
fn ids_that_are_no_tasks_and_clients_without_the_extension_are_refused() {
    let project = project();
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: tasks() };
    for (id, code) in [("exec_none", "EXECUTION_NOT_FOUND"), ("", ""), (" a", ""), ("a\u{7}", "")] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let answer = caller.ask(method, json!({ "taskId": id, "inputResponses": {} }));
            assert_eq!(answer["error"]["code"], -32602, "{method} {id:?}: {answer}");
            if !code.is_empty() {
                assert_eq!(answer["error"]["data"]["error_code"], code, "{answer}");
            }
        }
    }
    let answer = caller.ask("tasks/get", json!({ "taskId": 7 }));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    for method in ["tasks/list", "tasks/result", "tasks/create"] {
        let answer = caller.ask(method, json!({ "taskId": "x" }));
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    caller.capabilities = forms();
    let answer = caller.ask("tasks/get", json!({ "taskId": "exec_none" }));
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let required = &answer["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(required, &json!({ EXTENSION: {} }), "{answer}");
}

#[test]
fn a_run_asks_its_user_and_goes_on() {
    let project = project();
    let mut server = project.serve();
    let mut caller = Caller { client: &mut server, capabilities: forms() };
    for name in ["gate", "child"] {
        let asked = caller.run(name);
        let requests = asked["inputRequests"].as_object().expect("requests");
        let (key, request) = requests.iter().next().expect("a question");
        text(&request["params"]["message"]).shows("Ship it?");
        let form = json!({ "action": "accept", "content": { "decision": "approve" } });
        let mut repeated = json!({
            "name": "workflow.run", "arguments": { "workflow_id": name, "wait_s": 0.5 },
            "inputResponses": { key: form }
        });
        let unmatched = caller.result("tools/call", repeated.clone());
        let refused = &unmatched["structuredContent"];
        assert_eq!(refused["error_code"], "REQUEST_STATE_MISSING", "{unmatched}");
        repeated["requestState"] = asked["requestState"].clone();
        let ran = caller.result("tools/call", repeated);
        assert_eq!(ran["structuredContent"]["state"], "completed", "{name}: {ran}");
    }
    let all = caller.tool("execution.list", json!({}));
    let all = all["structuredContent"]["executions"].as_array().expect("executions").len();
    assert_eq!(all, 2, "a repeated call starts nothing");
}

#[test]
fn a_run_waits_for_a_child_that_only_the_server_works_on() {
    let child = "workflow: inner\ndescription: d\nsteps:\n  - { id: rest, wait: { for: 300ms } }\n  - { id: keep, set: { a: 1 } }\nfinal_output: { a: '${{ memory.a }}' }\n";
    let parent = "workflow: outer\ndescription: d\nsteps:\n  - { id: all, workflow: inner }\nfinal_output: '${{ steps.all }}'\n";
    let files = [("workflows/inner.yaml", child), ("workflows/outer.yaml", parent)];
    let project = Project::new(&files);
    let mut server = project.serve();
    let ran = server.done("workflow.run", json!({ "workflow_id": "outer" }));
    assert_eq!(ran["status"], "succeeded", "{ran}");
    assert_eq!(ran["final_output"], json!({ "a": 1 }), "{ran}");
}

#[test]
fn a_failed_run_is_an_error_that_names_the_step_and_the_call_that_continues_it() {
    let project = project();
    let mut server = project.serve();
    let failed = server.refused("workflow.run", json!({ "workflow_id": "failed" }));
    assert_eq!(
        (&failed["error_code"], &failed["category"], &failed["step_id"]),
        (&json!("RUN_FAILED"), &json!("execution"), &json!("one")),
        "{failed}"
    );
    assert_eq!(failed["context"]["run_id"], failed["execution_id"], "{failed}");
    assert_eq!(failed["message"], "no luck");
    let id = text(&failed["execution_id"]).to_owned();
    assert_eq!(server.status(&id)["error"]["step_id"], "one");
    let retried = server.done("execution.retry", json!({ "execution_id": id }));
    assert_eq!(retried["workflow_state"], "failed", "{retried}");
}

#[test]
fn a_run_is_cancelled_once() {
    let project = project();
    let mut server = project.serve();
    for name in ["timer", "child", "gate", "model"] {
        let ran = server.done("workflow.run", json!({ "workflow_id": name, "wait_s": 0 }));
        let cancel = json!({ "operation_id": ran["run_id"] });
        let cancelled = server.done("workflow.cancel", cancel.clone());
        assert_eq!(cancelled["operation_id"], ran["run_id"], "{cancelled}");
        assert_eq!(
            (&cancelled["status"], &cancelled["state"]),
            (&json!("canceled"), &json!("abandoned")),
            "{name}: {cancelled}"
        );
        let again = server.refused("workflow.cancel", cancel);
        assert_eq!(again["category"], "conflict", "{again}");
        assert_eq!(again["workflow_state"], "abandoned", "{again}");
    }
    let unknown = server.refused("workflow.cancel", json!({ "operation_id": "none" }));
    assert_eq!(unknown["error_code"], "EXECUTION_NOT_FOUND", "{unknown}");
    let malformed = server.refused("workflow.cancel", json!({ "operation_id": " x" }));
    assert_eq!(malformed["violations"][0]["path"], "/operation_id", "{malformed}");
}
