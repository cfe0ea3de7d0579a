//! Whole calls: executions are led from their start to their end, through an engine alone and through a server.

use std::{fs, sync::Arc};

use midex_domain::execution::Report;
use midex_engine::{self as engine, Engine, StartRequest, store::MemoryStore};
use midex_mcp::{LineTransport, Server, serve};
use midex_server::{
    app::{App, Options},
    config::Config,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, SimplexStream, WriteHalf, simplex},
    runtime::{Builder, Runtime},
};
use tokio_util::sync::CancellationToken;

use super::{
    paths::{Round, chain, chain_lines},
    standing::{Counted, Still, output},
};

/// More than any line of these calls has.
const PIPE_BYTES: usize = 64 * 1024;

/// One thread takes every task in its turn, so that counts differ little from run to run.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

pub(crate) fn engine() -> Round {
    let (runtime, definition) = (runtime(), chain());
    let store = Arc::new(MemoryStore::new());
    let options = engine::Options::new(store, Arc::new(Still), Arc::new(Counted::default()));
    let engine = runtime.block_on(Engine::new(options)).expect("an engine");
    Box::new(move || {
        let request = StartRequest::new(definition.clone());
        runtime.block_on(async {
            let mut last = engine.start(request).await.expect("a start");
            while let Some(token) = last.new_token {
                let report = Report::Output(output());
                last = engine.advance(&token, report).await.expect("an advance");
            }
            assert_eq!(last.workflow_state, "completed");
        });
    })
}

pub(crate) fn lines() -> Round {
    let runtime = runtime();
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let manifest = format!("workflow: bench\ndescription: Measured\n{}", chain_lines());
    fs::write(home.path().join("bench.yaml"), manifest).expect("a file");
    let config = Config {
        workflows_dir: Some(home.path().into()),
        project_dir: home.path().into(),
        allow_env: Vec::new(),
        secret_env: Vec::new(),
        ..Config::new(Some(home.path().join("data"))).expect("a configuration")
    };
    let app =
        App::with_options(Options::new(config, Arc::new(Still), Arc::new(Counted::default())));
    let mut client = runtime.block_on(Client::of(app));
    Box::new(move || {
        // It lives as long as the client.
        let _ = &home;
        runtime.block_on(client.execution());
    })
}

/// The other end of a server's streams.
struct Client {
    input: BufReader<ReadHalf<SimplexStream>>,
    output: WriteHalf<SimplexStream>,
    line: String,
    last_id: u32,
}

impl Client {
    async fn of(app: App) -> Self {
        let (server_input, output) = simplex(PIPE_BYTES);
        let (input, server_output) = simplex(PIPE_BYTES);
        let transport = LineTransport::new(server_input, server_output);
        let server = Server::new(Arc::new(app));
        tokio::spawn(serve(server, transport, CancellationToken::new()));
        let mut client =
            Self { input: BufReader::new(input), output, line: String::new(), last_id: 0 };
        let about = json!({ "name": "bench", "version": "0" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
        client.ask("initialize", &params).await;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.say(&initialized).await;
        client
    }

    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let said = self.output.write_all(line.as_bytes()).await;
        said.expect("a server that reads");
    }

    async fn ask(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.say(&request).await;
        self.line.clear();
        let read = self.input.read_line(&mut self.line).await;
        read.expect("a server that answers");
    }

    /// Leads one from its start to its end.
    async fn execution(&mut self) {
        let start = json!({ "name": "workflow.start", "arguments": { "workflow_name": "bench" } });
        self.ask("tools/call", &start).await;
        while let Some(token) = self.token() {
            let arguments = json!({ "token": token, "output": output() });
            let next = json!({ "name": "workflow.next_step", "arguments": arguments });
            self.ask("tools/call", &next).await;
        }
        assert!(self.line.contains(r#""workflow_state":"completed""#), "{}", self.line);
    }

    /// The token of the next step. The client's own work is counted too, so it is kept small.
    fn token(&self) -> Option<String> {
        let (_, rest) = self.line.split_once(r#""new_token":""#)?;
        rest.split_once('"').map(|(token, _)| token.to_owned())
    }
}
