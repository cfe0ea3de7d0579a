//! What `midex doctor` says of the hosts that are to start midex.

use std::path::Path;

use super::{Finding, Verdict};
use crate::{
    cli::install::{self, Found, Named, Scope},
    config::Config,
};

const CHECK: &str = "clients";

/// The hosts whose files name midex, each file that names another program, and each that cannot be read.
pub(super) fn clients(config: &Config) -> Vec<Finding> {
    let found = install::found(config);
    let findings: Vec<_> = found.iter().filter_map(of_file).collect();
    let sound = |finding: &&Finding| finding.verdict == Verdict::Ok;
    let names: Vec<_> = findings
        .iter()
        .filter(sound)
        .map(|finding| finding.says.as_str())
        .collect();
    let mut all = Vec::new();
    if !names.is_empty() {
        all.push(Finding::ok(CHECK, names.join(", ")));
    }
    all.extend(
        findings
            .into_iter()
            .filter(|finding| finding.verdict != Verdict::Ok),
    );
    if all.is_empty() {
        let mend = Some(
            "run `midex install --client HOST`; `midex install --help` lists the hosts".to_owned(),
        );
        all.push(Finding {
            mend,
            ..Finding::ok(CHECK, "no host names midex here")
        });
    }
    all
}

/// `None` where there is nothing to say.
fn of_file(found: &Found) -> Option<Finding> {
    let (client, path) = (&found.client, found.path.display());
    let names = match &found.names {
        Ok(names) => names,
        Err(error) => {
            return Some(Finding::warn(
                CHECK,
                error.message(),
                error.suggested_action(),
            ));
        }
    };
    let is_project = found.scope == Scope::Project;
    let scope = if is_project { "project" } else { "user" };
    let sound = Finding::ok(CHECK, format!("{client} ({scope})"));
    let (sound, command, verb, flag) = match names {
        Named::Program(command) => (Some(sound), command, "starts", ""),
        Named::Hook(command) => (None, command, "runs at its events", " --with-hooks"),
        Named::Address => return Some(sound),
        Named::Nothing => (None, &String::new(), "", ""),
    };
    let scope = if is_project { " --scope project" } else { "" };
    let mend = format!("run `midex install --client {client}{scope}{flag}`");
    let here = std::env::current_exe()
        .ok()
        .and_then(|path| path.canonicalize().ok());
    let says = match program(command) {
        _ if command.is_empty() => {
            format!("{path} names neither a program nor an address for midex")
        }
        Some(there) if Some(&there) == here.as_ref() => return sound,
        Some(_) => format!("{path} names another binary, {command}, which {client} {verb}"),
        None => format!("{path} names {command}, which is not there"),
    };
    Some(Finding::warn(CHECK, says, mend))
}

/// The program that a command starts: a bare name is looked up as a shell does.
fn program(command: &str) -> Option<std::path::PathBuf> {
    if command.contains('/') {
        return Path::new(command).canonicalize().ok();
    }
    let path = std::env::var_os("PATH")?;
    let mut directories = std::env::split_paths(&path);
    directories.find_map(|directory| directory.join(command).canonicalize().ok())
}
