//! `midex install`: adds midex to the configuration of a host, or removes it. The rest of the file is left unchanged.

mod file;
mod flags;
mod hooks;
mod hosts;
mod installed;
mod json;
mod toml;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, ValueEnum};
use serde::{Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

pub(super) use self::installed::{HostEntry, HostReach, find_host_entries};
use self::{
    file::HostFile,
    flags::{collect_forwarded_flags, is_local_url, parse_server_url, shared_arguments},
    hooks::HookProgram,
    hosts::{FileFormat, HostClient, HostDefinition},
};
use super::{EXIT_OK, Output, profile::ProfileArgs, visible::replace_hidden_chars};
use midex_domain::error::{Code, Error, Result, describe_io_error};
use midex_server::config::Config;

/// The name of midex's block among the host's servers.
const SERVER_NAME: &str = "midex";

/// Where to install, and what.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InstallArgs {
    /// The host to configure
    #[arg(long, value_enum, value_name = "HOST")]
    client: HostClient,
    /// Install for all projects of this user, or only for this project
    #[arg(long, value_enum, default_value_t)]
    scope: InstallScope,
    /// Let the host connect to the server at this address, instead of starting one
    #[arg(long, value_name = "URL", value_parser = parse_server_url, conflicts_with = "remove")]
    http: Option<String>,
    /// Also let the host run `midex hook` when a session begins and when a turn ends
    #[arg(long)]
    with_hooks: bool,
    /// Print the files with the changes, without writing them
    #[arg(long)]
    print: bool,
    /// Remove midex from the configuration, including its hooks
    #[arg(long)]
    remove: bool,
    /// Checked here, and written down as it was given
    #[command(flatten)]
    profile: ProfileArgs,
}

/// For whom midex is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum InstallScope {
    /// For all projects of this user
    #[default]
    User,
    /// Only for this project
    Project,
}

/// The error for a text that cannot be edited at the byte `offset`. `HostFile` adds the file.
fn uneditable_text_error(offset: usize, reason: impl Into<String>) -> Error {
    Error::new(Code::HostFileInvalid, reason).with_context("at", offset)
}

/// A change to one file.
struct FileChange {
    /// `None` if the location of the file is not known.
    path: Option<PathBuf>,
    content: ContentChange,
}

/// The content that a file must or must not have after the change.
enum ContentChange {
    /// This block.
    Block(Map<String, Value>),
    /// Entries that run this program at each of [`hooks::HOOK_EVENTS`]. Unless `added`, only existing entries are updated.
    Hooks { program: HookProgram, should_add: bool },
    /// The block of midex is removed.
    NoBlock,
    /// The entries that run midex are removed.
    NoHooks,
}

impl FileChange {
    fn apply_to_text(&self, host: &HostDefinition, text: &str) -> Result<String> {
        match (&self.content, &host.hooks) {
            (ContentChange::Block(block), _) => write_block(text, host, block),
            (ContentChange::NoBlock, _) => remove_block(text, host),
            (ContentChange::Hooks { program, should_add }, Some(hooks)) => {
                hooks::add_hooks(text, hooks, program, *should_add)
            }
            (ContentChange::NoHooks, Some(hooks)) => hooks::remove_hooks(text, hooks),
            (_, None) => Ok(text.to_owned()),
        }
    }
}

/// The result of changing a file, for the output.
#[derive(Debug, Serialize)]
struct FileResult {
    path: String,
    changed: bool,
    /// The copy of the original file, if this was its first change.
    backup: Option<PathBuf>,
    /// The server's address, if the block has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// The previous arguments of the block, if the new ones lack some of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    args_before: Option<Vec<String>>,
}

