//! What several tests share: definitions, an engine under test, and a raw client of the real binary.

pub(crate) mod advice;
pub(crate) mod client;
pub(crate) mod door;
pub(crate) mod faulty;
pub(crate) mod http;
pub(crate) mod long;
pub(crate) mod play;
pub(crate) mod project;
pub(crate) mod witness;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use midex::{
    clock::{SeededIds, Timestamp, TokioClock},
    domain::Definition,
    engine::{Engine, Options},
    store::Store,
};
use serde_json::{Value, json};

pub(crate) use self::client::{Client, assert_has, fails_with, has_fields, says};

/// The instant at which every test begins.
pub(crate) const EPOCH: Timestamp = Timestamp::from_milliseconds(1_736_935_200_000);

/// A definition of agent steps, each `(id, dependencies)`, all done by `worker`.
pub(crate) fn definition(name: &str, steps: &[(&str, &[&str])]) -> Arc<Definition> {
    let steps: Vec<_> = steps
        .iter()
        .map(|(id, depends_on)| {
            json!({
                "id": id, "description": format!("Do {id}"), "depends_on": depends_on,
                "kind": { "agent": { "agent": "worker" } }
            })
        })
        .collect();
    let persona = json!({ "name": "worker", "content": "# Worker\n\nYou work." });
    let text = json!({
        "workflow": { "name": name, "description": "A test", "steps": steps },
        "personas": { "worker": persona }
    });
    Arc::new(Definition::decode(text.to_string().as_bytes()).expect("a definition"))
}

/// The three steps of a typical workflow, one after another.
pub(crate) fn sequence() -> Arc<Definition> {
    definition(
        "sequence",
        &[
            ("design", &[]),
            ("implement", &["design"]),
            ("review", &["implement"]),
        ],
    )
}

/// An engine on `store` whose clock is tokio's and whose ids depend on `seed`.
pub(crate) async fn engine(store: Arc<dyn Store>, clock: TokioClock, seed: u64) -> Engine {
    let options = Options::new(store, Arc::new(clock), Arc::new(SeededIds::new(seed)));
    Engine::new(options).await.expect("an engine")
}

/// How long a test waits for the real binary. Long enough for a busy machine; nothing waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The real binary, serving over its standard streams, and a client that writes raw lines.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: Option<mpsc::Receiver<String>>,
    next_id: u64,
}

impl Server {
    /// Starts `midex serve` on a data directory and shakes hands.
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// The same with further flags.
    pub(crate) fn start_with(data_dir: &Path, flags: &[&str]) -> Self {
        let mut server = Self::spawn(data_dir, flags);
        server.shake_hands();
        server
    }

    /// Starts it and says nothing.
    pub(crate) fn spawn(data_dir: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midex"));
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(data_dir)
            .args(flags);
        Self::run(command)
    }

    /// Starts a command that serves, and says nothing.
    pub(crate) fn run(mut command: Command) -> Self {
        command.env_remove("RUST_LOG");
        Self::logging(command, Stdio::null())
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The same, and its log goes to `log`, as its environment chooses.
    pub(crate) fn logging(mut command: Command, log: impl Into<Stdio>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        Self {
            child,
            stdin,
            stdout,
            lines: None,
            next_id: 0,
        }
    }

    /// What the server writes, read from the first time it is asked for.
    pub(crate) fn lines(&mut self) -> &mpsc::Receiver<String> {
        if let Some(stdout) = self.stdout.take() {
            let (send, lines) = mpsc::channel();
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines() {
                    let Ok(line) = line else { break };
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
            self.lines = Some(lines);
        }
        self.lines.as_ref().expect("the lines are being read")
    }

    /// The handshake of the initialize era.
    pub(crate) fn shake_hands(&mut self) -> Value {
        self.shake_hands_with(&json!({}))
    }

    /// The same of a client with these capabilities.
    pub(crate) fn shake_hands_with(&mut self, capabilities: &Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "0" }
        });
        let answer = self.request("initialize", params);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Writes one line.
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(&message.to_string());
    }

    /// Writes one line of any text.
    pub(crate) fn send_raw(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .expect("the server reads");
        stdin.flush().expect("the server reads");
    }

    /// Writes a request and answers with its id.
    pub(crate) fn post(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next line that the server writes, as it stands.
    pub(crate) fn next_text(&mut self) -> String {
        self.lines()
            .recv_timeout(PATIENCE)
            .expect("the server answers")
    }

    /// The next line that the server writes; it must be JSON.
    pub(crate) fn next_line(&mut self) -> Value {
        let line = self.next_text();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("stdout is not clean: {line}"))
    }

    /// Ends it as a crash would, and gives what it had written. A line cut off by the end is none.
    pub(crate) fn kill_and_drain(&mut self) -> Vec<Value> {
        self.lines();
        self.kill();
        self.lines()
            .iter()
            .filter_map(|line| serde_json::from_str(&line).ok())
            .collect()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        terminate(&self.child);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).expect("it lives");
    }

    /// Waits for its end, with its input still open.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        wait(&mut self.child)
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Closes its input and waits for its end: how long that took, and what it still wrote.
    pub(crate) fn close(mut self) -> (std::process::ExitStatus, Duration, Vec<String>) {
        #[expect(clippy::disallowed_methods, reason = "measures a real process")]
        let start = std::time::Instant::now();
        drop(self.stdin.take());
        let status = wait(&mut self.child);
        let took = start.elapsed();
        (status, took, self.lines().iter().collect())
    }
}

