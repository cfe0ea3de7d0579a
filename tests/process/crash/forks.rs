//! Retries, forks and rewinds under the same crashes. Nothing that was acknowledged is lost and nothing is half made: a new
//! execution is whole or absent, the same call is answered as the first time, and a rewind happened wholly or not at all.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use serde_json::{Value, json};

use midex_test::{
    Client, Server, address,
    long::{self, Dice},
};

/// How many calls are under way when the server is killed.
const LANES: usize = 15;
/// The longest time from an answer to the kill: several transitions.
const KILL_AFTER_MICROSECONDS_MAX: u64 = 3000;

/// A retry, a fork or a rewind of an execution, and what the client knows of it.
struct Asked {
    source: String,
    /// The last revision of the source before the call.
    revision: u64,
    tool: &'static str,
    arguments: Value,
    answer: Option<Value>,
}

/// An answer without what tells a repeated call from the first one.
fn told_once(answer: &Value) -> Value {
    let mut told = answer.clone();
    for field in ["replayed", "message", "fork"] {
        told.as_object_mut().unwrap().remove(field);
    }
    told
}

/// Every entry of a history as `step status`, with a `*` for what another execution did.
fn path(server: &mut Server, id: &str) -> Vec<String> {
    let told = |row: &Value| {
        let mark = if row["inherited"] == true { "*" } else { "" };
        format!("{} {}{mark}", row["step_name"].as_str().unwrap(), row["status"].as_str().unwrap())
    };
    server.history(id).iter().map(told).collect()
}

impl Asked {
    /// An execution with two of three steps done; one that is to be retried failed at the third.
    fn prepare(server: &mut Server, source: String, tool: &'static str) -> Self {
        let mut last = server.begin("bug-fix", &source);
        for step in ["diagnose", "fix"] {
            last = server.finish(&last["new_token"], &format!("{step} of {source}"));
        }
        let mut arguments = json!({ "execution_id": source });
        match tool {
            "execution.retry" => {
                let error = json!({ "message": "it could not be done" });
                last = server.next_step(json!({ "token": last["new_token"], "error": error }));
                assert_eq!(last["workflow_state"], "failed");
            }
            "execution.fork" => {
                arguments["from_step"] = json!("fix");
                arguments["new_execution_id"] = json!(format!("{source}~2"));
            }
            _ => arguments["to_step"] = json!("fix"),
        }
        let revision = last["revision"].as_u64().unwrap();
        Self { source, revision, tool, arguments, answer: None }
    }

    /// Compares the state after the crash with the answer, then completes the execution. Returns the outcome of the call.
    fn check(&self, server: &mut Server) -> &'static str {
        let is_done = match self.tool {
            "execution.rewind" => self.check_rewind(server),
            _ => self.check_fork(server),
        };
        match (is_done, &self.answer) {
            (true, Some(_)) => "answered",
            (true, None) => "done and not answered",
            (false, None) => "absent",
            (false, Some(answer)) => panic!("it is lost: {answer}"),
        }
    }

    fn check_rewind(&self, server: &mut Server) -> bool {
        let revision = server.status(&self.source)["revision"].as_u64().unwrap();
        let is_done = revision != self.revision;
        let path = path(server, &self.source);
        if is_done {
            assert_eq!(revision, self.revision + 1, "{}: {path:?}", self.source);
            let all = ["diagnose completed", "fix completed", "verify skipped", "fix running"];
            assert_eq!(path, all, "{}", self.source);
        } else {
            assert_eq!(path, ["diagnose completed", "fix completed", "verify running"]);
        }
        let mut state = server.current(&self.source);
        let mut token = state["continuation_token"].clone();
        while state["workflow_state"] == "running" {
            state = server.finish(&token, "done");
            token = state["new_token"].clone();
        }
        assert_eq!(state["workflow_state"], "completed", "{state}");
        is_done
    }

    fn check_fork(&self, server: &mut Server) -> bool {
        let id = format!("{}~2", self.source);
        let status = server.status(&self.source);
        assert_eq!(status["revision"], self.revision, "the source stays as it was");
        let is_made = status["forks"] == json!([id]);
        if is_made {
            let whole: &[&str] = match self.tool {
                "execution.retry" => &["diagnose completed*", "fix completed*", "verify running"],
                _ => &["diagnose completed*", "fix running"],
            };
            assert_eq!(path(server, &id), whole, "{id}");
            let (kept, done) = (&server.history(&id)[0], &server.history(&self.source)[0]);
            assert_eq!(kept["output"], done["output"], "{id}");
        } else {
            let error = server.read_error(&address("workflow_status", &id));
            assert_eq!(error["data"]["error_code"], "EXECUTION_NOT_FOUND", "{error}");
        }
        let answer = server.done(self.tool, self.arguments.clone());
        assert_eq!(answer["replayed"] == true, is_made, "{answer}");
        if let Some(first) = &self.answer {
            assert_eq!(told_once(&answer), told_once(first), "the same call");
        }
        let again = server.done(self.tool, self.arguments.clone());
        assert_eq!(told_once(&again), told_once(&answer), "the same call");
        server.run_to_end(&again);
        is_made
    }
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
#[expect(clippy::disallowed_methods, reason = "it kills at random")]
fn survive(kills: u64, seed: u64) {
    println!("forks under crashes: seed {seed}, {kills} kills");
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(seed);
    let mut counted = BTreeMap::<_, u64>::new();
    for kill in 0..kills {
        let mut server = Server::start(dir.path());
        let tools = ["execution.retry", "execution.fork", "execution.rewind"];
        let lanes = (0..LANES).zip(tools.into_iter().cycle());
        let mut asked: Vec<_> = lanes
            .map(|(lane, tool)| Asked::prepare(&mut server, format!("k{kill}-{lane}"), tool))
            .collect();
        let mut waiting: HashMap<_, _> = asked
            .iter()
            .enumerate()
            .map(|(lane, asked)| (server.post_call(asked.tool, asked.arguments.clone()), lane))
            .collect();
        let mut take = |line: &Value| {
            assert_eq!(line["result"]["isError"], false, "{line}");
            let lane = waiting.remove(&line["id"].as_u64().unwrap()).unwrap();
            asked[lane].answer = Some(line["result"]["structuredContent"].clone());
        };
        // After half of the kills nothing was waited for.
        for _ in 0..dice.roll(2) * dice.roll(LANES as u64) {
            take(&server.next_line());
        }
        std::thread::sleep(Duration::from_micros(dice.roll(KILL_AFTER_MICROSECONDS_MAX)));
        // What lies in the pipe was acknowledged too.
        server.kill_and_drain().iter().for_each(&mut take);
        let mut server = Server::start(dir.path());
        for asked in &asked {
            *counted.entry(asked.check(&mut server)).or_default() += 1;
        }
    }
    println!("{counted:?}");
    // Were it otherwise the kills would all have missed, and nothing were shown.
    assert!(["answered", "absent"].iter().all(|found| counted.contains_key(found)), "{counted:?}");
}

#[test]
fn forks_and_rewinds_are_whole_or_absent_after_a_kill() {
    survive(long::rounds(4, 200), long::seed(9));
}