/// Changes the files of the host, or prints their new content.
pub(super) fn install(
    args: &InstallArgs,
    matches: &ArgMatches,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let host = args.client.host_definition();
    let plan = if args.remove {
        plan_removal(args.scope, host, config)?
    } else {
        plan_installation(args, host, matches, config)?
    };
    let edits = compute_edits(host, &plan, project_in_scope(args.scope, config))?;
    if args.print || plan.iter().any(|change| change.path.is_none()) {
        return print_edits(host, &edits, out);
    }
    let write = |(file, text): &(HostFile, String)| write_host_file(host, file, text);
    let results = edits.iter().map(write).collect::<Result<Vec<_>>>()?;
    let result_text =
        |result: &FileResult| replace_hidden_chars(&result_line(result, args.remove)) + "\n";
    out.print(|| serde_json::json!(results), || results.iter().map(result_text).collect())?;
    Ok(EXIT_OK)
}

fn write_host_file(host: &HostDefinition, file: &HostFile, text: &str) -> Result<FileResult> {
    let changed = text != file.text;
    let backup = if changed {
        file.replace_content(text, has_foreign_content(host, &file.text))?
    } else {
        None
    };
    // A file that holds only hooks has no block.
    let [old_block, new_block] =
        [&file.text, text].map(|text| read_midex_block(text, host).ok().flatten());
    let args = new_block.as_ref().and_then(installed::parse_program).map(|run| run.args);
    let loses_arguments = |old_program: &HookProgram| {
        let args = args.as_deref().unwrap_or_default();
        old_program.args.iter().any(|arg| arg != "serve" && !args.contains(arg))
    };
    let old_program = old_block.as_ref().and_then(installed::parse_program).filter(loses_arguments);
    Ok(FileResult {
        path: file.path.display().to_string(),
        changed,
        backup,
        address: new_block.as_ref().and_then(hosts::server_address).map(str::to_owned),
        args_before: old_program.filter(|_| new_block.is_some()).map(|run| run.args),
    })
}

fn result_line(result: &FileResult, remove: bool) -> String {
    let mut line = match (result.changed, remove) {
        (true, false) => format!("{}: midex is in it now", result.path),
        (true, true) => format!("{}: midex is out of it now", result.path),
        (false, false) => format!("{}: midex was in it already: nothing changed", result.path),
        (false, true) => format!("{}: midex was not in it: nothing changed", result.path),
    };
    if let Some(address) = &result.address {
        let _ = write!(line, "; server: {address}");
    }
    if let Some(args) = &result.args_before {
        let _ = write!(line, "; its arguments were: {}", hooks::join_shell_words(args));
    }
    if let Some(copy) = &result.backup {
        let _ = write!(line, "; backup: {}", copy.display());
    }
    line
}

/// Whether a file holds anything that midex did not write; true for a file that cannot be read.
fn has_foreign_content(host: &HostDefinition, text: &str) -> bool {
    let is_midex_field =
        |(name, _): (&String, &Value)| hosts::MIDEX_FIELDS.contains(&name.as_str());
    let block = read_midex_block(text, host).ok().flatten();
    let mut fields = block.iter().filter_map(Value::as_object).flatten();
    if !fields.all(is_midex_field) {
        return true;
    }
    let rest = match remove_block(text, host) {
        Ok(rest) if host.format == FileFormat::Toml => {
            return text.contains('#') || !rest.trim().is_empty();
        }
        // If the file is not TOML, it is a file of hooks.
        rest => rest.unwrap_or_else(|_| text.to_owned()),
    };
    // midex writes no comments, so a file with one holds others.
    let has_comments = !text.trim().is_empty() && serde_json::from_str::<IgnoredAny>(text).is_err();
    let rest = match &host.hooks {
        Some(hooks) => hooks::remove_hooks(&rest, hooks),
        None => Ok(rest),
    };
    let is_blank = |mut rest: Value| {
        if let Some(fields) = rest.as_object_mut().filter(|_| host.hooks.is_some()) {
            fields.remove("version");
        }
        is_empty_value(&rest)
    };
    has_comments || !rest.and_then(|rest| json::read_value(&rest)).is_ok_and(is_blank)
}

