//! `midex install`: writes midex into the configuration of a host, or takes it out again. Nothing else in the file changes.

mod file;
mod hooks;
mod hosts;
mod json;
mod toml;

use std::path::{Path, PathBuf};

use clap::{ArgMatches, ValueEnum, parser::ValueSource};
use serde::Serialize;
use serde_json::{Map, Value};

use self::{
    file::HostFile,
    hosts::{Client, Format, HOSTS, Hooks, Host, OWN_FIELDS},
};
use super::{EXIT_OK, Output, command::quoted, visible::visible};
use crate::{
    config::Config,
    error::{Code, Error, Result},
};

/// The name of the block.
const NAME: &str = "midex";

/// The flags of this command line that the server of the block gets too.
const FLAGS: [&str; 6] = [
    "data_dir",
    "workflows",
    "agents",
    "token_ttl",
    "allow_env",
    "secret_env",
];

/// Where to install, and what.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InstallArgs {
    /// The host that is to start midex
    #[arg(long, value_enum, value_name = "HOST")]
    client: Client,
    /// For every project of this user, or for this one
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Name a server that listens at this address, instead of starting one
    #[arg(long, value_name = "URL", value_parser = url, conflicts_with = "remove")]
    http: Option<String>,
    /// Also let the host run `midex hook` when a session begins and when a turn ends
    #[arg(long)]
    with_hooks: bool,
    /// Print what would be written, and write nothing
    #[arg(long, conflicts_with = "remove")]
    print: bool,
    /// Take midex out again, its hooks too
    #[arg(long)]
    remove: bool,
}

/// For whom midex is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    /// For every project of this user
    #[default]
    User,
    /// For this project
    Project,
}

/// Why a text cannot be changed, and the byte at which that shows.
#[derive(Debug)]
struct Fault {
    at: usize,
    says: String,
}

/// What is to become of a file.
struct Change {
    /// `None` where it is not known.
    path: Option<PathBuf>,
    what: What,
}

/// What a file is to have, or not to have any more.
enum What {
    /// This block.
    Block(Map<String, Value>),
    /// Entries that run these commands, one for each of [`hooks::EVENTS`].
    Hooks([String; 2]),
    /// No block of midex.
    NoBlock,
    /// No entries that run this program, or another midex.
    NoHooks(String),
}

impl Change {
    fn apply(&self, host: &Host, text: &str) -> Result<String, Fault> {
        match (&self.what, &host.hooks) {
            (What::Block(block), _) => with_block(text, host, block),
            (What::NoBlock, _) => without_block(text, host),
            (What::Hooks(commands), Some(hooks)) => hooks::put(text, hooks, commands),
            (What::NoHooks(program), Some(hooks)) => hooks::take(text, hooks, program),
            (_, None) => Ok(text.to_owned()),
        }
    }
}

/// What became of a file.
#[derive(Debug, Serialize)]
struct Done {
    path: String,
    changed: bool,
    /// The copy of the file as it was, where this was its first change.
    backup: Option<PathBuf>,
}

/// Changes the files of the host, or prints what they would say.
pub(super) fn install(
    args: &InstallArgs,
    matches: &ArgMatches,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let host = args.client.host();
    let plan = if args.remove {
        removal(args.scope, host, config)?
    } else {
        installation(args, host, matches, config)?
    };
    if args.print || plan.iter().any(|change| change.path.is_none()) {
        return print(host, &plan, out);
    }
    let mut done = Vec::new();
    for (file, text) in edits(host, &plan)? {
        let changed = text != file.text;
        let backup = if changed { file.replace(&text)? } else { None };
        let path = file.path.display().to_string();
        done.push(Done {
            path,
            changed,
            backup,
        });
    }
    let shown = |done: &Done| visible(&line(done, args.remove)) + "\n";
    out.print(
        || serde_json::json!(done),
        || done.iter().map(shown).collect(),
    )?;
    Ok(EXIT_OK)
}

fn line(done: &Done, remove: bool) -> String {
    let says = match (done.changed, remove) {
        (true, false) => "midex is in it",
        (true, true) => "midex is out of it",
        (false, false) => "midex was in it: nothing changed",
        (false, true) => "midex was not in it: nothing changed",
    };
    let backup = done.backup.as_ref();
    let backup = backup.map_or_else(String::new, |copy| {
        format!("; as it was: {}", copy.display())
    });
    format!("{}: {says}{backup}", done.path)
}

