//! The crash test: a server under 32 concurrent executions is killed at random instants and opened
//! again. No acknowledged transition is lost, none is applied twice, and every execution goes on.

mod bomb;
mod copies;
mod effects;
mod forks;
mod full_disk;
mod purge;
mod records;
mod tasks;

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use midex_test::{
    Client, Server, address,
    long::{self, Dice},
    output,
};

const EXECUTIONS: usize = 32;

/// What a client of one execution knows for certain.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    /// The call that was sent and not answered yet.
    asked: Option<Value>,
    /// The last answer.
    answered: Option<Value>,
    /// The last transition that was acknowledged.
    revision: u64,
    /// Steps whose completion was acknowledged, with their summaries.
    done: Vec<(String, String)>,
}

impl Known {
    fn new(generation: usize, lane: usize) -> Self {
        let id = format!("g{generation}-{lane}");
        Self { id, asked: None, answered: None, revision: 0, done: Vec::new() }
    }

    /// The call that goes on: the unanswered one again, else the next.
    fn call(&mut self) -> Value {
        if self.asked.is_none() {
            let call = match &self.answered {
                None => json!({
                    "name": "workflow.start",
                    "arguments": { "workflow_name": "bug-fix", "execution_id": self.id }
                }),
                Some(answer) => {
                    let summary = format!("{} of {}", answer["step_name"], self.id);
                    json!({
                        "name": "workflow.next_step",
                        "arguments": { "token": answer["new_token"], "output": output(&summary) }
                    })
                }
            };
            self.asked = Some(call);
        }
        self.asked.clone().unwrap()
    }

    /// Takes an answer in; true where the execution is completed.
    fn take(&mut self, answer: &Value) -> bool {
        assert_eq!(answer["isError"], false, "{}: {answer}", self.id);
        let answer = answer["structuredContent"].clone();
        assert_eq!(
            answer["revision"],
            self.revision + 1,
            "each acknowledgement is the next transition"
        );
        self.revision += 1;
        let asked = self.asked.take().unwrap();
        if let (Some(before), Some(summary)) =
            (&self.answered, asked["arguments"]["output"]["summary"].as_str())
        {
            self.done.push((before["step_name"].as_str().unwrap().into(), summary.into()));
        }
        let completed = answer["workflow_state"] == "completed";
        self.answered = Some(answer);
        completed
    }
}

fn check(server: &mut Server, known: &Known) {
    if known.revision == 0 {
        return;
    }
    let status = server.status(&known.id);
    let revision = status["revision"].as_u64().unwrap();
    let possible = known.revision..=known.revision + u64::from(known.asked.is_some());
    assert!(
        possible.contains(&revision),
        "{}: acknowledged {}, stored {revision}",
        known.id,
        known.revision
    );
    let history = server.read(&address("step_history", &known.id));
    let completed: Vec<_> =
        history.as_array().unwrap().iter().filter(|row| row["status"] == "completed").collect();
    for (at, (step, summary)) in known.done.iter().enumerate() {
        assert_eq!(
            (&completed[at]["step_name"], &completed[at]["output"]["summary"]),
            (&json!(step), &json!(summary))
        );
    }
    assert!(completed.len() <= known.done.len() + 1, "nothing was applied twice");
    assert_eq!(completed.len() as u64 + 1, revision, "every revision is one step");
}

/// Clients of many executions at once.
struct Crowd {
    lanes: Vec<Known>,
    generation: usize,
    finished: Vec<Known>,
}

impl Crowd {
    /// Goes on with every execution until so many answers have come; the calls that are then unanswered.
    fn drive(&mut self, server: &mut Server, answers: u64) -> HashMap<u64, usize> {
        let mut waiting = HashMap::new();
        for (lane, known) in self.lanes.iter_mut().enumerate() {
            waiting.insert(server.post("tools/call", known.call()), lane);
        }
        for _ in 0..answers {
            let line = server.next_line();
            let at = self.take(&line, &mut waiting);
            waiting.insert(server.post("tools/call", self.lanes[at].call()), at);
        }
        waiting
    }

    fn take(&mut self, line: &Value, waiting: &mut HashMap<u64, usize>) -> usize {
        let at = waiting.remove(&line["id"].as_u64().unwrap()).unwrap();
        if self.lanes[at].take(&line["result"]) {
            self.generation += 1;
            let fresh = Known::new(self.generation, at);
            self.finished.push(std::mem::replace(&mut self.lanes[at], fresh));
        }
        at
    }
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
#[expect(clippy::disallowed_methods, reason = "it kills at random")]
fn survive(kills: u64, seed: u64, flags: &[&str]) {
    println!("crash test: seed {seed}, {kills} kills, {flags:?}");
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(seed);
    let lanes = (0..EXECUTIONS).map(|lane| Known::new(0, lane)).collect();
    let mut crowd = Crowd { lanes, generation: 0, finished: Vec::new() };
    for _ in 0..kills {
        let mut server = Server::start_with(dir.path(), flags);
        for known in crowd.lanes.iter().chain(crowd.finished.iter().rev().take(3)) {
            check(&mut server, known);
        }
        let mut waiting = crowd.drive(&mut server, dice.roll(400));
        std::thread::sleep(Duration::from_micros(dice.roll(3000)));
        // What lies in the pipe was acknowledged too, and last of all.
        for line in server.kill_and_drain() {
            crowd.take(&line, &mut waiting);
        }
    }
    let mut lanes = crowd.lanes;
    let mut server = Server::start_with(dir.path(), flags);
    for known in &mut lanes {
        check(&mut server, known);
        loop {
            let call = known.call();
            let answer = server.request("tools/call", call)["result"].clone();
            if known.take(&answer) {
                break;
            }
        }
        check(&mut server, known);
    }
}

#[test]
fn kills_lose_nothing_and_repeat_nothing() {
    let seed = long::seed(1);
    survive(long::rounds(10, 500), seed, &[]);
    survive(long::rounds(5, 500), seed + 1, &["--snapshot-every", "16"]);
}
