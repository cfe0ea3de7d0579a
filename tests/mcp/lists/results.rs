//! What results carry besides what was asked for.

use serde_json::{Value, json};

use midex_test::{
    project::Project,
    reader::{Era, Reader},
};

const MINUTES: u64 = 5 * 60 * 1000;
const DAY: u64 = 24 * 60 * 60 * 1000;
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// A client, an execution `e` of which has handed over an artifact.
fn with_artifact(project: &Project, era: Era) -> Reader {
    let mut client = Reader::new(project, era, "other", &[]);
    let call = |client: &mut Reader, tool: &str, arguments: Value| {
        let answer = client.result("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["isError"], false, "{answer}");
        answer["structuredContent"].clone()
    };
    let start = json!({ "workflow_name": "bug-fix", "execution_id": "e" });
    let step = call(&mut client, "workflow.start", start);
    let artifact = json!({ "type": "report", "name": "notes", "content": "# Notes" });
    let output = json!({ "summary": "done", "artifacts": [artifact] });
    let next = json!({ "token": step["new_token"], "output": output });
    call(&mut client, "workflow.next_step", next);
    client
}

/// Requests that are answered with a result that may be kept, and for how long.
fn kept() -> Vec<(&'static str, Value, u64)> {
    let mut requests = vec![
        ("tools/list", json!({}), 0),
        ("resources/templates/list", json!({}), MINUTES),
        ("resources/list", json!({}), 0),
    ];
    for (resource, ttl) in [
        ("limits", MINUTES),
        ("artifact/e/1", DAY),
        ("artifact/e/1?offset=2&limit=3", DAY),
        // A later artifact may have the same name.
        ("artifact/e/notes", 0),
        ("available_workflows", 0),
        ("workflow_details/bug-fix", 0),
        ("agent/reviewer", 0),
        ("executions", 0),
        ("telemetry", 0),
        ("telemetry/e", 0),
        ("current_step/e", 0),
        ("workflow_status/e", 0),
        ("step_history/e", 0),
        ("workflow_artifacts/e", 0),
        ("workflow_artifacts/e/diagnose", 0),
    ] {
        let uri = format!("midex://workflow/{resource}");
        requests.push(("resources/read", json!({ "uri": uri }), ttl));
    }
    requests
}

/// Requests whose results may not be kept.
fn fleeting() -> Vec<(&'static str, Value)> {
    let reference = json!({ "type": "ref/resource", "uri": "midex://workflow/agent/{name}" });
    let argument = json!({ "name": "name", "value": "" });
    vec![
        ("tools/call", json!({ "name": "execution.list", "arguments": {} })),
        ("tools/call", json!({ "name": "workflow.start", "arguments": {} })),
        ("completion/complete", json!({ "ref": reference, "argument": argument })),
    ]
}

#[test]
fn results_of_the_stateless_era_say_whose_they_are_and_how_long_they_may_be_kept() {
    let project = Project::new(&[]);
    let mut client = with_artifact(&project, Era::Stateless);
    let greeting = client.greeting.clone();
    assert_eq!(greeting["ttlMs"], MINUTES);
    assert_eq!(greeting["cacheScope"], "private");
    let server = &greeting["_meta"][SERVER];
    assert_eq!(server["name"], "midex");
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    for (method, params, ttl) in kept() {
        let result = client.result(method, params.clone());
        assert_eq!(result["ttlMs"], ttl, "{method} {params}");
        assert_eq!(result["cacheScope"], "private", "{method} {params}");
        assert_eq!(&result["_meta"][SERVER], server, "{method} {params}");
    }
    for (method, params) in fleeting() {
        let result = client.result(method, params.clone());
        assert_eq!(&result["_meta"][SERVER], server, "{method} {params}");
        assert!(result.get("ttlMs").is_none(), "{method} {params}");
    }
}

#[test]
fn results_of_the_initialize_era_carry_what_that_era_knows() {
    let project = Project::new(&[]);
    let mut client = with_artifact(&project, Era::Initialize);
    assert_eq!(client.greeting["serverInfo"]["name"], "midex");
    let requests = kept().into_iter();
    let requests = requests.map(|(method, params, _)| (method, params));
    for (method, params) in requests.chain(fleeting()) {
        let result = client.result(method, params.clone());
        for field in ["ttlMs", "cacheScope", "_meta", "resultType"] {
            assert!(result.get(field).is_none(), "{method} {params} {field}");
        }
    }
}
