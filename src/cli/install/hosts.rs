//! The table of hosts: the files of each for servers and for hooks, and their format. The sources of these facts are in
//! `docs/clients.md`, a section per host.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::InstallScope;
use midex_domain::error::{Code, Error, Result};
use midex_server::config::Config;

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostClient {
    #[value(help = "Claude Code")]
    ClaudeCode,
    #[value(help = "Claude Desktop; does not support --scope project, --http and --with-hooks")]
    ClaudeDesktop,
    #[value(help = "Cursor")]
    Cursor,
    #[value(help = "Visual Studio Code")]
    Vscode,
    #[value(help = "Codex: command line, IDE extension and app")]
    Codex,
    #[value(help = "Gemini CLI")]
    Gemini,
    #[value(help = "Windsurf; does not support --scope project and --with-hooks")]
    Windsurf,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// JSON, with comments if the host accepts them.
    Json,
    Toml,
}

/// The base directory of a user's file.
#[derive(Clone, Copy, Debug)]
enum BaseDirectory {
    Home,
    /// `~/Library/Application Support` on macOS, else `$XDG_CONFIG_HOME` or `~/.config`.
    Settings,
}

/// The location of a user's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserFile {
    base: BaseDirectory,
    path: &'static str,
    /// An environment variable that names another base directory, and the path in it.
    environment_override: Option<(&'static str, &'static str)>,
}

const fn home_file(path: &'static str) -> UserFile {
    UserFile { base: BaseDirectory::Home, path, environment_override: None }
}

const fn settings_file(path: &'static str) -> UserFile {
    UserFile { base: BaseDirectory::Settings, path, environment_override: None }
}

impl UserFile {
    const fn with_variable(mut self, variable: &'static str, path: &'static str) -> Self {
        self.environment_override = Some((variable, path));
        self
    }

    fn resolve_path(&self) -> Result<PathBuf> {
        let override_path = self.environment_override.and_then(|(variable, path)| {
            let directory = std::env::var_os(variable).filter(|it| !it.is_empty())?;
            std::path::absolute(directory).ok().map(|directory| directory.join(path))
        });
        if let Some(override_path) = override_path {
            return Ok(override_path);
        }
        let no_home_error =
            |error| Error::new(Code::UsageInvalid, "there is no home directory").with_source(error);
        let home = etcetera::home_dir().map_err(no_home_error)?;
        let base = match self.base {
            BaseDirectory::Home => home,
            BaseDirectory::Settings if cfg!(target_os = "macos") => {
                home.join("Library/Application Support")
            }
            BaseDirectory::Settings => {
                let config_home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
                config_home.filter(|it| it.is_absolute()).unwrap_or_else(|| home.join(".config"))
            }
        };
        Ok(base.join(self.path))
    }
}

/// Fields of a block with fixed values, the same for any server.
type FixedFields = &'static [(&'static str, &'static str)];

/// How a host configures a server that it reaches over HTTP.
#[derive(Debug)]
pub(super) struct HttpBlock {
    fixed_fields: FixedFields,
    url: &'static str,
}

/// The form of an entry for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookShape {
    /// A group `{matcher?, hooks: [{type, command}]}`.
    Grouped,
    /// `{type, command}`.
    Typed,
    /// `{command}`.
    CommandOnly,
}

/// The hooks of a host: commands that it runs at events.
#[derive(Debug)]
pub(super) struct HostHooks {
    user: UserFile,
    project: &'static str,
    /// The host's names for the start of a session and for the end of a turn.
    pub(super) events: [&'static str; 2],
    /// Which kinds of session start match; all if `None`.
    pub(super) matcher: Option<&'static str>,
    pub(super) shape: HookShape,
    /// The format version that the file of hooks must state.
    pub(super) version: Option<u32>,
}

/// A host, as its documentation describes it.
#[derive(Debug)]
pub(super) struct HostDefinition {
    client: HostClient,
    title: &'static str,
    /// The key that holds its servers.
    pub(super) servers: &'static str,
    pub(super) format: FileFormat,
    /// `None` if its documentation names no file on this operating system.
    user: Option<UserFile>,
    project: Option<&'static str>,
    stdio: FixedFields,
    http: Option<HttpBlock>,
    pub(super) hooks: Option<HostHooks>,
}

/// Every field that midex writes into a block for some host.
pub(super) const MIDEX_FIELDS: [&str; 6] =
    ["type", "command", "args", "url", "httpUrl", "serverUrl"];

/// Further fields that some host reads for a server that it starts as a process.
const STDIO_FIELDS: &[&str] = &["env", "envFile", "env_vars", "cwd"];

/// Further fields that some host reads for a server over HTTP.
const HTTP_FIELDS: &[&str] = &[
    "headers",
    "headersHelper",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "oauth",
    "auth",
];

/// The fields that a block with these fields must not have, because they belong to the other transport.
pub(super) fn list_foreign_fields(fields: &Map<String, Value>) -> Vec<&'static str> {
    let is_stdio = fields.contains_key("command");
    let excluded = if is_stdio { HTTP_FIELDS } else { STDIO_FIELDS };
    let excluded = MIDEX_FIELDS.iter().chain(excluded).copied();
    excluded.filter(|name| !fields.contains_key(*name)).collect()
}

