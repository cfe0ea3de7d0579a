//! What is listed is complete, and always the same.

use midex_domain::schema::Schema;
use serde_json::{Value, json};

use midex_test::{
    Client, Server, Shows,
    project::{Project, list},
    reader::{ERAS, Era, Reader},
};

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    let text = value[field].as_str().unwrap_or_default();
    assert!(!text.trim().is_empty(), "no {field}: {value}");
    text
}

#[test]
fn every_tool_says_all_there_is_to_say() {
    let project = Project::new(&[]);
    for era in ERAS {
        for name in ["claude-ai", "other"] {
            let mut client = Reader::new(&project, era, name, &[]);
            let tools = client.tools();
            assert_eq!(tools.len(), midex_test::TOOLS.len());
            for tool in tools {
                for field in ["name", "title", "description"] {
                    text(&tool, field);
                }
                for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
                    assert!(tool["annotations"][hint].is_boolean(), "{hint}: {tool}");
                }
                for schema in ["inputSchema", "outputSchema"] {
                    assert_eq!(tool[schema]["type"], "object", "{tool}");
                    Schema::compile(&tool[schema]).unwrap();
                }
            }
        }
    }
}

#[test]
fn every_resource_and_template_says_all_there_is_to_say() {
    let broken = "---\nname: broken\n---\n";
    let project = Project::new(&[("workflows/broken.md", broken), ("agents/odd.md", "nothing")]);
    for era in ERAS {
        let mut client = Reader::new(&project, era, "other", &[]);
        let resources = list(&client.result("resources/list", json!({}))["resources"]);
        let templates = client.result("resources/templates/list", json!({}));
        let templates = list(&templates["resourceTemplates"]);
        for listed in resources.iter().chain(&templates) {
            for field in ["name", "title", "description"] {
                text(listed, field);
            }
            if listed.to_string().contains("midex://workflow/") {
                assert_eq!(listed["mimeType"], "application/json");
            }
            let annotations = &listed["annotations"];
            assert_eq!(annotations["audience"], json!(["user", "assistant"]));
            let priority = annotations["priority"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&priority), "{listed}");
        }
        let find = |name: &str| resources.iter().find(|resource| resource["name"] == name);
        let bug_fix = find("workflow_details/bug-fix").expect("a shipped workflow");
        assert_eq!(bug_fix["uri"], "midex://workflow/workflow_details/bug-fix");
        let details = client.result("resources/read", json!({ "uri": bug_fix["uri"] }));
        let details: Value =
            serde_json::from_str(details["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(details["description"], bug_fix["description"]);
        assert!(find("agent/reviewer").is_some());
        for broken in ["workflow_details/broken", "agent/odd"] {
            let resource = find(broken).unwrap_or_else(|| panic!("{broken} is not listed"));
            assert!(text(resource, "description").contains("what is wrong"));
            let read = client.result("resources/read", json!({ "uri": resource["uri"] }));
            let read = read["contents"][0]["text"].as_str().unwrap();
            assert!(read.contains("\"findings\":["), "{read}");
        }
    }
}

#[test]
fn the_list_of_tools_is_the_same_to_the_byte_over_calls_and_processes() {
    let project = Project::new(&[]);
    let mut lists = Vec::new();
    for _ in 0..2 {
        let mut client = Reader::new(&project, Era::Initialize, "other", &[]);
        for id in ["a", "b", "c"] {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
            client.server.send(&request);
            let line = client.server.next_text();
            let begin = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",");
            let list = line.strip_prefix(&begin).expect("the answer");
            assert!(list.len() > 5000, "{list}");
            lists.push(list.to_owned());
        }
    }
    assert!(lists.iter().all(|list| *list == lists[0]));
}

#[test]
fn what_is_said_at_the_start_is_what_is_offered() {
    let project = Project::new(&[]);
    let mut command = project.command("serve --toolsets operate --tool-names underscored");
    command.stdin(std::process::Stdio::null());
    let said = command.output().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(
        said.contains(
            "Tools: 15 (workflow_read, execution_list, execution_resume, execution_wait, execution_signal, execution_resolve, execution_retry, \
             execution_rewind, execution_fork, execution_diff, execution_pause, execution_abandon, \
             execution_delete, execution_diverge, execution_fail)"
        ),
        "{said}"
    );
    said.shows(", limits, ");
    said.lacks("bug-fix");
    let mut server = Server::run(project.command("serve --toolsets operate"));
    server.shake_hands();
    let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(list(&tools).len(), 15);
}
