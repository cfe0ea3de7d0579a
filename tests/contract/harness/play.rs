//! A play of a scenario: an execution from its start to its end, on servers that live as long as the play says.

use std::{sync::Arc, time::Duration};

use midex_domain::{telemetry::EventType, view::StatusView};
use midex_engine::{
    StartRequest,
    store::{MemoryStore, Store},
};
use midex_test::play::request;
use serde_json::Value;
use tempfile::TempDir;

use super::{
    disk::DiskStore,
    engine::{Process, root},
    history::{self, Entry},
    script::{Act, find_execution, parse_value},
    server::Server,
};

/// How often time passes until something moves before a play is given up.
const CHANGES_MAX: usize = 200;
/// How long nothing moves before nothing ever will. No scenario waits longer without saying so.
const NOTHING_MOVES_AFTER: Duration = Duration::from_secs(2 * 3600);

/// A workflow, the inputs and events it gets from outside, and the expected result.
#[derive(Debug, Default)]
pub(crate) struct Scenario {
    /// The manifest after its name and its description.
    pub(crate) manifest: &'static str,
    /// Other workflows, each with its name and its manifest.
    pub(crate) workflows: &'static [(&'static str, &'static str)],
    /// The inputs of the start, as JSON; empty for none.
    pub(crate) inputs: &'static str,
    /// The outcomes of activities, and of operations of the catalog `shop`, whose names have a colon: one for each
    /// attempt, `brings JSON`, `brings its input`, `fails CLASS` or `fails for good CLASS`, after `takes 10s, ` if it
    /// takes time. The name may be that of a visit or an item: `work#2`, `work[1]`.
    pub(crate) activities: &'static [(&'static str, &'static [&'static str])],
    /// What the outside does: see `script`.
    pub(crate) script: &'static [&'static str],
    /// The last state, and the final output as JSON, the code of the failure or the reason of the pause.
    pub(crate) ends: &'static str,
    /// The history: see `history`.
    pub(crate) history: &'static [&'static str],
    /// The attempts that the server made, `work 1`, in their order; not compared if there are none. An attempt may be
    /// followed by its input, `work 1 given JSON`.
    pub(crate) calls: &'static [&'static str],
    /// The steps of which telemetry says that they are done again, in this order; not compared if there are none.
    pub(crate) retried: &'static [&'static str],
}

/// Whether servers are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// One server lives from the start to the end.
    Whole,
    /// The server is killed at every suspension, unless a kill would cut an attempt off.
    KilledAtEverySuspension,
}

/// What a play came to.
struct Played {
    entries: Vec<Entry>,
    status: StatusView,
    final_output: Option<Value>,
    retried: Vec<String>,
}

/// Runs a scenario with and without kills, and compares both results with the expectation.
pub(crate) fn play(scenario: &Scenario) {
    let plays = [Life::Whole, Life::KilledAtEverySuspension].map(|life| {
        let played = Play::begin(scenario, life).play();
        compare(scenario, life, &played);
        played
    });
    let [whole, killed] = plays.map(|played| {
        let entries = played.entries.iter();
        entries.map(Entry::without_times).collect::<Vec<_>>()
    });
    assert_eq!(whole, killed, "the history depends on the kills");
}

fn compare(scenario: &Scenario, life: Life, played: &Played) {
    let expected = history::expected_lines(scenario.history).join("\n");
    let lines = history::lines(&played.entries, scenario.history).join("\n");
    let end = describe_end(played, scenario.ends);
    assert!(
        lines == expected && end == scenario.ends,
        "{life:?}: expected\n{}\n{expected}\n\nfound\n{end}\n{lines}\n\nerror: {:?}",
        scenario.ends,
        played.status.error,
    );
    if !scenario.retried.is_empty() {
        assert_eq!(played.retried, scenario.retried, "{life:?}: what telemetry says");
    }
}

/// The state and the final output or failure of the execution, formatted as `expected` is.
fn describe_end(played: &Played, expected: &str) -> String {
    let Played { status, final_output, .. } = played;
    let state = &status.state;
    let detail = expected.split_once(' ').map(|(_, detail)| detail);
    let found = match (state.as_str(), detail) {
        ("completed", Some(text)) => {
            let output = final_output.clone().unwrap_or_default();
            Some(if parse_value(text) == output { text.to_owned() } else { output.to_string() })
        }
        ("paused", _) => {
            let reasons = serde_json::to_value(&status.pause_reasons).expect("JSON");
            let reasons = reasons.as_array().expect("a list").iter();
            let reasons: Vec<_> = reasons.filter_map(Value::as_str).collect();
            Some(reasons.join(", "))
        }
        ("failed", _) => status.error.as_ref().map(|error| error.code.clone()),
        _ => None,
    };
    found.map_or_else(|| state.clone(), |found| format!("{state} {found}"))
}

/// Where the store is.
enum Place {
    Memory(Arc<MemoryStore>),
    Disk(TempDir),
}

impl Place {
    fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Disk(directory) => Arc::new(DiskStore::open(directory.path())),
        }
    }
}

