//! The real binary, serving over its standard streams.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{LazyLock, mpsc},
    time::Duration,
};

use serde_json::{Value, json};

use crate::Client;

/// The binary that cargo built beside the tests.
pub fn binary() -> &'static str {
    static BINARY: LazyLock<String> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("the path of this test");
        let deps = test.parent().expect("a directory");
        let binary = deps.with_file_name("midex").into_os_string();
        binary.into_string().expect("a path in UTF-8")
    });
    &BINARY
}

/// How long a test waits for the real binary. Long enough for a busy machine; nothing waits that long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The real binary, serving over its standard streams, and a client that writes raw lines.
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: Option<mpsc::Receiver<String>>,
    next_id: u64,
}

impl Server {
    /// Starts `midex serve` on a data directory and shakes hands.
    pub fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    /// The same with further flags.
    pub fn start_with(data_dir: &Path, flags: &[&str]) -> Self {
        let mut server = Self::spawn(data_dir, flags);
        server.shake_hands();
        server
    }

    /// Starts it and says nothing.
    pub fn spawn(data_dir: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.arg("serve").arg("--data-dir").arg(data_dir).args(flags);
        Self::run(command)
    }

    /// Starts a command that serves, and says nothing.
    pub fn run(mut command: Command) -> Self {
        command.env_remove("RUST_LOG");
        Self::logging(command, Stdio::null())
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The same, and its log goes to `log`, as its environment chooses.
    pub fn logging(mut command: Command, log: impl Into<Stdio>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        Self { child, stdin, stdout, lines: None, next_id: 0 }
    }

    /// What the server writes, read from the first time it is asked for.
    pub fn lines(&mut self) -> &mpsc::Receiver<String> {
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
    pub fn shake_hands(&mut self) -> Value {
        self.shake_hands_with(&json!({}))
    }

    /// The same of a client with these capabilities.
    pub fn shake_hands_with(&mut self, capabilities: &Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "0" }
        });
        let answer = self.request("initialize", params);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Writes one line.
    pub fn send(&mut self, message: &Value) {
        self.send_raw(&message.to_string());
    }

    /// Writes one line of any text.
    pub fn send_raw(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the server reads");
        stdin.flush().expect("the server reads");
    }

    /// Writes a request and answers with its id.
    pub fn post(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Calls a tool and does not wait for the answer; the id of the call.
    pub fn post_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.post("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The next line that the server writes, as it stands.
    pub fn next_text(&mut self) -> String {
        self.lines().recv_timeout(PATIENCE).expect("the server answers")
    }

    /// The next line that the server writes; it must be JSON.
    pub fn next_line(&mut self) -> Value {
        let line = self.next_text();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("stdout is not clean: {line}"))
    }

    /// Ends it as a crash would, and gives what it had written. A line cut off by the end is none.
    pub fn kill_and_drain(&mut self) -> Vec<Value> {
        self.lines();
        self.kill();
        self.lines().iter().filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        terminate(&self.child);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).expect("it lives");
    }

    /// Waits for its end, with its input still open.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        wait(&mut self.child)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Closes its input and waits for its end: how long that took, and what it still wrote.
    pub fn close(mut self) -> (std::process::ExitStatus, Duration, Vec<String>) {
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
    pub fn try_send(&mut self, message: &Value) -> Option<()> {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{message}").ok()
    }

    /// Sends a request and waits for its answer; none where the server ends before it has answered.
    pub fn try_request(&mut self, method: &str, params: Value) -> Option<Value> {
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
pub fn terminate(child: &Child) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it lives");
}

/// Waits for the end of a process, for as long as a test is patient. One that does not end is killed.
#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
pub fn wait(child: &mut Child) -> std::process::ExitStatus {
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

/// The resources of a single execution.
pub const OF_EXECUTION: [&str; 5] =
    ["current_step", "workflow_status", "step_history", "workflow_artifacts", "telemetry"];

/// The address of a resource of an execution.
pub fn address(resource: &str, id: &str) -> String {
    format!("midex://workflow/{resource}/{}", midex_domain::uri::encode_segment(id))
}

/// A command that serves in a directory of its own, `home`: neither a project's nor a user's definitions are found
/// there, and executions are kept in its `data`.
pub fn serve_alone(home: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(binary());
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
    pub fn greeted(command: Command) -> Self {
        let mut server = Self::run(command);
        server.shake_hands();
        server
    }

    /// Writes bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the server reads");
        stdin.flush().expect("the server reads");
    }
}

/// Somebody without any rights, where this test may act as one.
pub const NOBODY: u32 = 65534;

/// Makes the command run as somebody to whom permissions apply. None where that cannot be done here: where this is
/// the superuser and nobody else may run the binary.
pub fn without_rights(mut command: Command) -> Option<Command> {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return Some(command);
    }
    let mut probe = Command::new(binary());
    let ran = probe.arg("--version").uid(NOBODY).gid(NOBODY).output();
    command.uid(NOBODY).gid(NOBODY);
    ran.is_ok_and(|ran| ran.status.success()).then_some(command)
}
