//! The definitions that come with midex.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::shipped::WORKFLOWS;
use midex_test::{
    Client, MANIFESTS, Server, has_fields,
    project::{Project, each, list, text, workflow},
};

const AGENTS: [&str; 10] = [
    "architect",
    "debugger",
    "devops-engineer",
    "documentation-specialist",
    "implementer",
    "maintainer",
    "performance-engineer",
    "reviewer",
    "security-specialist",
    "supervisor",
];

fn workflows(server: &mut Server) -> Vec<Value> {
    list(&server.read("midex://workflow/available_workflows"))
}

/// Fault F2 of the study: no shipped workflow could start, for they were loaded without their phases.
#[test]
fn f02_every_shipped_workflow_starts_and_runs_to_its_end() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let all = workflows(&mut server);
    assert!(all.len() >= 2);
    for workflow in all {
        let name = text(&workflow["name"]);
        assert!(workflow["findings"].is_null(), "{workflow}");
        assert!(workflow["complexity"].is_string() && !list(&workflow["tags"]).is_empty());
        // Whoever leads a manifest must bring what its steps ask for.
        if MANIFESTS.contains(&name) {
            continue;
        }
        let phases = list(&workflow["phases"]);
        assert!(phases.iter().all(|phase| !text(&phase["description"]).is_empty()));
        let first = server.begin(name, name);
        assert!(text(&first["agent_content"]).len() > 1000, "a persona worth reading");
        let done = server.run_to_end(&first);
        let (done, phases): (BTreeSet<_>, BTreeSet<_>) =
            (done.into_iter().collect(), each(&phases, "phase").into_iter().collect());
        assert_eq!(done, phases, "{name}: every phase, and each once");
        let status = server.status(name);
        assert_eq!(status["steps"]["completed"], phases.len(), "{status}");
    }
}

/// The names that the contract gives.
#[test]
fn what_the_contract_names_is_shipped() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let names = each(&workflows(&mut server), "name");
    for (name, ..) in WORKFLOWS {
        assert!(names.iter().any(|found| found == name), "{name} is missing in {names:?}");
    }
    for name in AGENTS {
        let agent = server.read(&format!("midex://workflow/agent/{name}"));
        has_fields(&agent, json!({ "name": name, "source": "shipped" }));
    }
}

/// The agents that there are, as the completion of their resource's address lists them.
fn agents(server: &mut Server) -> Vec<String> {
    let asked = json!({
        "ref": { "type": "ref/resource", "uri": "midex://workflow/agent/{name}" },
        "argument": { "name": "name", "value": "" }
    });
    let answer = server.request("completion/complete", asked);
    let names = list(&answer["result"]["completion"]["values"]);
    names.iter().map(|name| text(name).to_owned()).collect()
}

/// The outputs that a persona shows as examples.
fn examples(persona: &str) -> Vec<Value> {
    let blocks = persona.split("```json\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    blocks.map(|block| serde_json::from_str(block).expect("an example is JSON")).collect()
}

/// Fault F18 of the study: personas taught types of artifacts that the tool then refused, with the whole step.
#[test]
fn f18_what_personas_show_as_output_is_accepted() {
    let project = Project::new(&[]);
    let agents = agents(&mut project.serve());
    assert!(agents.len() >= 4);
    for agent in &agents {
        let file = workflow(&format!("as-{agent}"), &[("only", agent, &[])]);
        project.write(&format!("workflows/as-{agent}.md"), &file);
    }
    let mut server = project.serve();
    for agent in &agents {
        let shown = server.read(&format!("midex://workflow/agent/{agent}"));
        let persona = text(&shown["content"]);
        // Also outside of the examples no other type may be named.
        for named in persona.split("\"type\":").skip(1) {
            let named = named.split('"').nth(1).unwrap();
            assert!(
                ["file", "data", "report", "finding"].contains(&named),
                "{agent} teaches the type {named}"
            );
        }
        let examples = examples(persona);
        assert!(!examples.is_empty(), "{agent} shows no example");
        for (at, example) in examples.iter().enumerate() {
            try_out(&mut server, agent, &format!("{agent}-{at}"), example);
        }
    }
}

/// Hands an example in as the output of a real step of its agent.
fn try_out(server: &mut Server, agent: &str, id: &str, example: &Value) {
    let token = server.begin(&format!("as-{agent}"), id)["new_token"].clone();
    let reply = server.hand_in(&token, example.clone());
    assert_eq!(reply["workflow_state"], "completed");
    let given = example["artifacts"].as_array().map_or(0, Vec::len);
    assert_eq!(server.status(id)["artifacts"], given, "{id}");
}

#[test]
fn every_workflow_says_what_it_is_told_and_refuses_anything_else() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    for workflow in workflows(&mut server) {
        let name = text(&workflow["name"]);
        // It needs a catalog that is not here.
        if name == "incident-runbook" {
            continue;
        }
        let start = json!({ "workflow_name": name, "inputs": { "tsk": "it hangs" } });
        let refused = server.refused("workflow.start", start);
        assert_eq!(refused["error_code"], "INPUTS_INVALID", "{name}: {refused}");
        let details = server.read(&format!("midex://workflow/workflow_details/{name}"));
        let declared = each(&list(&details["inputs"]), "name");
        assert!(!declared.is_empty(), "{name}");
        if !MANIFESTS.contains(&name) {
            assert_eq!(declared, ["task"], "{name}");
            let start = json!({ "workflow_name": name, "inputs": { "task": "it hangs" } });
            server.done("workflow.start", start);
        }
    }
}
