//! A client on each machine, which calls the server there. The clients repeat unanswered calls at any server, and record each
//! acknowledged output.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use midex_test::{
    address,
    http::{Http, Stateless},
    long::Dice,
};
use serde_json::{Value, json};

use super::cluster::{Cluster, STEPS};
use crate::network::MACHINES;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the executions may take to end once all is well again.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// The executions that are open at once.
const OPEN: usize = 12;

/// A call whose answer a client has not got yet. Any client may repeat it.
#[derive(Clone, Debug)]
enum Call {
    Start { id: String },
    Finish { id: String, token: String, output: String },
}

/// What the clients know.
#[derive(Default)]
struct Known {
    /// The calls to make, and to repeat.
    calls: Vec<Call>,
    started: u64,
    open: usize,
    unanswered: usize,
    /// The outputs whose acceptance was acknowledged, for each execution in order.
    acknowledged: BTreeMap<String, Vec<String>>,
    /// Refusals that no client should get.
    violations: Vec<String>,
}

/// The clients of all machines.
pub(super) struct Clients<'a> {
    cluster: &'a Cluster,
    seed: u64,
    begin: Instant,
    known: Mutex<Known>,
    calls: AtomicU64,
    is_finishing: AtomicBool,
}

/// The outcome of a call.
enum Outcome {
    Accepted(Value),
    Refused(Value),
    /// There was no answer, or a retryable error.
    Unknown,
}

#[expect(clippy::disallowed_methods, reason = "real servers are timed")]
fn now() -> Instant {
    Instant::now()
}

/// Waits for as long as a client does before it calls again.
#[expect(clippy::disallowed_methods, reason = "a client waits in real time")]
fn pause_before_repeat() {
    std::thread::sleep(Duration::from_millis(20));
}

impl<'a> Clients<'a> {
    pub(super) fn new(cluster: &'a Cluster, seed: u64) -> Self {
        let (known, calls) = (Mutex::default(), AtomicU64::new(0));
        Self { cluster, seed, begin: now(), known, calls, is_finishing: AtomicBool::new(false) }
    }

    /// Waits until so many executions have been started.
    pub(super) fn wait_until_started(&self, count: u64) {
        while self.known.lock().unwrap().started < count {
            pause_before_repeat();
        }
    }

    /// Starts no more executions.
    pub(super) fn finish(&self) {
        self.is_finishing.store(true, Ordering::Relaxed);
    }

    /// Calls the server of a machine until all executions have ended.
    pub(super) fn work(&self, machine: usize) {
        self.cluster.network.enter(machine);
        let mut dice = Dice(self.seed ^ (machine as u64 + 1) << 32);
        let mut finishing = None;
        loop {
            let is_finishing = self.is_finishing.load(Ordering::Relaxed);
            let call = self.choose_call(&mut dice, is_finishing);
            let mut known = match call {
                Some(call) => {
                    let outcome = self.call(machine, &call);
                    if matches!(outcome, Outcome::Unknown) {
                        pause_before_repeat();
                    }
                    let mut known = self.known.lock().unwrap();
                    known.note(call, &outcome, &mut dice);
                    known
                }
                None => self.known.lock().unwrap(),
            };
            let since = is_finishing.then(|| *finishing.get_or_insert_with(now));
            if is_finishing && known.open == 0 {
                return;
            }
            if since.is_some_and(|since| since.elapsed() > SETTLE_MAX) {
                let stuck = format!("{} executions do not end: {:?}", known.open, known.calls);
                known.violations.push(stuck);
                return;
            }
        }
    }

    /// The next call: one that waits, or the start of another execution.
    fn choose_call(&self, dice: &mut Dice, is_finishing: bool) -> Option<Call> {
        let mut known = self.known.lock().unwrap();
        if known.open < OPEN && !is_finishing {
            known.open += 1;
            known.started += 1;
            return Some(Call::Start { id: format!("s{}-{}", self.seed, known.started) });
        }
        if known.calls.is_empty() {
            return None;
        }
        let at = usize::try_from(dice.roll(known.calls.len() as u64)).unwrap();
        let call = known.calls.swap_remove(at);
        if let Call::Finish { id, token, .. } = &call
            && dice.roll(8) == 0
        {
            // Another client does the same step: only one of both may be accepted.
            let output = format!("{id} by another {}", self.calls.fetch_add(1, Ordering::Relaxed));
            known.calls.push(Call::Finish { id: id.clone(), token: token.clone(), output });
        }
        Some(call)
    }

    fn call(&self, machine: usize, call: &Call) -> Outcome {
        let (tool, arguments) = match call {
            Call::Start { id } => {
                ("workflow.start", json!({ "workflow_name": "steps", "execution_id": id }))
            }
            Call::Finish { token, output, .. } => {
                ("workflow.next_step", json!({ "token": token, "output": { "said": output } }))
            }
        };
        self.call_tool(machine, tool, &arguments).unwrap_or(Outcome::Unknown)
    }