impl Server {
    /// Writes one line; none where nobody reads it any more.
    pub(crate) fn try_send(&mut self, message: &Value) -> Option<()> {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{message}").ok()
    }

    /// Sends a request and waits for its answer; none where the server ends before it has answered.
    pub(crate) fn try_request(&mut self, method: &str, params: Value) -> Option<Value> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.try_send(&request)?;
        loop {
            let line = match self.lines().recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("no answer to {request}"),
            };
            // The end may have cut it off.
            let line: Value = serde_json::from_str(&line).ok()?;
            if line["id"] == id {
                return Some(line);
            }
        }
    }
}

impl Client for Server {
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params);
        loop {
            let line = self.next_line();
            if line["id"] == id {
                return line;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a process to end.
pub(crate) fn terminate(child: &Child) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it lives");
}

/// Waits for the end of a process, for as long as a test is patient. One that does not end is killed.
#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
pub(crate) fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = std::time::Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("the process does not end");
}

/// S0's output with this summary.
pub(crate) fn output(summary: &str) -> Value {
    json!({ "summary": summary })
}

/// The steps in this list of a reply or of `current_step`, whole: of the first one all but its names stands in fields of the
/// whole, unless it has a token of its own.
pub(crate) fn steps(shown: &Value, list: &str) -> Vec<Value> {
    let mut steps = shown[list].as_array().cloned().unwrap_or_default();
    // The task of the first one stands beside the list.
    if let Some(first) = steps.first_mut()
        && first["instructions"].is_null()
    {
        let (names, shown) = (first.clone(), shown.as_object().expect("an object"));
        *first = json!(shown);
        let token = shown.get("new_token").or(shown.get("continuation_token"));
        first["continuation_token"] = token.cloned().unwrap_or_default();
        for name in ["step_name", "agent_name"] {
            first[name] = names[name].clone();
        }
    }
    steps
}

/// The resources of a single execution.
pub(crate) const OF_EXECUTION: [&str; 5] = [
    "current_step",
    "workflow_status",
    "step_history",
    "workflow_artifacts",
    "telemetry",
];

/// The address of a resource of an execution.
pub(crate) fn address(resource: &str, id: &str) -> String {
    format!("midex://workflow/{resource}/{}", midex::uri::encode(id))
}

/// A command that serves in a directory of its own, `home`: neither a project's nor a user's definitions are found
/// there, and executions are kept in its `data`.
pub(crate) fn serve_alone(home: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midex"));
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(home.join("data"))
        .args(flags)
        .current_dir(home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("RUST_LOG");
    command
}

impl Server {
    /// Starts a command that serves, and shakes hands.
    pub(crate) fn greeted(command: Command) -> Self {
        let mut server = Self::run(command);
        server.shake_hands();
        server
    }

    /// Writes bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the server reads");
        stdin.flush().expect("the server reads");
    }
}

/// Somebody without any rights, where this test may act as one.
pub(crate) const NOBODY: u32 = 65534;

/// Makes the command run as somebody to whom permissions apply. None where that cannot be done here: where this is
/// the superuser and nobody else may run the binary.
pub(crate) fn without_rights(mut command: Command) -> Option<Command> {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return Some(command);
    }
    let mut probe = Command::new(env!("CARGO_BIN_EXE_midex"));
    let ran = probe.arg("--version").uid(NOBODY).gid(NOBODY).output();
    command.uid(NOBODY).gid(NOBODY);
    ran.is_ok_and(|ran| ran.status.success()).then_some(command)
}
