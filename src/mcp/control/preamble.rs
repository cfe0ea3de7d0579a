//! The first lines on the control socket. The client's preamble says who it is and what it wants. The owner's greeting
//! says who the owner is, or why it refuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::socket::preamble_refused_error;
use crate::{ToolNames, ToolProfile, Toolsets};
use midex_domain::{
    ProjectDirectories,
    error::{Code, Error, Result},
    limits,
};
use midex_server::{
    app,
    config::{AuthorTarget, Config, RegistryDir},
};

/// The version of the control protocol. Builds with the same number work together, whatever their midex version. Fields
/// may be added without changing it, since both sides ignore unknown fields.
pub const CONTROL_PROTOCOL_VERSION: u32 = 1;

/// How many characters of a path or version are shown. Linux does not open longer paths.
const SHOWN_NAME_CHARS_MAX: usize = 1024;

/// The kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientRole {
    /// A command of the user, which may do what only people may do.
    Command,
    /// A process that relays its own client. It is offered the tools that its client may use.
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
    /// The kind of client.
    pub role: ClientRole,
    project_dir: String,
    workflows_dir: Option<String>,
    agents_dir: Option<String>,
    /// The workflow directory that the client's environment names.
    #[serde(default)]
    registry_dir: Option<RegistryDir>,
    #[serde(default)]
    named_by_project: ProjectDirectories,
    #[serde(default)]
    author_to: AuthorTarget,
    /// The environment variables that the client's user allows expressions to read, with their values.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The activities of the client's program, all of which the owner must have.
    #[serde(default)]
    activities: BTreeSet<String>,
    /// The names of the toolsets that a relay offers its client.
    #[serde(default)]
    toolsets: Vec<String>,
    #[serde(default)]
    tool_names: ToolNames,
    /// The address at which the client is about to serve HTTP, if it asks to own the directory.
    pub http: Option<String>,
    #[serde(default)]
    token_ttl_ms: u64,
    #[serde(default)]
    snapshot_every: u32,
}

/// The fields that preambles of every protocol version have.
#[derive(Deserialize)]
struct PreambleVersion {
    #[serde(default)]
    protocol: u32,
    midex: String,
}

impl Preamble {
    /// The preamble of this process, from its options and the profile of its client.
    pub fn from_options(options: &app::Options, role: ClientRole, profile: ToolProfile) -> Self {
        let config = &options.config;
        // Non-Unicode paths are converted lossily, since JSON is Unicode. Project names are shown in the same form.
        let to_absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        };
        let project_directories = &config.project_directories;
        Self {
            protocol: CONTROL_PROTOCOL_VERSION,
            midex: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            role,
            project_dir: to_absolute(&config.project_dir),
            workflows_dir: config.workflows_dir.as_ref().map(to_absolute),
            agents_dir: config.agents_dir.as_ref().map(to_absolute),
            registry_dir: config
                .registry_dir
                .as_ref()
                .map(|dir| RegistryDir { path: to_absolute(&dir.path).into(), ..dir.clone() }),
            named_by_project: ProjectDirectories {
                workflows: project_directories
                    .workflows
                    .as_ref()
                    .map(|path| to_absolute(path).into()),
                agents: project_directories.agents.as_ref().map(|path| to_absolute(path).into()),
            },
            author_to: config.author_to,
            env: config.environment(),
            activities: options.activities.names().map(str::to_owned).collect(),
            toolsets: profile.toolsets.names().map(str::to_owned).collect(),
            tool_names: profile.tool_names,
            http: None,
            token_ttl_ms: to_milliseconds(config.token_ttl),
            snapshot_every: config.snapshot_every,
        }
    }

    /// Parses the first line of a client.
    ///
    /// # Errors
    /// `USAGE_INVALID` if the line is not a preamble, or has another protocol version.
    pub(super) fn parse(line: &str) -> Result<Self> {
        let version: PreambleVersion = serde_json::from_str(line).map_err(|_| {
            preamble_refused_error("the first line at the control socket is none of midex")
        })?;
        if version.protocol != CONTROL_PROTOCOL_VERSION {
            return Err(other_protocol_error(&version));
        }
        serde_json::from_str(line).map_err(|error| {
            preamble_refused_error("the first line at the control socket lacks something")
                .with_source(error)
        })
    }

    /// The tool profile of the client. Only a command gets the tools that are reserved for people.
    pub(super) fn tool_profile(&self) -> ToolProfile {
        match self.role {
            ClientRole::Command => ToolProfile::ALL_TOOLS_DOTTED,
            ClientRole::Relay => ToolProfile {
                toolsets: Toolsets::from_known_names(self.toolsets.iter().map(String::as_str)),
                tool_names: self.tool_names,
            },
        }
    }

    /// The owner's configuration with the directories of this client, and the client's environment.
    pub(super) fn build_client_config(&self, owner: &Config) -> (Config, BTreeMap<String, String>) {
        let to_path = |path: &Option<String>| path.as_ref().map(PathBuf::from);
        let config = Config {
            project_dir: PathBuf::from(&self.project_dir),
            workflows_dir: to_path(&self.workflows_dir),
            agents_dir: to_path(&self.agents_dir),
            // Replace it even with `None`: the owner's environment does not apply to this client.
            registry_dir: self.registry_dir.clone(),
            project_directories: self.named_by_project.clone(),
            author_to: self.author_to,
            ..owner.clone()
        };
        (config, self.env.clone())
    }

    /// The activities of the client's program that are missing in `owner_activities`.
    pub(super) fn find_missing_activities<'a>(
        &'a self,
        owner_activities: &'a BTreeSet<String>,
    ) -> Vec<&'a str> {
        let missing = self.activities.difference(owner_activities);
        missing.map(String::as_str).collect()
    }

    /// The client, as the owner lists it to others.
    pub(super) fn client_info(&self) -> ClientInfo {
        ClientInfo {
            pid: self.pid,
            role: self.role,
            midex: self.midex.chars().take(SHOWN_NAME_CHARS_MAX).collect(),
            project_dir: self.project_dir.chars().take(SHOWN_NAME_CHARS_MAX).collect(),
        }
    }

    /// The settings that the client requested and that the owner has with other values. The owner's values apply.
    pub fn list_ignored_settings(&self, owner: &Greeting) -> Vec<String> {
        let token_ttl_flag = (self.token_ttl_ms != owner.token_ttl_ms)
            .then(|| format!("--token-ttl is {} there", format_flag_duration(owner.token_ttl_ms)));
        let snapshot_flag = (self.snapshot_every != owner.snapshot_every)
            .then(|| format!("--snapshot-every is {} there", owner.snapshot_every));
        token_ttl_flag.into_iter().chain(snapshot_flag).collect()
    }
}

