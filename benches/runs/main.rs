//! What runs and tasks cost over MCP, beside what the engine needs for the same. Both are measured in turns in one run, over
//! the line transport in this process, and judged by the ratio of the medians.
//!
//! * run: `workflow.run` of five steps that the server does, beside the engine from the start to the end of the same.
//! * turns: a call of an orchestrator tool, beside `workflow.next_step` on the same steps, with 64 clients in flight.
//! * tasks: `tasks/get`, beside `workflow.read` of the status, with few and with 10,000 open executions.
//!
//! `cargo bench --bench runs` prints the figures and fails where one misses its bar.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "this bench needs the median alone")]
mod support;

use std::{fs, path::Path, process::ExitCode, sync::Arc, time::Instant};

use midex_domain::{
    ExecutionId,
    clock::{SystemClock, SystemIds},
};
use midex_engine::{
    Engine, StartRequest, Topic,
    activity::{Activities, Context, function},
};
use midex_mcp::{LineTransport, Server, serve};
use midex_server::{
    app::{App, Options},
    config::{Config, TrustedProjects},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    runtime::Runtime,
};
use tokio_util::sync::CancellationToken;

use self::support::median;

/// As the binary allocates.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 400;
/// How much longer a run over MCP may take than the engine.
const RUN_MOST: f64 = 1.2;
/// How much longer `tasks/get` may take than a read of the status.
const TASK_MOST: f64 = 1.1;
/// How much longer a call of an orchestrator may take than `workflow.next_step`.
const TURN_MOST: f64 = 1.1;
const CLIENTS: usize = 64;
const TURNS: usize = 10;
const OPEN: [usize; 2] = [10, 10_000];

const FIVE: &str = "workflow: five
description: Five steps of the server
steps:
  - { id: a, activity: echo, with: { n: 1 } }
  - { id: b, activity: echo, with: { n: 2 } }
  - { id: c, activity: echo, with: { n: 3 } }
  - { id: d, activity: echo, with: { n: 4 } }
  - { id: e, activity: echo, with: { n: 5 } }
";
const WAITS: &str = "workflow: waits
description: Wait for a signal
steps:
  - { id: a, wait: { signal: news } }
";

/// A client without a handshake that supports tasks.
struct Client {
    write: WriteHalf<DuplexStream>,
    read: BufReader<ReadHalf<DuplexStream>>,
    line: String,
}

impl Client {
    fn connect(app: Arc<App>) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let transport = LineTransport::new(read, write);
        tokio::spawn(serve(Server::new(app), transport, CancellationToken::new()));
        let (read, write) = tokio::io::split(ours);
        Self { write, read: BufReader::new(read), line: String::new() }
    }

    /// Sends a request and waits for its answer; the microseconds that it took.
    async fn ask(&mut self, method: &str, mut params: Value, capabilities: Value) -> f64 {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "0" },
            "io.modelcontextprotocol/clientCapabilities": capabilities
        });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let line = format!("{request}\n");
        let start = Instant::now();
        self.write.write_all(line.as_bytes()).await.expect("a server");
        self.line.clear();
        self.read.read_line(&mut self.line).await.expect("an answer");
        let took = start.elapsed();
        assert!(!self.line.contains("\"error\":{\"code\""), "{}", self.line);
        took.as_secs_f64() * 1e6
    }
}

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

async fn open_app(dir: &Path) -> Arc<App> {
    fs::create_dir_all(dir.join("workflows")).expect("a directory");
    let turns = turns_manifest();
    for (name, text) in [("five", FIVE), ("waits", WAITS), ("turns", &turns)] {
        fs::write(dir.join(format!("workflows/{name}.yaml")), text).expect("a file");
    }
    let mut config = Config::new(Some(dir.join("data"))).expect("a configuration");
    config.project_dir = dir.to_owned();
    config.trust = TrustedProjects::Everything;
    let echo = |context: Context| async move { Ok(context.input) };
    let activities = Activities::default().with_activity(function("echo", echo).as_idempotent());
    let options = Options {
        activities: activities.expect("one of its name"),
        ..Options::new(config, Arc::new(SystemClock), Arc::new(SystemIds))
    };
    let app = App::with_options(options);
    app.open().await.expect("a store");
    Arc::new(app)
}

/// The microseconds that the engine needs from the start of an execution to its end.
async fn time_engine(app: &App, engine: &Engine, request: StartRequest) -> f64 {
    let start = Instant::now();
    let id = engine.start(request).await.expect("a start").execution_id;
    let id = ExecutionId::parse(&id).expect("an id");
    let listener = app.change_notifier().new_listener();
    listener.subscribe(&id.as_str().into(), Some(Topic::Execution(id.clone())));
    while !engine.read_execution(&id).await.expect("a read").execution.state().is_final() {
        listener.wait_for_change().await;
        listener.take_marked_name();
    }
    start.elapsed().as_secs_f64() * 1e6
}

