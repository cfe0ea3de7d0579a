//! The first lines at the control socket: a client says who it is and what it wants, the owner of the directory says who
//! it is or why it refuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::socket::refused;
use crate::{ToolNames, ToolProfile, Toolsets};
use midex_domain::{
    NamedByProject,
    error::{Code, Error, Result},
    limits,
};
use midex_server::{
    app,
    config::{AuthorTo, Config, RegistryDir},
};

/// What both sides must agree on: builds of one number work together, whatever their version. Fields may be added under
/// one number, for either side passes over those it does not know.
pub const PROTOCOL: u32 = 1;

/// What is shown of a path or a version: Linux opens no longer path.
const NAME_CHARS_MAX: usize = 1024;

/// What a client of the socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A command that a person gave: it may do what only people may.
    Command,
    /// A process that relays its own client to the owner: it is offered what that client may be.
    Relay,
}

/// The first line of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preamble {
    protocol: u32,
    /// The client's version of midex.
    midex: String,
    #[serde(default)]
    pid: u32,
    /// What the client is.
    pub role: Role,
    project_dir: String,
    workflows_dir: Option<String>,
    agents_dir: Option<String>,
    /// The directory of workflows that the client's environment names.
    #[serde(default)]
    registry_dir: Option<RegistryDir>,
    #[serde(default)]
    named_by_project: NamedByProject,
    #[serde(default)]
    author_to: AuthorTo,
    /// The values of the environment variables that the client's user allows expressions to see.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The activities of the client's own program, which the owner must have too.
    #[serde(default)]
    activities: BTreeSet<String>,
    /// The names of the toolsets that a relay offers its client.
    #[serde(default)]
    toolsets: Vec<String>,
    #[serde(default)]
    tool_names: ToolNames,
    /// Where the client is about to serve HTTP: it asks to own the directory.
    pub http: Option<String>,
    #[serde(default)]
    token_ttl_ms: u64,
    #[serde(default)]
    snapshot_every: u32,
}

/// What of a first line every protocol has.
#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    protocol: u32,
    midex: String,
}

impl Preamble {
    /// What this process says of itself: its options, and what it offers its client.
    pub fn of(options: &app::Options, role: Role, profile: ToolProfile) -> Self {
        let config = &options.config;
        // JSON holds Unicode alone, as the name of a project does wherever it is shown.
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        };
        let named = &config.named_by_project;
        Self {
            protocol: PROTOCOL,
            midex: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            role,
            project_dir: absolute(&config.project_dir),
            workflows_dir: config.workflows_dir.as_ref().map(absolute),
            agents_dir: config.agents_dir.as_ref().map(absolute),
            registry_dir: config.registry_dir.as_ref().map(|dir| RegistryDir {
                path: absolute(&dir.path).into(),
                ..dir.clone()
            }),
            named_by_project: NamedByProject {
                workflows: named.workflows.as_ref().map(|path| absolute(path).into()),
                agents: named.agents.as_ref().map(|path| absolute(path).into()),
            },
            author_to: config.author_to,
            env: config.environment(),
            activities: options.activities.names().map(str::to_owned).collect(),
            toolsets: profile.toolsets.names().map(str::to_owned).collect(),
            tool_names: profile.tool_names,
            http: None,
            token_ttl_ms: milliseconds(config.token_ttl),
            snapshot_every: config.snapshot_every,
        }
    }

    /// Reads the line of a client.
    ///
    /// # Errors
    /// `USAGE_INVALID` where it is no such line, or one of another protocol.
    pub(super) fn parse(line: &str) -> Result<Self> {
        let version: Version = serde_json::from_str(line)
            .map_err(|_| refused("the first line at the control socket is none of midex"))?;
        if version.protocol != PROTOCOL {
            return Err(of_another_protocol(&version));
        }
        serde_json::from_str(line).map_err(|error| {
            refused("the first line at the control socket lacks something").because(error)
        })
    }

    /// What the client offers: nothing that only people may do, unless it is a command.
    pub(super) fn profile(&self) -> ToolProfile {
        match self.role {
            Role::Command => ToolProfile::COMMANDS,
            Role::Relay => ToolProfile {
                toolsets: Toolsets::known(self.toolsets.iter().map(String::as_str)),
                tool_names: self.tool_names,
            },
        }
    }

    /// The configuration of the owner for this client, and its environment.
    pub(super) fn config(&self, owner: &Config) -> (Config, BTreeMap<String, String>) {
        let directory = |path: &Option<String>| path.as_ref().map(PathBuf::from);
        let config = Config {
            project_dir: PathBuf::from(&self.project_dir),
            workflows_dir: directory(&self.workflows_dir),
            agents_dir: directory(&self.agents_dir),
            // The owner's environment is none of this client's.
            registry_dir: self.registry_dir.clone(),
            named_by_project: self.named_by_project.clone(),
            author_to: self.author_to,
            ..owner.clone()
        };
        (config, self.env.clone())
    }

    /// The activities of the client's program that are not among these.
    pub(super) fn activities_beyond<'a>(&'a self, owned: &'a BTreeSet<String>) -> Vec<&'a str> {
        let beyond = self.activities.difference(owned);
        beyond.map(String::as_str).collect()
    }

    /// What the owner's list shows of the client.
    pub(super) fn client(&self) -> ClientInfo {
        ClientInfo {
            pid: self.pid,
            role: self.role,
            midex: self.midex.chars().take(NAME_CHARS_MAX).collect(),
            project_dir: self.project_dir.chars().take(NAME_CHARS_MAX).collect(),
        }
    }

    /// What the client asked for and does not get: the owner's flags count.
    pub fn unheeded(&self, owner: &Greeting) -> Vec<String> {
        let ttl = (self.token_ttl_ms != owner.token_ttl_ms)
            .then(|| format!("--token-ttl is {} there", shown(owner.token_ttl_ms)));
        let every = (self.snapshot_every != owner.snapshot_every)
            .then(|| format!("--snapshot-every is {} there", owner.snapshot_every));
        ttl.into_iter().chain(every).collect()
    }
}