pub(super) const HOSTS: &[HostDefinition] = &[
    HostDefinition {
        client: HostClient::ClaudeCode,
        title: "Claude Code",
        servers: "mcpServers",
        format: FileFormat::Json,
        user: Some(home_file(".claude.json").with_variable("CLAUDE_CONFIG_DIR", ".claude.json")),
        project: Some(".mcp.json"),
        stdio: &[("type", "stdio")],
        http: Some(HttpBlock { fixed_fields: &[("type", "http")], url: "url" }),
        hooks: Some(HostHooks {
            user: home_file(".claude/settings.json")
                .with_variable("CLAUDE_CONFIG_DIR", "settings.json"),
            project: ".claude/settings.json",
            events: ["SessionStart", "Stop"],
            matcher: Some("startup|resume|clear|compact"),
            shape: HookShape::Grouped,
            version: None,
        }),
    },
    HostDefinition {
        client: HostClient::ClaudeDesktop,
        title: "Claude Desktop",
        servers: "mcpServers",
        format: FileFormat::Json,
        user: if cfg!(target_os = "macos") {
            Some(settings_file("Claude/claude_desktop_config.json"))
        } else {
            None
        },
        project: None,
        stdio: &[],
        http: None,
        hooks: None,
    },
    HostDefinition {
        client: HostClient::Cursor,
        title: "Cursor",
        servers: "mcpServers",
        format: FileFormat::Json,
        user: Some(home_file(".cursor/mcp.json")),
        project: Some(".cursor/mcp.json"),
        stdio: &[("type", "stdio")],
        http: Some(HttpBlock { fixed_fields: &[], url: "url" }),
        hooks: Some(HostHooks {
            user: home_file(".cursor/hooks.json"),
            project: ".cursor/hooks.json",
            events: ["sessionStart", "stop"],
            matcher: None,
            shape: HookShape::CommandOnly,
            version: Some(1),
        }),
    },
    HostDefinition {
        client: HostClient::Vscode,
        title: "Visual Studio Code",
        servers: "servers",
        format: FileFormat::Json,
        user: Some(settings_file("Code/User/mcp.json")),
        project: Some(".vscode/mcp.json"),
        stdio: &[("type", "stdio")],
        http: Some(HttpBlock { fixed_fields: &[("type", "http")], url: "url" }),
        hooks: Some(HostHooks {
            user: home_file(".copilot/hooks/midex.json"),
            project: ".github/hooks/midex.json",
            events: ["SessionStart", "Stop"],
            matcher: None,
            shape: HookShape::Typed,
            version: None,
        }),
    },
    HostDefinition {
        client: HostClient::Codex,
        title: "Codex",
        servers: "mcp_servers",
        format: FileFormat::Toml,
        user: Some(home_file(".codex/config.toml").with_variable("CODEX_HOME", "config.toml")),
        project: Some(".codex/config.toml"),
        stdio: &[],
        http: Some(HttpBlock { fixed_fields: &[], url: "url" }),
        hooks: Some(HostHooks {
            user: home_file(".codex/hooks.json").with_variable("CODEX_HOME", "hooks.json"),
            project: ".codex/hooks.json",
            events: ["SessionStart", "Stop"],
            matcher: None,
            shape: HookShape::Grouped,
            version: None,
        }),
    },
    HostDefinition {
        client: HostClient::Gemini,
        title: "Gemini CLI",
        servers: "mcpServers",
        format: FileFormat::Json,
        user: Some(
            home_file(".gemini/settings.json")
                .with_variable("GEMINI_CLI_HOME", ".gemini/settings.json"),
        ),
        project: Some(".gemini/settings.json"),
        stdio: &[],
        http: Some(HttpBlock { fixed_fields: &[], url: "httpUrl" }),
        hooks: Some(HostHooks {
            user: home_file(".gemini/settings.json")
                .with_variable("GEMINI_CLI_HOME", ".gemini/settings.json"),
            project: ".gemini/settings.json",
            events: ["SessionStart", "AfterAgent"],
            matcher: None,
            shape: HookShape::Grouped,
            version: None,
        }),
    },
    HostDefinition {
        client: HostClient::Windsurf,
        title: "Windsurf",
        servers: "mcpServers",
        format: FileFormat::Json,
        user: Some(home_file(".codeium/windsurf/mcp_config.json")),
        project: None,
        stdio: &[],
        http: Some(HttpBlock { fixed_fields: &[], url: "serverUrl" }),
        hooks: None,
    },
];