/// Whether a value consists of empty lists and objects only.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_empty_value),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn plan_installation(
    args: &InstallArgs,
    host: &HostDefinition,
    matches: &ArgMatches,
    config: &Config,
) -> Result<Vec<FileChange>> {
    let (program, flags) = (current_program_path()?, collect_forwarded_flags(matches)?);
    let path = host.servers_path(args.scope, config)?;
    let (block, flags) = if let Some(url) = &args.http {
        check_http_options(args, url, &flags)?;
        (host.build_http_block(url)?, flags)
    } else {
        let project = project_in_scope(args.scope, config);
        let args = build_server_args((path.as_deref(), project), host, flags)?;
        (host.build_stdio_block(&program, &args), shared_arguments(&args))
    };
    let content = ContentChange::Block(block);
    let mut changes = vec![FileChange { path, content }];
    let hook_program = HookProgram { program, args: flags };
    changes.extend(plan_hooks_change(args, host, config, hook_program)?);
    Ok(changes)
}

/// Refuses `--http` with options that cannot be passed to a server that runs already.
fn check_http_options(args: &InstallArgs, url: &str, flags: &[String]) -> Result<()> {
    let refuse = |message, action| Err(Error::new(Code::UsageInvalid, message).with_action(action));
    if let Some(flag) = flags.first() {
        let message = format!("`{flag}` cannot reach the server at `{url}`, which runs already");
        return refuse(message, "Leave it out, and start that server with it");
    }
    if args.with_hooks && !is_local_url(url) {
        let message = format!(
            "hooks read the executions of this machine, and `{url}` names a server of another"
        );
        return refuse(message, "Leave out `--with-hooks`");
    }
    Ok(())
}

/// The arguments of the server. Without new flags, those of the existing block are kept.
fn build_server_args(
    (path, project): (Option<&Path>, Option<&Path>),
    host: &HostDefinition,
    flags: Vec<String>,
) -> Result<Vec<String>> {
    if let Some(path) = path.filter(|_| flags.is_empty()) {
        let file = HostFile::read(path, project)?;
        let block =
            read_midex_block(&file.text, host).map_err(|error| file.locate_error(&error))?;
        let program = block.as_ref().and_then(installed::parse_program);
        let is_server = |program: &HookProgram| {
            program.is_midex() && program.args.first().is_some_and(|it| it == "serve")
        };
        if let Some(program) = program.filter(is_server) {
            return Ok(program.args);
        }
    }
    Ok([vec!["serve".to_owned()], flags].concat())
}

/// The change to the hooks file, if any. Existing hooks are updated to the directories of the new block.
fn plan_hooks_change(
    args: &InstallArgs,
    host: &HostDefinition,
    config: &Config,
    program: HookProgram,
) -> Result<Option<FileChange>> {
    let should_add = args.with_hooks;
    let hooks = match &host.hooks {
        _ if should_add => host.require_hooks()?,
        Some(hooks) if args.http.is_none() => hooks,
        _ => return Ok(None),
    };
    let path = hooks.hooks_path(args.scope, config)?;
    let has_hooks = |file: HostFile| {
        hooks::list_hook_programs(&file.text, hooks).is_ok_and(|it| !it.is_empty())
    };
    if !should_add
        && !HostFile::read(&path, project_in_scope(args.scope, config)).is_ok_and(has_hooks)
    {
        return Ok(None);
    }
    let content = ContentChange::Hooks { program, should_add };
    Ok(Some(FileChange { path: Some(path), content }))
}

/// The project directory if the files of the project are changed.
fn project_in_scope(scope: InstallScope, config: &Config) -> Option<&Path> {
    (scope == InstallScope::Project).then_some(&*config.project_dir)
}

fn plan_removal(
    scope: InstallScope,
    host: &HostDefinition,
    config: &Config,
) -> Result<Vec<FileChange>> {
    let unknown_path_error = || {
        Error::new(Code::UsageInvalid, host.unknown_place_message()).with_action(
            "Open the file in the settings of the host, and take the block `midex` out by hand",
        )
    };
    let path = host.servers_path(scope, config)?.ok_or_else(unknown_path_error)?;
    let mut changes = vec![FileChange { path: Some(path), content: ContentChange::NoBlock }];
    if let Some(hooks) = &host.hooks {
        let path = Some(hooks.hooks_path(scope, config)?);
        changes.push(FileChange { path, content: ContentChange::NoHooks });
    }
    Ok(changes)
}

