//! Work that the server does itself, under the same crashes. A program with activities is killed amid them and started
//! again on the same directory. Each activity writes into a log that midex knows nothing of; held against the histories
//! it shows that no effect is lost, and that none is done twice unless it may be.

mod children;
mod taken_back;
mod tale;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use self::{tale::Tale, worker::HOME};
use midex_test::{
    Client, Server,
    long::{self, Dice},
};

/// How many executions are started before each kill.
const STARTS: usize = 6;
/// The longest time from an answer to the kill: about as long as one execution takes.
const KILL_AFTER_MICROSECONDS_MAX: u64 = 120_000;
/// How often an execution may move before it must have come to rest.
const MOVES_MAX: usize = 100;

/// All executions, over all processes.
struct Drill {
    home: TempDir,
    /// What executions of the client's follow, in turns.
    workflows: Vec<(&'static str, &'static str)>,
    process: u32,
    /// By how much the longest time before a kill is multiplied.
    slowness: u64,
    executions: BTreeMap<String, Started>,
}

/// What the client knows of the start of an execution.
#[derive(Default)]
struct Started {
    asked: u32,
    is_acknowledged: bool,
}

/// The workflows of a text, which `---` divides, by name.
fn workflows(all: &str) -> impl Iterator<Item = (&str, &str)> {
    all.split("---\n").map(|text| {
        let head = text.lines().next().and_then(|line| line.split_once(": "));
        (head.expect("a name").1, text)
    })
}

impl Drill {
    fn new(all: &'static str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("workflows")).unwrap();
        let drill = Self {
            home,
            workflows: workflows(all).collect(),
            process: 0,
            slowness: 1,
            executions: BTreeMap::new(),
        };
        drill.write(all);
        drill
    }

    fn write(&self, all: &str) {
        let directory = self.home.path().join("workflows");
        for (name, text) in workflows(all) {
            std::fs::write(directory.join(format!("{name}.yaml")), text).unwrap();
        }
    }

    /// The next process, which has shaken hands.
    fn serve(&mut self) -> Server {
        self.process += 1;
        let mut server = Server::logging(worker(self.home.path(), self.process), Stdio::inherit());
        // What the harness of the tests says first; from there on the output is the protocol's.
        while server.next_text() != "running 1 test" {}
        server.shake_hands();
        server
    }

    /// Asks for new executions, and again for those whose start nobody acknowledged.
    fn start(&mut self, server: &mut Server, starts: usize) -> BTreeMap<u64, String> {
        for _ in 0..starts {
            let number = self.executions.len();
            let (workflow, _) = self.workflows[number % self.workflows.len()];
            let id = format!("{workflow}-{number:03}");
            self.executions.insert(id, Started::default());
        }
        let mut waiting = BTreeMap::new();
        for (id, started) in &mut self.executions {
            if !started.is_acknowledged {
                started.asked += 1;
                let arguments =
                    json!({ "workflow_name": tale::workflow_of(id), "execution_id": id });
                waiting.insert(server.post_call("workflow.start", arguments), id.clone());
            }
        }
        waiting
    }

    fn take(&mut self, answer: &Value, waiting: &mut BTreeMap<u64, String>) {
        let Some(id) = answer["id"].as_u64().and_then(|id| waiting.remove(&id)) else {
            return;
        };
        let started = self.executions.get_mut(&id).unwrap();
        let told = &answer["result"]["structuredContent"];
        // One that is asked for again may have moved by itself since the answer that was lost.
        let has_moved = started.asked > 1 && told["error_code"] == "EXECUTION_ID_TAKEN";
        assert!(told["success"] == true || has_moved, "{id}: {answer}");
        started.is_acknowledged = true;
    }

    fn kill_one(&mut self, dice: &mut Dice) {
        let server = self.serve();
        self.kill(server, dice);
    }

    #[expect(clippy::disallowed_methods, reason = "it kills at random")]
    fn kill(&mut self, mut server: Server, dice: &mut Dice) {
        let mut waiting = self.start(&mut server, STARTS);
        for _ in 0..=dice.roll(waiting.len() as u64) {
            if !waiting.is_empty() {
                let answer = server.next_line();
                self.take(&answer, &mut waiting);
            }
        }
        std::thread::sleep(Duration::from_micros(
            dice.roll(self.slowness * KILL_AFTER_MICROSECONDS_MAX),
        ));
        for answer in server.kill_and_drain() {
            self.take(&answer, &mut waiting);
        }
    }

    /// The last process, once nothing moves any more.
    fn come_to_rest(&mut self) -> Server {
        let mut server = self.serve();
        let mut waiting = self.start(&mut server, 0);
        while !waiting.is_empty() {
            let answer = server.next_line();
            self.take(&answer, &mut waiting);
        }
        for id in self.executions.keys() {
            rest(&mut server, id);
        }
        server
    }
}