/// A client of the owner, as it is listed to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its process id.
    pub pid: u32,
    /// The kind of client.
    pub role: ClientRole,
    /// Its midex version.
    pub midex: String,
    /// Its project directory.
    pub project_dir: String,
}

/// The owner's answer to a preamble.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Greeting {
    pub(super) protocol: u32,
    /// The owner's midex version.
    pub midex: String,
    /// The owner's process id.
    pub pid: u32,
    /// When it became the owner, in milliseconds since 1970.
    pub since_ms: i64,
    /// The address at which it serves HTTP.
    pub http: Option<String>,
    /// The lifetime of tokens, in milliseconds.
    pub token_ttl_ms: u64,
    /// A snapshot is written every this many transitions.
    pub snapshot_every: u32,
    /// The other clients.
    pub clients: Vec<ClientInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Map<String, Value>>,
}

impl Greeting {
    /// Parses the answer of an owner.
    ///
    /// # Errors
    /// The error with which the owner refused; `USAGE_INVALID` if it speaks another protocol version.
    pub(super) fn parse(line: &str) -> Result<Self> {
        let greeting: Self = serde_json::from_str(line).map_err(|error| {
            preamble_refused_error("the owner's first line cannot be read").with_source(error)
        })?;
        match &greeting.error {
            Some(error) => Err(Error::from_payload(error)),
            None if greeting.protocol != CONTROL_PROTOCOL_VERSION => {
                Err(other_protocol_error(&PreambleVersion {
                    protocol: greeting.protocol,
                    midex: greeting.midex,
                }))
            }
            None => Ok(greeting),
        }
    }
}

/// A duration in the syntax of its flag: `24h`.
fn format_flag_duration(milliseconds: u64) -> String {
    let duration = jiff::SignedDuration::try_from(Duration::from_millis(milliseconds));
    duration.map_or_else(|_| format!("{milliseconds}ms"), |it| format!("{it:#}"))
}

pub(super) fn to_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn other_protocol_error(other_preamble: &PreambleVersion) -> Error {
    let message = format!(
        "two builds of midex that cannot work together use one data directory: {} speaks protocol {} of the control socket, {} speaks {CONTROL_PROTOCOL_VERSION}",
        other_preamble.midex,
        other_preamble.protocol,
        env!("CARGO_PKG_VERSION"),
    );
    Error::new(Code::UsageInvalid, message)
        .with_action("Ask your user to restart the older one with the newer build, or to give one of them a data directory of its own with --data-dir")
}

/// Reads a first line of at most [`limits::CONTROL_PREAMBLE_BYTES_MAX`].
pub(super) async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin)) -> Result<String> {
    let mut line = String::new();
    let bytes_read = input.take(limits::CONTROL_PREAMBLE_BYTES_MAX).read_line(&mut line).await;
    match bytes_read {
        Ok(_) if line.ends_with('\n') => Ok(line),
        Ok(_) => Err(preamble_refused_error("the first line has no end")),
        Err(error) => {
            Err(preamble_refused_error("the first line cannot be read").with_source(error))
        }
    }
}

/// Writes a first line.
pub(super) async fn write_line(
    output: &mut (impl AsyncWriteExt + Unpin),
    line: &impl Serialize,
) -> Result<()> {
    let mut text = serde_json::to_string(line)
        .map_err(|error| Error::internal("the first line cannot be written").with_source(error))?;
    text.push('\n');
    if text.len() as u64 > limits::CONTROL_PREAMBLE_BYTES_MAX {
        let message = format!(
            "the allowed environment variables have more than {} bytes together",
            limits::CONTROL_PREAMBLE_BYTES_MAX
        );
        return Err(Error::new(Code::LimitExceeded, message));
    }
    let write_result = output.write_all(text.as_bytes()).await;
    write_result
        .map_err(|error| preamble_refused_error("the other side has gone").with_source(error))
}
