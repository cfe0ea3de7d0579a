//! The findings of `midex doctor` on the hosts that start midex.

use std::path::Path;

use super::{CheckResult, CheckVerdict, suggested_action};
use crate::install::{HostEntry, HostReach, InstallScope, find_host_entries};
use midex_server::config::Config;

const CHECK_NAME: &str = "clients";

/// One finding for all hosts with a sound configuration, and one per file that names another program or cannot be read.
pub(super) fn client_findings(config: &Config) -> Vec<CheckResult> {
    let found = find_host_entries(config);
    let drifts = found.iter().filter_map(|one| hooks_drift_finding(one, &found));
    let findings: Vec<_> = found.iter().filter_map(check_client_file).chain(drifts).collect();
    let is_sound = |finding: &CheckResult| finding.verdict == CheckVerdict::Ok;
    let (sound, others): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_sound);
    let mut all = Vec::new();
    if !sound.is_empty() {
        let names: Vec<_> = sound.into_iter().map(|finding| finding.says).collect();
        all.push(CheckResult::ok(CHECK_NAME, names.join(", ")));
    }
    all.extend(others);
    if all.is_empty() {
        let mend = Some(
            "run `midex install --client HOST`; `midex install --help` lists the hosts".to_owned(),
        );
        all.push(CheckResult { mend, ..CheckResult::ok(CHECK_NAME, "no host names midex here") });
    }
    all
}

/// The finding on one file; `None` if there is none.
fn check_client_file(found: &HostEntry) -> Option<CheckResult> {
    let (client, path) = (&found.client, found.path.display());
    let names = match &found.names {
        Ok(names) => names,
        Err(error) => {
            return Some(CheckResult::warn(CHECK_NAME, error.message(), suggested_action(error)));
        }
    };
    let scope = match found.scope {
        InstallScope::User => "user",
        InstallScope::Project => "project",
    };
    let sound = CheckResult::ok(CHECK_NAME, format!("{client} ({scope})"));
    let (sound, command, verb, flag) = match names {
        HostReach::Program(run) => (Some(sound), &run.program, "starts", ""),
        HostReach::Hook(run) => (None, &run.program, "runs at its events", " --with-hooks"),
        HostReach::Address => return Some(sound),
        HostReach::Nothing => (None, &String::new(), "", ""),
    };
    let mend = format!("run `{}{flag}`", install_command(found));
    let here = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    let says = match find_program(command) {
        _ if command.is_empty() => {
            format!("{path} names neither a program nor an address for midex")
        }
        Some(there) if Some(&there) == here.as_ref() => return sound,
        Some(_) => format!("{path} names another binary, {command}, which {client} {verb}"),
        None => format!("{path} names {command}, which is not there"),
    };
    Some(CheckResult::warn(CHECK_NAME, says, mend))
}

/// The command that writes the file again.
fn install_command(found: &HostEntry) -> String {
    let scope = match found.scope {
        InstallScope::User => "",
        InstallScope::Project => " --scope project",
    };
    format!("midex install --client {}{scope}", found.client)
}

/// The finding on hooks that do not match the server blocks of their host.
fn hooks_drift_finding(hook: &HostEntry, all: &[HostEntry]) -> Option<CheckResult> {
    let Ok(HostReach::Hook(run)) = &hook.names else {
        return None;
    };
    let (client, path) = (&hook.client, hook.path.display());
    let install = install_command(hook);
    let others = || {
        all.iter()
            .filter(|one| one.client == *client && !matches!(one.names, Ok(HostReach::Hook(_))))
    };
    if others().next().is_none() {
        let says =
            format!("{path} runs midex at events, and no file of {client} names it as a server");
        return Some(CheckResult::warn(
            CHECK_NAME,
            says,
            format!("run `{install}`, or `{install} --remove`"),
        ));
    }
    let server = others().find_map(|one| match &one.names {
        Ok(HostReach::Program(server)) if one.scope == hook.scope => Some(server),
        _ => None,
    })?;
    let [hooks, block] = [run, server].map(|run| run.data_dir().unwrap_or("the usual one"));
    let says = format!(
        "the hooks in {path} use another data directory, {hooks}, than the server of {client}, {block}"
    );
    (hooks != block)
        .then(|| CheckResult::warn(CHECK_NAME, says, format!("run `{install} --with-hooks`")))
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