/// This very test, which is the worker where it is told a home.
fn worker(home: &Path, process: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let (_, module) = module_path!().split_once("::").unwrap();
    // With one thread the harness would leave a line open before the first of ours.
    command
        .args([&format!("{module}::{TEST}"), "--exact", "--nocapture"])
        .arg("--test-threads=2")
        .env(HOME, home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env(worker::PROCESS, process.to_string())
        .env_remove("RUST_LOG");
    command
}

fn rest(server: &mut Server, id: &str) {
    let mut status = server.status(id);
    for _ in 0..MOVES_MAX {
        if status["state"] != "running" {
            return;
        }
        let wait =
            json!({ "execution_id": id, "since_revision": status["revision"], "timeout_s": 20 });
        status = server.done("execution.wait", wait);
        assert_eq!(status["changed"], true, "{id} is forgotten: {status}");
    }
    panic!("{id} never rests: {status}");
}

/// The arguments that name what is waited for.
fn meant(id: &str, wait: &Value) -> Value {
    let mut arguments = json!({ "execution_id": id });
    for name in ["step_name", "visit", "attempt", "item"] {
        if let Some(value) = wait.get(name) {
            arguments[name] = value.clone();
        }
    }
    arguments
}

/// Says what came of everything that was cut off, until the execution is completed: nothing, so that it is done again, or
/// an output.
fn resolve(server: &mut Server, id: &str, is_nothing: bool) -> BTreeSet<tale::Site> {
    let mut sites = BTreeSet::new();
    for _ in 0..MOVES_MAX {
        rest(server, id);
        let status = server.status(id);
        let waits = status["waits"].as_array().unwrap();
        let Some(wait) = waits.iter().find(|wait| wait["waits_for"] == "unknown") else {
            assert_eq!(status["state"], "completed", "{id}: {status}");
            return sites;
        };
        let step = wait["step_name"].as_str().unwrap().to_owned();
        sites.insert((step, wait["visit"].as_u64().unwrap(), wait["item"].as_u64()));
        let mut arguments = meant(id, wait);
        if is_nothing {
            arguments["verdict"] = json!("retry");
        } else {
            (arguments["verdict"], arguments["output"]) = (json!("output"), json!("found"));
        }
        server.done("execution.resolve", arguments);
    }
    panic!("{id} never ends");
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
fn survive(kills: usize, seed: u64) {
    println!("effects under crashes: seed {seed}, {kills} kills");
    let (mut dice, mut drill) = (Dice(seed), Drill::new(tale::WORKFLOWS));
    for _ in 0..kills {
        drill.kill_one(&mut dice);
    }
    let mut server = drill.come_to_rest();
    let tale = Tale::read(drill.home.path(), kills);
    let mut counted = tale.count();
    let mut paused = Vec::new();
    for id in drill.executions.keys() {
        let state = tale.check(&mut server, id);
        *counted.entry(state).or_default() += 1;
        if state == "paused" {
            paused.push(id.clone());
        }
    }
    println!("{counted:?}");
    let (status, ..) = server.close();
    assert!(status.success(), "{status}");
    let after = Tale::read(drill.home.path(), kills);
    assert_eq!(after.len(), tale.len(), "what rests begins nothing");
    // Once somebody says what came of them they go on to their end.
    let mut server = drill.serve();
    let said = |(at, id): (usize, &String)| {
        (id.clone(), at % 2 == 0, resolve(&mut server, id, at % 2 == 0))
    };
    let said: Vec<_> = paused.iter().enumerate().map(said).collect();
    let (status, ..) = server.close();
    assert!(status.success(), "{status}");
    let last = Tale::read(drill.home.path(), kills);
    for (id, is_nothing, sites) in said {
        for site in sites {
            let more = last.attempts(&id, &site) - after.attempts(&id, &site);
            assert_eq!(more, usize::from(is_nothing), "{id} {site:?}");
        }
    }
    // Were it otherwise the kills would all have missed, and nothing were shown.
    for happened in ["begun again", "cut off", "paused", "completed"] {
        assert!(counted.contains_key(happened), "{happened}: {counted:?}");
    }
}

const TEST: &str = "no_effect_is_lost_and_none_is_repeated_that_may_not_be";

#[test]
fn no_effect_is_lost_and_none_is_repeated_that_may_not_be() {
    if let Some(home) = std::env::var_os(HOME) {
        return worker::work(Path::new(&home));
    }
    survive(usize::try_from(long::rounds(15, 200)).unwrap(), long::seed(5));
}
