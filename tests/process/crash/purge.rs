//! Purges under the same crashes: an execution is purged wholly or not at all, and the same call purges the rest.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    long::{self, Dice},
    project::Project,
};

const EXECUTIONS: usize = 40;
/// The longest time from the call to the kill: about as long as the purge takes.
const KILL_AFTER_MICROSECONDS_MAX: u64 = 150_000;

const LOGIN: &str = "\
workflow: login
description: d
inputs:
  password: { type: string }
  host: { type: string }
steps:
  - id: keep
    set: { there: '${{ inputs.host }}' }
";

/// The purge of all that the server has.
fn purge() -> Value {
    json!({ "input_keys": ["password"], "confirm": true })
}

/// How many executions have no password any more. The others have theirs.
fn purged(server: &mut Server, ids: &[String]) -> usize {
    let mut purged = 0;
    for (at, id) in ids.iter().enumerate() {
        let current = server.current(id);
        let mut expected = json!({ "host": "a.example" });
        if current["purged"].is_null() {
            expected["password"] = json!(format!("hunter{}", at / 2));
        } else {
            purged += 1;
        }
        assert_eq!(current["inputs"], expected, "{id}: {current}");
    }
    purged
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
#[expect(clippy::disallowed_methods, reason = "it kills at random")]
fn survive(kills: u64, seed: u64) {
    println!("purges under crashes: seed {seed}, {kills} kills");
    let project = Project::new(&[("workflows/login.yaml", LOGIN)]);
    let mut dice = Dice(seed);
    let mut counted = BTreeMap::<_, u64>::new();
    for _ in 0..kills {
        let mut server = project.serve();
        // Two executions each have the same inputs.
        let inputs =
            |at: usize| json!({ "password": format!("hunter{}", at / 2), "host": "a.example" });
        let ids: Vec<_> = (0..EXECUTIONS)
            .map(|at| {
                let start = json!({ "workflow_name": "login", "inputs": inputs(at) });
                let started = server.done("workflow.start", start);
                started["execution_id"].as_str().unwrap().to_owned()
            })
            .collect();
        server.post_call("workflow.purge_history", purge());
        std::thread::sleep(Duration::from_micros(dice.roll(KILL_AFTER_MICROSECONDS_MAX)));
        server.kill();
        let mut server = project.serve();
        let before = purged(&mut server, &ids);
        let rest = server.done("workflow.purge_history", purge());
        assert_eq!(rest["executions"], EXECUTIONS - before, "{rest}");
        assert_eq!(purged(&mut server, &ids), EXECUTIONS);
        assert_eq!(server.done("workflow.purge_history", purge())["executions"], 0);
        let found = match before {
            0 => "none",
            EXECUTIONS => "all",
            _ => "some",
        };
        *counted.entry(found).or_default() += 1;
    }
    println!("{counted:?}");
    // Were it otherwise the kills would all have missed, and nothing were shown.
    assert!(counted.contains_key("some"), "{counted:?}");
}

#[test]
fn a_killed_purge_is_finished_by_the_same_call() {
    survive(long::rounds(6, 100), long::seed(11));
}
