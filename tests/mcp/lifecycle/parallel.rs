//! Things that happen at once: clients with one token, executions side by side, phases in any order, and a crash in
//! the middle of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
};

use midex_domain::limits;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use midex_test::{
    Client, Fields, MANIFESTS, Server, address, door::Door, long, output, serve_alone, steps,
};

fn start(server: &mut Server, workflow: &str, id: &str) -> Value {
    server.begin(workflow, id)
}

fn finish(token: &Value, output: Value) -> Value {
    json!({ "token": token, "output": output })
}

/// What two clients are answered who use `token` at the same time, each with its own output.
fn at_once(clients: &mut [Door; 2], token: &Value, outputs: [Value; 2]) -> [Value; 2] {
    let gate = Barrier::new(2);
    let [one, two] = clients;
    let [first, second] = outputs;
    let gate = &gate;
    let call = move |client: &mut Door, output: Value| {
        gate.wait();
        client.call("workflow.next_step", finish(token, output))["structuredContent"].clone()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || call(two, second));
        [call(one, first), other.join().unwrap()]
    })
}

#[test]
fn of_two_clients_with_one_token_and_two_outputs_exactly_one_wins() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let data = home.path().join("data");
    let mut clients = [(); 2].map(|()| Door::enter(&data, home.path()));
    let mut wins = [0, 0];
    for round in 0..30 {
        let id = format!("e{round}");
        let mut token = start(&mut server, "bug-fix", &id)["new_token"].clone();
        for _ in 0..3 {
            let answers =
                at_once(&mut clients, &token, [output("of the first"), output("of the second")]);
            let won: Vec<_> = (0..2).filter(|at| answers[*at]["success"] == true).collect();
            let [winner] = won[..] else { panic!("{answers:?}") };
            wins[winner] += 1;
            let loser = &answers[1 - winner];
            assert_eq!(loser["error_code"], "TOKEN_ALREADY_USED", "{loser}");
            assert!(answers[winner]["replayed"].is_null());
            token = answers[winner]["new_token"].clone();
            let history = server.read(&address("step_history", &id));
            let kept = history
                .as_array()
                .unwrap()
                .iter()
                .rfind(|row| row["status"] == "completed")
                .unwrap();
            let expected = ["of the first", "of the second"][winner];
            assert_eq!(kept["output"]["summary"], expected, "what was answered is what is kept");
        }
        let status = server.status(&id);
        status.has_fields(json!({ "state": "completed", "revision": 4 }));
    }
    assert_eq!(wins.iter().sum::<usize>(), 90);
}

#[test]
fn two_clients_that_say_the_same_at_once_are_answered_the_same() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let data = home.path().join("data");
    let mut clients = [(); 2].map(|()| Door::enter(&data, home.path()));
    for round in 0..30 {
        let id = format!("e{round}");
        let token = start(&mut server, "bug-fix", &id)["new_token"].clone();
        let mut answers = at_once(&mut clients, &token, [output("the same"), output("the same")]);
        let replays = answers
            .iter_mut()
            .filter_map(|answer| answer.as_object_mut().unwrap().remove("replayed"));
        assert_eq!(replays.collect::<Vec<_>>(), [json!(true)], "one of them is the repeat");
        assert_eq!(answers[0], answers[1]);
        assert_eq!(server.status(&id)["revision"], 2);
    }
}

/// A client that comes over the standard streams is a client like those of the socket.
#[test]
fn a_change_by_one_client_is_seen_by_all_at_once() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let token = start(&mut server, "bug-fix", "e")["new_token"].clone();
    let mut other = Door::enter(&home.path().join("data"), home.path());
    for state in ["paused", "running"] {
        let tool = if state == "paused" { "execution.pause" } else { "execution.resume" };
        other.done(tool, json!({ "execution_id": "e" }));
        assert_eq!(server.status("e")["state"], state);
    }
    let next = server.next_step(finish(&token, output("x")));
    let again = other.next_step(finish(&token, output("x")));
    again.has_fields(json!({ "new_token": next["new_token"], "replayed": true }));
    other.done("execution.abandon", json!({ "execution_id": "e" }));
    let refused = server.refused("workflow.next_step", finish(&next["new_token"], output("y")));
    assert_eq!(refused["workflow_state"], "abandoned", "{refused}");
}

