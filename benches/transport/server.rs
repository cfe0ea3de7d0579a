//! The servers' end: one app on a real file and an echo beside it, each behind all transports.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use midex::{
    app::{App, Options},
    clock::{SystemClock, SystemIds},
    config::Config,
    domain::{Definition, execution::Report, view::Advanced},
    engine::StartRequest,
    mcp::{self, LineTransport, Process, ToolProfile},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, unix::pipe},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Client, Connection, Lane, Lines, Tool, Way},
    support::{STEPS, definition},
};

/// A tool that answers a reply of `workflow.next_step` and does nothing else.
#[derive(Clone)]
struct Echo {
    reply: Arc<Value>,
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        assert_eq!(request.name, Tool::Echo.name());
        Ok(CallToolResult::structured((*self.reply).clone()).into())
    }
}

/// An app, an echo, and a client of each for each way.
pub(crate) struct Rig {
    app: Arc<App>,
    definition: Arc<Definition>,
    in_flight: usize,
    reply: Arc<Value>,
    clients: Vec<(Way, Tool, Option<Client>)>,
    stop: CancellationToken,
    serving: JoinSet<()>,
    dir: tempfile::TempDir,
}

impl Rig {
    /// Servers for so many calls in flight, and a persona of so many bytes in each reply.
    pub(crate) async fn new(in_flight: usize, persona_bytes: usize) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let stop = CancellationToken::new();
        let mut serving = JoinSet::new();
        let (app, relayed) = open(dir.path(), &stop, &mut serving).await;
        let definition =
            definition(&"A line of what a persona is told. ".repeat(persona_bytes / 34 + 1));
        let reply = Arc::new(sample(&app, &definition).await);
        let mut rig = Self {
            app,
            definition,
            in_flight,
            reply,
            clients: relayed,
            stop,
            serving,
            dir,
        };
        let (app, reply) = (rig.app.clone(), rig.reply.clone());
        rig.serve(Tool::NextStep, move || mcp::Server::new(app.clone()))
            .await;
        rig.serve(Tool::Echo, move || Echo {
            reply: reply.clone(),
        })
        .await;
        rig
    }

    /// Puts a handler behind every transport, and a client before each.
    async fn serve<H: ServerHandler>(
        &mut self,
        tool: Tool,
        handler: impl Fn() -> H + Send + Sync + 'static,
    ) {
        let (to_server, from_client) = pipe::pipe().expect("a pipe");
        let (to_client, from_server) = pipe::pipe().expect("a pipe");
        let transport = LineTransport::new(from_client, to_client);
        let serving = mcp::serve(handler(), transport, self.stop.clone());
        self.serving
            .spawn(async { serving.await.expect("an orderly end") });
        let lines = Box::new(Lines::open(from_server, to_server).await);
        self.clients
            .push((Way::Stdio, tool, Some(Client::Lines(lines))));

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = mcp::http::serve(
            listener,
            handler,
            mcp::http::Options::default(),
            self.stop.clone(),
        );
        self.serving
            .spawn(async { serving.await.expect("an orderly end") });
        for way in [Way::Stateless, Way::Session] {
            let mut connections = Vec::new();
            for _ in 0..self.in_flight {
                connections.push(Connection::open(address, way, tool).await);
            }
            self.clients
                .push((way, tool, Some(Client::Http(connections))));
        }
    }

    /// The size of one reply as JSON.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.reply.to_string().len()
    }

    /// Where the app's file is.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Makes `count` calls; the executions that they lead on are started before the clock.
    pub(crate) async fn run(&mut self, way: Way, tool: Tool, count: u64) -> Duration {
        let tokens = self.tokens(tool, count).await;
        let lanes = tokens.len() as u64;
        let lanes = (0..)
            .zip(tokens)
            .map(|(at, (tokens, share))| Lane::new(tokens, share, at, lanes));
        let lanes = lanes.collect();
        // The echo has no relay.
        let way = match (way, tool) {
            (Way::Owner | Way::Relay, Tool::Echo) => Way::Stdio,
            (way, _) => way,
        };
        let is_it =
            |(its_way, its_tool, _): &&mut (Way, Tool, _)| (*its_way, *its_tool) == (way, tool);
        let (_, _, place) = self
            .clients
            .iter_mut()
            .find(is_it)
            .expect("a client of each");
        let client = place.take().expect("a client that came back");
        let start = Instant::now();
        *place = Some(client.drive(lanes, tool).await);
        start.elapsed()
    }

    /// Makes `count` transitions without any transport.
    pub(crate) async fn engine(&mut self, count: u64) -> Duration {
        let tokens = self.tokens(Tool::NextStep, count).await;
        let start = Instant::now();
        let lanes = tokens.into_iter();
        let lanes: JoinSet<_> = lanes
            .map(|(tokens, share)| lead(self.app.clone(), tokens, share))
            .collect();
        lanes.join_all().await;
        start.elapsed()
    }

    /// For each lane its tokens and its share of the calls.
    async fn tokens(&self, tool: Tool, count: u64) -> Vec<(Vec<String>, u64)> {
        let lanes = self.in_flight as u64;
        let mut all = Vec::new();
        for at in 0..lanes {
            let share = count / lanes + u64::from(at < count % lanes);
            let starting = start_for(self.app.clone(), self.definition.clone(), tool, share);
            all.push((tokio::spawn(starting), share));
        }
        let mut tokens = Vec::new();
        for (starting, share) in all {
            tokens.push((starting.await.expect("no panic"), share));
        }
        tokens
    }

    /// Ends the servers, then the app.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        drop(self.clients);
        self.serving.join_all().await;
        self.app.stop().await.expect("a stop");
    }
}

