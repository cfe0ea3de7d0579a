//! Defaults that stand outside the definition.

use std::process::Command;

use serde_json::{Value, json};

use super::project;
use midex_test::{Client, Server, assert_has, project::Project, says};

const PORT: &str = "inputs:
  port: { type: integer, default: { from: env, value: MIDEX_TEST_PORT } }
";

/// Flags, environment variables, and what the input then is; refused where `None`.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], Option<Value>);

fn serve(project: &Project, flags: &[&str], env: &[(&str, &str)]) -> Server {
    let mut command: Command = project.command(&[&["serve"], flags].concat());
    command.env_remove("MIDEX_ALLOW_ENV").envs(env.iter().copied());
    Server::greeted(command)
}

fn start(id: &str) -> Value {
    json!({ "workflow_name": "w", "execution_id": id })
}

#[test]
fn the_environment_gives_defaults_only_where_it_is_let_in() {
    let project = project(PORT);
    let set = ("MIDEX_TEST_PORT", "8080");
    let cases: [Case<'_>; 6] = [
        (&[], &[set], None),
        (&["--allow-env", "MIDEX_TEST_OTHER"], &[set], None),
        (&["--allow-env", "MIDEX_TEST_PORT"], &[], None),
        (&["--allow-env", "A", "--allow-env", "MIDEX_TEST_PORT"], &[set], Some(json!(8080))),
        (&[], &[set, ("MIDEX_ALLOW_ENV", "A, MIDEX_TEST_PORT")], Some(json!(8080))),
        // A flag is all that counts.
        (&["--allow-env", "A"], &[set, ("MIDEX_ALLOW_ENV", "MIDEX_TEST_PORT")], None),
    ];
    for (at, (flags, env, expected)) in cases.into_iter().enumerate() {
        let id = at.to_string();
        let mut server = serve(&project, flags, env);
        if let Some(expected) = expected {
            server.done("workflow.start", start(&id));
            let current = server.current(&id);
            assert_eq!(current["inputs"]["port"], expected, "{flags:?} {env:?}");
        } else {
            let refused = server.refused("workflow.start", start(&id));
            let violation = &refused["violations"][0];
            assert_eq!(violation["rule"], "required", "{flags:?} {env:?}: {refused}");
            let message = violation["message"].as_str().unwrap();
            assert_has(message, &["`MIDEX_TEST_PORT`", "--allow-env"]);
        }
        server.close();
    }
}

#[test]
fn a_repeated_start_is_the_same_call_although_the_environment_has_changed() {
    let project = project(PORT);
    let allow = ["--allow-env", "MIDEX_TEST_PORT"];
    let mut server = serve(&project, &allow, &[("MIDEX_TEST_PORT", "1")]);
    server.done("workflow.start", start("e"));
    server.close();
    for env in [&[("MIDEX_TEST_PORT", "2")][..], &[("MIDEX_TEST_PORT", "no number")], &[]] {
        let mut server = serve(&project, &allow, env);
        assert_eq!(server.done("workflow.start", start("e"))["replayed"], true, "{env:?}");
        let current = server.current("e");
        assert_eq!(current["inputs"], json!({ "port": 1 }));
        server.close();
    }
}

#[test]
fn a_value_of_the_environment_is_held_to_the_rules_and_not_shown() {
    let project = project(PORT);
    let allow = ["--allow-env", "MIDEX_TEST_PORT"];
    let mut server = serve(&project, &allow, &[("MIDEX_TEST_PORT", "hunter2")]);
    let refused = server.refused("workflow.start", start("e"));
    assert_eq!(refused["violations"][0]["rule"], "type");
    says(&refused["violations"][0]["message"], "MIDEX_TEST_PORT");
    let details = server.read("midex://workflow/workflow_details/w");
    assert_eq!(
        details["inputs"][0]["default"],
        json!({ "from": "env", "value": "MIDEX_TEST_PORT" })
    );
    assert!(!format!("{refused}{details}").contains("hunter2"));
}

#[test]
fn history_gives_what_the_execution_before_had() {
    let project = project("inputs:\n  owner: { type: string, default: { from: history } }\n");
    let mut server = project.serve();
    let first = server.refused("workflow.start", start("a"));
    assert_eq!(first["violations"][0]["path"], "inputs.owner", "{first}");
    let given = json!({ "workflow_name": "w", "execution_id": "a", "inputs": { "owner": "me" } });
    server.done("workflow.start", given);
    server.done("workflow.start", start("b"));
    assert_eq!(server.current("b")["inputs"]["owner"], "me");
    // Another project has a history of its own, and so has another workflow.
    let elsewhere = json!({ "workflow_name": "w", "execution_id": "c", "project": "/" });
    let refused = server.refused("workflow.start", elsewhere);
    assert_eq!(refused["error_code"], "INPUTS_INVALID");
    // The execution that moved last counts, and what a repeat finds there changes nothing.
    let other = json!({ "workflow_name": "w", "execution_id": "d", "inputs": { "owner": "you" } });
    server.done("workflow.start", other);
    assert_eq!(server.done("workflow.start", start("b"))["replayed"], true);
    server.done("workflow.start", start("f"));
    assert_eq!(server.current("f")["inputs"]["owner"], "you");
}

#[test]
fn what_another_workflow_came_to_is_a_default() {
    let lines = "inputs:
  image: { type: string, default: { from: workflow_output, value: 'build.image.tags[0]' } }
  whole: { type: object, optional: true, default: { from: workflow_output, value: build } }\n";
    let project = project(lines);
    project.write(
        "workflows/build.yaml",
        "workflow: build
description: d
inputs: { tag: { type: string, optional: true } }
steps:
  - { id: a, guidance: Build., result: {} }
final_output: { image: { tags: ['${{ inputs.tag }}'] } }
",
    );
    let mut server = project.serve();
    let refused = server.refused("workflow.start", start("a"));
    let message = refused["violations"][0]["message"].as_str().unwrap();
    assert!(message.contains("`build.image.tags[0]`"), "{message}");
    let mut build = |id: &str, tag: Value, project: &str| {
        let inputs = json!({ "tag": tag });
        let mut arguments =
            json!({ "workflow_name": "build", "execution_id": id, "inputs": inputs });
        if !project.is_empty() {
            arguments["project"] = json!(project);
        }
        let first = server.done("workflow.start", arguments);
        server.hand_in(&first["new_token"], 1);
    };
    build("one", json!("v1"), "");
    build("two", json!("v2"), "");
    // Neither another project's nor one that does not fit.
    build("elsewhere", json!("v3"), "/");
    server.done("workflow.start", start("b"));
    let inputs = server.current("b")["inputs"].clone();
    assert_eq!(inputs, json!({ "image": "v2", "whole": { "image": { "tags": ["v2"] } } }));
    let mut given = start("c");
    given["inputs"] = json!({ "image": "mine", "whole": { "own": true } });
    server.done("workflow.start", given);
    let inputs = server.current("c")["inputs"].clone();
    assert_eq!(inputs, json!({ "image": "mine", "whole": { "own": true } }));
}