fn installation(
    args: &InstallArgs,
    host: &Host,
    matches: &ArgMatches,
    config: &Config,
) -> Result<Vec<Change>> {
    let (program, flags) = (program()?, given_flags(matches)?);
    let block = match &args.http {
        Some(url) => host.http_block(url)?,
        None => host.stdio_block(&program, &[&["serve".to_owned()], &flags[..]].concat()),
    };
    let path = host.file(args.scope, config)?;
    let mut changes = vec![Change {
        path,
        what: What::Block(block),
    }];
    if args.with_hooks {
        let hooks = host.hooks()?;
        let what = What::Hooks(hooks::EVENTS.map(|event| hook(&program, event, &flags)));
        let path = Some(hooks.file(args.scope, config)?);
        changes.push(Change { path, what });
    }
    Ok(changes)
}

/// The command of an event, for a shell.
fn hook(program: &str, event: &str, flags: &[String]) -> String {
    let words = [program, "hook", event].into_iter();
    let words = words.chain(flags.iter().map(String::as_str)).map(quoted);
    words.collect::<Vec<_>>().join(" ")
}

fn removal(scope: Scope, host: &Host, config: &Config) -> Result<Vec<Change>> {
    let unknown = || {
        Error::new(Code::UsageInvalid, host.unknown_place())
            .with_action("Take the block `midex` out of the file by hand")
    };
    let path = host.file(scope, config)?.ok_or_else(unknown)?;
    let mut changes = vec![Change {
        path: Some(path),
        what: What::NoBlock,
    }];
    if let Some(hooks) = &host.hooks {
        let path = Some(hooks.file(scope, config)?);
        changes.push(Change {
            path,
            what: What::NoHooks(quoted(&program()?)),
        });
    }
    Ok(changes)
}

/// What the files are to say: all of them, before one is written.
fn edits(host: &Host, changes: &[Change]) -> Result<Vec<(HostFile, String)>> {
    let mut edits: Vec<(HostFile, String)> = Vec::new();
    for change in changes {
        let path = change.path.as_deref().unwrap_or(Path::new(""));
        let known = edits.pop_if(|(file, _)| file.path == path);
        let (file, before) = known.map_or_else(
            || HostFile::read(path).map(|file| (file, None)),
            |(file, text)| Ok((file, Some(text))),
        )?;
        let before = before.as_ref().unwrap_or(&file.text);
        let text = change
            .apply(host, before)
            .map_err(|fault| file.fault(&fault))?;
        edits.push((file, text));
    }
    Ok(edits)
}

fn print(host: &Host, changes: &[Change], mut out: Output<'_>) -> Result<u8> {
    let mut shown: Vec<(Option<&Path>, String)> = Vec::new();
    for change in changes {
        let path = change.path.as_deref();
        let before = shown.pop_if(|(before, _)| *before == path);
        let before = before.map_or_else(String::new, |(_, text)| text);
        let text = change.apply(host, &before);
        shown.push((path, text.map_err(|fault| Error::internal(fault.says))?));
    }
    let value =
        |(path, text): &(Option<&Path>, String)| serde_json::json!({ "path": path, "text": text });
    let lines = |(path, text): &(Option<&Path>, String)| {
        let path = path.map_or_else(|| host.unknown_place(), |path| path.display().to_string());
        format!("{}\n{text}", visible(&path))
    };
    out.print(
        || shown.iter().map(value).collect(),
        || shown.iter().map(lines).collect::<Vec<_>>().join("\n"),
    )?;
    Ok(EXIT_OK)
}

/// The text with the block of midex. It is read again, as a host does, before anybody relies on it.
fn with_block(text: &str, host: &Host, fields: &Map<String, Value>) -> Result<String, Fault> {
    let text = with_fields(text, host, fields)?;
    let said = block(&text, host)?.unwrap_or_default();
    if fields
        .iter()
        .all(|(name, value)| said.get(name) == Some(value))
    {
        return Ok(text);
    }
    let says = "it is written in a way that midex cannot change".to_owned();
    Err(Fault { at: 0, says })
}

/// The text with these fields in the block. Those of a block that is there, which midex does not write, stay.
fn with_fields(text: &str, host: &Host, fields: &Map<String, Value>) -> Result<String, Fault> {
    let path = [host.servers, NAME];
    if host.format == Format::Toml {
        return toml::set(text, path, &OWN_FIELDS, fields);
    }
    if json::read(text)?[host.servers].get(NAME).is_none() {
        return json::set(text, &path, &Value::Object(fields.clone()));
    }
    let mut text = text.to_owned();
    for name in OWN_FIELDS {
        let path = [host.servers, NAME, name];
        text = match fields.get(name) {
            Some(value) => json::set(&text, &path, value)?,
            None => json::unset(&text, &path)?,
        };
    }
    Ok(text)
}

fn without_block(text: &str, host: &Host) -> Result<String, Fault> {
    let path = [host.servers, NAME];
    match host.format {
        Format::Json => json::unset(text, &path),
        Format::Toml => toml::unset(text, path),
    }
}

