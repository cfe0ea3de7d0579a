//! What the files of hosts say of midex, for `midex doctor`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    Fault, Scope, block,
    file::HostFile,
    hooks::{self, Run},
    hosts::{self, HOSTS, Hooks, Host},
    project_of,
};
use midex_domain::error::Result;
use midex_server::config::Config;

/// What a file of a host says of midex.
pub(crate) struct Found {
    /// The host, as `--client` names it.
    pub(crate) client: String,
    pub(crate) scope: Scope,
    pub(crate) path: PathBuf,
    /// Why the file cannot be read, where it cannot.
    pub(crate) names: Result<Named>,
}

/// What a host starts or calls.
pub(crate) enum Named {
    /// This program, as a server.
    Program(Run),
    /// An address.
    Address,
    /// The block says neither.
    Nothing,
    /// This program, at an event.
    Hook(Run),
}

/// What the files of all hosts say of midex, those of the user and of this project.
pub(crate) fn found(config: &Config) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let scopes = [Scope::User, Scope::Project];
    for (host, scope) in HOSTS
        .iter()
        .flat_map(|host| scopes.map(|scope| (host, scope)))
    {
        let project = project_of(scope, config);
        let servers = host.file(scope, config).ok().flatten();
        let hooks = host.hooks.as_ref();
        let hooks = hooks.and_then(|hooks| Some((hooks.file(scope, config).ok()?, hooks)));
        let servers = servers.map(|path| (said((&path, project), |text| server(text, host)), path));
        let hooks =
            hooks.map(|(path, hooks)| (said((&path, project), |text| events(text, hooks)), path));
        for (names, path) in servers.into_iter().chain(hooks) {
            // A project may be the home directory, and servers and hooks may stand in one file that cannot be read.
            let is_known = |found: &Found| {
                found.path == path && (found.scope != scope || found.names.is_err())
            };
            if found.iter().any(is_known) {
                continue;
            }
            found.extend(names.into_iter().map(|names| Found {
                client: host.name(),
                scope,
                path: path.clone(),
                names,
            }));
        }
    }
    found
}

/// What a file says, if there is one.
fn said(
    (path, project): (&Path, Option<&Path>),
    read: impl Fn(&str) -> Result<Vec<Named>, Fault>,
) -> Vec<Result<Named>> {
    let read = HostFile::read(path, project).and_then(|file| match read(&file.text) {
        _ if !file.exists() => Ok(Vec::new()),
        said => said.map_err(|fault| file.fault(&fault)),
    });
    read.map_or_else(
        |error| vec![Err(error)],
        |said| said.into_iter().map(Ok).collect(),
    )
}

fn server(text: &str, host: &Host) -> Result<Vec<Named>, Fault> {
    let named = block(text, host)?.map(|block| match started(&block) {
        Some(run) => Named::Program(run),
        None if hosts::address(&block).is_some() => Named::Address,
        None => Named::Nothing,
    });
    Ok(named.into_iter().collect())
}

fn events(text: &str, hooks: &Hooks) -> Result<Vec<Named>, Fault> {
    let runs = hooks::runs(text, hooks)?;
    Ok(runs.into_iter().map(Named::Hook).collect())
}

/// What the host starts for a block, if it starts something.
pub(super) fn started(block: &Value) -> Option<Run> {
    let args = block["args"].as_array().into_iter().flatten();
    Some(Run {
        program: block["command"].as_str()?.to_owned(),
        args: args.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}
