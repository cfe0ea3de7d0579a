//! Names of tools, addresses and ids.

use serde_json::json;

use super::start;
use midex_test::{Client, Fields, Server, Shows, TOOLS, address, fails_with};

#[test]
fn both_spellings_of_a_tool_are_accepted_and_unknown_things_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let listed = server.request("tools/list", json!({}));
    let names: Vec<_> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, TOOLS);
    server.done("workflow_start", json!({ "workflow_name": "bug-fix" }));
    let unknown =
        server.request("tools/call", json!({ "name": "workflow.begin", "arguments": {} }));
    fails_with(&unknown["error"], -32602, "TOOL_NOT_FOUND");
    let missing = server.refused("workflow.start", json!({ "workflow_name": "no-such" }));
    assert_eq!(missing["error_code"], "WORKFLOW_NOT_FOUND");
    for uri in [
        "midex://workflow/nonsense",
        "midex://other/x",
        "file:///etc/passwd",
        "midex://workflow/current_step",
        "midex://workflow/current_step/a%ff",
    ] {
        let error = server.read_error(uri);
        fails_with(&error, -32002, "RESOURCE_NOT_FOUND");
    }
    for resource in ["current_step", "workflow_status", "step_history", "telemetry"] {
        let error = server.read_error(&address(resource, "nobody"));
        fails_with(&error, -32002, "EXECUTION_NOT_FOUND");
    }
    let templates = server.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].to_string();
    templates.shows("midex://workflow/current_step/{execution_id}");
    templates.shows("midex://workflow/telemetry/{execution_id}{?event_type,limit}");
}

/// The variables of a template: `{name}` and `{?name,name}`.
fn variables(template: &str) -> Vec<String> {
    let inside = template.split('{').skip(1).filter_map(|part| part.split('}').next());
    inside.flat_map(|names| names.trim_start_matches('?').split(',')).map(str::to_owned).collect()
}

#[test]
fn every_variable_of_every_template_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "e");
    let artifact = json!({ "type": "report", "name": "design.md", "content": "# Design" });
    let output = json!({ "summary": "s", "artifacts": [artifact] });
    server.hand_in(&first["new_token"], &output);
    let templates = server.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
    for template in templates {
        let uri = template["uriTemplate"].as_str().unwrap();
        for name in variables(uri) {
            let params = json!({
                "ref": { "type": "ref/resource", "uri": uri },
                "argument": { "name": name, "value": "" },
                "context": { "arguments": { "execution_id": "e" } }
            });
            let answer = server.request("completion/complete", params);
            let values = answer["result"]["completion"]["values"].as_array().unwrap();
            // There is one page of executions only: no cursor leads to another.
            assert_eq!(values.is_empty(), name == "cursor", "{uri} {name}: {answer}");
        }
    }
    let begun = json!({
        "ref": { "type": "ref/resource", "uri": "midex://workflow/artifact/{execution_id}/{artifact}{?offset,limit}" },
        "argument": { "name": "artifact", "value": "des" },
        "context": { "arguments": { "execution_id": "e" } }
    });
    let answer = server.request("completion/complete", begun);
    answer.has_fields(json!({ "/result/completion/values": ["design.md"] }));
}
