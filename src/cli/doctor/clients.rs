//! What `midex doctor` says of the hosts that are to start midex.

use std::path::Path;

use super::{Finding, Verdict};
use crate::{
    cli::install::{self, Found, Scope},
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

/// `None` where the file does not name midex.
fn of_file(found: &Found) -> Option<Finding> {
    let (client, path) = (&found.client, found.path.display());
    let block = match &found.block {
        Ok(block) => block.as_ref()?,
        Err(error) => {
            return Some(Finding::warn(
                CHECK,
                error.message(),
                error.suggested_action(),
            ));
        }
    };
    let scope = if found.scope == Scope::Project {
        "project"
    } else {
        "user"
    };
    let sound = Finding::ok(CHECK, format!("{client} ({scope})"));
    let flag = if found.scope == Scope::Project {
        " --scope project"
    } else {
        ""
    };
    let mend = format!("run `midex install --client {client}{flag}`");
    let Some(command) = block["command"].as_str() else {
        let is_address = ["url", "httpUrl", "serverUrl"]
            .iter()
            .any(|name| block[name].is_string());
        let says = format!("{path} names neither a program nor an address for midex");
        return Some(if is_address {
            sound
        } else {
            Finding::warn(CHECK, says, mend)
        });
    };
    let here = std::env::current_exe()
        .ok()
        .and_then(|path| path.canonicalize().ok());
    let says = match program(command) {
        Some(there) if Some(&there) == here.as_ref() => return Some(sound),
        Some(_) => format!("{path} names another binary, {command}"),
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