struct Play<'a> {
    scenario: &'a Scenario,
    life: Life,
    server: Arc<Server>,
    place: Place,
    /// Absent only while no server runs.
    process: Option<Process>,
    processes_started: u64,
}

impl<'a> Play<'a> {
    fn begin(scenario: &'a Scenario, life: Life) -> Self {
        let place = match life {
            Life::Whole => Place::Memory(Arc::default()),
            Life::KilledAtEverySuspension => Place::Disk(tempfile::tempdir().expect("a directory")),
        };
        let server = Arc::new(Server::new(scenario));
        let mut play = Self { scenario, life, server, place, process: None, processes_started: 0 };
        play.start_process(Duration::ZERO);
        play
    }

    fn start_process(&mut self, passed: Duration) {
        self.processes_started += 1;
        let store = self.place.open();
        let number = self.processes_started;
        self.process = Some(Process::start(store, &self.server, passed, number));
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("a process")
    }

    /// Kills the server, and starts one on the same store once this much time has passed.
    fn restart_after(&mut self, pause: Duration) {
        let passed = self.process.take().expect("a process").kill();
        self.start_process(passed + pause);
    }

    /// Waits until the execution is suspended, when the server may be killed.
    fn suspend(&mut self) {
        self.process().settle();
        if self.life == Life::KilledAtEverySuspension && !self.server.is_at_work() {
            self.restart_after(Duration::ZERO);
        }
        self.process().settle();
    }

    fn play(mut self) -> Played {
        let inputs = (!self.scenario.inputs.is_empty())
            .then(|| serde_json::from_str(self.scenario.inputs).expect("JSON"));
        let request =
            StartRequest { inputs, ..request(self.server.definition.clone(), root().as_str()) };
        let process = self.process();
        process.run(process.engine.start(request)).expect("a start");
        for line in self.scenario.script {
            self.perform(line);
        }
        self.run_to_the_end();
        self.compare_calls();
        let process = self.process();
        process.run(async {
            let status = process.engine.status(&root()).await.expect("a status");
            let entries = history::entries(&process.engine, &root()).await;
            let final_output = process.engine.final_output(&root()).await.expect("an output");
            let told = process.engine.telemetry(Some(&root()), None, 100).await.expect("telemetry");
            let retried =
                told.into_iter().filter(|event| event.event_type == EventType::StepRetried);
            let retried = retried.filter_map(|event| event.step_name).collect();
            Played { entries, status, final_output, retried }
        })
    }

    fn perform(&mut self, line: &str) {
        match Act::parse(line) {
            Act::Passes(span) => self.pass(span),
            Act::Killed => {
                self.process().settle();
                assert!(self.server.is_at_work(), "no attempt is under way at `{line}`");
                self.restart_after(Duration::ZERO);
            }
            Act::DownFor(span) => {
                self.process().settle();
                self.restart_after(span);
            }
            Act::On { path, deed } => {
                for _ in 0..CHANGES_MAX {
                    self.suspend();
                    let process = self.process();
                    let is_done = process.run(async {
                        match find_execution(&process.engine, &path).await {
                            Some(id) => deed.is_done(&process.engine, &id).await,
                            None => false,
                        }
                    });
                    if is_done {
                        return;
                    }
                    if !process.pass_until_change(NOTHING_MOVES_AFTER) {
                        break;
                    }
                }
                let status = self.status();
                panic!("{:?}: `{line}` was never possible: {status:?}", self.life);
            }
        }
    }

    /// Lets time pass, with a suspension after each change.
    fn pass(&mut self, span: Duration) {
        self.suspend();
        let end = self.process().passed() + span;
        loop {
            let left = end.saturating_sub(self.process().passed());
            if left.is_zero() {
                return;
            }
            if self.process().pass_until_change(left) {
                self.suspend();
            }
        }
    }

    /// Lets time pass until the execution has ended, or nothing moves any more.
    fn run_to_the_end(&mut self) {
        for _ in 0..CHANGES_MAX {
            self.suspend();
            let is_over = ["completed", "failed", "abandoned", "diverged"]
                .contains(&self.status().state.as_str());
            if is_over || !self.process().pass_until_change(NOTHING_MOVES_AFTER) {
                return;
            }
        }
        panic!("{:?}: it never ends: {:?}", self.life, self.status());
    }

    fn status(&self) -> StatusView {
        let process = self.process();
        process.run(process.engine.status(&root())).expect("a status")
    }

    fn compare_calls(&self) {
        let expected = self.scenario.calls;
        if expected.is_empty() {
            return;
        }
        let calls = self.server.calls.lock().expect("a list");
        let calls: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(at, (call, input))| {
                let said = expected.get(at).and_then(|line| line.split_once(" given "));
                match said {
                    Some((_, said)) => {
                        let is_same = parse_value(said) == *input;
                        let input = if is_same { said.to_owned() } else { input.to_string() };
                        format!("{call} given {input}")
                    }
                    None => call.clone(),
                }
            })
            .collect();
        assert_eq!(calls, expected, "{:?}: the attempts that were made", self.life);
    }
}