/// The path of this program, which the host starts.
fn program() -> Result<String> {
    let unknown = |why: String| {
        Error::new(
            Code::UsageInvalid,
            format!("the path of this program cannot be written: {why}"),
        )
        .with_action("Install midex in a directory whose path is Unicode, and run it by that path")
    };
    let path = std::env::current_exe().map_err(|error| unknown(error.kind().to_string()))?;
    if !path.is_file() {
        return Err(unknown(format!("`{}` is not there", path.display())));
    }
    let path = path.into_os_string().into_string();
    path.map_err(|path| unknown(format!("`{}` is not Unicode", path.display())))
}

/// The flags of this command line that a server needs too, as they were given, but with whole paths.
fn given_flags(matches: &ArgMatches) -> Result<Vec<String>> {
    let given = matches.subcommand().map_or(matches, |(_, given)| given);
    let mut flags = Vec::new();
    for name in FLAGS {
        for value in values(given, name) {
            let value = value.to_str().map(str::to_owned).ok_or_else(|| {
                let message = format!("`{}` is not Unicode", value.display());
                Error::new(Code::UsageInvalid, message)
                    .with_action("Choose a directory whose path is Unicode")
            })?;
            flags.extend([format!("--{}", name.replace('_', "-")), value]);
        }
    }
    Ok(flags)
}

fn values(given: &ArgMatches, name: &str) -> Vec<PathBuf> {
    if given.value_source(name) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    let is_path = ["data_dir", "workflows", "agents"].contains(&name);
    let whole = |value: &std::ffi::OsStr| match std::path::absolute(value) {
        Ok(path) if is_path => path,
        _ => value.into(),
    };
    given
        .get_raw(name)
        .into_iter()
        .flatten()
        .map(whole)
        .collect()
}

/// Parses the address of a server.
fn url(text: &str) -> Result<String, String> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let is_one = |rest: &&str| {
        !rest.is_empty()
            && !rest.starts_with(['/', ':', '?', '#'])
            && rest.chars().all(|c| c.is_ascii_graphic())
    };
    rest.filter(is_one)
        .map(|_| text.to_owned())
        .ok_or_else(|| "expected an address such as http://127.0.0.1:8123/mcp".to_owned())
}

/// What a file of a host says of midex.
pub(super) struct Found {
    /// The host, as `--client` names it.
    pub(super) client: String,
    pub(super) scope: Scope,
    pub(super) path: PathBuf,
    /// Why the file cannot be read, where it cannot.
    pub(super) names: Result<Named>,
}

/// What a host starts or calls.
pub(super) enum Named {
    /// This program, as a server.
    Program(String),
    /// An address.
    Address,
    /// The block says neither.
    Nothing,
    /// This program, at an event.
    Hook(String),
}

/// What the files of all hosts say of midex, those of the user and of this project.
pub(super) fn found(config: &Config) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let scopes = [Scope::User, Scope::Project];
    for (host, scope) in HOSTS
        .iter()
        .flat_map(|host| scopes.map(|scope| (host, scope)))
    {
        let servers = host.file(scope, config).ok().flatten();
        let hooks = host.hooks.as_ref();
        let hooks = hooks.and_then(|hooks| Some((hooks.file(scope, config).ok()?, hooks)));
        let servers = servers.map(|path| (said(&path, |text| server(text, host)), path));
        let hooks = hooks.map(|(path, hooks)| (said(&path, |text| programs(text, hooks)), path));
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
fn said(path: &Path, read: impl Fn(&str) -> Result<Vec<Named>, Fault>) -> Vec<Result<Named>> {
    let read = HostFile::read(path).and_then(|file| match read(&file.text) {
        _ if !file.exists() => Ok(Vec::new()),
        said => said.map_err(|fault| file.fault(&fault)),
    });
    read.map_or_else(
        |error| vec![Err(error)],
        |said| said.into_iter().map(Ok).collect(),
    )
}

fn server(text: &str, host: &Host) -> Result<Vec<Named>, Fault> {
    let named = block(text, host)?.map(|block| match block["command"].as_str() {
        Some(command) => Named::Program(command.to_owned()),
        None if hosts::has_address(&block) => Named::Address,
        None => Named::Nothing,
    });
    Ok(named.into_iter().collect())
}

fn programs(text: &str, hooks: &Hooks) -> Result<Vec<Named>, Fault> {
    let programs = hooks::programs(&json::read(text)?, hooks);
    Ok(programs.into_iter().map(Named::Hook).collect())
}

fn block(text: &str, host: &Host) -> Result<Option<Value>, Fault> {
    match host.format {
        Format::Json => Ok(json::read(text)?[host.servers].get(NAME).cloned()),
        Format::Toml => toml::read(text, [host.servers, NAME]),
    }
}