impl HostClient {
    /// Its entry in the table.
    pub(super) fn host_definition(self) -> &'static HostDefinition {
        HOSTS.iter().find(|host| host.client == self).unwrap_or(&HOSTS[0])
    }
}

impl HostHooks {
    /// The file that holds its hooks.
    pub(super) fn hooks_path(&self, scope: InstallScope, config: &Config) -> Result<PathBuf> {
        match scope {
            InstallScope::User => self.user.resolve_path(),
            InstallScope::Project => Ok(config.project_dir.join(self.project)),
        }
    }
}

impl HostDefinition {
    /// Its name as a value of `--client`.
    pub(super) fn client_name(&self) -> String {
        let value = self.client.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The file that holds its servers; `None` if its documentation names none on this operating system.
    pub(super) fn servers_path(
        &self,
        scope: InstallScope,
        config: &Config,
    ) -> Result<Option<PathBuf>> {
        match (scope, self.project) {
            (InstallScope::User, _) => self.user.map(|file| file.resolve_path()).transpose(),
            (InstallScope::Project, Some(path)) => Ok(Some(config.project_dir.join(path))),
            (InstallScope::Project, None) => {
                let message = format!("{} has no servers of a project", self.title);
                Err(Error::new(Code::UsageInvalid, message)
                    .with_action("Leave out `--scope project`: its servers are those of the user, in every project"))
            }
        }
    }

    /// Its hooks, or the error that it has none.
    pub(super) fn require_hooks(&self) -> Result<&HostHooks> {
        self.hooks.as_ref().ok_or_else(|| {
            let message = format!(
                "{} runs no command that could tell a model what is open when a session begins",
                self.title
            );
            Error::new(Code::UsageInvalid, message).with_action("Leave out `--with-hooks`")
        })
    }

    /// The block of a server that the host starts as a process.
    pub(super) fn build_stdio_block(&self, command: &str, args: &[String]) -> Map<String, Value> {
        let mut block = fixed_fields(self.stdio);
        block.insert("command".to_owned(), json!(command));
        block.insert("args".to_owned(), json!(args));
        block
    }

    /// The block of a server that listens at `url`.
    pub(super) fn build_http_block(&self, url: &str) -> Result<Map<String, Value>> {
        let Some(http) = &self.http else {
            let message = format!("{} reads no addresses of servers from this file", self.title);
            return Err(Error::new(Code::UsageInvalid, message)
                .with_action("Leave out `--http`, and the host starts midex itself; or add the address in its own settings"));
        };
        let mut block = fixed_fields(http.fixed_fields);
        block.insert(http.url.to_owned(), json!(url));
        Ok(block)
    }

    /// The message if its documentation names no file.
    pub(super) fn unknown_place_message(&self) -> String {
        format!("The documentation of {} names no file on this system", self.title)
    }
}

/// The server address in a block, in the field of any host.
pub(super) fn server_address(block: &Value) -> Option<&str> {
    let mut fields = HOSTS.iter().filter_map(|host| host.http.as_ref());
    fields.find_map(|http| block[http.url].as_str())
}

fn fixed_fields(fields: FixedFields) -> Map<String, Value> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}
