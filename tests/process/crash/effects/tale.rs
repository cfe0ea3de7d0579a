//! What the log of the activities tells, and whether the histories tell the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::{Value, json};

use super::worker::log_of;
use midex_test::{Client, Server, address};

/// How many items each `foreach` has.
const ITEMS: u32 = 6;

/// The workflows by name.
pub(super) const WORKFLOWS: &str = "workflow: again
description: All of it may be done twice
steps:
  - { id: first, activity: again }
  - { id: flaky, activity: flaky, retry: { max_attempts: 2, backoff: 5ms, jitter: false } }
  - { id: each, foreach: { in: [0, 1, 2, 3, 4, 5], parallel: 3, do: { activity: again } } }
  - { id: last, activity: again }
---
workflow: once
description: None of it may be done twice
steps:
  - { id: first, activity: once }
  - { id: sworn, activity: again, idempotent: false }
  - { id: each, foreach: { in: [0, 1, 2, 3, 4, 5], parallel: 2, do: { activity: once } } }
  - { id: last, activity: once }
---
workflow: mixed
description: Some of it may be done twice
steps:
  - { id: first, activity: again }
  - { id: sworn, activity: once, idempotent: true }
  - { id: each, foreach: { in: [0, 1, 2, 3, 4, 5], parallel: 6, do: { activity: once } } }
  - { id: last, activity: again }
---
workflow: beside
description: What may be done twice beside what may not
steps:
  - { id: first, activity: again }
  - { id: left, activity: again, depends_on: [first] }
  - { id: right, activity: once, depends_on: [first] }
  - { id: last, activity: again, depends_on: [left, right] }
";

