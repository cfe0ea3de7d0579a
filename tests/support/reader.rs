//! A client of either protocol.

use serde_json::{Value, json};

use crate::{
    Client as _, Server, Words,
    project::{Project, each, list},
};

/// Which protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Initialize,
    Stateless,
}

pub const ERAS: [Era; 2] = [Era::Initialize, Era::Stateless];

/// A server, and a client of it that says this name of itself.
pub struct Reader {
    pub server: Server,
    pub era: Era,
    pub name: String,
    /// What it was told at the beginning.
    pub greeting: Value,
}

impl Reader {
    pub fn new(project: &Project, era: Era, name: &str, flags: &[&str]) -> Self {
        let command = project.command("serve".and(flags));
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
    pub fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.era == Era::Stateless && params["_meta"].is_null() {
            params["_meta"] = stateless(Some(&self.name));
        }
        self.server.request(method, params)
    }

    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub fn error(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].clone()
    }

    pub fn tools(&mut self) -> Vec<Value> {
        list(&self.result("tools/list", json!({}))["tools"])
    }

    /// The tools that a client is shown that supports tasks.
    pub fn tools_with_tasks(project: &Project, flags: &[&str]) -> Vec<Value> {
        let mut client = Self::new(project, Era::Stateless, "test", flags);
        let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let params = json!({ "_meta": stateless_with(tasks) });
        list(&client.result("tools/list", params)["tools"])
    }

    pub fn names(&mut self) -> Vec<String> {
        each(&self.tools(), "name")
    }

    /// What the server said at the beginning that it can do.
    pub fn capabilities(&self) -> &Value {
        &self.greeting["capabilities"]
    }

    pub fn instructions(&self) -> &str {
        self.greeting["instructions"].as_str().expect("instructions")
    }
}

/// The same of a client with these capabilities.
pub fn stateless_with(capabilities: Value) -> Value {
    let mut meta = stateless(Some("test"));
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    meta
}

/// What every request of the stateless era carries.
pub fn stateless(client: Option<&str>) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    if let Some(name) = client {
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": name, "version": "0" });
    }
    meta
}
