//! `--well-known`: the directory of mcp-workflow, with a log file.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};
use tempfile::tempdir;

use midex_domain::limits;
use midex_test::{Client, Server, binary};

const CANARY: &str = "canary-7d2a";

fn serve_command(home: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(["serve", "--well-known"]).args(flags).current_dir(home).env("HOME", home);
    for name in ["MIDEX_DATA_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PROJECT_PATH", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

/// Starts an execution and ends the server.
fn start_execution(command: Command) {
    let mut server = Server::greeted(command);
    server.done(
        "workflow.start",
        json!({ "workflow_name": "bug-fix", "inputs": { "task": CANARY } }),
    );
    server.refused("workflow.start", json!({ "workflow_name": CANARY }));
    assert!(server.close().0.success());
}

#[test]
fn executions_and_logs_are_in_the_well_known_directory() {
    let (home, project) = (tempdir().unwrap(), tempdir().unwrap());
    let mut command = serve_command(home.path(), &[]);
    command.env("PROJECT_PATH", project.path());
    start_execution(command);
    assert!(!home.path().join(".magen").exists());
    let directory = project.path().join(".magen");
    assert!(directory.join("executions.redb").exists());
    let log = fs::read_to_string(directory.join("workflow_logs.json")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["level"] == "INFO"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
    // Without the variable, the directory is in the home directory.
    start_execution(serve_command(home.path(), &[]));
    assert!(home.path().join(".magen/executions.redb").exists());
}

#[test]
fn a_full_log_takes_no_more_lines() {
    let home = tempdir().unwrap();
    let log = home.path().join(".magen/workflow_logs.json");
    fs::create_dir(home.path().join(".magen")).unwrap();
    for (length, is_full) in [(limits::LOG_FILE_BYTES_MAX, true), (100, false)] {
        File::create(&log).unwrap().set_len(length).unwrap();
        start_execution(serve_command(home.path(), &[]));
        let grown = fs::metadata(&log).unwrap().len() > length;
        assert_eq!(grown, !is_full, "{length}");
    }
}

#[test]
fn two_data_directories_are_refused() {
    let home = tempdir().unwrap();
    let output = serve_command(home.path(), &["--data-dir", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--well-known and --data-dir name two data directories"), "{text}");
}
