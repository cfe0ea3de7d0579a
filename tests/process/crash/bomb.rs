//! A workflow whose steps are the workflow itself, in parallel, beside clients who want something else of the same server.
//! In the long run, with the build of a release, the figures hold that are asserted here; else they are looser.

use std::{
    fs,
    time::{Duration, Instant},
};

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    long::rounds,
    project::{Project, agent, eventually, list, workflow},
};

/// Each execution of it begins five of the same.
const BOMB: &str = "workflow: bomb
description: d
steps:
  - { id: a, depends_on: [], workflow: bomb }
  - { id: b, depends_on: [], workflow: bomb }
  - { id: c, depends_on: [], workflow: bomb }
  - { id: d, depends_on: [], workflow: bomb }
  - { id: e, depends_on: [], workflow: bomb }
";

/// In `cargo test` the family is ended once so many are open: the bound itself is reached in the long run.
const OPEN_SHORT: usize = 150;

/// So much in the long run, and several times as much else: a debug build shares the machine with other tests.
fn most(long: Duration) -> Duration {
    long * u32::try_from(rounds(12, 1)).expect("a small number")
}

#[expect(clippy::disallowed_methods, reason = "measures a real process")]
fn now() -> Instant {
    Instant::now()
}

/// Another client at work until `is_over`: each of its calls is answered in time.
fn work_beside(client: &mut Server, what: &str, mut is_over: impl FnMut(&mut Server) -> bool) {
    let mut slowest = Duration::ZERO;
    let mut start = now();
    let mut took = || {
        slowest = slowest.max(start.elapsed());
        start = now();
    };
    for n in 0.. {
        let reply = client.begin("line", &format!("{what}-{n}"));
        took();
        client.finish(&reply["new_token"], "a is done");
        took();
        client.done("execution.list", json!({}));
        took();
        if is_over(client) {
            break;
        }
        took();
    }
    assert!(slowest < most(Duration::from_secs(1)), "{what}: {slowest:?}");
}

fn is_paused(client: &mut Server) -> bool {
    let status = client.status("bomb");
    let reasons = &status["pause_reasons"];
    assert!(reasons == &json!([]) || reasons == &json!(["budget"]), "{status}");
    status["state"] == "paused"
}

/// How many executions of the bomb are open, its root among them.
fn open(client: &mut Server) -> usize {
    let mut arguments = json!({ "state": "open", "workflow_name": "bomb", "children": true, "limit": limits::LIST_LIMIT_MAX });
    let mut count = 0;
    loop {
        let page = client.done("execution.list", arguments.clone());
        count += list(&page["executions"]).len();
        match &page["next_cursor"] {
            Value::String(next) => arguments["cursor"] = json!(next),
            _ => return count,
        }
    }
}

/// The most memory that a process has used, in MiB.
fn memory_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a size").parse::<u64>().expect("a number") / 1024
}

#[test]
fn a_workflow_that_begins_itself_keeps_nobody_waiting_and_ends_with_its_root() {
    let line = [("a", "worker", &[] as &[&str]), ("b", "worker", &["a"])];
    let project = Project::new(&[
        ("workflows/bomb.yaml", BOMB),
        ("workflows/line.md", &workflow("line", &line)),
        ("agents/worker.md", &agent("worker", "You work.")),
    ]);
    let (mut owner, mut beside) = (project.serve(), project.serve());
    owner.done("execution.list", json!({}));
    beside.done("execution.list", json!({}));
    owner.begin("bomb", "bomb");
    if rounds(0, 1) == 0 {
        work_beside(&mut beside, "first", |client| open(client) > OPEN_SHORT);
    } else {
        work_beside(&mut beside, "first", is_paused);
        // Those that were admitted before the pause are still beginning.
        eventually("as many are open as may be", || {
            (open(&mut beside) == limits::DESCENDANTS_OPEN_MAX + 1).then_some(())
        });
        assert!(memory_mib(owner.pid()) <= 400);
    }
    owner.kill();
    let mut rounds_left = rounds(3, 20);
    work_beside(&mut beside, "next owner", |_| {
        rounds_left -= 1;
        rounds_left == 0
    });
    assert!(open(&mut beside) <= limits::DESCENDANTS_OPEN_MAX + 1);
    let start = now();
    beside.change("abandon", "bomb");
    work_beside(&mut beside, "the end", |client| open(client) == 0);
    let took = start.elapsed();
    assert!(took < most(Duration::from_secs(5)), "{took:?}");
    assert!(memory_mib(beside.pid()) <= 400);
}
