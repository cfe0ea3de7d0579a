//! What the tools answer is what their schemas say: some clients refuse an answer that is not.

use midex_domain::schema::Schema;
use serde_json::{Value, json};

use super::{next, start};
use midex_test::{Client, Server, output, steps};

/// The server, and the output schema of each of its tools.
struct Checked {
    server: Server,
    tools: Value,
}

impl Checked {
    fn start(dir: &std::path::Path) -> Self {
        Self::new(Server::start(dir))
    }

    fn new(mut server: Server) -> Self {
        let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
        Self { server, tools }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.server.call(tool, arguments)["structuredContent"].clone();
        let named = |listed: &&Value| listed["name"] == tool;
        let listed = self.tools.as_array().unwrap().iter().find(named).unwrap();
        let schema = Schema::compile(&listed["outputSchema"]).unwrap();
        assert_eq!(schema.find_violations(&answer), [], "{tool}: {answer:#}");
        answer
    }
}

#[test]
fn every_answer_of_every_tool_satisfies_the_tools_output_schema() {
    let dir = tempfile::tempdir().unwrap();
    let mut checked = Checked::start(dir.path());
    let begin = |checked: &mut Checked, workflow: &str, id: &str| {
        checked.call("workflow.start", json!({ "workflow_name": workflow, "execution_id": id }))
    };
    // Through a workflow with steps side by side to its end: steps that are ready, still open, and none left.
    let first = begin(&mut checked, "component-performance-review", "wide");
    let mut tokens: Vec<_> = steps(&first, "new_tokens")
        .iter()
        .map(|offer| offer["continuation_token"].clone())
        .collect();
    assert_eq!(tokens.len(), 4);
    while let Some(token) = tokens.pop() {
        let big = "word ".repeat(3000);
        let artifact = json!({ "type": "data", "name": "n", "content": "c" });
        let output = json!({ "summary": big, "artifacts": [artifact], "findings": [] });
        let call = json!({ "token": token, "output": output });
        let reply = checked.call("workflow.next_step", call.clone());
        assert_eq!(checked.call("workflow.next_step", call)["replayed"], true);
        tokens.extend(
            steps(&reply, "new_tokens").iter().map(|offer| offer["continuation_token"].clone()),
        );
    }
    let done = json!({ "execution_id": "wide" });
    assert_eq!(checked.call("execution.wait", done.clone())["state"], "completed");
    for id in ["a", "b", "c", "d"] {
        begin(&mut checked, "bug-fix", id);
    }
    for (tool, id, state) in [
        ("execution.pause", "a", "paused"),
        ("execution.resume", "a", "running"),
        ("execution.pause", "a", "paused"),
        ("execution.abandon", "b", "abandoned"),
        ("execution.diverge", "c", "diverged"),
        ("execution.fail", "d", "failed"),
    ] {
        let answer = checked.call(tool, json!({ "execution_id": id, "reason": "because" }));
        assert_eq!(answer["state"], state, "{tool}");
    }
    checked.call("execution.wait", json!({ "execution_id": "d" }));
    let delete = json!({ "execution_id": "d", "confirm": true });
    assert_eq!(checked.call("execution.delete", delete)["deleted"], json!(["d"]));
    let signal = json!({ "execution_id": "a", "signal": "s", "payload": [1] });
    assert_eq!(checked.call("execution.signal", signal)["state"], "paused");
    checked.call("execution.resume", json!({}));
    assert!(checked.call("execution.list", json!({ "limit": 2 }))["next_cursor"].is_string());
}

#[test]
fn every_refusal_of_every_tool_satisfies_the_tools_output_schema() {
    let dir = tempfile::tempdir().unwrap();
    let mut checked = Checked::start(dir.path());
    let failed = {
        let token = start(&mut checked.server, "e")["new_token"].clone();
        let error = json!({ "message": "it cannot be done" });
        checked.call("workflow.next_step", json!({ "token": token, "error": error }))
    };
    assert_eq!(failed["failure"]["message"], "it cannot be done");
    let names: Vec<_> = checked
        .tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    for name in names {
        for arguments in [
            json!({ "nonsense": 1 }),
            json!({ "execution_id": "nobody" }),
            json!({ "workflow_name": "nothing" }),
        ] {
            let answer = checked.call(&name, arguments.clone());
            let may_succeed = name == "execution.list" && arguments["workflow_name"].is_string();
            assert_eq!(answer["success"], may_succeed, "{name} {arguments}");
        }
    }
    let token = start(&mut checked.server, "f")["new_token"].clone();
    let second = next(&mut checked.server, &token, "one");
    checked.call("workflow.next_step", json!({ "token": token, "output": output("two") }));
    checked.call("workflow.next_step", json!({ "token": second["new_token"], "output": 1 }));
}

const THREAD: &str = "workflow: thread
description: A thread
expose: { orchestrator: { tool_id: lead-thread } }
steps:
  - { id: one, guidance: Do it }
";

#[test]
fn every_answer_of_an_orchestrator_satisfies_its_output_schema() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thread.yaml"), THREAD).unwrap();
    let flags = ["--workflows", dir.path().to_str().unwrap()];
    let mut checked = Checked::new(Server::start_with(&dir.path().join("data"), &flags));
    let begun = checked.call("lead-thread", json!({}));
    assert_eq!(begun["status"], "running");
    let state = &begun["workflowStateData"];
    let both = json!({ "workflowStateData": state, "userInput": 1, "error": { "message": "no" } });
    let unknown = json!({ "workflowStateData": { "thread_id": "nobody" } });
    for arguments in [json!({ "nonsense": 1 }), both, unknown] {
        assert_eq!(checked.call("lead-thread", arguments.clone())["success"], false, "{arguments}");
    }
}