const TELEMETRY: &str = "midex://workflow/telemetry?limit=1000";

/// Takes executions of its own to their end, while others do the same.
fn worker(home: &Path, worker: usize, left: &AtomicUsize) {
    let mut door = Door::enter(&home.join("data"), home);
    for round in 0..4 {
        let id = format!("w{worker}-{round}");
        let mut reply = door.begin("bug-fix", &id);
        while reply["workflow_state"] == "running" {
            reply = door.next_step(finish(&reply["new_token"], output("done")));
        }
    }
    left.fetch_sub(1, Ordering::SeqCst);
}

const WORKERS: usize = 6;

/// What is told while executions run side by side: each time it is what was told before, and more.
fn told_meanwhile(server: &mut Server, home: &Path) -> Value {
    let left = AtomicUsize::new(WORKERS);
    let mut seen: Vec<Value> = Vec::new();
    std::thread::scope(|scope| {
        for at in 0..WORKERS {
            let left = &left;
            scope.spawn(move || worker(home, at, left));
        }
        let mut last = false;
        while !last {
            last = left.load(Ordering::SeqCst) == 0;
            let told = server.read(TELEMETRY);
            let told = told.as_array().unwrap();
            assert_eq!(
                told[..seen.len()],
                seen[..],
                "what was told stays as it was, and nothing comes before it"
            );
            seen.clone_from(told);
        }
    });
    Value::Array(seen)
}

/// The story that an execution tells: the types of its events and their steps. It tells it under the same ids by itself
/// and among all others, and its time does not run backwards.
fn story(server: &mut Server, told: &Value, id: &str) -> Vec<String> {
    let own = server.read(&address("telemetry", id));
    let own = own.as_array().unwrap();
    let of_all = told.as_array().unwrap().iter().filter(|event| event["execution_id"] == id);
    assert!(own.iter().eq(of_all), "{id}: the same events under the same ids");
    let times: Vec<_> = own.iter().map(|event| event["created_at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{id}: {times:?}");
    own.iter().map(|event| format!("{} {}", event["event_type"], event["step_name"])).collect()
}

#[test]
fn telemetry_of_executions_side_by_side_is_in_one_order_that_never_changes() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    start(&mut server, "bug-fix", "first");
    let told = told_meanwhile(&mut server, home.path());
    let ids: Vec<_> =
        told.as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "strictly ordered");
    // 17 events for each execution of three steps, 5 for the one that was only started.
    assert_eq!(ids.len(), 17 * 4 * WORKERS + 5);
    for event in told.as_array().unwrap() {
        let at = event["created_at"].as_str().unwrap();
        assert!(
            at.len() == 24 && at.ends_with('Z') && at.as_bytes()[10] == b'T',
            "one time format: {at}"
        );
    }
    let all = (0..WORKERS).flat_map(|worker| (0..4).map(move |round| format!("w{worker}-{round}")));
    let stories: BTreeSet<_> = all.map(|id| story(&mut server, &told, &id)).collect();
    assert_eq!(stories.len(), 1, "every execution tells the same story");
    server.kill();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    assert_eq!(server.read(TELEMETRY), told, "nor does a restart change it");
}

/// The phases of a workflow by name, each with those it depends on.
fn phases(entry: &Value) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let phase = |phase: &Value| {
        let before = phase["dependsOn"].as_array().unwrap().iter().map(text).collect();
        (text(&phase["phase"]), before)
    };
    entry["phases"].as_array().unwrap().iter().map(phase).collect()
}

/// A run of a workflow, and what is known of it.
struct Run<'a> {
    phases: &'a BTreeMap<String, Vec<String>>,
    /// Open steps with their tokens.
    open: BTreeMap<String, Value>,
    done: BTreeMap<String, Value>,
}

impl<'a> Run<'a> {
    fn new(phases: &'a BTreeMap<String, Vec<String>>, reply: &Value) -> Self {
        let mut run = Self { phases, open: BTreeMap::new(), done: BTreeMap::new() };
        run.take(reply);
        run
    }

