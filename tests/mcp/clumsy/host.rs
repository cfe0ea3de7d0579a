//! What an agent has: a server to talk to, in this process or the real binary, and a user who does what is asked.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    Digest, ExecutionId, StepId,
    clock::{Clock, SeededIds, SystemClock, Timestamp},
    event::Channel,
    execution::{GateAnswer, Report},
    view::WaitView,
};
use midex_mcp::{self as mcp, LineTransport};
use midex_server::{
    app::{App, ListRequest},
    config::Config,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio_util::sync::CancellationToken;

use super::manifests;
use midex_test::{Server, long::Dice, sample::sample};

/// The machine's clock, which can be put forward.
#[derive(Debug, Default)]
struct Jumping(AtomicI64);

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        let hours = u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or_default();
        SystemClock.now().plus(Duration::from_secs(hours * 3600))
    }
}

/// A server without a client.
pub(super) struct World {
    app: App,
    config: Config,
    clock: Arc<Jumping>,
    home: TempDir,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (file, text) in manifests::files() {
            let path = home.path().join("workflows").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut config = Config::new(Some(home.path().join("data"))).unwrap();
        config.workflows_dir = Some(home.path().join("workflows"));
        home.path().clone_into(&mut config.project_dir);
        let clock = Arc::new(Jumping::default());
        let app = App::new(config.clone(), clock.clone(), Arc::new(SeededIds::new(seed)));
        Self { app, config, clock, home }
    }

    /// The server as a client in another project has it.
    pub(super) fn app(&self, project: &str) -> App {
        let project_dir = self.home.path().join(project);
        self.app
            .for_caller(&Config { project_dir, ..self.config.clone() }, self.config.environment())
    }

    /// A day and an hour go by.
    pub(super) fn sleep_over(&self) {
        self.clock.0.fetch_add(25, Ordering::Relaxed);
    }

    pub(super) async fn stop(self) {
        self.app.stop().await.unwrap();
    }
}

enum Wire {
    Memory {
        app: Box<App>,
        write: WriteHalf<DuplexStream>,
        lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
        stop: CancellationToken,
    },
    Process(Box<Server>),
}

/// A client, and its user.
pub(super) struct Host {
    wire: Wire,
    next_id: u64,
    /// The input schema of every tool.
    pub(super) tools: BTreeMap<String, Value>,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) is_done: bool,
    pub(super) body: Value,
}

impl Host {
    pub(super) async fn in_memory(app: App) -> Self {
        let (ours, theirs) = tokio::io::duplex(256 << 10);
        let stop = CancellationToken::new();
        let (input, output) = tokio::io::split(theirs);
        let server = mcp::Server::new(Arc::new(app.clone()));
        let serving = mcp::serve(server, LineTransport::new(input, output), stop.child_token());
        tokio::spawn(serving);
        let (input, write) = tokio::io::split(ours);
        let lines = BufReader::new(input).lines();
        let app = Box::new(app);
        Self::greet(Wire::Memory { app, write, lines, stop }).await
    }

    pub(super) async fn of_process(server: Server) -> Self {
        Self::greet(Wire::Process(Box::new(server))).await
    }

    async fn greet(wire: Wire) -> Self {
        let mut host = Self { wire, next_id: 0, tools: BTreeMap::new() };
        let client = json!({ "name": "clumsy", "version": "0" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        host.request("initialize", hello).await;
        host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let listed = host.request("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        host.tools = tools
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["inputSchema"].clone()))
            .collect();
        host
    }

    async fn send(&mut self, message: &Value) {
        match &mut self.wire {
            Wire::Memory { write, .. } => {
                let line = format!("{message}\n");
                write.write_all(line.as_bytes()).await.unwrap();
            }
            Wire::Process(server) => server.send(message),
        }
    }

    async fn line(&mut self) -> Value {
        match &mut self.wire {
            Wire::Memory { lines, .. } => {
                let line = lines.next_line().await.unwrap().expect("the server answers");
                serde_json::from_str(&line).unwrap()
            }
            Wire::Process(server) => server.next_line(),
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let line = self.line().await;
            if line["id"] == id && line["method"].is_null() {
                return line;
            }
        }
    }

    /// Calls a tool.
    pub(super) async fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", params).await;
        if answer["error"].is_object() {
            return refused(&answer);
        }
        Reply {
            is_done: answer["result"]["isError"] == false,
            body: answer["result"]["structuredContent"].clone(),
        }
    }

    /// Reads a resource; the reply has the form of `workflow.read`.
    pub(super) async fn read(&mut self, uri: &str) -> Reply {
        let answer = self.request("resources/read", json!({ "uri": uri })).await;
        if answer["error"].is_object() {
            return refused(&answer);
        }
        let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
        let content: Value = serde_json::from_str(text).unwrap();
        Reply { is_done: true, body: json!({ "success": true, "uri": uri, "content": content }) }
    }

    /// The executions of the project with their status.
    pub(super) async fn statuses(&mut self) -> Vec<Value> {
        let all = self.read("midex://workflow/executions?limit=100").await;
        let mut found = Vec::new();
        for execution in all.body["content"]["executions"].as_array().unwrap() {
            let id = midex_domain::uri::encode_segment(execution["execution_id"].as_str().unwrap());
            let status = self.read(&format!("midex://workflow/workflow_status/{id}")).await;
            found.push(status.body["content"].clone());
        }
        found
    }

    /// What comes from elsewhere: the signals that are waited for.
    pub(super) async fn signal(&mut self) {
        for status in self.statuses().await {
            for wait in status["waits"].as_array().into_iter().flatten() {
                if wait["signal"].is_string() {
                    let arguments = json!({
                        "execution_id": status["execution_id"], "signal": wait["signal"], "payload": 1
                    });
                    self.call("execution.signal", &arguments).await;
                }
            }
        }
    }

    /// The user does what is asked: answers gates, and what only the user may answer.
    pub(super) async fn ask_user(&mut self, dice: &mut Dice) {
        let Wire::Memory { app, .. } = &self.wire else {
            return;
        };
        let open = ListRequest {
            state: Some("open".into()),
            should_include_children: true,
            ..ListRequest::default()
        };
        let engine = app.engine().await.unwrap();
        for execution in app.list(open).await.unwrap().executions {
            let id = ExecutionId::parse(&execution.execution_id).unwrap();
            for wait in engine.status(&id).await.unwrap().waits {
                if let Some(answer) = answer(&wait, dice.roll(5) > 0) {
                    // Somebody else, or the end of a loop, may be faster.
                    let _ = app.command(&id, answer).await;
                }
            }
            for step in engine.current_step(&id).await.unwrap().ready_steps {
                if step.step.kind == "input" {
                    let schema = step.output_schema.unwrap_or_default();
                    let report = Report::Answer(sample(&schema, dice));
                    let _ = app.next_step(&step.continuation_token, report).await;
                }
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Wire::Memory { stop, .. } = &self.wire {
            stop.cancel();
        }
    }
}

fn refused(answer: &Value) -> Reply {
    Reply { is_done: false, body: answer["error"]["data"].clone() }
}

fn answer(wait: &WaitView, approved: bool) -> Option<GateAnswer> {
    Some(GateAnswer {
        step: StepId::parse(&wait.step_name).ok()?,
        visit: wait.visit,
        question_digest: Digest::parse(&wait.gate.as_ref()?.shown)?,
        is_approved: approved,
        person: "ann".into(),
        channel: Channel::Terminal,
        comment: None,
    })
}
