//! Every tool, prompt and resource that authors have, called alike by clients of both eras, of the owner of the data directory
//! and through a relay: all get the same answers.

use serde_json::{Value, json};

use super::{TRIAGE, pairs};
use midex_test::{
    Client, Server,
    project::{Project, each, list},
    reader::{ERAS, Era, Reader},
};

/// A workflow that the server leads to its end alone.
const QUICK: &str = "\
workflow: quick
description: d
inputs: { n: { type: integer } }
steps:
  - id: keep
    set: { twice: '${{ inputs.n * 2 }}' }
final_output: { twice: '${{ memory.twice }}' }
";

/// A document whose service nobody may call.
const SHOP: &str = r#"{
    "openapi": "3.0.3", "info": { "title": "Shop", "version": "1" }, "servers": [{ "url": "http://127.0.0.1:9" }],
    "paths": { "/orders": {
        "get": { "summary": "List orders", "responses": { "200": { "description": "" } } },
        "post": { "summary": "Make an order", "responses": { "201": { "description": "" } } },
        "delete": { "summary": "Delete all orders", "responses": { "204": { "description": "" } } }
    } }
}"#;

/// The skill that is a workflow of the project.
const SKILL: &str = "skill://workflow/triage/SKILL.md";
const MANIFEST: &str = "midex://authoring/manifest/triage";

/// A client of a project of its own, which is like that of every other door.
struct Door {
    name: String,
    project: Project,
    client: Reader,
    _owner: Option<Server>,
}

impl Door {
    fn new(era: Era, is_relayed: bool) -> Self {
        let project = Project::new(&[
            ("workflows/triage.yaml", TRIAGE),
            ("workflows/broken.json", "{"),
            ("shop.json", SHOP),
        ]);
        let owner = is_relayed.then(|| {
            let mut owner = project.serve();
            owner.done("execution.list", json!({}));
            owner
        });
        Self {
            name: format!("{era:?}, relayed: {is_relayed}"),
            client: Reader::new(&project, era, "other", &[]),
            project,
            _owner: owner,
        }
    }

    /// The answer to a request, but for what an era has around it: the same twice is the same text.
    fn answer(&mut self, method: &str, params: &Value) -> String {
        let answer = self.client.result(method, params.clone());
        let parts = [
            "structuredContent",
            "isError",
            "tools",
            "prompts",
            "resources",
            "resourceTemplates",
            "messages",
            "contents",
            "completion",
            "skills",
            "skill",
        ];
        let kept: Vec<_> = parts.iter().filter(|part| !answer[**part].is_null()).collect();
        assert!(!kept.is_empty(), "{method} {params}: {answer}");
        let mut kept: Value = kept.iter().map(|part| (**part, answer[**part].clone())).collect();
        // Protocol version 2025-11-25 alone says of each tool whether it can be called as a task.
        for tool in kept["tools"].as_array_mut().into_iter().flatten() {
            tool.as_object_mut().unwrap().remove("execution");
        }
        let mut ids = Vec::new();
        mask(&mut kept, &mut ids);
        let root = self.project.root().display().to_string();
        let shown = kept.to_string().replace(&root, "ROOT");
        ids.iter().fold(shown, |shown, id| shown.replace(&**id, "ID"))
    }
}

/// Takes times and tokens away, and collects ids that other texts may name.
fn mask(value: &mut Value, ids: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, ids)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), &*value) {
                    ("execution_id" | "run_id" | "correlation_id", Value::String(id))
                        if !id.is_empty() =>
                    {
                        ids.push(id.clone());
                    }
                    (
                        "new_token" | "continuation_token" | "expires_at" | "imported_at",
                        Value::String(_),
                    ) => {
                        *value = Value::Null;
                    }
                    _ => mask(value, ids),
                }
            }
        }
        _ => {}
    }
}

/// Calls of every tool, in this order: those that work and those that are refused.
fn calls() -> Vec<(String, Value)> {
    let wrong = TRIAGE.replace("guidance: Page", "guidnce: Page");
    let inputs = json!({ "report": "It broke.", "urgent": true });
    let mine = TRIAGE.replace("workflow: triage", "workflow: mine");
    pairs(json!([
        ["workflow.list", {}],
        ["workflow.list", { "source": "project", "query": "tri" }],
        ["workflow.get", { "workflow_id": "triage" }],
        ["workflow.get", { "workflow_id": "triag" }],
        ["workflow.validate", { "workflow_id": "triage" }],
        ["workflow.validate", { "manifest": wrong }],
        ["workflow.validate", {}],
        ["workflow.preview_inputs", { "workflow_id": "triage" }],
        ["workflow.resolve_inputs", { "workflow_id": "triage", "inputs": inputs }],
        ["workflow.resolve_inputs", { "manifest": TRIAGE }],
        ["workflow.step_plan", { "workflow_id": "triage", "inputs": inputs }],
        ["workflow.preview_rendered", { "manifest": TRIAGE, "inputs": inputs }],
        ["workflow.preview_rendered", { "manifest": wrong }],
        ["workflow.run", { "manifest": QUICK, "inputs": { "n": 4 } }],
        ["workflow.run", { "workflow_id": "triage", "inputs": inputs }],
        ["workflow.run", { "manifest": QUICK, "inputs": { "n": "x", "m": 1 } }],
        ["workflow.cancel", { "operation_id": "none" }],
        ["workflow.save", { "manifest": mine }],
        ["workflow.save", { "manifest": mine }],
        ["workflow.save", { "manifest": wrong }],
        ["workflow.rename", { "workflow_id": "mine", "new_id": "ours" }],
        ["workflow.rename", { "workflow_id": "triage", "new_id": "other" }],
        ["command.list", {}],
        ["command.list", { "query": "ours" }],
        ["provider.list", {}],
        ["workflow.purge_history", { "workflow_id": "quick" }],
        ["workflow.purge_history", { "workflow_id": "quick", "confirm": true }],
        ["workflow.purge_history", { "input_keys": ["n"] }],
        ["workflow.purge_history", {}],
        ["workflow.delete", { "workflow_id": "ours" }],
        ["workflow.delete", { "workflow_id": "ours", "confirm": true }],
        ["workflow.delete", { "workflow_id": "ours", "confirm": true }],
    ]))
}

