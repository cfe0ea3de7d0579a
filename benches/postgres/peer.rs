//! DBOS on the same PostgreSQL server, in a separate process.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

/// Steps of each of its workflows, as in `benches/peers/python/turns.py`.
const STEPS: f64 = 5.0;

/// A DBOS process that runs workflows on request, and reports how many it finished.
pub(crate) struct Dbos {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Dbos {
    /// Starts it with a new database on the server of this one.
    pub(crate) fn start(url: &str) -> Self {
        let python =
            std::env::var_os("MIDEX_DBOS_PYTHON").expect("`tests/postgres/run` installs it");
        let (server, _) = url.rsplit_once('/').expect("an address with a database");
        let server = server.replace("postgres://", "postgresql://");
        let script =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/peers/python/dbos_peer.py");
        let mut process = Command::new(python)
            .args([script, &format!("{server}/dbos_{}", std::process::id())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let input = process.stdin.take().expect("a pipe");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        output.next().expect("a line once it is ready").expect("a line");
        Self { process, input, output }
    }

    /// Runs workflows for so long, as many at once. Returns the transitions of a second: the start and each step.
    pub(crate) fn measure_rate(&mut self, in_flight: usize, duration: Duration) -> f64 {
        let turn = json!({ "in_flight": in_flight, "seconds": duration.as_secs() });
        writeln!(self.input, "{turn}").expect("a running process");
        let line = self.output.next().expect("an answer").expect("a line");
        let measured: Value = serde_json::from_str(&line).expect("JSON");
        let number = |name: &str| measured[name].as_f64().expect("a number");
        number("workflows") * (STEPS + 1.0) / number("seconds")
    }
}

impl Drop for Dbos {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
