//! What a client is shown: tools and resources, under which names, in which pages, and for how long it holds.

mod clients;
mod complete;
mod figures;
mod pages;
mod results;
mod toolsets;

use serde_json::{Value, json};

use crate::support::{
    Client, Server,
    project::{Project, each, list},
};

/// Every tool by the name that the documents have.
pub(crate) const TOOLS: [&str; 38] = [
    "workflow.start",
    "workflow.next_step",
    "workflow.read",
    "execution.list",
    "execution.resume",
    "execution.wait",
    "execution.signal",
    "execution.resolve",
    "execution.pause",
    "execution.abandon",
    "execution.diverge",
    "execution.fail",
    "workflow.list",
    "workflow.get",
    "workflow.validate",
    "workflow.preview_inputs",
    "workflow.resolve_inputs",
    "workflow.step_plan",
    "workflow.preview_rendered",
    "workflow.run",
    "workflow.save",
    "workflow.rename",
    "workflow.delete",
    "command.list",
    "command.run_safe",
    "command.run",
    "command.run_destructive",
    "provider.list",
    "catalog.list",
    "catalog.validate_openapi",
    "catalog.preview_import",
    "catalog.import_openapi",
    "catalog.refresh",
    "catalog.set_enabled",
    "catalog.set_base_url",
    "catalog.set_headers",
    "catalog.set_class",
    "catalog.remove",
];

/// Which protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Initialize,
    Stateless,
}

pub(crate) const ERAS: [Era; 2] = [Era::Initialize, Era::Stateless];

/// A server, and a client of it that says this name of itself.
pub(crate) struct Reader {
    server: Server,
    era: Era,
    name: String,
    /// What it was told at the beginning.
    greeting: Value,
}

impl Reader {
    pub(crate) fn new(project: &Project, era: Era, name: &str, flags: &[&str]) -> Self {
        let command = project.command(&[&["serve"], flags].concat());
        let mut client = Self {
            server: Server::run(command),
            era,
            name: name.to_owned(),
            greeting: Value::Null,
        };
        client.greeting = match era {
            Era::Initialize => {
                let info = json!({ "name": name, "version": "0" });
                let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
                let greeting = client.server.request("initialize", params);
                let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
                client.server.send(&done);
                greeting
            }
            Era::Stateless => client.ask("server/discover", json!({})),
        }["result"]
            .clone();
        client
    }

    /// The answer to a request: `{result}` or `{error}`.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.era == Era::Stateless {
            params["_meta"] = stateless(Some(&self.name));
        }
        self.server.request(method, params)
    }

    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) fn error(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].clone()
    }

    pub(crate) fn tools(&mut self) -> Vec<Value> {
        list(&self.result("tools/list", json!({}))["tools"])
    }

    fn names(&mut self) -> Vec<String> {
        each(&self.tools(), "name")
    }

    /// What the server said at the beginning that it can do.
    pub(crate) fn capabilities(&self) -> &Value {
        &self.greeting["capabilities"]
    }

    fn instructions(&self) -> &str {
        self.greeting["instructions"]
            .as_str()
            .expect("instructions")
    }
}

/// What every request of the stateless era carries.
fn stateless(client: Option<&str>) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    if let Some(name) = client {
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": name, "version": "0" });
    }
    meta
}

fn underscored(name: &str) -> String {
    name.replace('.', "_")
}
