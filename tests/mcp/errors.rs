//! How failures are told.

use serde_json::{Value, json};

use midex_test::{
    Client, Server, fails_with,
    project::{Project, line, list, text, workflow},
    table,
};

/// Fault F19 of the study: the failure of a resource was a success that said `isError`.
#[test]
fn f19_the_failure_of_a_resource_is_an_error_of_the_protocol() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "e");
    let cases = [
        ("nonsense", -32002, "RESOURCE_NOT_FOUND"),
        ("current_step/nobody", -32002, "EXECUTION_NOT_FOUND"),
        ("workflow_details/nothing", -32002, "WORKFLOW_NOT_FOUND"),
        ("agent/nobody", -32002, "RESOURCE_NOT_FOUND"),
        ("agent/", -32002, "RESOURCE_NOT_FOUND"),
        ("artifact/e/1", -32002, "RESOURCE_NOT_FOUND"),
        ("workflow_artifacts/e/nowhere", -32002, "RESOURCE_NOT_FOUND"),
        ("telemetry?limit=none", -32602, "ARGUMENTS_INVALID"),
        ("executions?state=none", -32602, "ARGUMENTS_INVALID"),
    ];
    for (path, code, name) in cases {
        let uri = format!("midex://workflow/{path}");
        let answer = server.request("resources/read", json!({ "uri": uri }));
        assert!(answer.get("result").is_none(), "{answer}");
        let error = &answer["error"];
        fails_with(error, code, name);
        assert!(!text(&error["data"]["suggested_action"]).is_empty());
    }
}

/// Fault F19 of the study: a tool that does not exist was a tool's own failure.
#[test]
fn f19_an_unknown_tool_is_an_error_of_the_protocol() {
    let project = line();
    let mut server = project.serve();
    for name in ["workflow.begin", "workflow.Start", "", "execution"] {
        let answer = server.request("tools/call", json!({ "name": name, "arguments": {} }));
        assert!(answer.get("result").is_none(), "{answer}");
        let error = &answer["error"];
        fails_with(error, -32602, "TOOL_NOT_FOUND");
    }
}

/// Words that only a library, or this code about itself, would use.
const RAW: &str = "serde, redb, sqlite, zod, rmcp, ractor, tokio, postcard, saphyr, jsonschema, panicked, unwrap, \
    invalid type:, missing field, untagged, unknown variant, none value, .rs:, os error, src/";

#[track_caller]
fn plain(what: &str, answer: &Value) {
    let shown = answer.to_string().to_lowercase();
    for word in RAW.split(", ") {
        assert!(!shown.contains(word), "{what}: `{word}` in {shown}");
    }
}

/// Tools and arguments that they refuse.
const CALLS: &str = r#"
    workflow.start | {"workflow_name": 1}
    workflow.start | {"workflow_name": ""}
    workflow.start | {"workflow_name": "nothing"}
    workflow.start | {"workflow_name": "broken"}
    workflow.start | {"workflow_name": "line", "execution_id": "e", "inputs": {"a": 1}}
    workflow.start | {"workflow_name": "line", "inputs": "x", "more": {}}
    workflow.next_step | {}
    workflow.next_step | {"token": "e30", "output": {"summary": "s"}}
    workflow.next_step | {"token": "bnVsbA", "output": {"summary": "s"}}
    workflow.next_step | {"token": "%", "output": {"summary": "s"}}
    workflow.next_step | {"token": "TOKEN", "output": null}
    workflow.next_step | {"token": "TOKEN", "output": {"artifacts": [{"type": "diagram"}, 1]}}
    workflow.next_step | {"token": "TOKEN", "error": "x"}
    execution.pause | {"execution_id": ""}
    execution.pause | {"execution_id": "a\u000ab", "reason": 5}
    execution.resume | {"execution_id": "nobody"}
    execution.wait | {"execution_id": "e", "timeout_s": "long"}
    execution.list | {"cursor": "x"}
    execution.list | {"state": "x", "limit": 0}
"#;
/// Methods and parameters that the protocol refuses.
const REQUESTS: &str = r#"
    resources/read | {}
    resources/read | {"uri": 1}
    resources/read | {"uri": "midex://workflow/artifact/e/1?offset=x"}
    resources/read | {"uri": "midex://workflow/current_step/%ff"}
    tools/call | {"name": 1}
    tools/call | {"name": "workflow.start", "arguments": []}
    completion/complete | {"ref": {"type": "x"}}
    prompts/list | 1
    no/such | {}
"#;

/// Whatever is wrong with a call or an address: its answer.
fn failures(server: &mut Server, token: &Value) -> Vec<(String, Value)> {
    let long = json!({ "token": token, "output": { "summary": "x".repeat(5 << 20) } });
    let mut answers = Vec::new();
    let calls = CALLS.replace("TOKEN", text(token));
    let calls = table(&calls);
    let calls = calls.map(|[tool, arguments]| (tool, serde_json::from_str(&arguments).unwrap()));
    for (tool, arguments) in calls.chain([("workflow.next_step".to_owned(), long)]) {
        let shown: String = format!("{tool} {arguments}").chars().take(120).collect();
        answers.push((shown, server.refused(&tool, arguments)));
    }
    for [method, params] in table(REQUESTS) {
        let answer = server.request(&method, serde_json::from_str(&params).unwrap());
        assert!(answer["error"].is_object(), "{method} {params}: {answer}");
        answers.push((format!("{method} {params}"), answer));
    }
    answers
}

/// Fault F19 of the study: the raw text of its libraries reached the model.
#[test]
fn f19_no_error_speaks_in_the_words_of_a_library() {
    let project = line();
    let files = [
        ("broken", "---\nname: broken\n  bad: [\n---\n".to_owned()),
        ("tab", "---\n\tname: tab\n---\n".to_owned()),
        (
            "typed",
            workflow("typed", &[("a", "worker", &[])])
                .replace("description: A test", "description: [1]"),
        ),
        ("anchor", "---\nname: *nothing\n---\n".to_owned()),
    ];
    for (name, text) in &files {
        project.write(&format!("workflows/{name}.md"), text);
    }
    project.write("workflows/data.json", "{\"workflow\": ");
    project.write("workflows/schema.yaml", SCHEMA);
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    for (what, answer) in failures(&mut server, &token) {
        plain(&what, &answer);
    }
    let all = list(&server.read("midex://workflow/available_workflows"));
    let broken: Vec<_> = all.iter().filter(|entry| entry["valid"] == false).collect();
    assert_eq!(broken.len(), files.len() + 2);
    for entry in broken {
        plain("findings", &entry["findings"]);
    }
    for raw in ["{", "nonsense", "[1]", "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}"] {
        server.send_raw(raw);
        plain(raw, &server.next_line());
    }
    unopened(&project);
}

const SCHEMA: &str = "workflow: schema\ndescription: d\nsteps:\n- { id: a, agent: worker, result: { type: strin } }\n";

/// A store that cannot be opened.
fn unopened(project: &Project) {
    std::fs::write(project.path("file"), "x").unwrap();
    let mut server = project.serve_with(&["--data-dir", "file"]);
    let refused = server.refused("workflow.start", json!({ "workflow_name": "line" }));
    assert_eq!(refused["error_code"], "FILE_UNUSABLE", "{refused}");
    plain("an unusable directory", &refused);
}