/// A step: its name, whether what it does may be done twice, and how many steps come before it.
type Step = (&'static str, bool, usize);

/// The steps of each workflow, each with how many come before it; of those with a `*` what they do may be done twice.
const STEPS: [(&str, &str); 4] = [
    ("again", "0 first*, 1 flaky*, 2 each*, 3 last*"),
    ("once", "0 first, 1 sworn, 2 each, 3 last"),
    ("mixed", "0 first*, 1 sworn*, 2 each, 3 last*"),
    ("beside", "0 first*, 1 left*, 1 right, 2 last*"),
];

/// The workflow of the execution with this id.
pub(super) fn workflow_of(id: &str) -> &str {
    id.split('-').next().unwrap()
}

fn steps_of(id: &str) -> impl Iterator<Item = Step> {
    let steps = STEPS.iter().find(|(name, _)| *name == workflow_of(id));
    steps.unwrap().1.split(", ").map(|step| {
        let (before, name) = step.split_once(' ').unwrap();
        let plain = name.trim_end_matches('*');
        (plain, plain != name, before.parse().unwrap())
    })
}

fn step_of(id: &str, site: &Site) -> Step {
    let mut steps = steps_of(id);
    steps.find(|(name, ..)| *name == site.0).unwrap()
}

/// A visit of a step.
pub(super) type Site = (String, u64, Option<u64>);

/// One attempt, as its lines tell of it.
#[derive(Debug)]
struct Attempt {
    /// The process that made it.
    process: u32,
    number: u64,
    key: String,
    /// `done`, `failed`, or nothing where its process ended before that.
    end: Option<String>,
    /// Which line of the log says that.
    ended_at: usize,
}

/// The log: for each execution and visit the attempts, in the order in which they were begun.
pub(super) struct Tale {
    executions: BTreeMap<String, BTreeMap<Site, Vec<Attempt>>>,
    lines: usize,
}

impl Tale {
    /// Reads the log. No attempt is begun twice, and none ends that was not begun by the same process.
    pub(super) fn read(home: &Path, kills: usize) -> Self {
        let text = std::fs::read_to_string(log_of(home)).unwrap();
        let mut tale = Self { executions: BTreeMap::new(), lines: text.lines().count() };
        let mut torn = 0;
        for (at, line) in text.lines().enumerate().skip(1) {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                [.., "begun" | "done" | "failed"] => tale.take((at, line), &words),
                // Whoever wrote it did not come to the end of this very line.
                _ => torn += 1,
            }
        }
        // A kill cuts off at most what is being written, which threads do in turns.
        assert!(torn <= kills, "{torn} lines are not whole");
        tale.check_keys();
        tale
    }

    fn take(&mut self, (at, line): (usize, &str), words: &[&str]) {
        let [process, id, step, visit, item, attempt, key, word] = *words else {
            panic!("a line of another kind: {line}")
        };
        let process = process.parse().unwrap();
        let number = attempt.parse().unwrap();
        let site = (step.to_owned(), visit.parse().unwrap(), item.parse().ok());
        let execution = self.executions.entry(id.to_owned()).or_default();
        let attempts = execution.entry(site).or_default();
        if word == "begun" {
            if let Some(last) = attempts.last() {
                let goes_on = last.end.as_deref() == Some("failed") || last.process < process;
                assert!(last.number < number && goes_on, "begun twice: {line}: {last:?}");
            }
            attempts.push(Attempt { process, number, key: key.to_owned(), end: None, ended_at: 0 });
        } else {
            let last = attempts.last_mut().expect("it was begun");
            assert_eq!((last.process, last.number), (process, number), "{line}");
            assert_eq!(last.end.replace(word.to_owned()), None, "{line}");
            last.ended_at = at;
        }
    }

    /// The attempts of a visit have one key, and no other visit has it.
    fn check_keys(&self) {
        let mut taken = BTreeSet::new();
        for (id, sites) in &self.executions {
            for (site, attempts) in sites {
                let key = &attempts[0].key;
                assert!(
                    attempts.iter().all(|attempt| attempt.key == *key),
                    "{id} {site:?}: {attempts:?}"
                );
                assert!(taken.insert(key), "{id} {site:?} has the key of another");
            }
        }
    }

    /// How many attempts of a visit were begun.
    pub(super) fn attempts(&self, id: &str, site: &Site) -> usize {
        let sites = self.executions.get(id);
        sites.and_then(|sites| sites.get(site)).map_or(0, Vec::len)
    }

    /// Every visit of the execution of which anything was begun.
    pub(super) fn sites(&self, id: &str) -> BTreeSet<Site> {
        let sites = self.executions.get(id).map(BTreeMap::keys);
        sites.into_iter().flatten().cloned().collect()
    }

    /// The lines that say that an attempt of the visit came to its end, and how many processes began one.
    pub(super) fn ends(&self, id: &str, site: &Site) -> (Vec<usize>, usize) {
        let sites = self.executions.get(id);
        let attempts = sites.and_then(|sites| sites.get(site));
        let attempts = attempts.map_or(&[][..], Vec::as_slice);
        let ended = attempts.iter().filter(|attempt| attempt.end.is_some());
        let processes: BTreeSet<_> = attempts.iter().map(|attempt| attempt.process).collect();
        (ended.map(|attempt| attempt.ended_at).collect(), processes.len())
    }

    /// How many lines there are.
    pub(super) const fn len(&self) -> usize {
        self.lines
    }

    /// How many attempts were cut off by a kill, and how many were begun again after one.
    pub(super) fn count(&self) -> BTreeMap<&'static str, usize> {
        let sites = self.executions.values().flat_map(BTreeMap::values);
        let mut counted = BTreeMap::new();
        for attempts in sites {
            for attempt in attempts {
                if attempt.end.is_none() {
                    *counted.entry("cut off").or_default() += 1;
                }
            }
            if attempts[0].process != attempts[attempts.len() - 1].process {
                *counted.entry("begun again").or_default() += 1;
            }
        }
        counted
    }

    /// Holds an execution that rests against its part of the log, and answers with its state.
    pub(super) fn check(&self, server: &mut Server, id: &str) -> &'static str {
        let status = server.status(id);
        let history = server.read(&address("step_history", id));
        let completed = completed(&history);
        let nothing = BTreeMap::new();
        let sites = self.executions.get(id).unwrap_or(&nothing);
        for (site, attempt) in &completed {
            self.was_done(id, site, *attempt);
        }
        for (site, attempts) in sites {
            self.was_done_once(id, site, attempts, &status);
        }
        let mut begun = sites.keys();
        match status["state"].as_str().unwrap() {
            "completed" => {
                let unfinished = begun.find(|site| !completed.contains_key(*site));
                assert_eq!(unfinished, None, "{id}");
                let done: BTreeSet<_> = completed.into_keys().collect();
                assert_eq!(done, every_site(id), "{id}");
                "completed"
            }
            "paused" => {
                assert_eq!(status["pause_reasons"], json!(["outcome_unknown"]), "{id}");
                is_stuck(id, &completed, begun);
                "paused"
            }
            other => panic!("{id} is {other}: {status}"),
        }
    }

    /// What may not be done twice is begun once. Where its process died in the midst of it, the execution waits for a
    /// person, and no later process has begun anything of it.
    fn was_done_once(&self, id: &str, site: &Site, attempts: &[Attempt], status: &Value) {
        let (_, may_be_repeated, _) = step_of(id, site);
        if may_be_repeated {
            return;
        }
        let [attempt] = attempts else {
            panic!("{id} {site:?} may not be done twice: {attempts:?}")
        };
        if attempt.end.is_none() {
            assert_eq!(status["state"], "paused", "{id} {site:?} was cut off");
            let others = self.executions[id].values().flatten();
            let last = others.map(|other| other.process).max();
            assert_eq!(last, Some(attempt.process), "{id} went on without a person");
        }
    }

    /// Whether the attempt that brought the output of a visit was made, and to its end.
    fn was_done(&self, id: &str, site: &Site, attempt: u64) {
        let attempts = self.executions.get(id).and_then(|sites| sites.get(site));
        let last = attempts.and_then(|attempts| attempts.last());
        let last = last.unwrap_or_else(|| panic!("{id} {site:?} was never begun"));
        assert_eq!(
            (last.number, last.end.as_deref()),
            (attempt, Some("done")),
            "{id} {site:?}: {last:?}"
        );
    }
}