    /// Takes in what a reply offers: exactly the steps whose dependencies are done, each told what they decided.
    fn take(&mut self, reply: &Value) {
        for offer in steps(reply, "new_tokens") {
            let name = offer["step_name"].as_str().unwrap();
            self.open.insert(name.to_owned(), offer["continuation_token"].clone());
            assert!(!self.done.contains_key(name), "{name} is offered again");
            self.told(name, reply, &offer["previous"]);
        }
        let ready = self.phases.iter().filter(|(name, before)| {
            !self.done.contains_key(*name)
                && before.iter().all(|before| self.done.contains_key(before))
        });
        assert!(
            ready.map(|(name, _)| name).eq(self.open.keys()),
            "exactly what is ready is open: {:?}",
            self.open.keys()
        );
    }

    /// `current_step` shows what is open, with the tokens that were given, each step told what the ones before decided.
    fn shown(&self, current: &Value) {
        let mut tokens = BTreeMap::new();
        for step in steps(current, "ready_steps") {
            let name = step["step_name"].as_str().unwrap();
            self.told(name, current, &step["previous"]);
            tokens.insert(name.to_owned(), step["continuation_token"].clone());
        }
        assert_eq!(tokens, self.open);
    }

    /// Whether `previous` of the step `name` names every one that it depends on, in few bytes; what stands in `shown` already,
    /// for a step above it, is not said again.
    fn told(&self, name: &str, shown: &Value, previous: &Value) {
        let named = |previous: &Value| -> BTreeSet<String> {
            let steps = previous.as_array().into_iter().flatten();
            steps.map(|step| step["step_name"].as_str().unwrap().to_owned()).collect()
        };
        let mut told = named(previous);
        told.extend(named(&shown["previous"]));
        let before: BTreeSet<_> = self.phases[name].iter().cloned().collect();
        assert!(told.is_superset(&before), "{name} is told of what it depends on: {told:?}");
        assert!(previous.to_string().len() <= limits::PREVIOUS_BYTES_MAX, "{name}");
        for step in previous.as_array().into_iter().flatten() {
            let said = self.done[step["step_name"].as_str().unwrap()]["summary"].as_str().unwrap();
            let shown =
                step["output"]["summary"].as_str().unwrap_or_else(|| panic!("{name}: {step}"));
            assert!(
                said.starts_with(shown.trim_end_matches('…').get(..20).unwrap_or(shown)),
                "{name}: {shown}"
            );
        }
    }

    /// The call that finishes an open step, and its output.
    fn finish(&mut self, name: &str, bytes: usize) -> Value {
        let token = self.open.remove(name).unwrap();
        let output = output(&format!("{name} is decided {}", "x".repeat(bytes)));
        self.done.insert(name.to_owned(), output.clone());
        finish(&token, output)
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure names its seed")]
fn every_shipped_workflow_comes_to_its_end_in_whatever_order_its_phases_end() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let listed = server.read("midex://workflow/available_workflows");
    for seed in 1..=3 {
        println!("shipped workflows: seed {seed}");
        let mut dice = StdRng::seed_from_u64(seed);
        for entry in listed.as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            let details = server.read(&address("workflow_details", name));
            assert_eq!(details["source"], "shipped");
            // Of a manifest not every step has its turn.
            if MANIFESTS.contains(&name) {
                continue;
            }
            let phases = phases(entry);
            let id = format!("{name} {seed}");
            let mut reply = start(&mut server, name, &id);
            let mut run = Run::new(&phases, &reply);
            while !run.open.is_empty() {
                run.shown(&server.current(&id));
                let open: Vec<_> = run.open.keys().cloned().collect();
                let chosen = &open[dice.random_range(0..open.len())];
                let call = run.finish(chosen, dice.random_range(0..20_000));
                reply = server.next_step(call);
                run.take(&reply);
            }
            ended(&mut server, &id, &reply, &run);
        }
    }
}