/// The same of catalogs.
fn calls_of_catalogs() -> Vec<(String, Value)> {
    let shop = json!({ "source": "shop.json", "catalog_title": "Shop" });
    pairs(json!([
        ["catalog.validate_openapi", { "source": "shop.json" }],
        ["catalog.preview_import", shop],
        ["catalog.import_openapi", shop],
        ["catalog.import_openapi", shop],
        ["catalog.list", {}],
        ["catalog.refresh", { "catalog_id": "shop" }],
        ["command.list", { "id": "shop orders:list" }],
        ["command.run_safe", { "id": "shop orders:list" }],
        ["command.run", { "id": "shop orders:create" }],
        ["command.run_destructive", { "id": "shop orders:delete" }],
        ["catalog.set_headers", { "catalog_id": "shop", "headers": { "X-A": "1" } }],
        ["catalog.set_base_url", { "catalog_id": "shop", "base_url": "https://shop.invalid" }],
        ["catalog.set_class", { "catalog_id": "shop", "id": "orders:list", "class": "standard" }],
        ["catalog.set_enabled", { "catalog_id": "shop", "enabled": false }],
        ["catalog.remove", { "catalog_id": "shop", "confirm": true }],
        ["catalog.remove", { "catalog_id": "none" }],
    ]))
}

/// Requests for every prompt and resource that the lists of `client` name.
fn reads(client: &mut Reader) -> Vec<(&'static str, Value)> {
    let empty = json!({});
    let listed = |client: &mut Reader, what: &str, key: &str, field: &str| {
        let all = client.result(&format!("{what}/list"), json!({}));
        each(&list(&all[key]), field)
    };
    let mut requests = vec![
        ("tools/list", empty.clone()),
        ("prompts/list", empty.clone()),
        ("resources/list", empty.clone()),
        ("resources/templates/list", empty.clone()),
        ("skills/list", empty),
        ("skills/get", json!({ "uri": SKILL })),
        ("resources/read", json!({ "uri": SKILL })),
        ("resources/read", json!({ "uri": MANIFEST })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "workflow.extend" }, "argument": { "name": "manifest", "value": "tri" } }),
        ),
    ];
    for name in listed(client, "prompts", "prompts", "name") {
        let arguments = match &*name {
            "workflow.author" => json!({ "goal": "Sort bug reports" }),
            "workflow.extend" => json!({ "manifest": "triage", "change_request": "Ask more" }),
            "workflow.fix_validation" | "workflow.run_with_inputs" => {
                json!({ "manifest": "triage" })
            }
            _ => json!({}),
        };
        requests.push(("prompts/get", json!({ "name": name, "arguments": arguments })));
    }
    for uri in listed(client, "resources", "resources", "uri") {
        // What happens has times of its own.
        if !uri.contains("telemetry") {
            requests.push(("resources/read", json!({ "uri": uri })));
        }
    }
    requests
}

#[test]
fn every_door_has_the_same_tools_prompts_and_resources_with_the_same_answers() {
    let doors = ERAS.into_iter().flat_map(|era| [(era, false), (era, true)]);
    let mut doors: Vec<_> = doors.map(|(era, is_relayed)| Door::new(era, is_relayed)).collect();
    let mut tools = doors[0].client.tools();
    // These tools say how much they may change.
    tools.retain(|tool| tool["_meta"].get("execution_type").is_some());
    for name in &each(&tools, "name") {
        let mut all = calls().into_iter().chain(calls_of_catalogs());
        let is_called = all.any(|(called, _)| called == *name);
        assert!(is_called, "{name} is not called");
    }
    let mut requests = reads(&mut doors[0].client);
    let calls = calls().into_iter().chain(calls_of_catalogs());
    let calls = calls
        .map(|(tool, arguments)| ("tools/call", json!({ "name": tool, "arguments": arguments })));
    requests.extend(calls);
    for (method, params) in requests {
        let (first, others) = doors.split_first_mut().unwrap();
        let expected = first.answer(method, &params);
        for door in others {
            let answer = door.answer(method, &params);
            assert_eq!(answer, expected, "{method} {params}: {}", door.name);
        }
    }
}
