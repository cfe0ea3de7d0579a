//! What authors do over MCP: the tools that read and check definitions, in both eras of the protocol.

mod confirm;
mod doors;
mod expressions;
mod extends;
mod inputs;
mod metadata;
mod mistakes;
mod preview;
mod prompts;
mod purge;
mod read_only;
mod resources;
mod skills;
mod storms;
mod validate;
mod where_to;
mod write;

use serde::Serialize;
use serde_json::{Value, json};

use midex_test::{
    has_fields, list_of,
    project::{Project, each, list},
    reader::{ERAS, Era, Reader},
};

/// A sound manifest with something of everything that an author looks at.
const TRIAGE: &str = "\
workflow: triage
title: Triage
description: Sort a bug report
inputs:
  report: { type: string, description: What was reported }
  urgent: { type: boolean, default: { from: literal, value: false } }
steps:
  - id: read
    guidance: Read ${{ inputs.report }} and say what is broken.
  - id: page
    if: inputs.urgent
    guidance: Page somebody.
";

/// The structured answer of a tool; `isError` must be as told.
fn answer(client: &mut Reader, tool: &str, arguments: Value, is_error: bool) -> Value {
    let call = json!({ "name": tool, "arguments": arguments });
    let result = client.result("tools/call", call);
    assert_eq!(result["isError"] == true, is_error, "{tool}: {result}");
    result["structuredContent"].clone()
}

fn done(client: &mut Reader, tool: &str, arguments: Value) -> Value {
    answer(client, tool, arguments, false)
}

fn refused(client: &mut Reader, tool: &str, arguments: Value) -> Value {
    answer(client, tool, arguments, true)
}

/// What `workflow.validate` answers of a manifest.
fn validated(client: &mut Reader, manifest: &impl Serialize) -> Value {
    done(client, "workflow.validate", json!({ "manifest": manifest }))
}

/// What `workflow.get` answers of a workflow.
fn get(client: &mut Reader, id: &str) -> Value {
    done(client, "workflow.get", json!({ "workflow_id": id }))
}

/// What the `workflow.delete` that was confirmed answers.
fn deleted(client: &mut Reader, id: &str) -> Value {
    let arguments = json!({ "workflow_id": id, "confirm": true });
    done(client, "workflow.delete", arguments)
}

/// The calls of a list, each a tool and its arguments.
fn pairs(calls: Value) -> Vec<(String, Value)> {
    serde_json::from_value(calls).unwrap()
}

/// A client whose server may read `HOME`, and nothing else, of the environment.
fn reader(project: &Project) -> Reader {
    Reader::new(project, Era::Initialize, "other", &["--allow-env", "HOME"])
}

/// Clients of one project, one of each era; all but the first are served through a relay.
fn clients(project: &Project) -> Vec<Reader> {
    let clients = ERAS.into_iter().chain(ERAS);
    clients.map(|era| Reader::new(project, era, "other", &[])).collect()
}

#[test]
fn files_are_listed_with_what_hides_them_and_what_is_wrong_with_them() {
    let project = Project::new(&[
        ("workflows/triage.yaml", TRIAGE),
        ("workflows/broken.json", "{\"workflow\": \"broken\", \"steps\": []}"),
        (
            "workflows/deep/bug-fix.md",
            &midex_test::project::workflow("bug-fix", &[("a", "reviewer", &[])]),
        ),
    ]);
    for client in &mut clients(&project) {
        let own = done(client, "workflow.list", json!({ "source": "project" }));
        assert_eq!(own["total"], 3, "{own}");
        let own = list(&own["workflows"]);
        let named = |name: &str| own.iter().find(|one| one["workflow_id"] == name).unwrap();
        let triage = named("triage");
        assert_eq!(triage["title"], "Triage");
        assert_eq!(triage["format"], "yaml");
        assert_eq!(triage["source"], "project");
        assert_eq!(triage["findings"], Value::Null);
        assert!(triage["path"].as_str().unwrap().ends_with("workflows/triage.yaml"));
        assert_eq!(triage["version"].as_str().unwrap().len(), 64);
        let rules = each(&list(&named("broken")["findings"]), "rule");
        assert!(rules.contains(&"no_steps".to_owned()), "{rules:?}");

        let both = done(client, "workflow.list", json!({ "query": "bug-fix" }));
        let both = list(&both["workflows"]);
        assert_eq!((both.len(), &both[0]["format"]), (2, &json!("markdown")));
        assert_eq!(both[0]["shadowed_by"], Value::Null);
        let (hidden, nearer) = (&both[1], &both[1]["shadowed_by"]);
        has_fields(hidden, json!({ "source": "shipped", "path": null }));
        assert_eq!(nearer["source"], "project");
        assert_eq!(nearer["path"], both[0]["path"]);
    }
}

