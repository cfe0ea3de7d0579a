//! Effects that are taken back, and hooks, under the same crashes: each is taken back, newest first, and none twice
//! unless it may be. Of what was cut off and may not be done twice a person reads the log, and says what it tells.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Drill, MOVES_MAX, meant, rest,
    tale::{Site, Tale},
};
use midex_test::{
    Client, Server,
    long::{self, Dice},
};

const WORKFLOWS: &str = "workflow: saga
description: All that is done is taken back
steps:
  - { id: first, activity: once, compensate: { activity: undo } }
  - { id: sworn, activity: again, hooks: { on_success: { activity: mark } }, compensate: { activity: undo_again } }
  - { id: each, foreach: { in: [0, 1, 2], parallel: 2, do: { activity: once, compensate: { activity: undo } } } }
  - { id: last, activity: broken }
on_failure:
  - { id: told, activity: once }
hooks:
  on_complete: { activity: mark, required: true }
";

/// What is done, in order; what stands together may come in any order.
const ORDER: [(&[&str], bool); 8] = [
    (&["first"], false),
    (&["sworn"], true),
    (&["sworn/mark"], false),
    (&["each 0", "each 1", "each 2"], false),
    (&["last"], true),
    (&["told"], false),
    (&["each/undo 0", "each/undo 1", "each/undo 2"], false),
    (&["sworn/undo"], true),
];
/// What comes after that.
const LAST: [(&[&str], bool); 2] = [(&["first/undo"], false), (&["$workflow/mark"], false)];

/// What the kills must have come upon.
const HAPPENED: [&str; 3] = ["not taken back before the kill", "a hook cut off", "work cut off"];

fn site(text: &str) -> Site {
    let (step, item) = text.split_once(' ').unzip();
    let item = item.map(|item| item.parse().unwrap());
    (step.unwrap_or(text).to_owned(), 1, item)
}

/// The visit that is waited for, as the log names it.
fn site_of(wait: &Value) -> Site {
    let beside = match wait["body"].as_str() {
        None => "",
        Some("compensate") => "/undo",
        Some(_) => "/mark",
    };
    let step = wait["step_name"].as_str().unwrap();
    let visit = wait["visit"].as_u64().unwrap();
    (format!("{step}{beside}"), visit, wait["item"].as_u64())
}

/// Says what came of everything in this execution of which nobody knows it, and counts how often.
fn say(server: &mut Server, tale: &Tale, id: &str, said: &mut BTreeMap<&'static str, usize>) {
    for _ in 0..MOVES_MAX {
        let status = server.status(id);
        let mut waits = status["waits"].as_array().unwrap().iter();
        let Some(wait) = waits.find(|wait| wait["waits_for"] == "unknown") else {
            return;
        };
        let mut arguments = meant(id, wait);
        let (ends, _) = tale.ends(id, &site_of(wait));
        let is_done = !ends.is_empty();
        if is_done {
            (arguments["verdict"], arguments["output"]) = (json!("output"), json!("found"));
        } else {
            arguments["verdict"] = json!("retry");
        }
        server.done("execution.resolve", arguments);
        let what = match (wait["body"].as_str(), is_done) {
            (Some("compensate"), true) => "taken back before the kill",
            (Some("compensate"), false) => "not taken back before the kill",
            (Some(_), _) => "a hook cut off",
            (None, _) => "work cut off",
        };
        *said.entry(what).or_default() += 1;
    }
    panic!("{id} asks for ever");
}

impl Drill {
    /// A person looks after all executions that are known to be there, but for those that are at rest for good.
    fn look_after(
        &self,
        server: &mut Server,
        over: &mut BTreeSet<String>,
        said: &mut BTreeMap<&'static str, usize>,
    ) {
        for (id, started) in &self.executions {
            if !started.is_acknowledged || over.contains(id) {
                continue;
            }
            if server.status(id)["state"] == "failed" {
                over.insert(id.clone());
                continue;
            }
            // What is not known was begun by a process that is gone: its lines are all there.
            let tale = Tale::read(self.home.path(), self.process as usize);
            say(server, &tale, id, said);
        }
    }
}

/// Holds an execution that has come to its end against the log.
fn check(server: &mut Server, tale: &Tale, id: &str) {
    let status = server.status(id);
    assert_eq!(status["state"], "failed", "{id}: {status}");
    assert_eq!(status["error"]["code"], "BROKEN", "{id}: {status}");
    let left = [&status["not_compensated"], &status["hook_failures"]];
    assert!(left.iter().all(|left| left.is_null()), "{id}: {status}");
    let (mut sites, mut before) = (BTreeSet::new(), 0);
    for (together, may_be_repeated) in ORDER.into_iter().chain(LAST) {
        let mut latest = before;
        for text in together {
            let (ends, processes) = tale.ends(id, &site(text));
            let is_once = ends.len() == 1 || may_be_repeated && ends.len() <= processes;
            assert!(is_once && !ends.is_empty(), "{id}: {text} ended in lines {ends:?}");
            assert!(ends[0] > before, "{id}: {text} came too early");
            latest = latest.max(ends[ends.len() - 1]);
            sites.insert(site(text));
        }
        before = latest;
    }
    assert_eq!(tale.sites(id), sites, "{id}");
    let history = server.history(id);
    let undone =
        history.iter().filter(|row| row["body"] == "compensate" && row["status"] == "completed");
    assert_eq!(undone.count(), 5, "{id}: {history:?}");
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
fn survive(kills: usize, seed: u64) {
    println!("what is taken back under crashes: seed {seed}, {kills} kills");
    let (mut dice, mut drill) = (Dice(seed), Drill::new(WORKFLOWS));
    let (mut over, mut said) = (BTreeSet::new(), BTreeMap::new());
    let mut done = 0;
    // On a slow machine so many kills may miss one of the kinds: further ones follow, each later than the one before.
    while done < kills || done < 4 * kills && HAPPENED.iter().any(|what| !said.contains_key(what)) {
        let mut server = drill.serve();
        drill.look_after(&mut server, &mut over, &mut said);
        drill.slowness = (done + 1).saturating_sub(kills).max(1) as u64;
        drill.kill(server, &mut dice);
        done += 1;
    }
    let mut server = drill.come_to_rest();
    for _ in 0..MOVES_MAX {
        drill.look_after(&mut server, &mut over, &mut said);
        if over.len() == drill.executions.len() {
            break;
        }
        for id in drill.executions.keys() {
            rest(&mut server, id);
        }
    }
    let tale = Tale::read(drill.home.path(), done);
    for id in drill.executions.keys() {
        check(&mut server, &tale, id);
    }
    let (status, ..) = server.close();
    assert!(status.success(), "{status}");
    println!("{} executions, {said:?}", drill.executions.len());
    // Were it otherwise the kills would all have missed, and nothing were shown.
    for happened in HAPPENED {
        assert!(said.contains_key(happened), "{happened}: {said:?}");
    }
}

#[test]
fn nothing_is_taken_back_twice_and_nothing_is_forgotten() {
    survive(usize::try_from(long::rounds(15, 200)).unwrap(), long::seed(7));
}
