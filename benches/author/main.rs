//! What an author waits for: the check of a manifest with 500 steps, and the list of 2,000 files, as calls of the real binary.
//!
//! `cargo bench --bench author` prints the median and the 99th percentile of each.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const STEPS: usize = 500;
const FILES: usize = 2000;
const CALLS: usize = 300;

/// A server on pipes.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midex"));
        command.arg("serve").arg("--data-dir").arg(home.join("data"));
        command.arg("--workflows").arg(home.join("workflows"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("the binary");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Self { child, input, output };
        let client = json!({ "name": "bench", "version": "1" });
        server.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        writeln!(server.input, "{done}").expect("the server reads");
        server
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.input, "{request}").expect("the server reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The times of so many calls, sorted; the last answer must hold.
    fn times(
        &mut self,
        tool: &str,
        arguments: &Value,
        holds: impl Fn(&Value) -> bool,
    ) -> Vec<Duration> {
        let call = json!({ "name": tool, "arguments": arguments });
        let mut times: Vec<_> = (0..CALLS)
            .map(|_| {
                let begin = Instant::now();
                let answer = self.ask("tools/call", &call);
                let elapsed = begin.elapsed();
                assert!(holds(&answer["result"]["structuredContent"]), "{tool}");
                elapsed
            })
            .collect();
        times.sort();
        times
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn manifest() -> String {
    let mut text =
        "workflow: long\ndescription: d\ninputs: { a: { type: string } }\nsteps:\n".to_owned();
    for step in 0..STEPS {
        let before = step.checked_sub(1).map_or_else(String::new, |before| {
            format!(" Heed ${{{{ steps.s{before}.summary }}}}.")
        });
        let _ = writeln!(text, "  - id: s{step}\n    guidance: Do ${{{{ inputs.a }}}}.{before}");
    }
    text
}

fn print(what: &str, times: &[Duration], most: u64) {
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1000.0;
    println!("{what}: {:.1} ms, 99 of 100 within {:.1} ms (wanted: {most} ms)", at(50), at(99));
}

fn main() {
    let home = tempfile::tempdir().expect("a directory");
    let workflows = home.path().join("workflows");
    fs::create_dir_all(&workflows).expect("a directory");
    let mut server = Server::start(home.path());
    let long = manifest();
    let valid = |answer: &Value| answer["valid"] == true;
    let times = server.times("workflow.validate", &json!({ "manifest": long }), valid);
    print(&format!("workflow.validate of {STEPS} steps"), &times, 20);

    for file in 0..FILES {
        let text = format!(
            "workflow: w{file:04}\ndescription: d\nsteps:\n  - {{ id: a, guidance: Do it. }}\n"
        );
        fs::write(workflows.join(format!("w{file:04}.yaml")), text).expect("a file");
    }
    let listed =
        |answer: &Value| answer["total"].as_u64().is_some_and(|total| total >= FILES as u64);
    let times = server.times("workflow.list", &json!({ "limit": 200 }), listed);
    print(&format!("workflow.list of {FILES} files"), &times, 50);
}