/// Prints a ratio, and returns whether it is at most as large as it may be.
fn hold(name: &str, times: [Vec<f64>; 2], most: f64) -> bool {
    let [ours, reference] = times.map(median);
    let ratio = ours / reference;
    println!("{name:>40} {ours:>8.0} us {reference:>8.0} us {ratio:>6.2} {most:>6} at most");
    if ratio > most {
        eprintln!("error: missed: {name}, {ratio:.2} where {most} are allowed");
    }
    ratio <= most
}

async fn measure_runs(app: &Arc<App>) -> bool {
    let engine = app.engine().await.expect("an engine");
    let definition = app.registry().await.expect("a registry").definition("five").expect("five");
    let request = || StartRequest::new(definition.clone());
    let mut client = Client::connect(app.clone());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let run = json!({ "name": "workflow.run", "arguments": { "workflow_id": "five" } });
        times[0].push(client.ask("tools/call", run, json!({})).await);
        assert!(client.line.contains("succeeded"), "{}", client.line);
        times[1].push(time_engine(app, &engine, request()).await);
    }
    hold("workflow.run / engine", times, RUN_MOST)
}

/// Ten steps of a model.
fn turns_manifest() -> String {
    let steps = (0..TURNS).map(|at| {
        let result =
            "result: { type: object, required: [text], properties: { text: { type: string } } }";
        format!("  - {{ id: s{at}, guidance: Write number {at}., {result} }}\n")
    });
    let expose = "expose: { orchestrator: { tool_id: lead } }";
    format!("workflow: turns\ndescription: Ten texts\n{expose}\nsteps:\n")
        + &steps.collect::<String>()
}

/// Leads two executions of ten steps at a time, one through the orchestrator and one with tokens, a step of each in turns; the
/// microseconds of each call.
async fn time_turns(app: Arc<App>, rounds: usize) -> [Vec<f64>; 2] {
    let [mut led, mut stepped] = [Client::connect(app.clone()), Client::connect(app)];
    let mut times = [Vec::new(), Vec::new()];
    let content = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("an answer");
        answer["result"]["structuredContent"].clone()
    };
    let output = json!({ "text": "A text of some length, as a model would write it." });
    for _ in 0..rounds {
        led.ask("tools/call", json!({ "name": "lead", "arguments": {} }), json!({})).await;
        let start = json!({ "name": "workflow.start", "arguments": { "workflow_name": "turns" } });
        stepped.ask("tools/call", start, json!({})).await;
        for _ in 0..TURNS {
            let state = content(&led.line)["workflowStateData"].clone();
            let arguments = json!({ "userInput": output, "workflowStateData": state });
            let call = json!({ "name": "lead", "arguments": arguments });
            times[0].push(led.ask("tools/call", call, json!({})).await);
            let token = content(&stepped.line)["new_token"].clone();
            let arguments = json!({ "token": token, "output": output });
            let call = json!({ "name": "workflow.next_step", "arguments": arguments });
            times[1].push(stepped.ask("tools/call", call, json!({})).await);
        }
        assert!(led.line.contains("has concluded"), "{}", led.line);
        assert!(stepped.line.contains("completed"), "{}", stepped.line);
    }
    times
}

async fn measure_turns(app: &Arc<App>) -> bool {
    let clients = (0..CLIENTS).map(|_| tokio::spawn(time_turns(app.clone(), 20)));
    let clients: Vec<_> = clients.collect();
    let mut times = [Vec::new(), Vec::new()];
    for client in clients {
        let [ours, reference] = client.await.expect("a client");
        times[0].extend(ours);
        times[1].extend(reference);
    }
    hold("orchestrator / next_step, 64 in flight", times, TURN_MOST)
}

async fn measure_tasks(app: &Arc<App>, open: usize, already_open: usize) -> bool {
    let mut ids = Vec::new();
    for _ in already_open..open {
        let started = app.start("waits", None, None, None).await.expect("a start");
        ids.push(started.execution_id);
    }
    let mut client = Client::connect(app.clone());
    let mut times = [Vec::new(), Vec::new()];
    for id in ids.iter().cycle().take(ROUNDS * 5) {
        times[0].push(client.ask("tasks/get", json!({ "taskId": id }), tasks()).await);
        assert!(client.line.contains("\"working\""), "{}", client.line);
        let uri = format!("midex://workflow/workflow_status/{id}");
        let read = json!({ "name": "workflow.read", "arguments": { "uri": uri } });
        times[1].push(client.ask("tools/call", read, tasks()).await);
    }
    hold(&format!("tasks/get / status, {open} open"), times, TASK_MOST)
}

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let held = runtime.block_on(async {
        let app = open_app(dir.path()).await;
        let mut held = measure_runs(&app).await;
        held &= measure_turns(&app).await;
        let mut open = 0;
        for count in OPEN {
            held &= measure_tasks(&app, count, open).await;
            open = count;
        }
        app.stop().await.expect("a stop");
        held
    });
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