/// The execution is completed, and what its last step decided is what it came to.
fn ended(server: &mut Server, id: &str, reply: &Value, run: &Run<'_>) {
    assert_eq!(reply["workflow_state"], "completed", "{id}");
    let followed: BTreeSet<_> = run.phases.values().flatten().collect();
    let last: Vec<_> = run.phases.keys().filter(|name| !followed.contains(name)).collect();
    let [last] = last[..] else { panic!("{id} ends with {last:?}") };
    let status = server.status(id);
    assert_eq!(
        (&status["state"], &status["final_output"], &reply["final_output"]),
        (&json!("completed"), &run.done[last], &run.done[last]),
        "{id}"
    );
    let count = run.phases.len();
    assert_eq!(
        status["steps"],
        json!({ "total": count, "completed": count, "failed": 0, "running": 0, "pending": 0, "skipped": 0 })
    );
    let history = server.read(&address("step_history", id));
    for row in history.as_array().unwrap() {
        assert_eq!(row["output"], run.done[row["step_name"].as_str().unwrap()], "{id}");
    }
    assert_eq!(history.as_array().unwrap().len(), count);
    assert_eq!(history[count - 1]["step_name"], last.as_str(), "the synthesis comes last");
}

/// A workflow of six independent phases and a synthesis.
const AUDIT: &str = "parallel-maintenance-audit";

/// Takes it through a crash while the phases end. Whatever was on its way
/// is sent again.
#[expect(clippy::print_stdout, reason = "a failure names its seed")]
#[expect(clippy::disallowed_methods, reason = "it kills at random")]
fn survive_a_kill(seed: u64, flags: &[&str]) {
    println!("a kill amid parallel phases: seed {seed}, {flags:?}");
    let mut dice = StdRng::seed_from_u64(seed);
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), flags));
    let audit = server.read(&address("workflow_details", AUDIT));
    let phases = phases(&audit);
    let reply = start(&mut server, AUDIT, "e");
    let mut run = Run::new(&phases, &reply);
    let mut order: Vec<_> = run.open.keys().cloned().collect();
    order.shuffle(&mut dice);
    let mut calls: Vec<_> = order.iter().map(|name| run.finish(name, 6000)).collect();
    let (first, rest) = calls.split_at(dice.random_range(0..calls.len()));
    for call in first {
        server.next_step(call.clone());
    }
    for call in rest {
        server.post_call("workflow.next_step", call.clone());
    }
    std::thread::sleep(std::time::Duration::from_micros(dice.random_range(0..6000)));
    let acknowledged = first.len() + server.kill_and_drain().len();
    let mut server = Server::greeted(serve_alone(home.path(), flags));
    let status = server.status("e");
    let completed = usize::try_from(status["steps"]["completed"].as_u64().unwrap()).unwrap();
    assert!(
        (acknowledged..=calls.len()).contains(&completed),
        "{acknowledged} were acknowledged: {status}"
    );
    calls.shuffle(&mut dice);
    run.take(&sent_again(&mut server, calls, completed));
    let last: Vec<_> = run.open.keys().cloned().collect();
    assert_eq!(last, ["maintenance-synthesis"]);
    let call = run.finish(&last[0], 10);
    let reply = server.next_step(call);
    ended(&mut server, "e", &reply, &run);
}

/// Sends all calls again: those that were done are answered as before, the others are done now. The one reply that
/// offers something.
fn sent_again(server: &mut Server, calls: Vec<Value>, done: usize) -> Value {
    let replies: Vec<_> = calls.into_iter().map(|call| server.next_step(call)).collect();
    assert_eq!(replies.iter().filter(|reply| reply["replayed"] == true).count(), done);
    let offers: Vec<_> = replies.iter().filter(|reply| reply["new_tokens"] != json!([])).collect();
    let [offer] = offers[..] else { panic!("the synthesis is offered {} times", offers.len()) };
    offer.clone()
}

#[test]
fn a_kill_amid_parallel_phases_loses_nothing_and_repeats_nothing() {
    let seed = long::seed(1);
    let seeds = |of: u64| seed..seed + of;
    seeds(long::rounds(4, 100)).for_each(|seed| survive_a_kill(seed, &[]));
    let flags = ["--snapshot-every", "16"];
    seeds(long::rounds(2, 50)).for_each(|seed| survive_a_kill(seed + 1000, &flags));
}
