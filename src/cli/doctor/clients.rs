//! The findings of `midex doctor` on the hosts that start midex.

use std::path::Path;

use super::{CheckResult, CheckVerdict, suggested_action};
use crate::install::{HostEntry, HostReach, InstallScope, find_host_entries};
use midex_server::config::Config;

const CHECK_NAME: &str = "clients";

/// One finding for all hosts with a sound configuration, and one per file that names another program or cannot be read.
pub(super) fn client_findings(config: &Config) -> Vec<CheckResult> {
    let entries = find_host_entries(config);
    let drifts = entries.iter().filter_map(|entry| hooks_drift_finding(entry, &entries));
    let findings: Vec<_> = entries.iter().filter_map(check_client_file).chain(drifts).collect();
    let is_ok = |finding: &CheckResult| finding.verdict == CheckVerdict::Ok;
    let (ok_findings, other_findings): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_ok);
    let mut result = Vec::new();
    if !ok_findings.is_empty() {
        let names: Vec<_> = ok_findings.into_iter().map(|finding| finding.says).collect();
        result.push(CheckResult::ok(CHECK_NAME, names.join(", ")));
    }
    result.extend(other_findings);
    if result.is_empty() {
        let mend = Some(
            "run `midex install --client HOST`; `midex install --help` lists the hosts".to_owned(),
        );
        result
            .push(CheckResult { mend, ..CheckResult::ok(CHECK_NAME, "no host names midex here") });
    }
    result
}

/// The finding on one file; `None` if there is none.
fn check_client_file(entry: &HostEntry) -> Option<CheckResult> {
    let (client, path) = (&entry.client, entry.path.display());
    let reach = match &entry.reach {
        Ok(reach) => reach,
        Err(error) => {
            return Some(CheckResult::warn(CHECK_NAME, error.message(), suggested_action(error)));
        }
    };
    let scope = match entry.scope {
        InstallScope::User => "user",
        InstallScope::Project => "project",
    };
    let ok_finding = CheckResult::ok(CHECK_NAME, format!("{client} ({scope})"));
    let (ok_finding, command, verb, flag) = match reach {
        HostReach::Program(run) => (Some(ok_finding), &run.program, "starts", ""),
        HostReach::Hook(run) => (None, &run.program, "runs at its events", " --with-hooks"),
        HostReach::Address => return Some(ok_finding),
        HostReach::Incomplete => (None, &String::new(), "", ""),
    };
    let mend = format!("run `{}{flag}`", install_command(entry));
    let own_path = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    let message = match find_program(command) {
        _ if command.is_empty() => {
            format!("{path} names neither a program nor an address for midex")
        }
        Some(program_path) if Some(&program_path) == own_path.as_ref() => return ok_finding,
        Some(_) => format!("{path} names another binary, {command}, which {client} {verb}"),
        None => format!("{path} names {command}, which is not there"),
    };
    Some(CheckResult::warn(CHECK_NAME, message, mend))
}

/// The command that writes the file again.
fn install_command(entry: &HostEntry) -> String {
    let scope = match entry.scope {
        InstallScope::User => "",
        InstallScope::Project => " --scope project",
    };
    format!("midex install --client {}{scope}", entry.client)
}

/// The finding on hooks that do not match the server blocks of their host.
fn hooks_drift_finding(hook: &HostEntry, entries: &[HostEntry]) -> Option<CheckResult> {
    let Ok(HostReach::Hook(run)) = &hook.reach else {
        return None;
    };
    let (client, path) = (&hook.client, hook.path.display());
    let install = install_command(hook);
    let server_entries = || {
        entries.iter().filter(|entry| {
            entry.client == *client && !matches!(entry.reach, Ok(HostReach::Hook(_)))
        })
    };
    if server_entries().next().is_none() {
        let message =
            format!("{path} runs midex at events, and no file of {client} names it as a server");
        return Some(CheckResult::warn(
            CHECK_NAME,
            message,
            format!("run `{install}`, or `{install} --remove`"),
        ));
    }
    let server = server_entries().find_map(|entry| match &entry.reach {
        Ok(HostReach::Program(server)) if entry.scope == hook.scope => Some(server),
        _ => None,
    })?;
    let [hooks_directory, server_directory] =
        [run, server].map(|run| run.data_dir().unwrap_or("the usual one"));
    let message = format!(
        "the hooks in {path} use another data directory, {hooks_directory}, than the server of {client}, {server_directory}"
    );
    (hooks_directory != server_directory)
        .then(|| CheckResult::warn(CHECK_NAME, message, format!("run `{install} --with-hooks`")))
}

/// The program that a command starts; a bare name is searched for in `PATH`, like a shell does.
fn find_program(command: &str) -> Option<std::path::PathBuf> {
    if command.contains('/') {
        return Path::new(command).canonicalize().ok();
    }
    let path = std::env::var_os("PATH")?;
    let mut directories = std::env::split_paths(&path);
    directories.find_map(|directory| directory.join(command).canonicalize().ok())
}