#[test]
fn a_list_has_pages_that_name_every_file_once() {
    let text = |at: usize| TRIAGE.replace("workflow: triage", &format!("workflow: w{:02}", at / 2));
    let files: Vec<_> = (0..14).map(|at| (format!("workflows/f{at:02}.yaml"), text(at))).collect();
    let files = list_of(&files, |(path, text)| (path.as_str(), text.as_str()));
    let project = Project::new(&files);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let (mut paths, mut cursor) = (Vec::new(), None);
    for pages in 1.. {
        let mut arguments = json!({ "source": "project", "limit": 3 });
        if let Some(cursor) = cursor {
            arguments["cursor"] = cursor;
        }
        let page = done(&mut client, "workflow.list", arguments);
        assert_eq!(page["total"], 14);
        paths.extend(list(&page["workflows"]).into_iter().map(|one| one["path"].to_string()));
        cursor = page.get("next_cursor").cloned();
        if cursor.is_none() {
            assert_eq!(pages, 5);
            break;
        }
    }
    let count = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!((count, paths.len()), (14, 14));
    let refused = refused(&mut client, "workflow.list", json!({ "cursor": "7" }));
    assert_eq!(refused["violations"][0]["path"], "/cursor", "{refused}");
}

#[test]
fn a_file_is_got_as_it_lies_with_its_version() {
    let odd = format!("\u{feff}# mine\r\n{}", TRIAGE.replace('\n', "\r\n"));
    let project = Project::new(&[("workflows/triage.yaml", &odd)]);
    for client in &mut clients(&project) {
        let got = get(client, "triage");
        has_fields(&got, json!({ "content": odd, "format": "yaml" }));
        assert_eq!(got["parsed"]["steps"][1]["if"], "inputs.urgent");
        let listed = done(client, "workflow.list", json!({ "query": "triage" }));
        assert_eq!(listed["workflows"][0]["version"], got["version"]);

        let shipped = get(client, "app-scaffold");
        assert_eq!(shipped["source"], "shipped");
        assert_eq!(shipped["path"], Value::Null);
        let text = include_str!("../../workflows/app-scaffold.yaml");
        assert_eq!(shipped["content"], text);

        let unknown = refused(client, "workflow.get", json!({ "workflow_id": "triag" }));
        assert_eq!(unknown["error_code"], "WORKFLOW_NOT_FOUND");
        let far = refused(client, "workflow.get", json!({ "workflow_id": "quite-another" }));
        assert_eq!(far["suggested_action"], "Call workflow.list: use a workflow_id that it shows");
        assert_eq!(
            unknown["suggested_action"],
            "Call workflow.get again with workflow_id 'triage': if that is the one meant"
        );
    }
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let before = get(&mut client, "triage");
    project.write("workflows/triage.yaml", &TRIAGE.replace("Page somebody", "Page them"));
    let after = get(&mut client, "triage");
    assert_ne!(before["version"], after["version"]);
}

/// Tools say for hosts how much they may change.
#[test]
fn what_a_tool_may_change_is_said_alike_everywhere() {
    let project = Project::new(&[]);
    for client in &mut clients(&project) {
        let tools = client.tools();
        let is_of_s2 = |tool: &&Value| tool["_meta"].get("execution_type").is_some();
        let of_s2 = tools.iter().filter(is_of_s2);
        let mut count = 0;
        for tool in of_s2 {
            let meta = &tool["_meta"];
            let method = match meta["execution_type"].as_str().unwrap() {
                "safe" => "GET",
                "standard" => "POST",
                "destructive" => "DELETE",
                other => panic!("{other}"),
            };
            assert_eq!(meta["http_method"], method, "{tool}");
            let hints = &tool["annotations"];
            assert_eq!(hints["destructiveHint"] == true, method == "DELETE", "{tool}");
            assert!(hints["readOnlyHint"] == true || method != "GET", "{tool}");
            count += 1;
        }
        assert!(count >= 3, "{count}");
    }
}
