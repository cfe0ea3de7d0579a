//! What is the caller's behind one owner: its project, its definitions, its environment, its toolsets.

use serde_json::json;

use super::{tools, two_of};
use midex_test::{
    Client, Fields, Server, Shows,
    door::{Door, preamble},
    project::{Project, each, eventually, line, list, workflow},
    says,
};

/// A workflow with an input that comes from the environment, and a step that sees one.
const FROM_ENV: &str = "workflow: env
description: d
inputs:
  region: { type: string, default: { from: env, value: REGION }, optional: true }
steps:
  - { id: see, set: { seen: '${{ env.REGION }}' } }
final_output: { given: '${{ inputs.region }}', seen: '${{ memory.seen }}' }
";

/// A server of `project` on the data directory of `home`.
fn on(home: &Project, project: &Project, flags: &[&str], region: Option<&str>) -> Server {
    let data = home.path("data").display().to_string();
    let mut command = project.command(&[&["serve", "--data-dir", &data], flags].concat());
    command.envs(region.map(|region| ("REGION", region)));
    let mut server = Server::run(command);
    server.shake_hands();
    server.done("execution.list", json!({}));
    server
}

#[test]
fn two_projects_behind_one_owner_see_their_own_definitions_and_their_edits() {
    let (one, two) = (line(), line());
    let mut owner = on(&one, &one, &[], None);
    let mut relay = on(&one, &two, &[], None);
    let other = workflow("line", &[("only", "worker", &[])]);
    two.write("workflows/line.md", &other);
    eventually("the edit reaches the relayed client", || {
        (relay.available("line")["phases"].as_array()?.len() == 1).then_some(())
    });
    assert_eq!(relay.begin("line", "theirs")["step_name"], "only");
    assert_eq!(owner.begin("line", "ours")["step_name"], "a");
    let edited = workflow("line", &[("ours", "worker", &[]), ("more", "worker", &[])]);
    one.write("workflows/line.md", &edited);
    eventually("the edit reaches the owner's client", || {
        (owner.available("line")["phases"].as_array()?.len() == 2).then_some(())
    });
    assert_eq!(owner.begin("line", "edited")["step_name"], "ours");
    assert_eq!(relay.begin("line", "as before")["step_name"], "only");
    let listed = relay.done("execution.list", json!({}));
    let listed = each(&list(&listed["executions"]), "execution_id");
    assert_eq!(listed, ["as before", "theirs"]);
}

#[test]
fn what_a_client_allows_of_its_environment_no_other_one_sees() {
    let (one, two, three) = (
        Project::new(&[("workflows/env.yaml", FROM_ENV)]),
        Project::new(&[("workflows/env.yaml", FROM_ENV)]),
        Project::new(&[("workflows/env.yaml", FROM_ENV)]),
    );
    let allow = ["--allow-env", "REGION"];
    let mut owner = on(&one, &one, &allow, Some("north"));
    let mut relay = on(&one, &two, &allow, Some("south"));
    let mut third = on(&one, &three, &[], Some("west"));
    let seen = |region: &str| json!({ "given": region, "seen": region });
    assert_eq!(relay.begin("env", "r")["final_output"], seen("south"));
    assert_eq!(owner.begin("env", "o")["final_output"], seen("north"));
    // Nothing is allowed here, not even by the owner.
    let arguments = json!({ "workflow_name": "env", "execution_id": "t" });
    let none = third.call("workflow.start", arguments)["structuredContent"].to_string();
    assert!(!none.contains("north") && !none.contains("west"), "{none}");
    // Nor by the name of another one's project.
    let project = one.root().canonicalize().expect("a directory").display().to_string();
    let arguments = json!({ "workflow_name": "env", "execution_id": "x", "project": project });
    let refused = third.refused("workflow.start", arguments);
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
    says(&refused["message"], "an environment of its own");
}

#[test]
fn a_relayed_client_is_offered_what_its_own_server_was_told_to_offer() {
    let project = line();
    let mut owner = project.serve_with(&["--toolsets", "run"]);
    owner.done("execution.list", json!({}));
    let flags = ["--toolsets", "operate", "--tool-names", "underscored"];
    let mut relay = project.serve_with(&flags);
    let offered = tools(&mut relay);
    assert!(offered.contains(&"execution_pause".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"workflow_start".to_owned()), "{offered:?}");
    assert!(tools(&mut owner).contains(&"workflow.start".to_owned()));
}

