//! `run`, `show`, `tail` and the commands that change executions, through the real binary: with a server beside
//! them, and without.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod agent;
mod asking;
mod backup;
mod basics;
mod bench;
mod bundle;
mod calling;
mod catalog;
mod choosing;
mod completing;
pub(crate) mod config;
mod configuration;
mod control;
mod credentials;
mod doctor;
mod failing;
mod find;
mod first_minute;
mod follow;
mod helping;
mod hidden;
mod hook;
mod install;
mod labels;
mod leaving;
mod looking;
mod naming;
mod records;
mod retry;
mod run;
pub(crate) mod screens;
mod show;
mod signals;
mod socket;
mod stopping;
pub(crate) mod terminal;
mod tools;
mod watch;
mod widths;
mod words;

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

use serde_json::{Value, json};

use midex_test::{
    Client, Parts, Server, Shows, Words, advice, project::needs_trust, terminal::Terminal, wait,
};

/// A project with a data directory of its own.
struct Place {
    dir: tempfile::TempDir,
    data: PathBuf,
}

/// What became of a command.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// It ended with this code.
    #[track_caller]
    fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It ended with this code and said nothing beside its output.
    #[track_caller]
    fn ends_quietly(self, code: i32) -> Self {
        assert_eq!((self.code, &*self.err), (Some(code), ""), "{self:?}");
        self
    }

    /// These stand in its output.
    #[track_caller]
    fn shows(&self, parts: impl Parts) {
        self.out.shows(parts);
    }

    /// These stand in what it said beside its output.
    #[track_caller]
    fn says(&self, parts: impl Parts) {
        self.err.shows(parts);
    }
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("project")).unwrap();
        let data = dir.path().join("data");
        Self { dir, data }
    }

    fn project(&self) -> PathBuf {
        // As a process sees its working directory.
        self.dir.path().join("project").canonicalize().unwrap()
    }

    fn command(&self, args: impl Words) -> Command {
        let mut command = Command::new(midex_test::binary());
        command
            .args(args.words())
            .current_dir(self.project())
            .env("MIDEX_DATA_DIR", &self.data)
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in ["RUST_LOG", "VISUAL", "EDITOR", "NO_COLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command
    }

    fn midex(&self, args: impl Words) -> Ran {
        let ran = Running::start(self.command(args)).end();
        advice::follow_commands(&ran.err, |words| self.command(words));
        ran
    }

    /// A command that must succeed; its stdout.
    fn done(&self, args: impl Words) -> String {
        let args = args.words();
        let ran = self.midex(&args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    /// A command that must succeed; its stdout, which is JSON.
    fn json(&self, args: impl Words) -> Value {
        serde_json::from_str(&self.done(args.and("--json"))).expect("JSON alone on stdout")
    }

    /// The state of an execution.
    fn state(&self, id: &str) -> String {
        let status = &self.json(&["show", id])["status"];
        status["state"].as_str().expect("a state").to_owned()
    }

    /// The history of an execution.
    fn history(&self, id: &str) -> Value {
        self.json(&["show", id])["history"].take()
    }

    /// What an execution works on.
    fn inputs(&self, id: &str) -> Value {
        self.json(&["show", id])["current_step"]["inputs"].take()
    }

    /// A command that must succeed; its stdout, which is a line of JSON for each row of a list.
    fn rows(&self, args: impl Words) -> Value {
        Value::Array(lines(&self.done(args.and("--json"))))
    }

    fn with_stdin(&self, args: impl Words, stdin: &str) -> Ran {
        let mut running = Running::start_piped(self.command(args));
        running.write(stdin);
        running.end()
    }

    /// A command on a terminal.
    fn terminal(&self, args: impl Words) -> Terminal {
        Terminal::open(self.command(args))
    }

    /// Writes a file of the project; its name.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        if name.starts_with("workflows/") && needs_trust(text) {
            self.trust();
        }
        name.to_owned()
    }

    /// Writes a workflow, which names itself.
    fn manifest(&self, text: &str) {
        let (_, name) = text.split_once("workflow: ").expect("a name");
        let name = name.split([',', '\n']).next().expect("a name");
        self.file(&format!("workflows/{name}.yaml"), text);
    }

    /// Its user trusts the project.
    fn trust(&self) {
        let path = self.dir.path().join("midex/midex.toml");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if !text.contains("trust = ") {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let project = self.project().display().to_string();
            std::fs::write(path, format!("trust = [{project:?}]\n{text}")).unwrap();
        }
    }

    /// A workflow whose steps are `(id, depends_on)`, all done by the reviewer.
    fn workflow(&self, name: &str, steps: &[(&str, &[&str])]) {
        let steps: Vec<_> = steps
            .iter()
            .map(|(id, depends_on)| {
                json!({ "id": id, "agent": "reviewer", "description": format!("Do {id}"), "depends_on": depends_on })
            })
            .collect();
        let workflow = json!({ "workflow": name, "description": "A test", "steps": steps });
        self.file(&format!("workflows/{name}.json"), &workflow.to_string());
    }

    /// A command that ends with this code.
    #[track_caller]
    fn ends(&self, code: i32, args: impl Words) -> Ran {
        self.midex(args).ends(code)
    }

    /// Runs `bug-fix` as the execution `id` on these lines; it ends with this code.
    #[track_caller]
    fn run(&self, code: i32, id: &str, lines: &str) -> Ran {
        let ran = self.with_stdin(&["run", "bug-fix", "--id", id], lines);
        ran.ends(code)
    }

    /// An execution of `bug-fix` that stands at its second step.
    fn begun(&self, id: &str) {
        self.run(1, id, "{\"summary\":\"the cause\"}\n");
    }

    fn server(&self) -> Server {
        Server::start(&self.data)
    }

    /// Holds the store as a process does that opens no door.
    fn lock(&self) -> std::fs::File {
        let path = self.data.join("executions.lock");
        let lock = std::fs::File::options().write(true).open(path).unwrap();
        lock.lock().unwrap();
        lock
    }

    fn socket(&self) -> PathBuf {
        self.data.join("control.sock")
    }

    /// A server whose socket is open.
    fn listening(&self) -> Server {
        let mut server = self.server();
        // A command may have the store for a moment. Once a call has been answered the store is this server's; the
        // door follows.
        let mut answered = || server.call("execution.list", json!({}))["isError"] == false;
        until(&mut answered, "the store is open");
        until(|| is_open(&self.socket()), "the socket is open");
        server
    }
}

fn is_open(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

/// Waits for a condition, with a bound.
#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
fn until(mut condition: impl FnMut() -> bool, what: &str) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < midex_test::PATIENCE, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A command that is under way. Its output is read as it comes.
struct Running {
    child: Child,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary starts");
        let out = drain(child.stdout.take().expect("stdout is a pipe"));
        let err = drain(child.stderr.take().expect("stderr is a pipe"));
        Self { child, out, err }
    }

    fn start_piped(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::start(command)
    }

    fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is a pipe");
        // A command that has ended already reads no more.
        let _ = stdin.write_all(text.as_bytes());
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn end(mut self) -> Ran {
        drop(self.child.stdin.take());
        let code = wait(&mut self.child).code();
        Ran { code, out: self.out.join().unwrap(), err: self.err.join().unwrap() }
    }
}

fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8(bytes).expect("UTF-8")
    })
}

/// Lines of JSON.
fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

/// Outputs for the three steps of `bug-fix`.
const OUTPUTS: &str = r#"{"summary":"the cause"}
{"summary":"the remedy","findings":["one"]}

{"summary":"it is gone"}
"#;
