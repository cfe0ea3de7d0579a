//! Lists in pages.

use std::collections::BTreeSet;

use midex_domain::limits::LIST_PAGE_MAX;
use serde_json::{Value, json};

use midex_test::{
    project::{Project, agent, each, eventually, list, workflow},
    reader::{ERAS, Era, Reader},
};

const AGENTS: usize = LIST_PAGE_MAX + 30;
const WORKFLOWS: usize = LIST_PAGE_MAX + 10;

/// A project with more definitions than two pages hold.
fn crowded() -> Project {
    let project = Project::new(&[]);
    for number in 0..AGENTS {
        let name = format!("agent-{number:03}");
        project.write(&format!("agents/{name}.md"), &agent(&name, "# Persona"));
    }
    for number in 0..WORKFLOWS {
        let name = format!("work-{number:03}");
        let phases: [(&str, &str, &[&str]); 1] = [("a", "agent-000", &[])];
        project.write(&format!("workflows/{name}.md"), &workflow(&name, &phases));
    }
    project
}

/// One page of resources.
fn page(client: &mut Reader, cursor: &Value) -> Value {
    let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
    client.result("resources/list", params)
}

fn addresses(page: &Value) -> Vec<String> {
    each(&list(&page["resources"]), "uri")
}

/// The addresses of all resources, page by page.
fn walk(client: &mut Reader) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = page(client, &cursor);
        pages.push(addresses(&page));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return pages;
        }
    }
}

#[test]
fn of_more_than_a_page_nothing_is_lost_and_nothing_comes_twice() {
    let project = crowded();
    for era in ERAS {
        let mut client = Reader::new(&project, era, "other", &[]);
        let pages = walk(&mut client);
        assert_eq!(pages, walk(&mut client));
        let (last, full) = pages.split_last().unwrap();
        assert!(full.len() >= 2 && !last.is_empty() && last.len() <= LIST_PAGE_MAX);
        assert!(full.iter().all(|page| page.len() == LIST_PAGE_MAX));
        let all = pages.concat();
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "nothing twice");
        for number in 0..AGENTS {
            let address = format!("midex://workflow/agent/agent-{number:03}");
            assert!(different.contains(&address), "{address}");
        }
        for number in 0..WORKFLOWS {
            let address = format!("midex://workflow/workflow_details/work-{number:03}");
            assert!(different.contains(&address), "{address}");
        }
        let fixed = ["available_workflows", "executions", "telemetry", "limits"];
        let fixed = fixed.map(|name| format!("midex://workflow/{name}"));
        assert_eq!(&all[..fixed.len()], fixed);
    }
}

#[test]
fn what_comes_and_goes_between_two_pages_moves_nothing_else() {
    let project = crowded();
    let mut client = Reader::new(&project, Era::Initialize, "other", &[]);
    let before: BTreeSet<_> = walk(&mut client).concat().into_iter().collect();
    let first = page(&mut client, &Value::Null);
    // Both stand on the first page: with pages by number, one that follows would move.
    project.remove("workflows/work-000.md");
    project.remove("workflows/work-001.md");
    project.write("workflows/work-000a.md", &workflow("work-000a", &[("a", "agent-000", &[])]));
    eventually("the change is seen", || {
        let now = addresses(&page(&mut client, &Value::Null));
        let has = |name: &str| now.iter().any(|uri| uri.ends_with(name));
        (!has("/work-000") && !has("/work-001") && has("/work-000a")).then_some(())
    });
    let mut seen = addresses(&first);
    let mut cursor = first["nextCursor"].clone();
    while !cursor.is_null() {
        let next = page(&mut client, &cursor);
        seen.extend(addresses(&next));
        cursor = next["nextCursor"].clone();
    }
    let different: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(different.len(), seen.len(), "nothing twice");
    assert_eq!(different, before, "nothing lost");

    // What the cursor names is gone itself: the client is told to begin again.
    let first = page(&mut client, &Value::Null);
    let last = addresses(&first).pop().unwrap();
    let name = last.rsplit('/').next().unwrap();
    project.remove(&format!("workflows/{name}.md"));
    eventually("it is gone", || {
        let now = addresses(&page(&mut client, &Value::Null));
        (!now.contains(&last)).then_some(())
    });
    let error = client.error("resources/list", json!({ "cursor": first["nextCursor"] }));
    refused(&error, "resources/list");
}

fn refused(error: &Value, method: &str) {
    assert_eq!(error["code"], -32602, "{error}");
    let payload = &error["data"];
    assert_eq!(payload["error_code"], "ARGUMENTS_INVALID", "{error}");
    assert_eq!(payload["suggested_action"], format!("Call {method} again: without cursor"));
    assert_eq!(payload["violations"][0]["path"], "/cursor");
    assert!(payload["correlation_id"].is_string());
}

#[test]
fn a_cursor_that_is_none_of_the_lists_is_refused() {
    let project = crowded();
    for era in ERAS {
        let mut client = Reader::new(&project, era, "other", &[]);
        let foreign = client.result("resources/list", json!({}))["nextCursor"].clone();
        let long = "A".repeat(1 << 20);
        for method in ["tools/list", "resources/list", "resources/templates/list"] {
            for cursor in ["", "x", "*", "ключ", "bm9ib2R5", "//79", long.as_str()] {
                let error = client.error(method, json!({ "cursor": cursor }));
                refused(&error, method);
                assert!(error["message"].as_str().unwrap().len() < 1000);
            }
            if method != "resources/list" {
                refused(&client.error(method, json!({ "cursor": foreign })), method);
                // All of it is on the first page.
                assert!(client.result(method, json!({})).get("nextCursor").is_none());
            }
        }
    }
}
