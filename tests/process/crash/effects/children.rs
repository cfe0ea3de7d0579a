//! Children under the same crashes: each is begun once, none is forgotten by a parent that waits for it, and what becomes of a
//! parent goes down to all that it has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Drill, MOVES_MAX,
    tale::{Tale, workflow_of},
};
use midex_test::{
    Client, Server, address,
    long::{self, Dice},
};

/// What the client starts: a parent that comes to a good end, one that fails, one that is given up and one that is paused and
/// resumed.
const PARENTS: &str = "workflow: whole
description: Children wherever a child may be
steps:
  - { id: first, workflow: kid }
  - { id: each, foreach: { in: [0, 1, 2], parallel: 2, do: { workflow: kid } } }
  - { id: left, depends_on: [each], workflow: middle }
  - { id: right, depends_on: [each], workflow: kid }
hooks:
  on_complete: { workflow: kid, required: true }
---
workflow: doomed
description: One child fails, another one waits
steps:
  - { id: first, workflow: kid, compensate: { workflow: kid } }
  - { id: left, depends_on: [first], workflow: idle }
  - { id: right, depends_on: [first], workflow: broken }
---
workflow: given
description: Somebody gives it up while its children wait
compensate_when: [abandoned]
steps:
  - { id: first, workflow: kid, compensate: { workflow: idle } }
  - { id: each, foreach: { in: [0, 1], parallel: 2, do: { workflow: idle } } }
---
workflow: held
description: Somebody pauses it while its children wait
steps:
  - { id: first, workflow: idle }
  - { id: below, depends_on: [], workflow: deep }
";

const CHILDREN: &str = "workflow: kid
description: It comes to its end by itself
steps:
  - { id: work, activity: again }
---
workflow: middle
description: It has a child
steps:
  - { id: work, activity: again }
  - { id: below, workflow: kid }
---
workflow: idle
description: It waits for what never comes
steps:
  - { id: work, activity: again }
  - { id: never, wait: { signal: never } }
---
workflow: deep
description: It has a child that waits
steps:
  - { id: below, workflow: idle }
---
workflow: broken
description: It fails
steps:
  - { id: work, activity: again }
  - { id: stop, fail: { code: BROKEN, message: it broke } }
";

/// How many executions are below `held`.
const BELOW_HELD: usize = 3;
/// How often what is below an execution is looked at until all of it has begun.
const LOOKS_MAX: usize = 10_000;

/// The visits of a good end that have a child, in `whole`.
const OF_WHOLE: [(&str, usize); 5] =
    [("first", 1), ("each", 3), ("left", 1), ("right", 1), ("$workflow", 1)];

impl Drill {
    /// Sends what may go down at any moment, and waits for no answer.
    fn order(&self, server: &mut Server, dice: &mut Dice) {
        let acknowledged = self.executions.iter().filter(|(_, started)| started.is_acknowledged);
        for (id, _) in acknowledged {
            let tools: &[&str] = match (workflow_of(id), dice.roll(4)) {
                ("given", 0) => &["execution.abandon"],
                // Whoever asks twice does not wait for what is taken back.
                ("given", 1) => &["execution.abandon", "execution.abandon"],
                ("held", 0) => &["execution.pause"],
                ("held", 1) => &["execution.pause", "execution.resume"],
                ("held", 2) => &["execution.resume", "execution.pause"],
                _ => &[],
            };
            for tool in tools {
                server.post_call(tool, json!({ "execution_id": id }));
            }
        }
    }

    /// The next process: of one that lives for more than a minute the harness of the tests would say so among its answers.
    fn serve_anew(&mut self, server: Server) -> Server {
        let (status, ..) = server.close();
        assert!(status.success(), "{status}");
        self.serve()
    }

    fn of<'a>(&'a self, workflow: &'a str) -> impl Iterator<Item = &'a String> {
        let ids = self.executions.keys();
        ids.filter(move |id| workflow_of(id) == workflow)
    }
}

/// All executions by id, as their rows in the list.
fn listed(server: &mut Server) -> BTreeMap<String, Value> {
    let (mut all, mut cursor) = (BTreeMap::new(), Value::Null);
    loop {
        let mut arguments = json!({ "limit": 100, "children": true });
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = server.done("execution.list", arguments);
        for row in page["executions"].as_array().unwrap() {
            let id = row["execution_id"].as_str().unwrap().to_owned();
            all.insert(id, row.clone());
        }
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return all;
        }
    }
}

/// Waits until an execution is in one of these states; its status.
fn until(server: &mut Server, id: &str, wanted: &[&str]) -> Value {
    let mut status = server.status(id);
    for _ in 0..MOVES_MAX {
        if wanted.iter().any(|state| status["state"] == *state) {
            return status;
        }
        let wait =
            json!({ "execution_id": id, "since_revision": status["revision"], "timeout_s": 20 });
        status = server.done("execution.wait", wait);
        assert_eq!(status["changed"], true, "{id} is forgotten: {status}");
    }
    panic!("{id} never comes to {wanted:?}: {status}");
}

/// The executions whose parent this one is, by id.
fn below(all: &BTreeMap<String, Value>, parent: &str) -> Vec<String> {
    let rows = all.iter().filter(|(_, row)| row["parent"] == parent);
    rows.map(|(id, _)| id.clone()).collect()
}