#[test]
fn nothing_that_a_relayed_client_can_call_answers_a_gate() {
    let project = Project::new(&[("workflows/gated.yaml", super::GATE)]);
    let (mut owner, mut relay) = two_of(&project);
    let paused = owner.begin("gated", "e");
    assert_eq!(paused["workflow_state"], "paused");
    for name in ["execution.approve", "execution_approve"] {
        let arguments = json!({ "execution_id": "e", "decision": "approve" });
        let params = json!({ "name": name, "arguments": arguments });
        let answer = relay.request("tools/call", params);
        assert!(answer["result"].is_null(), "{answer}");
    }
    assert!(!tools(&mut relay).iter().any(|name| name.contains("approve")));
    // A first line among its frames is a frame like any other.
    relay.send(&json!({ "midex": "0.1.0", "protocol": 1, "role": "command" }));
    assert_eq!(relay.next_line()["error"]["code"], -32600);
    relay.status("e").has_fields(json!({ "pause_reasons": ["gate"] }));
}

#[test]
fn a_caller_that_comes_as_a_relay_answers_no_gate_whatever_it_asks_for() {
    let project = Project::new(&[("workflows/gated.yaml", super::GATE)]);
    let mut owner = project.serve();
    owner.begin("gated", "e");
    let mut first_line = preamble(project.root());
    first_line["role"] = json!("relay");
    first_line["toolsets"] = json!(["people", "run", "operate"]);
    let mut door = Door::enter_as(&project.data_dir(), &first_line);
    for name in ["execution.approve", "execution_approve", "execution.answer"] {
        let arguments = json!({ "execution_id": "e", "decision": "approve" });
        let call = json!({ "name": name, "arguments": arguments });
        let answer = door.request("tools/call", call);
        answer.has_fields(json!({ "/error/data/error_code": "TOOL_NOT_FOUND" }));
    }
    owner.status("e").has_fields(json!({ "pause_reasons": ["gate"] }));
}

#[test]
fn settings_of_the_owner_count_and_the_log_of_a_relay_says_so() {
    let project = line();
    let mut owner = project.serve_with(&["--token-ttl", "1h"]);
    owner.done("execution.list", json!({}));
    let mut command = project.command("serve --token-ttl 2h --snapshot-every 4");
    let log = project.path("log");
    command.env("RUST_LOG", "warn");
    let file = std::fs::File::create(&log).expect("a log");
    let mut relay = Server::logging(command, file);
    relay.shake_hands();
    relay.begin("line", "e");
    relay.close();
    let said = std::fs::read_to_string(log).expect("a log");
    said.shows("--token-ttl is 1h there…--snapshot-every is 1 there");
}

#[test]
fn secrets_are_the_owner_s() {
    let steps = "workflow: secret
description: d
steps:
  - { id: see, set: { seen: '${{ secrets.KEY }}' } }
";
    let project = Project::new(&[("workflows/secret.yaml", steps)]);
    let mut owner = project.serve();
    owner.done("execution.list", json!({}));
    let mut command = project.command("serve");
    command.envs([("MIDEX_SECRET_ENV", "KEY"), ("KEY", "hunter2-hunter2")]);
    let mut relay = Server::run(command);
    relay.shake_hands();
    // The owner has no such secret, and asks nobody else for one.
    let arguments = json!({ "workflow_name": "secret", "execution_id": "e" });
    let answer = relay.call("workflow.start", arguments)["structuredContent"].to_string();
    answer.shows("KEY");
    assert!(!answer.contains("hunter2"), "{answer}");
}

#[test]
fn windows_of_one_project_may_allow_different_things() {
    let project = Project::new(&[("workflows/env.yaml", FROM_ENV)]);
    let allow = ["--allow-env", "REGION"];
    let mut north = on(&project, &project, &allow, Some("north"));
    let mut south = on(&project, &project, &allow, Some("south"));
    let mut none = on(&project, &project, &[], None);
    none.done("execution.list", json!({}));
    for (server, id, region) in [(&mut north, "n", "north"), (&mut south, "s", "south")] {
        let seen = json!({ "given": region, "seen": region });
        assert_eq!(server.begin("env", id)["final_output"], seen);
    }
}
