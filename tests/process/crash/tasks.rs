//! Tasks under the same crashes: no task that was answered is lost, no answer contradicts an earlier one, and each task ends
//! as its execution does.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    long::{self, Dice},
    project::{Project, text},
    reader::stateless_with,
};

/// How many tasks are open at once.
const TASKS: usize = 100;

const FILES: [(&str, &str); 4] = [
    (
        "workflows/timers.yaml",
        "workflow: timers\ndescription: d\nsteps:\n  - { id: a, wait: { for: 20ms } }\n  - { id: b, wait: { for: 40ms } }\n  - { id: c, set: { done: true } }\n",
    ),
    (
        "workflows/gated.yaml",
        "workflow: gated\ndescription: d\nsteps:\n  - { id: ask, gate: 'Go on?' }\n  - { id: rest, wait: { for: 10ms } }\n",
    ),
    (
        "workflows/family.yaml",
        "workflow: family\ndescription: d\nsteps:\n  - { id: child, workflow: gated }\n  - { id: more, workflow: timers }\n",
    ),
    (
        "workflows/fails.yaml",
        "workflow: fails\ndescription: d\nsteps:\n  - { id: rest, wait: { for: 30ms } }\n  - { id: end, fail: { code: ODD, message: no luck } }\n",
    ),
];

/// What a host knows of a task.
#[derive(Default)]
struct Known {
    /// The last answer.
    task: Value,
    /// The keys of the questions that were answered and acknowledged.
    answered: BTreeSet<String>,
}

fn ask(server: &mut Server, method: &str, mut params: Value) -> Value {
    params["_meta"] = stateless_with(json!({
        "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": { "form": {} }
    }));
    let answer = server.request(method, params);
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].clone()
}

/// A task without what tells one answer of it from the next in the log.
fn told_once(task: &Value) -> Value {
    let mut told = task.clone();
    if let Some(content) = told["result"]["structuredContent"].as_object_mut() {
        content.remove("correlation_id");
        told["result"]["content"] = Value::Null;
    }
    told
}

impl Known {
    fn is_over(&self) -> bool {
        self.task["status"] == "completed" || self.task["status"] == "cancelled"
    }

    /// Asks for the task, and holds the answer against the earlier one.
    fn poll(&mut self, server: &mut Server, id: &str) {
        let task = ask(server, "tasks/get", json!({ "taskId": id }));
        if self.is_over() {
            let (now, then) = (told_once(&task), told_once(&self.task));
            assert_eq!(now, then, "a task that has ended never changes");
        }
        for key in task["inputRequests"].as_object().into_iter().flat_map(|all| all.keys()) {
            assert!(!self.answered.contains(key), "{id}: {key} was answered");
        }
        self.task = task;
    }

    /// Answers every open question.
    fn answer(&mut self, server: &mut Server, id: &str) {
        let Some(requests) = self.task["inputRequests"].as_object() else {
            return;
        };
        let form = json!({ "action": "accept", "content": { "decision": "approve" } });
        let keys: Vec<_> = requests.keys().cloned().collect();
        let responses: BTreeMap<_, _> = keys.iter().map(|key| (key, &form)).collect();
        ask(server, "tasks/update", json!({ "taskId": id, "inputResponses": responses }));
        self.answered.extend(keys);
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure names its seed")]
#[expect(clippy::disallowed_methods, reason = "it kills at random")]
fn tasks_survive_kills_and_end_as_their_executions() {
    let (kills, seed) = (long::rounds(4, 200), long::seed(7));
    println!("crash test of tasks: seed {seed}, {kills} kills");
    let project = Project::new(&FILES);
    let mut dice = Dice(seed);
    let mut tasks: BTreeMap<String, Known> = BTreeMap::new();
    for _ in 0..kills {
        let mut server = project.serve();
        let over = tasks.values().filter(|known| known.is_over()).count() as u64;
        for (id, known) in &mut tasks {
            // Of the tasks that have ended, about as many are asked for again as are open.
            if known.is_over() && dice.roll(over) >= TASKS as u64 {
                continue;
            }
            known.poll(&mut server, id);
            if dice.roll(2) > 0 {
                known.answer(&mut server, id);
            }
        }
        let open = tasks.values().filter(|known| !known.is_over()).count();
        for _ in open..TASKS {
            let names = ["timers", "gated", "family", "fails"];
            let name = names[usize::try_from(dice.roll(4)).unwrap() % names.len()];
            let run = json!({ "name": "workflow.run", "arguments": { "workflow_id": name } });
            let begun = ask(&mut server, "tools/call", run);
            tasks.insert(text(&begun["taskId"]).to_owned(), Known::default());
        }
        std::thread::sleep(Duration::from_micros(dice.roll(50_000)));
        server.kill_and_drain();
    }
    let mut server = project.serve();
    for (id, known) in &mut tasks {
        midex_test::project::eventually("the end", || {
            known.poll(&mut server, id);
            known.answer(&mut server, id);
            known.is_over().then_some(())
        });
        let status = server.status(id);
        let result = &known.task["result"];
        let (state, is_error) = match status["workflow_name"].as_str() {
            Some("fails") => ("failed", true),
            _ => ("completed", false),
        };
        assert_eq!(
            (&status["state"], &result["isError"]),
            (&json!(state), &json!(is_error)),
            "{id}"
        );
    }
    assert!(tasks.len() > TASKS, "some tasks ended on the way");
}