    /// Calls a tool. `None` if there is no whole answer.
    fn call_tool(&self, machine: usize, tool: &str, arguments: &Value) -> Option<Outcome> {
        let mut http = Http::connect_within(self.cluster.address(machine), PATIENCE).ok()?;
        let params = json!({ "name": tool, "arguments": arguments });
        let (headers, message) = Stateless::message(1, "tools/call", params);
        http.send("POST", "/mcp", &headers.all(), message.to_string().as_bytes()).ok()?;
        let answer = http.answer().ok()?;
        let answer: Value = serde_json::from_slice(&answer.body).ok()?;
        let result = &answer["result"];
        let content = result["structuredContent"].clone();
        Some(match (&result["isError"], &content["retryable"]) {
            (Value::Bool(false), _) => Outcome::Accepted(content),
            (Value::Bool(true), Value::Bool(true)) => Outcome::Unknown,
            _ if content.is_null() => Outcome::Refused(answer),
            _ => Outcome::Refused(content),
        })
    }

    /// Prints the numbers of executions, steps and unanswered calls.
    #[expect(clippy::print_stdout, reason = "the test harness shows it with a failure")]
    pub(super) fn print_counts(&self) {
        let known = self.known.lock().unwrap();
        let steps: usize = known.acknowledged.values().map(Vec::len).sum();
        println!(
            "seed {}: {} executions, {steps} steps, {} calls without an answer, {:?}",
            self.seed,
            known.started,
            known.unanswered,
            self.begin.elapsed()
        );
    }

    /// Compares the acknowledged outputs with the histories of the executions, a third of which is read from each server. Returns
    /// the violations.
    pub(super) fn compare_with_histories(&self) -> Vec<String> {
        let known = self.known.lock().unwrap();
        let mut violations = known.violations.clone();
        std::thread::scope(|scope| {
            let compared = (0..MACHINES).map(|machine| {
                let acknowledged = &known.acknowledged;
                scope.spawn(move || {
                    self.cluster.network.enter(machine);
                    let compare = |(id, outputs): (&String, &Vec<String>)| {
                        self.compare_with_history(machine, id, outputs)
                    };
                    let share = acknowledged.iter().skip(machine).step_by(MACHINES);
                    share.filter_map(compare).collect::<Vec<_>>()
                })
            });
            let compared: Vec<_> = compared.collect();
            violations.extend(compared.into_iter().flat_map(|thread| thread.join().unwrap()));
        });
        violations
    }

    fn compare_with_history(
        &self,
        machine: usize,
        id: &str,
        acknowledged: &[String],
    ) -> Option<String> {
        let (begin, uri) = (now(), address("step_history", id));
        let history = loop {
            match self.call_tool(machine, "workflow.read", &json!({ "uri": uri })) {
                Some(Outcome::Accepted(history)) => break history,
                _ if begin.elapsed() < SETTLE_MAX => {}
                _ => return Some(format!("the history of {id} cannot be read at {machine}")),
            }
        };
        let done = history["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["status"] == "completed");
        let done = done.filter(|row| row["step_name"] != "between");
        let done: Vec<_> = done.map(|row| (&row["step_name"], &row["output"]["said"])).collect();
        let is_whole = done.iter().map(|(step, _)| *step).eq(STEPS);
        let is_acknowledged = done.iter().map(|(_, said)| *said).eq(acknowledged);
        (!is_whole || !is_acknowledged)
            .then(|| format!("{id} at {machine}: acknowledged {acknowledged:?}, stored {history}"))
    }
}

impl Known {
    /// Records the outcome of a call, and queues the next one.
    fn note(&mut self, call: Call, outcome: &Outcome, dice: &mut Dice) {
        let (id, accepted) = match (&call, outcome) {
            (_, Outcome::Unknown) => {
                self.unanswered += 1;
                return self.calls.push(call);
            }
            (Call::Finish { id, .. }, Outcome::Refused(error)) => {
                let lost_race = ["TOKEN_ALREADY_USED", "EXECUTION_FINISHED"];
                if !lost_race.iter().any(|code| error["error_code"] == *code) {
                    self.violations.push(format!("{id}: {call:?} was refused: {error}"));
                }
                return;
            }
            (Call::Start { id }, Outcome::Refused(error)) => {
                self.open -= 1;
                self.violations.push(format!("{id}: the start was refused: {error}"));
                return;
            }
            (Call::Start { id } | Call::Finish { id, .. }, Outcome::Accepted(answer)) => {
                (id, answer)
            }
        };
        let acknowledged = self.acknowledged.entry(id.clone()).or_default();
        if let Call::Finish { output, .. } = &call {
            if acknowledged.contains(output) {
                return self.violations.push(format!("{id}: {output} was accepted twice"));
            }
            acknowledged.push(output.clone());
        }
        let next = acknowledged.len() + 1;
        match accepted["new_token"].as_str() {
            Some(token) => self.calls.push(Call::Finish {
                id: id.clone(),
                token: token.to_owned(),
                output: format!("{id} step {next} {}", dice.roll(u64::from(u32::MAX))),
            }),
            None => self.open -= 1,
        }
    }
}
