//! Who is told of changes: in both eras of the protocol, over lines, by a server in this process and by the real one.

mod binary;
mod listens;
mod places;
mod progress;
mod sessions;

use std::{collections::VecDeque, path::Path, sync::Arc};

use midex_domain::{
    ExecutionId, LifecycleAction, LifecycleChange,
    clock::{SeededIds, SystemClock},
};
use midex_mcp::{self as mcp, LineTransport, Server};
use midex_server::{app::App, config::Config};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use midex_test::{Fields, PATIENCE};

/// Bytes on their way between a client that reads and its server.
const PIPE_BYTES: usize = 1 << 16;
const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// A midex with a project and a store of its own.
struct House {
    app: Arc<App>,
    home: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        write_workflow(home.path(), "mine", "one");
        let mut config = Config::new(Some(home.path().join("data"))).expect("a configuration");
        home.path().clone_into(&mut config.project_dir);
        let app = App::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
        Self { app: Arc::new(app), home }
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    /// Moves executions beside whoever is connected.
    async fn start(&self, id: &str) {
        let started = self.app.start("mine", Some(execution(id)), None, None);
        started.await.expect("a start");
    }

    async fn change(&self, id: &str, lifecycle: LifecycleAction) {
        let change = LifecycleChange { action: lifecycle, reason: None };
        let changed = self.app.command(&execution(id), change).await;
        changed.expect("a change");
    }

    /// So many moves, an even number.
    async fn move_often(&self, id: &str, moves: usize) {
        for _ in 0..moves / 2 {
            self.change(id, LifecycleAction::Pause).await;
            self.change(id, LifecycleAction::Resume).await;
        }
    }

    async fn revision(&self, id: &str) -> u64 {
        let engine = self.app.engine().await.expect("an engine");
        engine.status(&execution(id)).await.expect("a status").revision
    }

    /// A client of the initialize era.
    async fn greeted(&self) -> Client {
        self.greeted_through(PIPE_BYTES).await
    }

    async fn greeted_through(&self, pipe_bytes: usize) -> Client {
        let mut client = Client::of(Server::new(self.app.clone()), pipe_bytes, false);
        client.shake_hands().await;
        client
    }

    /// A client of the stateless era.
    fn stateless(&self) -> Client {
        Client::of(Server::new(self.app.clone()), PIPE_BYTES, true)
    }
}

fn execution(id: &str) -> ExecutionId {
    ExecutionId::parse(id).expect("an id")
}

fn uri(path: &str) -> String {
    format!("midex://workflow/{path}")
}

fn write_workflow(project: &Path, name: &str, description: &str) {
    let directory = project.join("workflows");
    std::fs::create_dir_all(&directory).expect("a directory");
    let text = format!(
        "---\nname: {name}\ndescription: {description}\nphases:\n  - phase: a\n    agent: reviewer\n  - phase: b\n    agent: reviewer\n---\n"
    );
    std::fs::write(directory.join(format!("{name}.md")), text).expect("a file");
}

/// Waits for something, for as long as a test is patient.
async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("{what}: nothing came"))
}

/// Waits until nobody listens to a single execution.
async fn nobody_listens(app: &App) {
    listened_to(app, 0).await;
}

/// Waits until so many executions are listened to.
async fn listened_to(app: &App, executions: usize) {
    let expected = format!("Notifier({executions} executions)");
    patiently(&expected, async {
        while format!("{:?}", app.change_notifier()) != expected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A client that writes lines, and keeps what it was told until it is asked for.
struct Client {
    input: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<midex_domain::error::Result<()>>,
    is_stateless: bool,
    last_id: u64,
    told: VecDeque<Value>,
    answers: Vec<Value>,
}

impl Client {
    fn of(server: Server, pipe_bytes: usize, is_stateless: bool) -> Self {
        let (ours, theirs) = tokio::io::duplex(pipe_bytes);
        let (read, write) = tokio::io::split(theirs);
        let serving = mcp::serve(server, LineTransport::new(read, write), CancellationToken::new());
        let (read, input) = tokio::io::split(ours);
        Self {
            input,
            lines: BufReader::new(read).lines(),
            serving: tokio::spawn(serving),
            is_stateless,
            last_id: 0,
            told: VecDeque::new(),
            answers: Vec::new(),
        }
    }

    async fn shake_hands(&mut self) {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" }
        });
        let answer = self.request("initialize", params).await;
        let resources = &answer["result"]["capabilities"]["resources"];
        assert_eq!(resources, &json!({ "subscribe": true, "listChanged": true }));
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let written = patiently("writing", self.input.write_all(line.as_bytes())).await;
        written.expect("the server reads");
    }

    /// Writes a request and answers with its id.
    async fn post(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_id += 1;
        if self.is_stateless {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "t", "version": "0" });
        }
        let message =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.send(&message).await;
        self.last_id
    }

    async fn next_line(&mut self) -> Value {
        let line = patiently("the next line", self.lines.next_line()).await;
        let line = line.expect("UTF-8").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The answer to a request.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer["id"] == id) {
                return self.answers.swap_remove(at);
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let line = self.next_line().await;
        if line["id"].is_null() {
            self.told.push_back(line);
        } else {
            self.answers.push(line);
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        self.answer(id).await
    }

    /// What it is told next without having asked.
    async fn told(&mut self) -> Value {
        loop {
            if let Some(told) = self.told.pop_front() {
                return told;
            }
            self.read().await;
        }
    }

    /// The addresses it is told of, in their order, up to this one, which comes last.
    async fn told_until(&mut self, last: &str) -> Vec<String> {
        let mut told = Vec::new();
        while told.last().map(String::as_str) != Some(last) {
            let notice = self.told().await;
            let named = match notice["method"].as_str() {
                Some(UPDATED) => &notice["params"]["uri"],
                _ => &notice["method"],
            };
            told.push(named.as_str().expect("text").to_owned());
        }
        told
    }

    async fn subscribe(&mut self, uri: &str) {
        let answer = self.request("resources/subscribe", json!({ "uri": uri })).await;
        assert!(answer["result"].is_object(), "{answer}");
    }

    async fn unsubscribe(&mut self, uri: &str) {
        let answer = self.request("resources/unsubscribe", json!({ "uri": uri })).await;
        assert!(answer["result"].is_object(), "{answer}");
    }

    /// Listens, and answers with the id of the listen and what was accepted.
    async fn listen(&mut self, filter: Value) -> (u64, Value) {
        let id = self.post("subscriptions/listen", json!({ "notifications": filter })).await;
        let acknowledged = self.told().await;
        acknowledged.has_fields(json!({ "method": "notifications/subscriptions/acknowledged" }));
        assert_eq!(listen_of(&acknowledged), id);
        (id, acknowledged["params"]["notifications"].clone())
    }

    async fn listen_to(&mut self, uris: &[String]) -> u64 {
        let (id, accepted) = self.listen(json!({ "resourceSubscriptions": uris })).await;
        assert_eq!(accepted, json!({ "resourceSubscriptions": uris }));
        id
    }

    async fn cancel(&mut self, id: u64) {
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id }
        });
        self.send(&cancelled).await;
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", params).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Goes, and waits until the server has noticed.
    async fn leave(self) {
        let Self { serving, .. } = self;
        drop((self.input, self.lines));
        let ended = patiently("the end of the session", serving).await;
        ended.expect("no panic").expect("an orderly end");
    }
}

/// The listen that a notification belongs to.
fn listen_of(notice: &Value) -> u64 {
    let id = &notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    id.as_u64().unwrap_or_else(|| panic!("{notice}"))
}
