//! The configuration of midex found in the files of hosts, for `midex doctor`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    InstallScope,
    file::HostFile,
    hooks::{self, HookProgram},
    hosts::{self, HOSTS, HostDefinition, HostHooks},
    project_in_scope, read_midex_block,
};
use midex_domain::error::Result;
use midex_server::config::Config;

/// One mention of midex in a file of a host.
pub(crate) struct HostEntry {
    /// The host, as `--client` names it.
    pub(crate) client: String,
    pub(crate) scope: InstallScope,
    pub(crate) path: PathBuf,
    /// The mention, or why the file cannot be read.
    pub(crate) reach: Result<HostReach>,
}

/// How a host reaches midex.
pub(crate) enum HostReach {
    /// It starts this program as a server.
    Program(HookProgram),
    /// It connects to an address.
    Address,
    /// The block has neither a command nor an address.
    Incomplete,
    /// It runs this program at an event.
    Hook(HookProgram),
}

/// The configuration of midex in the files of all hosts, those of the user and those of this project.
pub(crate) fn find_host_entries(config: &Config) -> Vec<HostEntry> {
    let mut entries: Vec<HostEntry> = Vec::new();
    let scopes = [InstallScope::User, InstallScope::Project];
    for (host, scope) in HOSTS.iter().flat_map(|host| scopes.map(|scope| (host, scope))) {
        let project = project_in_scope(scope, config);
        let servers = host.servers_path(scope, config).ok().flatten();
        let hooks = host.hooks.as_ref();
        let hooks = hooks.and_then(|hooks| Some((hooks.hooks_path(scope, config).ok()?, hooks)));
        let servers = servers.map(|path| {
            (read_entries((&path, project), |text| parse_server_entry(text, host)), path)
        });
        let hooks = hooks.map(|(path, hooks)| {
            (read_entries((&path, project), |text| parse_hook_entries(text, hooks)), path)
        });
        for (reaches, path) in servers.into_iter().chain(hooks) {
            // Report a file once: the project may be the home directory, and servers and hooks may share a file that
            // cannot be read.
            let is_known = |entry: &HostEntry| {
                entry.path == path && (entry.scope != scope || entry.reach.is_err())
            };
            if entries.iter().any(is_known) {
                continue;
            }
            entries.extend(reaches.into_iter().map(|names| HostEntry {
                client: host.client_name(),
                scope,
                path: path.clone(),
                reach: names,
            }));
        }
    }
    entries
}

/// Reads the mentions in a file; empty if it does not exist.
fn read_entries(
    (path, project): (&Path, Option<&Path>),
    parse: impl Fn(&str) -> Result<Vec<HostReach>>,
) -> Vec<Result<HostReach>> {
    let result = HostFile::read(path, project).and_then(|file| match parse(&file.text) {
        _ if !file.exists() => Ok(Vec::new()),
        parsed => parsed.map_err(|error| file.locate_error(&error)),
    });
    result.map_or_else(|error| vec![Err(error)], |reaches| reaches.into_iter().map(Ok).collect())
}

fn parse_server_entry(text: &str, host: &HostDefinition) -> Result<Vec<HostReach>> {
    let reach = read_midex_block(text, host)?.map(|block| match parse_program(&block) {
        Some(run) => HostReach::Program(run),
        None if hosts::server_address(&block).is_some() => HostReach::Address,
        None => HostReach::Incomplete,
    });
    Ok(reach.into_iter().collect())
}

fn parse_hook_entries(text: &str, hooks: &HostHooks) -> Result<Vec<HostReach>> {
    let programs = hooks::list_hook_programs(text, hooks)?;
    Ok(programs.into_iter().map(HostReach::Hook).collect())
}

/// The program that the host starts for a block, if any.
pub(super) fn parse_program(block: &Value) -> Option<HookProgram> {
    let args = block["args"].as_array().into_iter().flatten();
    Some(HookProgram {
        program: block["command"].as_str()?.to_owned(),
        args: args.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}