/// A client of the owner, as others are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its process.
    pub pid: u32,
    /// What it is.
    pub role: Role,
    /// Its version of midex.
    pub midex: String,
    /// Its project.
    pub project_dir: String,
}

/// What the owner of a directory answers a first line with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Greeting {
    pub(super) protocol: u32,
    /// Its version of midex.
    pub midex: String,
    /// Its process.
    pub pid: u32,
    /// Since when it owns the directory, in milliseconds since 1970.
    pub since_ms: i64,
    /// Where it serves HTTP.
    pub http: Option<String>,
    /// How long tokens live, in milliseconds.
    pub token_ttl_ms: u64,
    /// How many transitions a snapshot is written for.
    pub snapshot_every: u32,
    /// Its clients but for this one.
    pub clients: Vec<ClientInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Map<String, Value>>,
}

impl Greeting {
    /// Reads the answer of an owner.
    ///
    /// # Errors
    /// What the owner refused with; `USAGE_INVALID` where it speaks another protocol.
    pub(super) fn parse(line: &str) -> Result<Self> {
        let greeting: Self = serde_json::from_str(line)
            .map_err(|error| refused("the owner's first line cannot be read").because(error))?;
        match &greeting.error {
            Some(error) => Err(Error::from_payload(error)),
            None if greeting.protocol != PROTOCOL => Err(of_another_protocol(&Version {
                protocol: greeting.protocol,
                midex: greeting.midex,
            })),
            None => Ok(greeting),
        }
    }
}

/// A duration as its flag takes it: `24h`.
fn shown(milliseconds: u64) -> String {
    let duration = jiff::SignedDuration::try_from(Duration::from_millis(milliseconds));
    duration.map_or_else(|_| format!("{milliseconds}ms"), |it| format!("{it:#}"))
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn of_another_protocol(other: &Version) -> Error {
    let message = format!(
        "two builds of midex that cannot work together use one data directory: {} speaks protocol {} of the control socket, {} speaks {PROTOCOL}",
        other.midex,
        other.protocol,
        env!("CARGO_PKG_VERSION"),
    );
    Error::new(Code::UsageInvalid, message)
        .with_action("Ask your user to restart the older one with the newer build, or to give one of them a data directory of its own with --data-dir")
}

/// Reads a first line, of [`limits::CONTROL_PREAMBLE_BYTES_MAX`] at most.
pub(super) async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin)) -> Result<String> {
    let mut line = String::new();
    let read = input
        .take(limits::CONTROL_PREAMBLE_BYTES_MAX)
        .read_line(&mut line)
        .await;
    match read {
        Ok(_) if line.ends_with('\n') => Ok(line),
        Ok(_) => Err(refused("the first line has no end")),
        Err(error) => Err(refused("the first line cannot be read").because(error)),
    }
}

/// Writes a first line.
pub(super) async fn write_line(
    output: &mut (impl AsyncWriteExt + Unpin),
    line: &impl Serialize,
) -> Result<()> {
    let mut text = serde_json::to_string(line)
        .map_err(|error| Error::internal("the first line cannot be written").because(error))?;
    text.push('\n');
    if text.len() as u64 > limits::CONTROL_PREAMBLE_BYTES_MAX {
        let message = format!(
            "the allowed environment variables have more than {} bytes together",
            limits::CONTROL_PREAMBLE_BYTES_MAX
        );
        return Err(Error::new(Code::LimitExceeded, message));
    }
    let written = output.write_all(text.as_bytes()).await;
    written.map_err(|error| refused("the other side has gone").because(error))
}