/// All executions that are below this one, directly or not, come to one of these states.
fn all_below(server: &mut Server, all: &BTreeMap<String, Value>, parent: &str, states: &[&str]) {
    for child in below(all, parent) {
        until(server, &child, states);
        all_below(server, all, &child, states);
    }
}

/// Each child has a parent that names it, and did its work once, as far as it came.
fn check_children(server: &mut Server, tale: &Tale, all: &BTreeMap<String, Value>) {
    for (id, row) in all {
        let Some(parent) = row["parent"].as_str() else {
            continue;
        };
        let named = server.status(parent);
        let mut named = named["children"].as_array().unwrap().iter();
        assert!(named.any(|child| child["execution_id"] == **id), "{parent}: {row}");
        let history = server.history(id);
        let done =
            history.iter().filter(|row| row["step_name"] == "work" && row["status"] == "completed");
        let (ends, processes) = tale.ends(id, &("work".to_owned(), 1, None));
        assert!(done.count() <= 1 && ends.len() <= processes, "{id}: {ends:?}");
    }
}

/// One that came to a good end has as many children as it says, and each of them did its work.
fn check_whole(server: &mut Server, tale: &Tale, all: &BTreeMap<String, Value>, id: &str) {
    let status = until(server, id, &["completed", "failed", "abandoned"]);
    assert_eq!(status["state"], "completed", "{id}: {status}");
    let mut count = BTreeMap::new();
    for child in status["children"].as_array().unwrap() {
        *count.entry(child["step"].as_str().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(count, BTreeMap::from(OF_WHOLE), "{id}: {status}");
    let children = below(all, id);
    let named = status["children"].as_array().unwrap().iter();
    let named: BTreeSet<_> = named.map(|child| child["execution_id"].as_str().unwrap()).collect();
    assert_eq!(named, children.iter().map(String::as_str).collect(), "{id}");
    for child in children {
        until(server, &child, &["completed"]);
        let (ends, _) = tale.ends(&child, &("work".to_owned(), 1, None));
        assert!(!ends.is_empty(), "{child} of {id} did nothing");
    }
}

/// All that has begun below this one, directly or not.
fn family(server: &mut Server, parent: &str) -> Vec<String> {
    let status = server.status(parent);
    let named = status["children"].as_array().into_iter().flatten();
    let mut all = Vec::new();
    for child in named.map(|child| child["execution_id"].as_str().unwrap()) {
        let status = json!({ "uri": address("workflow_status", child) });
        if server.request("resources/read", status)["error"].is_null() {
            all.push(child.to_owned());
            all.extend(family(server, child));
        }
    }
    all
}

/// The pause of a parent holds all that is below it, and its resume lets that go on.
fn check_held(server: &mut Server, id: &str) {
    for (tool, state) in [
        ("execution.resume", "running"),
        ("execution.pause", "paused"),
        ("execution.resume", "running"),
    ] {
        if server.status(id)["state"] != state {
            server.done(tool, json!({ "execution_id": id }));
        }
        // Of one that was paused from its very beginning nothing may have begun below before the resume.
        let mut looks = (0..LOOKS_MAX).map(|_| family(server, id));
        let below = looks.find(|below| below.len() == BELOW_HELD);
        let below = below.unwrap_or_else(|| panic!("{id} does not begin its children"));
        for child in below {
            until(server, &child, &[state]);
        }
    }
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
fn survive(kills: usize, seed: u64) {
    println!("children under crashes: seed {seed}, {kills} kills");
    let (mut dice, mut drill) = (Dice(seed), Drill::new(PARENTS));
    drill.write(CHILDREN);
    for _ in 0..kills {
        let mut server = drill.serve();
        drill.order(&mut server, &mut dice);
        drill.kill(server, &mut dice);
    }
    let mut server = drill.serve();
    let mut waiting = drill.start(&mut server, 0);
    while !waiting.is_empty() {
        let answer = server.next_line();
        drill.take(&answer, &mut waiting);
    }
    for id in drill.of("doomed") {
        until(&mut server, id, &["failed"]);
    }
    for id in drill.of("whole") {
        until(&mut server, id, &["completed", "failed", "abandoned"]);
    }
    for id in drill.of("given") {
        for _ in 0..2 {
            if server.status(id)["state"] != "abandoned" {
                server.done("execution.abandon", json!({ "execution_id": id }));
            }
        }
        until(&mut server, id, &["abandoned"]);
    }
    let mut server = drill.serve_anew(server);
    let all = listed(&mut server);
    let tale = Tale::read(drill.home.path(), kills);
    check_children(&mut server, &tale, &all);
    for id in drill.of("whole") {
        check_whole(&mut server, &tale, &all, id);
    }
    for id in drill.of("doomed").chain(drill.of("given")) {
        all_below(&mut server, &all, id, &["completed", "failed", "abandoned"]);
    }
    let mut server = drill.serve_anew(server);
    for id in drill.of("held") {
        check_held(&mut server, id);
    }
    let (status, ..) = server.close();
    assert!(status.success(), "{status}");
    let mut counted = tale.count();
    counted.insert("children", all.len() - drill.executions.len());
    println!("{} parents, {counted:?}", drill.executions.len());
    // Were it otherwise the kills would all have missed, and nothing were shown.
    for happened in ["begun again", "cut off"] {
        assert!(counted.contains_key(happened), "{happened}: {counted:?}");
    }
}

#[test]
fn each_child_is_begun_once_and_hears_of_its_parent() {
    survive(usize::try_from(long::rounds(12, 100)).unwrap(), long::seed(9));
}
