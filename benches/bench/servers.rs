//! `workflow.next_step` of servers in processes of their own: this program, over each of its transports.

use std::{net::SocketAddr, process::Stdio, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{
    BenchDirectory,
    client::{Calls, Http, Lines},
    figures::Turn,
    load::{Contender, Stopwatch, drive},
    machine::cpu_of,
};
use midex_domain::error::{Error, Result, describe_io_error};
use midex_engine::store::BoxFuture;

/// The transport between the clients and the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Over standard streams.
    Stdio,
    /// Over standard streams to a relay, which forwards the lines to the owner of the directory.
    Relay,
    /// Over HTTP, with stateless requests.
    Stateless,
    /// Over HTTP, in a session.
    Session,
}

impl Transport {
    /// All transports, with their names.
    pub(super) const ALL: [(&str, Self); 4] = [
        ("stdio", Self::Stdio),
        ("stdio, through a relay", Self::Relay),
        ("HTTP, stateless", Self::Stateless),
        ("HTTP, session", Self::Session),
    ];
}

/// The servers of one transport, and their clients.
pub(super) struct Servers {
    /// The server that the clients call is the last one.
    children: Vec<Child>,
    clients: Clients,
}

enum Clients {
    /// The clients call over the last connection. A server ends when its connection is closed.
    Lines(Vec<Lines>, Vec<Calls>),
    Http(Vec<Http>),
}

impl Servers {
    /// Starts the servers in a new data directory.
    pub(super) async fn start(
        place: &BenchDirectory,
        way: Transport,
        in_flight: usize,
    ) -> Result<Self> {
        let mut command = command(place)?;
        let calls = || (0..in_flight).map(Calls::new).collect();
        match way {
            Transport::Stdio => {
                let (child, lines) = over_lines(&mut command).await?;
                Ok(Self::of([child], Clients::Lines(vec![lines], calls())))
            }
            Transport::Relay => {
                let (owner, mut lines) = over_lines(&mut command).await?;
                // A server that has answered a call owns the directory, so that the next one becomes a relay.
                let at_once = Stopwatch::start(Duration::ZERO);
                lines.drive(&mut [Calls::new(0)], &at_once).await?;
                let (relay, relayed) = over_lines(&mut command).await?;
                let connections = vec![lines, relayed];
                Ok(Self::of([owner, relay], Clients::Lines(connections, calls())))
            }
            Transport::Stateless | Transport::Session => {
                let (child, address) = over_http(&mut command).await?;
                let mut clients = Vec::new();
                for at in 0..in_flight {
                    clients.push(Http::open(address, way == Transport::Stateless, at).await?);
                }
                Ok(Self::of([child], Clients::Http(clients)))
            }
        }
    }

    fn of<const N: usize>(children: [Child; N], clients: Clients) -> Self {
        let children = children.into();
        Self { children, clients }
    }

    /// The processor time of all servers, if the system reports it.
    fn cpu(&self) -> Option<Duration> {
        self.children.iter().map(|child| cpu_of(child.id()?)).sum()
    }

    async fn measured(&mut self, length: Duration) -> Result<Turn> {
        let before = self.cpu();
        let watch = Arc::new(Stopwatch::start(length));
        let latencies = match &mut self.clients {
            Clients::Lines(connections, calls) => {
                let called = connections.last_mut();
                let called = called.ok_or_else(|| Error::internal("no server is called"))?;
                called.drive(calls, &watch).await?
            }
            Clients::Http(clients) => drive(clients, &watch).await?,
        };
        let spent = self.cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok(watch.stop_with(latencies, spent))
    }
}

impl Contender for Servers {
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>> {
        Box::pin(self.measured(length))
    }

    fn end(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            for child in &mut self.children {
                kill(child).await?;
            }
            Ok(())
        })
    }
}

/// The command of a server with its own data directory and without the user's definitions.
pub(super) fn command(place: &BenchDirectory) -> Result<Command> {
    let config = place.config()?;
    let program = std::env::current_exe().map_err(|error| not_run("found", error))?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--data-dir").arg(&config.data_dir);
    let definitions = [("--workflows", config.workflows_dir), ("--agents", config.agents_dir)];
    for (flag, directory) in definitions {
        command.args(
            directory
                .map(|directory| [flag.into(), directory.into_os_string()])
                .into_iter()
                .flatten(),
        );
    }
    command
        .current_dir(&config.project_dir)
        .env("XDG_CONFIG_HOME", &config.project_dir)
        .env_remove("RUST_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}

pub(super) async fn over_lines(command: &mut Command) -> Result<(Child, Lines)> {
    let child = command.stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|error| not_run("started", error))?;
    let streams = child.stdin.take().zip(child.stdout.take());
    let (write, read) = streams.ok_or_else(|| Error::internal("a server has no streams"))?;
    Ok((child, Lines::open(write, read).await?))
}

/// Starts a server on a free port, and reads its address from the start-up lines.
async fn over_http(command: &mut Command) -> Result<(Child, SocketAddr)> {
    let child = command.args(["--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| not_run("started", error))?;
    let said = child.stderr.take().ok_or_else(|| Error::internal("a server has no streams"))?;
    let mut lines = BufReader::new(said).lines();
    let mut last = String::new();
    while let Some(line) = lines.next_line().await.map_err(|error| not_run("heard", error))? {
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once("/mcp"));
        if let Some(address) = address.and_then(|(address, _)| address.parse().ok()) {
            // Keep reading: the server would block once its log has filled the pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok((child, address));
        }
        last = line;
    }
    Err(Error::internal(format!("a server did not say where it listens: {last}")))
}

/// Kills a server, to simulate a crash.
pub(super) async fn kill(child: &mut Child) -> Result<()> {
    child.kill().await.map_err(|error| not_run("killed", error))
}

pub(super) fn not_run(what: &str, error: std::io::Error) -> Error {
    Error::internal(format!("a server could not be {what}: {}", describe_io_error(&error)))
        .with_source(error)
}