/// Where nobody knows what came of a step that may not be done twice, nothing that follows it has begun.
fn is_stuck<'a>(id: &str, completed: &BTreeMap<Site, u64>, begun: impl Iterator<Item = &'a Site>) {
    let missing = every_site(id).into_iter();
    let missing: Vec<_> = missing
        .filter(|site| !completed.contains_key(site))
        .map(|site| step_of(id, &site))
        .collect();
    let stuck = missing.iter().map(|(.., before)| *before).min();
    let stuck = stuck.unwrap_or_else(|| panic!("{id} is paused, and everything is done"));
    let why = |(_, may_be_repeated, before): &Step| *before == stuck && !may_be_repeated;
    assert!(missing.iter().any(why), "{id} is stuck for nothing");
    for site in begun {
        let (_, _, before) = step_of(id, site);
        assert!(before <= stuck, "{id} went on to {site:?}");
    }
}

/// The visits of activities that are completed, each with the attempt that brought its output.
fn completed(history: &Value) -> BTreeMap<Site, u64> {
    let rows = history.as_array().unwrap().iter();
    let rows = rows.filter(|row| row["status"] == "completed");
    let is_work = |row: &&Value| row["step_name"] != "each" || !row["item"].is_null();
    let entry = |row: &Value| {
        let step = row["step_name"].as_str().unwrap().to_owned();
        let site = (step, row["visit"].as_u64().unwrap(), row["item"].as_u64());
        (site, row["attempt"].as_u64().unwrap())
    };
    rows.filter(is_work).map(entry).collect()
}

/// Every visit that a completed execution has.
fn every_site(id: &str) -> BTreeSet<Site> {
    let sites = steps_of(id).flat_map(|(step, ..)| {
        let items: Vec<_> = match step {
            "each" => (0..u64::from(ITEMS)).map(Some).collect(),
            _ => vec![None],
        };
        let site = |item| (step.to_owned(), 1, item);
        items.into_iter().map(site).collect::<Vec<_>>()
    });
    sites.collect()
}
