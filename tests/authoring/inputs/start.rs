//! Every start is held to the inputs that its workflow declares.

use serde_json::{Value, json};

use super::{DEPLOY, manifest, project};
use midex_test::{Client, Server, has_fields, says};

fn start(inputs: Value) -> Value {
    json!({ "workflow_name": "w", "execution_id": "e", "inputs": inputs })
}

/// Each violation of a refused start as `path rule`.
fn refused(server: &mut Server, arguments: Value) -> Vec<String> {
    let refused = server.refused("workflow.start", arguments);
    assert_eq!(refused["error_code"], "INPUTS_INVALID", "{refused}");
    let violations = refused["violations"].as_array().unwrap().iter();
    let field = |violation: &Value, name: &str| violation[name].as_str().unwrap().to_owned();
    violations
        .map(|violation| format!("{} {}", field(violation, "path"), field(violation, "rule")))
        .collect()
}

#[test]
fn what_breaks_the_rules_is_refused_all_at_once_and_starts_nothing() {
    let project = project(DEPLOY);
    let mut server = project.serve();
    let wrong =
        json!({ "region": "moon", "replicas": 0, "tag": "release", "push": "no", "regoin": 1 });
    let refused_start = server.refused("workflow.start", start(wrong.clone()));
    assert_eq!(refused_start["category"], "validation");
    assert_eq!(refused_start["retryable"], false);
    assert_eq!(
        refused_start["suggested_action"],
        "Call workflow.start again: correct every violation; midex://workflow/workflow_details/w lists its inputs"
    );
    assert_eq!(
        refused(&mut server, start(wrong)),
        [
            "inputs.regoin additionalProperties",
            "inputs.region enum",
            "inputs.replicas minimum",
            "inputs.tag maxLength",
            "inputs.tag pattern",
            "inputs.push type",
        ]
    );
    let violations = &refused_start["violations"];
    says(&violations[0]["message"], "did you mean `region`?");
    assert_eq!(violations[1]["expected"], r#"one of "us", "eu""#);
    let missing = ["inputs.region required", "inputs.replicas required", "inputs.tag required"];
    assert_eq!(refused(&mut server, start(json!({ "tag": null }))), missing);
    let none = json!({ "workflow_name": "w", "execution_id": "e" });
    assert_eq!(refused(&mut server, none), missing);
    let listed = server.done("execution.list", json!({}));
    assert_eq!(listed["executions"], json!([]), "nothing was started");

    // The id is free still. Numbers at their edge, false and an empty text are answers.
    let right = json!({ "region": "eu", "replicas": 9, "tag": "v123", "push": false, "note": "" });
    server.done("workflow.start", start(right.clone()));
    assert_eq!(server.current("e")["inputs"], right);
}

#[test]
fn defaults_are_filled_in_and_kept_in_the_order_of_the_declaration() {
    let project = project(DEPLOY);
    let mut server = project.serve();
    let given = json!({ "tag": "v1", "replicas": 1, "region": "us" });
    let first = server.done("workflow.start", start(given.clone()));
    let kept = server.current("e")["inputs"].to_string();
    let expected = r#"{"region":"us","replicas":1,"tag":"v1","push":false,"note":null}"#;
    assert_eq!(kept, expected);
    // The same call again is the same call, whatever the order of its keys.
    let turned = json!({ "region": "us", "replicas": 1, "tag": "v1" });
    let again = server.done("workflow.start", start(turned));
    has_fields(&again, json!({ "replayed": true, "new_token": first["new_token"] }));
    // What defaults would make of it is another call.
    let mut whole = given;
    whole["push"] = json!(false);
    let taken = server.refused("workflow.start", start(whole));
    assert_eq!(taken["error_code"], "EXECUTION_ID_TAKEN");
}

#[test]
fn an_execution_that_exists_answers_before_inputs_are_looked_at_anew() {
    let project = project(DEPLOY);
    let mut server = project.serve();
    let call = start(json!({ "region": "us", "replicas": 1, "tag": "v1" }));
    server.done("workflow.start", call.clone());
    let narrower = DEPLOY.replace("[us, eu]", "[eu]");
    server.close();
    project.write("workflows/w.yaml", &manifest(&narrower));
    let mut server = project.serve();
    let other = json!({ "workflow_name": "w", "inputs": call["inputs"] });
    assert_eq!(refused(&mut server, other), ["inputs.region enum"]);
    assert_eq!(server.done("workflow.start", call)["replayed"], true);
}

#[test]
fn without_declared_inputs_any_object_is_taken_and_with_an_empty_mapping_none() {
    let project = project("");
    project.write(
        "workflows/none.yaml",
        &manifest("inputs: {}\n").replace("workflow: w", "workflow: none"),
    );
    project.write(
        "workflows/front.md",
        &midex_test::project::workflow("front", &[("a", "worker", &[])]),
    );
    let mut server = project.serve();
    for name in ["w", "front"] {
        let id = format!("{name}-1");
        let call = json!({ "workflow_name": name, "execution_id": id, "inputs": { "any": [1] } });
        server.done("workflow.start", call);
        assert_eq!(server.current(&id)["inputs"], json!({ "any": [1] }));
        let details = server.read(&format!("midex://workflow/workflow_details/{name}"));
        assert!(details.get("inputs").is_none(), "{details}");
    }
    let call = json!({ "workflow_name": "none", "inputs": { "any": 1 } });
    assert_eq!(refused(&mut server, call), ["inputs.any additionalProperties"]);
    server.begin("none", "n");
    server.done("workflow.start", json!({ "workflow_name": "none", "inputs": {} }));
    let details = server.read("midex://workflow/workflow_details/none");
    assert_eq!(details["inputs"], json!([]));
}

#[test]
fn the_details_of_a_workflow_say_what_it_takes() {
    let project = project(DEPLOY);
    let mut server = project.serve();
    let details = server.read("midex://workflow/workflow_details/w");
    let names: Vec<_> = details["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| (input["name"].as_str().unwrap(), input["required"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        names,
        [("region", true), ("replicas", true), ("tag", true), ("push", false), ("note", false)]
    );
    assert_eq!(
        details["inputs"][0],
        json!({
            "name": "region", "label": "Region", "required": true,
            "schema": { "type": "string", "enum": ["us", "eu"] }
        })
    );
    assert_eq!(details["inputs"][3]["default"], json!({ "from": "literal", "value": false }));
    assert_eq!(
        details["inputs"][4],
        json!({
            "name": "note", "required": false, "hint": "one line", "example": "hotfix",
            "schema": {}
        })
    );
    let output = project.command(&["list", "--json"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let entries = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let entries: Vec<_> = entries.collect();
    let of = |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(of("w")["inputs"], details["inputs"]);
    assert_eq!(of("bug-fix")["inputs"][0]["name"], "task");
}

#[test]
fn inputs_past_their_limit_are_refused_before_their_rules_look_at_them() {
    let project = project("inputs:\n  x: { type: integer }\n");
    let mut server = project.serve();
    let large = "y".repeat(midex_domain::limits::INPUTS_BYTES_MAX);
    let refused = server.refused("workflow.start", start(json!({ "x": large })));
    assert_eq!(refused["error_code"], "LIMIT_EXCEEDED");
}
