//! What every client of a server says, whatever carries its lines: calls of tools, and reads of resources.

use serde::Serialize;
use serde_json::{Value, json};

use super::{address, advice, output, project::list, project::text, steps};

/// A client of one server.
pub trait Client {
    /// Sends a request and waits for its answer: `{result}` or `{error}`.
    fn request(&mut self, method: &str, params: Value) -> Value;

    /// Calls a tool and answers with its result: `{structuredContent, isError, …}`.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments.clone() });
        let answer = self.request("tools/call", params);
        assert!(answer["error"].is_null(), "{answer}");
        let result = answer["result"].clone();
        let shown: Value = serde_json::from_str(text(&result["content"][0]["text"])).expect("JSON");
        assert_eq!(shown, result["structuredContent"], "the text is the same JSON");
        if result["isError"] == true {
            advice::follow(self, (tool, &arguments), &result["structuredContent"]);
        }
        result
    }

    /// Calls a tool that must succeed; its structured content.
    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must refuse; its structured content.
    fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Reads a resource that must exist.
    fn read(&mut self, uri: &str) -> Value {
        let answer = self.request("resources/read", json!({ "uri": uri }));
        let shown = answer["result"]["contents"][0]["text"].as_str();
        serde_json::from_str(shown.unwrap_or_else(|| panic!("{answer}"))).expect("JSON")
    }

    /// Reads a resource that must not; the JSON-RPC error.
    fn read_error(&mut self, uri: &str) -> Value {
        let answer = self.request("resources/read", json!({ "uri": uri }));
        assert!(answer["result"].is_null(), "{answer}");
        answer["error"].clone()
    }

    /// Starts `workflow` as the execution `id`.
    fn begin(&mut self, workflow: &str, id: &str) -> Value {
        self.begin_with(json!({ "workflow_name": workflow, "execution_id": id }))
    }

    /// Calls `workflow.start`, which must succeed.
    fn begin_with(&mut self, arguments: Value) -> Value {
        self.done("workflow.start", arguments)
    }

    /// Calls `workflow.next_step`, which must succeed.
    fn next_step(&mut self, arguments: Value) -> Value {
        self.done("workflow.next_step", arguments)
    }

    /// Finishes the step of `token` with this summary.
    fn finish(&mut self, token: impl Serialize, summary: &str) -> Value
    where
        Self: Sized,
    {
        self.hand_in(token, output(summary))
    }

    /// Finishes the step of `token` with this output.
    fn hand_in(&mut self, token: impl Serialize, output: impl Serialize) -> Value
    where
        Self: Sized,
    {
        self.next_step(json!({ "token": token, "output": output }))
    }

    /// Tries to, and is refused.
    fn refuse(&mut self, token: impl Serialize, output: impl Serialize) -> Value
    where
        Self: Sized,
    {
        let arguments = json!({ "token": token, "output": output });
        self.refused("workflow.next_step", arguments)
    }

    /// Calls `execution.{verb}`, which must succeed.
    fn change(&mut self, verb: &str, id: &str) -> Value {
        let arguments = json!({ "execution_id": id, "reason": format!("to {verb} it") });
        self.done(&format!("execution.{verb}"), arguments)
    }

    /// The resource `current_step` of an execution.
    fn current(&mut self, id: &str) -> Value {
        self.read(&address("current_step", id))
    }

    /// The resource `workflow_status` of an execution.
    fn status(&mut self, id: &str) -> Value {
        self.read(&address("workflow_status", id))
    }

    /// The resource `step_history` of an execution.
    fn history(&mut self, id: &str) -> Vec<Value> {
        list(&self.read(&address("step_history", id)))
    }

    /// The telemetry of an execution, oldest first.
    fn telemetry(&mut self, id: &str) -> Vec<Value> {
        list(&self.read(&(address("telemetry", id) + "?limit=1000")))
    }

    /// What `available_workflows` says of `name`; null where it does not.
    fn available(&mut self, name: &str) -> Value {
        let all = self.read("midex://workflow/available_workflows");
        let found = list(&all).into_iter().find(|entry| entry["name"] == name);
        found.unwrap_or_default()
    }

    /// Takes an execution to its end, whatever is offered first: the steps in the order in which they were done.
    fn run_to_end(&mut self, first: &Value) -> Vec<String>
    where
        Self: Sized,
    {
        let (mut open, mut done) = (offers(first), Vec::new());
        while !open.is_empty() {
            let (step, token) = open.remove(0);
            let reply = self.finish(&token, &step);
            done.push(step);
            open.extend(offers(&reply));
            let state = if open.is_empty() { "completed" } else { "running" };
            assert_eq!(reply["workflow_state"], state, "{reply}");
        }
        done
    }

    /// Leads an execution of a shipped workflow from its start to its end, and looks at every reply. Its id.
    fn whole_execution(&mut self) -> String {
        let mut reply = self.done("workflow.start", json!({ "workflow_name": "bug-fix" }));
        let id = reply["execution_id"].as_str().expect("an id").to_owned();
        let mut revision = 1;
        while reply["workflow_state"] == "running" {
            assert_eq!(reply["revision"], revision, "{reply}");
            let output = json!({ "summary": format!("step {revision}") });
            let arguments = json!({ "token": reply["new_token"], "output": output });
            reply = self.done("workflow.next_step", arguments);
            assert_eq!(reply["execution_id"], id.as_str());
            revision += 1;
        }
        assert_eq!(reply["workflow_state"], "completed", "{reply}");
        assert!(revision > 2, "{reply}");
        id
    }
}

/// The steps that a reply made ready, each with its token.
pub fn offers(reply: &Value) -> Vec<(String, Value)> {
    let offer = |offer: &Value| {
        let name = text(&offer["step_name"]).to_owned();
        (name, offer["continuation_token"].clone())
    };
    steps(reply, "new_tokens").iter().map(offer).collect()
}

/// What an answer is held to.
pub trait Fields {
    /// It has these fields; of one that it does not have the value is null.
    fn has_fields(&self, fields: Value);
    /// It has fewer bytes: what is refused is not sent back.
    fn is_below(&self, bytes: usize);
}

impl Fields for Value {
    #[track_caller]
    fn has_fields(&self, fields: Value) {
        crate::has_fields(self, fields);
    }

    #[track_caller]
    fn is_below(&self, bytes: usize) {
        let shown = self.to_string();
        assert!(shown.len() < bytes, "what is refused is sent back: {shown}");
    }
}

/// Holds an error of the protocol to its number and our code.
#[track_caller]
pub fn fails_with(error: &Value, number: i64, code: &str) {
    assert_eq!(
        (&error["code"], &error["data"]["error_code"]),
        (&json!(number), &json!(code)),
        "{error}"
    );
}
