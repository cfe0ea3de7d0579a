//! "should handle missing execution gracefully", "transition on nonexistent"

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, fails_with,
    project::{each, line, list, text},
    says,
};

/// The addresses of all resources of an execution, this one being called `nobody`.
fn addresses(server: &mut Server) -> Vec<String> {
    let templates = server.request("resources/templates/list", json!({}));
    let templates = list(&templates["result"]["resourceTemplates"]);
    let of_execution =
        each(&templates, "uriTemplate").into_iter().filter(|uri| uri.contains("{execution_id}"));
    let address = |uri: String| {
        let path = uri.split("{?").next().unwrap();
        path.replace("{execution_id}", "nobody")
            .replace("{step_name}", "a")
            .replace("{artifact}", "1")
    };
    of_execution.map(address).collect()
}

#[test]
fn an_unknown_execution_is_not_found_in_any_resource() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "somebody");
    let addresses = addresses(&mut server);
    assert!(addresses.len() >= 7, "{addresses:?}");
    for uri in addresses {
        let error = server.read_error(&uri);
        fails_with(&error, -32002, "EXECUTION_NOT_FOUND");
        assert!(text(&error["message"]).contains("'nobody'"));
        assert_eq!(error["data"]["context"]["uri"], uri);
    }
}

#[test]
fn an_unknown_execution_is_not_found_by_any_tool() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "somebody");
    let tools = list(&server.request("tools/list", json!({}))["result"]["tools"]);
    let takes_one = |tool: &&Value| tool["inputSchema"]["properties"]["execution_id"].is_object();
    let tools = tools
        .iter()
        .filter(takes_one)
        .map(|tool| text(&tool["name"]))
        .filter(|name| *name != "workflow.start");
    let tools: Vec<_> = tools.collect();
    assert!(tools.len() >= 6, "{tools:?}");
    for tool in tools {
        let mut arguments = json!({ "execution_id": "nobody" });
        if tool == "execution.signal" {
            arguments["signal"] = json!("s");
        }
        if tool == "execution.rewind" {
            arguments["to_step"] = json!("s");
        }
        if tool == "execution.resolve" {
            (arguments["step_name"], arguments["verdict"]) = (json!("s"), json!("retry"));
        }
        let refused = server.refused(tool, arguments);
        assert_eq!(refused["error_code"], "EXECUTION_NOT_FOUND", "{tool}: {refused}");
        refused.has_fields(json!({ "success": false, "retryable": false }));
        assert!(text(&refused["error"]).contains("'nobody'"));
    }
    assert_eq!(server.status("somebody")["revision"], 1);
    server.read_error("midex://workflow/workflow_status/nobody");
}

/// "manager query: get, null": what is no execution is not found either.
#[test]
fn unknown_workflows_agents_steps_and_artifacts_are_not_found() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "e");
    let cases = [
        ("workflow_details/nothing", "WORKFLOW_NOT_FOUND"),
        ("agent/nobody", "RESOURCE_NOT_FOUND"),
        ("workflow_artifacts/e/nowhere", "RESOURCE_NOT_FOUND"),
        ("artifact/e/1", "RESOURCE_NOT_FOUND"),
        ("artifact/e/name", "RESOURCE_NOT_FOUND"),
    ];
    for (path, code) in cases {
        let error = server.read_error(&format!("midex://workflow/{path}"));
        fails_with(&error, -32002, code);
    }
    let refused = server.refused("workflow.start", json!({ "workflow_name": "bug-fxi" }));
    assert_eq!(refused["error_code"], "WORKFLOW_NOT_FOUND");
    says(&refused["error"], "did you mean 'bug-fix'?");
}

#[test]
fn an_item_or_a_hook_is_no_step_that_can_be_done_again() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "e");
    let alone = "again with all its items";
    for (tool, argument, step, why) in [
        ("execution.fork", "from_step", "a[1]", alone),
        ("execution.retry", "from_step", "a[1]", alone),
        ("execution.rewind", "to_step", "a.on_success", alone),
        ("execution.fork", "from_step", "b", "was not entered yet"),
        ("execution.rewind", "to_step", "b", "was not entered yet"),
    ] {
        let refused = server.refused(tool, json!({ "execution_id": "e", argument: step }));
        refused.has_fields(json!({
            "error_code": "ARGUMENTS_INVALID", "/violations/0/path": format!("/{argument}")
        }));
        says(&refused["violations"][0]["message"], why);
    }
    assert_eq!(server.status("e")["revision"], 1);
}
