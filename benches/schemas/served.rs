//! The same schemas in steps of a workflow, served by the real binary with two threads: the time of a call, how long others wait
//! beside two such calls, what the server's memory grows by, and how soon it ends when it is told to in the midst of them.
//! Each beside a schema that lets everything pass: what reading and copying the value costs is no cost of the schema.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const ROUNDS: usize = 20;
/// Nothing takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on pipes; a thread of its own notes when each answer came.
struct Server {
    child: Child,
    input: ChildStdin,
    answers: Receiver<(Instant, Value)>,
    last: u64,
}

impl Server {
    fn start(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midex"));
        command.arg("serve").arg("--data-dir").arg(home.join("data"));
        command.arg("--workflows").arg(home.join("workflows"));
        command.env("TOKIO_WORKER_THREADS", "2");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("the binary");
        let input = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let came = Instant::now();
                let answer = serde_json::from_str(&line).expect("an answer");
                if sender.send((came, answer)).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { child, input, answers, last: 0 };
        let client = json!({ "name": "bench", "version": "1" });
        server.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("the server reads");
    }

    fn post(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn answer(&self) -> (Instant, Value) {
        self.answers.recv_timeout(PATIENCE).expect("an answer")
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.post(method, params);
        self.answer().1["result"].clone()
    }

    /// The token of a new execution.
    fn begin(&mut self) -> Value {
        let arguments = json!({ "workflow_name": "worst" });
        let params = json!({ "name": "workflow.start", "arguments": arguments });
        self.ask("tools/call", &params)["structuredContent"]["new_token"].clone()
    }

    /// What the system knows of the server, in KiB.
    fn memory(&self, of: &str) -> u64 {
        super::memory_of(&self.child.id().to_string(), of)
    }
}

pub(super) fn run(cases: &[(&'static str, Value, Value)]) {
    println!(
        "\n{:32} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "as calls, medians of 20", "one", "of two", "others", "others max", "grows", "SIGTERM"
    );
    for (what, schema, value) in cases {
        serve(what, schema, value);
        serve("  any value passes", &json!({}), value);
    }
}

fn serve(what: &str, schema: &Value, value: &Value) {
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join("workflows")).expect("a directory");
    let step = json!({ "id": "a", "guidance": "do it", "result": schema });
    let manifest = json!({ "workflow": "worst", "description": "d", "steps": [step] });
    let path = home.path().join("workflows/worst.json");
    fs::write(path, manifest.to_string()).expect("a file");
    measure(what, Server::start(home.path()), value);
}

fn measure(what: &str, mut server: Server, value: &Value) {
    let output = |token: &Value| json!({ "name": "workflow.next_step", "arguments": { "token": token, "output": value } });
    let (before, _) = (server.memory("VmRSS"), server.begin());
    let (mut one, mut two, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let params = output(&server.begin());
        let sent = Instant::now();
        server.post("tools/call", &params);
        one.push(server.answer().0 - sent);
    }
    for _ in 0..ROUNDS {
        let pair = [server.begin(), server.begin()].map(|token| output(&token));
        let sent = Instant::now();
        let mut open = pair.map(|params| server.post("tools/call", &params)).to_vec();
        while !open.is_empty() {
            let asked = Instant::now();
            let status = json!({ "uri": "midex://workflow/executions?limit=1" });
            let mine = server.post("resources/read", &status);
            loop {
                let (came, answer) = server.answer();
                if answer["id"] == mine {
                    others.push(came - asked);
                    break;
                }
                open.retain(|id| answer["id"] != *id);
                two.push(came - sent);
            }
        }
    }
    let grows = server.memory("VmHWM").saturating_sub(before);
    let pair = [server.begin(), server.begin()].map(|token| output(&token));
    for params in pair {
        server.post("tools/call", &params);
    }
    let told = Instant::now();
    let _ = Command::new("kill").arg(server.child.id().to_string()).status();
    let _ = server.child.wait();
    let ended = told.elapsed();
    let most = others.iter().max().copied().unwrap_or_default();
    let [one, two, others] = [one, two, others].map(middle);
    println!(
        "{what:32} {one:>12.3?} {two:>12.3?} {others:>12.3?} {most:>12.3?} {grows:>8} KiB {ended:>12.3?}"
    );
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
