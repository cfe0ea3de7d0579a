//! Names of tools by client.

use serde_json::json;

use super::underscored;
use midex_test::{
    Client, TOOLS,
    project::{Project, each, list},
    reader::{ERAS, Era, Reader, stateless},
};

/// Names that hosts known to refuse dots give of themselves.
const REFUSING: [&str; 6] = [
    "claude-ai",
    "claude-ai (via mcp-remote 0.1.37)",
    "Codex-MCP-client",
    "github-copilot-developer",
    "cursor-vscode",
    "mcporter",
];

#[test]
fn a_client_that_refuses_dots_is_shown_none_and_any_other_the_documents_names() {
    let project = Project::new(&[]);
    for era in ERAS {
        for name in REFUSING {
            let mut client = Reader::new(&project, era, name, &[]);
            assert_eq!(client.names(), TOOLS.map(underscored), "{era:?} {name}");
        }
        for name in ["claude-code", "Visual Studio Code", "not claude-ai", ""] {
            let mut client = Reader::new(&project, era, name, &[]);
            assert_eq!(client.names(), TOOLS, "{era:?} {name}");
        }
    }
}

#[test]
fn no_text_that_a_client_is_shown_names_a_tool_in_the_other_spelling() {
    let project = Project::new(&[]);
    for era in ERAS {
        let mut client = Reader::new(&project, era, "claude-ai", &[]);
        let shown = json!([client.tools(), client.greeting]).to_string();
        for tool in TOOLS {
            assert!(!shown.contains(tool), "{era:?} {tool}");
        }
        let text = client.instructions();
        assert!(text.contains("Call workflow_start {"), "{text}");
        assert!(text.contains("with a dot"), "{text}");

        let mut client = Reader::new(&project, era, "other", &[]);
        let shown = json!([client.tools(), client.greeting]).to_string();
        for tool in TOOLS {
            assert!(!shown.contains(&underscored(tool)), "{era:?} {tool}");
        }
        let text = client.instructions();
        assert!(text.contains("Call workflow.start {"), "{text}");
        assert!(!text.contains("with a dot"), "{text}");
    }
}

#[test]
fn the_flag_goes_before_the_clients_name_and_both_spellings_are_called() {
    let project = Project::new(&[]);
    for (flag, client, wanted) in [
        ("dotted", "claude-ai", TOOLS.map(str::to_owned)),
        ("underscored", "other", TOOLS.map(underscored)),
        ("auto", "claude-ai", TOOLS.map(underscored)),
        ("auto", "other", TOOLS.map(str::to_owned)),
    ] {
        let flags = ["--tool-names", flag];
        let mut client = Reader::new(&project, Era::Initialize, client, &flags);
        assert_eq!(client.names(), wanted, "{flag}");
        for tool in ["execution.list", "execution_list"] {
            assert_eq!(client.server.done(tool, json!({}))["executions"], json!([]));
        }
        client.server.close();
    }
}

#[test]
fn in_the_stateless_era_each_request_says_whose_it_is() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, Era::Stateless, "claude-ai", &[]);
    for (name, wanted) in [
        (None, "workflow.start"),
        (Some("claude-ai"), "workflow_start"),
        (Some("other"), "workflow.start"),
    ] {
        let params = json!({ "_meta": stateless(name) });
        let answer = client.server.request("tools/list", params.clone());
        let names = each(&list(&answer["result"]["tools"]), "name");
        assert_eq!(names[0], wanted, "{name:?}");
        let told = client.server.request("server/discover", params);
        let told = told["result"]["instructions"].as_str().unwrap();
        assert!(told.contains(&format!("Call {wanted} {{")), "{name:?}: {told}");
    }
}
