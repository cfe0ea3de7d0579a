//! `workflow.purge_history`: what it removes, what it answers, and whom it asks.

use serde_json::{Value, json};

use super::{done, pairs, refused};
use midex_test::{
    Client, address,
    project::Project,
    reader::{ERAS, Era, Reader},
};

/// A workflow that the server leads to its end alone.
const LOGIN: &str = "\
workflow: login
description: d
inputs:
  password: { type: string }
  host: { type: string, default: { from: history } }
steps:
  - id: keep
    set: { there: '${{ inputs.host }}' }
";

fn run(client: &mut Reader, password: &str, host: &str) -> String {
    let inputs = json!({ "password": password, "host": host });
    let ended = done(client, "workflow.run", json!({ "workflow_id": "login", "inputs": inputs }));
    assert_eq!(ended["state"], "completed", "{ended}");
    ended["execution_id"].as_str().unwrap().to_owned()
}

fn purge(client: &mut Reader, mut arguments: Value) -> Value {
    arguments["confirm"] = json!(true);
    let purged = done(client, "workflow.purge_history", arguments);
    assert_eq!((&purged["success"], &purged["removed_files"]), (&json!(true), &json!(0)));
    json!([purged["removed_entries"], purged["executions"]])
}

#[test]
fn purged_values_are_gone_from_every_answer() {
    for era in ERAS {
        let project = Project::new(&[("workflows/login.yaml", LOGIN)]);
        let mut client = Reader::new(&project, era, "other", &[]);
        let ids =
            [run(&mut client, "hunter2", "a.example"), run(&mut client, "hunter3", "b.example")];
        assert_eq!(purge(&mut client, json!({ "input_keys": ["password"] })), json!([2, 2]));
        assert_eq!(purge(&mut client, json!({ "input_keys": ["password"] })), json!([0, 0]));
        for id in &ids {
            for resource in ["current_step", "workflow_status", "step_history"] {
                let uri = address(resource, id);
                let shown = done(&mut client, "workflow.read", json!({ "uri": uri })).to_string();
                assert!(!shown.contains("hunter"), "{shown}");
                let is_marked = shown.contains(r#"purged\":[\"password\"]"#)
                    || shown.contains(r#""purged":["password"]"#);
                assert_eq!(is_marked, resource != "step_history", "{resource}: {shown}");
            }
        }
        // The default finds what is left, in the execution that ran last.
        let resolve = json!({ "workflow_id": "login", "inputs": { "password": "x" } });
        let resolved = done(&mut client, "workflow.resolve_inputs", resolve);
        assert_eq!(resolved["resolved_inputs"]["host"], "b.example", "{resolved}");
        assert_eq!(purge(&mut client, json!({ "workflow_id": "login" })), json!([2, 2]));
        let resolved =
            done(&mut client, "workflow.resolve_inputs", json!({ "workflow_id": "login" }));
        assert_eq!(resolved["ready"], false, "{resolved}");
        let fork = json!({ "execution_id": ids[0], "from_step": "keep" });
        let refusal = refused(&mut client, "execution.fork", fork.clone());
        assert_eq!(refusal["error_code"], "INPUTS_INVALID", "{refusal}");
        assert_eq!(
            refusal["suggested_action"],
            format!(
                "Call execution.fork with execution_id '{}': with `password` in `inputs`, which goes on where it stopped; \
                 ask your user for the value",
                ids[0]
            )
        );
    }
}

#[test]
fn the_file_of_the_workflow_may_be_gone() {
    let project = Project::new(&[("workflows/login.yaml", LOGIN)]);
    let mut client = Reader::new(&project, Era::Stateless, "other", &[]);
    run(&mut client, "hunter2", "a.example");
    project.remove("workflows/login.yaml");
    assert_eq!(purge(&mut client, json!({ "workflow_id": "nowhere" })), json!([0, 0]));
    let both = json!({ "workflow_id": "login", "input_keys": ["password", "pin"] });
    assert_eq!(purge(&mut client, both), json!([1, 1]));
}

#[test]
fn executions_of_other_projects_stay() {
    let project = Project::new(&[("workflows/login.yaml", LOGIN)]);
    let other = Project::new(&[("workflows/login.yaml", LOGIN)]);
    let mut server = project.serve();
    let inputs = json!({ "password": "hunter2", "host": "a.example" });
    let elsewhere = json!({ "workflow_name": "login", "inputs": inputs, "project": other.root() });
    let id = server.done("workflow.start", elsewhere)["execution_id"].take();
    let purged = server.done("workflow.purge_history", json!({ "workflow_id": "login" }));
    assert_eq!(purged["executions"], 0, "nobody is asked where there is nothing: {purged}");
    assert_eq!(server.current(id.as_str().unwrap())["inputs"], inputs);
}

#[test]
fn a_purge_of_nothing_in_particular_is_refused() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, Era::Stateless, "other", &[]);
    for (rule, arguments) in pairs(json!([
        ["required", {}],
        ["required", { "confirm": true }],
        ["minItems", { "input_keys": [], "confirm": true }],
        ["type", { "input_keys": { "a": 1 }, "confirm": true }],
        ["minLength", { "workflow_id": "", "confirm": true }],
        ["enum", { "workflow_id": "no\nname", "confirm": true }],
    ])) {
        let refusal = refused(&mut client, "workflow.purge_history", arguments);
        assert_eq!(refusal["error_code"], "ARGUMENTS_INVALID", "{refusal}");
        assert_eq!(refusal["violations"][0]["rule"], rule, "{refusal}");
    }
}
