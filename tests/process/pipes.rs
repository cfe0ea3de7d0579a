//! A pipe in place of a file, which never ends: it is refused at once, wherever a client or a user may name a file.
#![expect(clippy::disallowed_methods, reason = "it times real processes")]

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use midex_test::{Client, PATIENCE, Shows, project::Project};

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// More calls than a process has threads for work that waits.
const CALLS: usize = 600;

#[test]
fn a_document_that_is_a_pipe_is_refused_and_holds_up_no_other_client() {
    let project = Project::new(&[]);
    make_pipe(&project.path("pipe.json"));
    let (mut one, mut other) = (project.serve(), project.serve());
    let source = json!({ "source": "pipe.json" });
    for _ in 0..CALLS {
        let call = json!({ "name": "catalog.validate_openapi", "arguments": source });
        one.post("tools/call", call);
    }
    let began = Instant::now();
    other.begin_with(json!({ "workflow_name": "bug-fix" }));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let refused = one.refused("catalog.validate_openapi", source);
    assert_eq!(refused["error_code"], "FILE_UNUSABLE", "{refused}");
    refused.to_string().shows("a pipe, not a file");
}

#[test]
fn commands_refuse_a_pipe_in_place_of_a_file() {
    let project = Project::new(&[]);
    make_pipe(&project.path("pipe.yaml"));
    make_pipe(&project.path("token"));
    let token = ["--http", "127.0.0.1:0", "--http-token-file", "token"];
    for (arguments, said) in [
        (&["validate", "pipe.yaml"][..], "a pipe, not a file"),
        (&["catalog", "add", "pipe.yaml", "--title", "Pipe"], "a pipe, not a file"),
        (&[&["serve"][..], &token].concat(), "token cannot be read"),
    ] {
        let mut command = project.command(arguments);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{arguments:?} waits");
            }
            std::thread::yield_now();
        }
        let ended = child.wait_with_output().unwrap();
        let told = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
        assert!(!ended.status.success(), "{arguments:?}");
        told.shows(&[said]);
    }
}