type Clients = Vec<(Way, Tool, Option<Client>)>;

/// The app of a process that owns `dir`, and the clients of that process and of another one that relays to it.
async fn open(
    dir: &Path,
    stop: &CancellationToken,
    serving: &mut JoinSet<()>,
) -> (Arc<App>, Clients) {
    let mut config = Config::new(Some(dir.join("data"))).expect("a configuration");
    config.project_dir = dir.into();
    let options = Options::new(config, Arc::new(SystemClock), Arc::new(SystemIds));
    let (mut app, mut clients) = (None, Vec::new());
    for way in [Way::Owner, Way::Relay] {
        let process = Process::for_agent(options.clone(), ToolProfile::default());
        if way == Way::Owner {
            app = Some(Arc::new(process.app().await.expect("an app")));
        }
        let (to_server, from_client) = pipe::pipe().expect("a pipe");
        let (to_client, from_server) = pipe::pipe().expect("a pipe");
        let stop = stop.clone();
        serving.spawn(async move {
            // The app is stopped by the rig.
            drop(mcp::relay(&process, from_client, to_client, stop).await);
        });
        let lines = Box::new(Lines::open(from_server, to_server).await);
        clients.push((way, Tool::NextStep, Some(Client::Lines(lines))));
        if let Some(app) = &app {
            app.opened().await;
        }
    }
    (app.expect("an app"), clients)
}

async fn start(app: &App, definition: &Arc<Definition>) -> String {
    let request = StartRequest {
        definition: definition.clone(),
        execution_id: None,
        project: None,
        inputs: None,
    };
    let engine = app.engine().await.expect("an engine");
    let started = engine.start(request).await.expect("a start");
    started.new_token.expect("a first step")
}

/// As many executions as `share` steps need; the echo needs any token.
async fn start_for(
    app: Arc<App>,
    definition: Arc<Definition>,
    tool: Tool,
    share: u64,
) -> Vec<String> {
    let executions = match tool {
        Tool::Echo => 1,
        Tool::NextStep => share.div_ceil(STEPS as u64),
    };
    let mut tokens = Vec::new();
    for _ in 0..executions {
        tokens.push(start(&app, &definition).await);
    }
    tokens
}

async fn advance(app: &App, token: &str) -> Advanced {
    let report = Report::Output(json!({ "summary": "done" }));
    app.next_step(token, report).await.expect("an advance")
}

async fn lead(app: Arc<App>, mut tokens: Vec<String>, share: u64) {
    for _ in 0..share {
        let token = tokens.pop().expect("an execution that has not ended");
        tokens.extend(advance(&app, &token).await.new_token);
    }
}

/// A reply from the midst of an execution.
async fn sample(app: &App, definition: &Arc<Definition>) -> Value {
    let mut token = start(app, definition).await;
    for _ in 1..STEPS / 2 {
        token = advance(app, &token).await.new_token.expect("a next step");
    }
    serde_json::to_value(advance(app, &token).await).expect("JSON")
}