/// Computes the new content of all files, before the first one is written.
fn compute_edits(
    host: &HostDefinition,
    changes: &[FileChange],
    project: Option<&Path>,
) -> Result<Vec<(HostFile, String)>> {
    let mut edits: Vec<(HostFile, String)> = Vec::new();
    for change in changes {
        let path = change.path.as_deref().unwrap_or(Path::new(""));
        let previous_edit = edits.pop_if(|(file, _)| file.path == path);
        let (file, previous_text) = previous_edit.map_or_else(
            || HostFile::read(path, project).map(|file| (file, None)),
            |(file, text)| Ok((file, Some(text))),
        )?;
        let previous_text = previous_text.as_ref().unwrap_or(&file.text);
        let text =
            change.apply_to_text(host, previous_text).map_err(|error| file.locate_error(&error))?;
        edits.push((file, text));
    }
    Ok(edits)
}

fn print_edits(
    host: &HostDefinition,
    edits: &[(HostFile, String)],
    mut out: Output<'_>,
) -> Result<u8> {
    let known_path = |file: &HostFile| Some(file.path.clone()).filter(|path| path != Path::new(""));
    let value = |(file, text): &(HostFile, String)| serde_json::json!({ "path": known_path(file), "text": text });
    let edit_text = |(file, text): &(HostFile, String)| {
        let path = known_path(file).map(|path| path.display().to_string());
        let path = path.unwrap_or_else(|| {
            let place = host.unknown_place_message();
            format!("{place}, so nothing was written: put this into the one that its settings open")
        });
        format!("{}\n{text}", replace_hidden_chars(&path))
    };
    out.print(
        || edits.iter().map(value).collect(),
        || edits.iter().map(edit_text).collect::<Vec<_>>().join("\n"),
    )?;
    Ok(EXIT_OK)
}

/// The text with these fields in the block of midex, and without the fields that belong to another transport. Fields
/// that midex does not write are kept. The result is parsed again, as a host does, to verify it.
fn write_block(text: &str, host: &HostDefinition, fields: &Map<String, Value>) -> Result<String> {
    let (path, foreign_fields) = ([host.servers, SERVER_NAME], hosts::list_foreign_fields(fields));
    let text = match host.format {
        FileFormat::Json => json::set_fields(text, path, &foreign_fields, fields)?,
        FileFormat::Toml => toml::set_fields(text, path, &foreign_fields, fields)?,
    };
    let written_block = read_midex_block(&text, host)?.unwrap_or_default();
    if fields.iter().all(|(name, value)| written_block.get(name) == Some(value)) {
        return Ok(text);
    }
    Err(uneditable_text_error(0, "it is written in a way that midex cannot change"))
}

fn remove_block(text: &str, host: &HostDefinition) -> Result<String> {
    let path = [host.servers, SERVER_NAME];
    match host.format {
        FileFormat::Json => json::remove_value(text, path),
        FileFormat::Toml => toml::remove_whole_table(text, path),
    }
}

/// The path of this program, to be started by the host.
fn current_program_path() -> Result<String> {
    let path_error = |reason: String| {
        Error::new(
            Code::UsageInvalid,
            format!("the path of this program cannot be written: {reason}"),
        )
        .with_action("Install midex in a directory whose path is Unicode, and run it by that path")
    };
    let path = std::env::current_exe().map_err(|error| path_error(describe_io_error(&error)))?;
    if !path.is_file() {
        return Err(path_error(format!("`{}` is not there", path.display())));
    }
    let path = path.into_os_string().into_string();
    path.map_err(|path| path_error(format!("`{}` is not Unicode", path.display())))
}

fn read_midex_block(text: &str, host: &HostDefinition) -> Result<Option<Value>> {
    match host.format {
        FileFormat::Json => Ok(json::read_value(text)?[host.servers].get(SERVER_NAME).cloned()),
        FileFormat::Toml => toml::read_table(text, [host.servers, SERVER_NAME]),
    }
}
