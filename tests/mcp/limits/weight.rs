//! What a model's context has to hold: the bytes of what midex sends, with a limit for each, and nothing sent twice.

use midex_registry::{Registry, Sources};
use serde_json::{Value, json};

use midex_test::{Client, Server, serve_alone};

mod pages;
mod twice;

/// Bytes of compact JSON.
fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// What is weighed, what it weighs, and what it may weigh at most, in bytes.
struct Scales(Vec<(String, usize, usize)>);

impl Scales {
    fn weigh(&mut self, what: &str, bytes: usize, bytes_max: usize) {
        self.0.push((what.to_owned(), bytes, bytes_max));
    }

    /// Prints all figures, and fails where one is past its limit.
    #[expect(clippy::print_stdout, reason = "it prints the figures")]
    fn read(self) {
        for (what, bytes, bytes_max) in &self.0 {
            println!("{bytes:>7} of {bytes_max:>7} bytes: {what}");
        }
        let heavy: Vec<_> = self.0.iter().filter(|(_, bytes, most)| bytes > most).collect();
        assert!(heavy.is_empty(), "too heavy: {heavy:?}");
    }
}

/// A server that finds the definitions that are part of midex, and no others.
fn server(home: &std::path::Path, flags: &[&str]) -> Server {
    Server::greeted(serve_alone(home, flags))
}

#[test]
fn the_list_of_tools() {
    let mut scales = Scales(Vec::new());
    for (toolsets, seen_max, whole_max) in [
        ("run", 5_000, 15_000),
        ("author", 4_500, 20_000),
        ("catalog", 5_000, 20_000),
        ("run,author,operate,catalog", 16_000, 60_000),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = server(dir.path(), &["--toolsets", toolsets]);
        let mut tools = server.request("tools/list", json!({}))["result"]["tools"].take();
        scales.weigh(
            &format!("tools/list, {toolsets}, with output schemas"),
            bytes(&tools),
            whole_max,
        );
        for tool in tools.as_array_mut().unwrap() {
            // Hosts keep these to themselves.
            for key in ["outputSchema", "_meta", "title", "annotations"] {
                tool.as_object_mut().unwrap().remove(key);
            }
        }
        scales.weigh(
            &format!("tools/list, {toolsets}, as a model sees it"),
            bytes(&tools),
            seen_max,
        );
    }
    scales.read();
}

/// Each reply of a run of `feature-development`, and `current_step` as it stood before each step.
fn feature(known: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(dir.path(), &[]);
    let start = json!({ "workflow_name": "feature-development", "known_agents": known });
    let mut replies = vec![server.begin_with(start)];
    let mut currents = Vec::new();
    while let Some(token) = replies.last().and_then(|reply| reply.get("new_token")) {
        let output = json!({
            "summary": "The export runs in the background now, as a job of its own; the design has the interfaces.",
            "artifacts": ["docs/design/exports.md"],
            "findings": ["risk: a worker that is killed half-way leaves a partial file"],
            "next_step_recommendation": "Begin with the table of jobs and its states."
        });
        let call = json!({ "token": token, "output": output, "known_agents": known });
        let id = replies[0]["execution_id"].as_str().unwrap();
        currents.push(server.current(id));
        replies.push(server.next_step(call));
    }
    assert_eq!((replies.len(), &replies[3]["workflow_state"]), (4, &json!("completed")));
    (replies, currents)
}

#[test]
fn a_run_of_three_steps() {
    let mut scales = Scales(Vec::new());
    let (whole, currents) = feature(&[]);
    let (known, _) = feature(&["architect", "implementer", "reviewer"]);
    let sum = |replies: &[Value]| replies.iter().map(bytes).sum();
    let personas = |replies: &[Value]| {
        replies.iter().filter(|reply| reply["agent_content"].is_string()).count()
    };
    assert_eq!((personas(&whole), personas(&known)), (3, 0));
    scales.weigh("replies of feature-development, personas known", sum(&known), 6_500);
    scales.weigh("replies of feature-development", sum(&whole), 24_500);
    for (at, current) in currents.iter().enumerate() {
        scales.weigh(
            &format!("current_step of feature-development, {}/3", at + 1),
            bytes(current),
            9_000,
        );
    }
    scales.read();
}

#[test]
fn a_start_of_five_steps_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(dir.path(), &[]);
    let reply = server.begin_with(json!({ "workflow_name": "parallel-code-review" }));
    assert_eq!(reply["new_tokens"].as_array().unwrap().len(), 5);
    let mut scales = Scales(Vec::new());
    scales.weigh("the start of parallel-code-review", bytes(&reply), 16_000);
    scales.read();
}

#[test]
fn what_can_be_started() {
    let dir = tempfile::tempdir().unwrap();
    let workflows = server(dir.path(), &[]).read("midex://workflow/available_workflows");
    let mut scales = Scales(Vec::new());
    scales.weigh("available_workflows", bytes(&workflows), 18_300);
    let each = workflows.as_array().unwrap();
    scales.weigh("available_workflows, for each workflow", bytes(&workflows) / each.len(), 1_100);
    scales.read();
    for workflow in each {
        let phases = workflow["phases"].as_array().unwrap();
        assert!(workflow["description"].is_string() && !phases.is_empty(), "{workflow}");
        for phase in phases {
            let description = phase["description"].as_str().unwrap();
            assert!(
                (1..=70).contains(&description.chars().count()),
                "{}: {phase}",
                workflow["name"]
            );
            assert!(phase["phase"].is_string() && phase.get("agent").is_some(), "{phase}");
        }
    }
}

#[test]
fn every_persona_that_is_part_of_midex() {
    let mut scales = Scales(Vec::new());
    for entry in Registry::load(&Sources::default()).agents() {
        let content = &entry.value.as_ref().unwrap().content;
        scales.weigh(&format!("the persona of {}", entry.name), bytes(&json!(content)), 6_000);
    }
    scales.read();
}
