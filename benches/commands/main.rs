//! How long a person waits for the first byte of what a command prints: alone, where it opens the store itself, and beside a
//! server that has it.
//!
//! `cargo bench --bench commands` prints medians in milliseconds, with the start of a process that does nothing beside them.
//! `MIDEX_BENCH_ROUNDS` says how often each command is run.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

/// How often each command is run, where nothing else is said.
const ROUNDS: usize = 21;
/// What is asked of a command that is alone, in milliseconds.
const ALONE_MS: f64 = 100.0;
/// What is asked of one beside a server.
const BESIDE_MS: f64 = 50.0;
/// Executions that lie in the store.
const EXECUTIONS: usize = 20;

/// The commands that read.
const COMMANDS: &[&[&str]] = &[
    &["list"],
    &["list", "agents"],
    &["list", "executions"],
    &["show", "e0"],
    &["show", "workflow", "bug-fix"],
    &["tail", "--no-follow"],
    &["tail", "e0", "--no-follow"],
    &["graph", "bug-fix"],
    &["graph", "e0"],
    &["validate"],
    &["cat", "bug-fix"],
    &["resume"],
    &["call"],
    &["catalog", "list"],
    &["schema"],
    &["config"],
    &["doctor"],
    &["completions", "bash"],
    &["help"],
    &["--version"],
];

/// A project with executions, and a home of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        std::fs::create_dir(place.project()).expect("a directory");
        for at in 0..EXECUTIONS {
            let id = format!("e{at}");
            let mut run = place.midex(&["run", "bug-fix", "--id", &id]);
            let mut child = run.stdin(Stdio::piped()).spawn().expect("the binary");
            let mut input = child.stdin.take().expect("a pipe");
            writeln!(input, "{{\"summary\":\"the cause\"}}").expect("a line");
            drop(input);
            child.wait().expect("an end");
        }
        place
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    fn midex(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midex"));
        command
            .args(args)
            .env("MIDEX_DATA_DIR", self.root().join("data"))
            .env("HOME", self.root())
            .env("XDG_CONFIG_HOME", self.root())
            .env_remove("RUST_LOG")
            .current_dir(self.project())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// A server that owns the store, until it is dropped.
struct Server(Child);

impl Server {
    fn start(place: &Place) -> Self {
        let mut serve = place.midex(&["serve"]);
        let mut child = serve.stdin(Stdio::piped()).spawn().expect("the binary");
        let socket = place.root().join("data/control.sock");
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            let ended = child.try_wait().expect("a process");
            assert_eq!(ended, None, "the server ended before it could be asked");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The milliseconds to the first byte of its output. A command that fails has no time that could count.
fn first_byte(mut command: Command) -> f64 {
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
    let mut output = child.stdout.take().expect("a pipe");
    let mut byte = [0];
    let count = output.read(&mut byte).expect("an output");
    let took = begin.elapsed().as_secs_f64() * 1000.0;
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("an output");
    let status = child.wait().expect("an end");
    assert!(status.success() && count == 1, "{command:?}: {status}");
    took
}

/// A process that does no more than to print.
fn nothing() -> Command {
    let mut echo = Command::new("/bin/echo");
    echo.stdin(Stdio::null());
    echo
}

/// The one in the middle of so many rounds, after one that is not counted.
fn median(rounds: usize, mut once: impl FnMut() -> f64) -> f64 {
    once();
    let mut times: Vec<_> = (0..rounds).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn all(place: &Place, rounds: usize) -> Vec<f64> {
    let time = |args: &&[&str]| median(rounds, || first_byte(place.midex(args)));
    COMMANDS.iter().map(time).collect()
}

fn main() {
    let rounds = std::env::var("MIDEX_BENCH_ROUNDS").ok();
    let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let place = Place::new();
    let nothing = median(rounds, || first_byte(nothing()));
    let alone = all(&place, rounds);
    let server = Server::start(&place);
    let beside = all(&place, rounds);
    drop(server);
    println!("the first byte in ms, medians of {rounds}; /bin/echo: {nothing:.1} ms");
    println!(
        "{:32} {:>8} {:>8}  asked: {ALONE_MS} and {BESIDE_MS} at most",
        "command", "alone", "beside"
    );
    for (args, (alone, beside)) in COMMANDS.iter().zip(alone.iter().zip(&beside)) {
        let is_slow = *alone > ALONE_MS || *beside > BESIDE_MS;
        let mark = if is_slow { "  too slow" } else { "" };
        println!("midex {:26} {alone:>8.1} {beside:>8.1}{mark}", args.join(" "));
    }
}
