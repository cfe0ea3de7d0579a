//! `examples/beside`, as a client of rmcp sees it, and the version of rmcp that the page on embedding names.

use std::sync::Arc;

use midex::{
    App, Config, Options, SteadyClock, SystemIds,
    mcp::{LineTransport, serve},
};
use rmcp::{ServiceExt as _, model::CallToolRequestParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

#[expect(dead_code, reason = "`main` serves standard input and output")]
#[path = "../../examples/beside/main.rs"]
mod example;

#[tokio::test]
async fn the_example_has_its_tool_beside_those_of_midex() {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new(Some(home.path().join("data"))).unwrap();
    home.path().clone_into(&mut config.project_dir);
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(far);
    let transport = LineTransport::new(read, write);
    let options = Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds));
    let app = App::with_options(options);
    tokio::spawn(serve(example::build_server(app.clone()), transport, CancellationToken::new()));
    let client = ().serve(near).await.unwrap();
    let call = async |name: &'static str, arguments: Value| {
        let arguments = arguments.as_object().cloned().unwrap();
        let request = CallToolRequestParams::new(name).with_arguments(arguments);
        client.call_tool(request).await.unwrap().structured_content.unwrap()
    };
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools[0].name, "count_words");
    assert!(tools.iter().any(|tool| tool.name == "workflow.start"));
    assert_eq!(call("count_words", json!({ "text": "one, two" })).await, json!({ "words": 2 }));
    let started = call("workflow.start", json!({ "workflow_name": "bug-fix" })).await;
    assert_eq!(started["workflow_state"], "running", "{started}");
    app.stop().await.unwrap();
}

/// A program that implements traits of rmcp must have the version that midex has.
#[test]
fn the_page_names_the_version_of_rmcp() {
    let manifest: toml_edit::DocumentMut = include_str!("../../Cargo.toml").parse().unwrap();
    let version = manifest["workspace"]["dependencies"]["rmcp"]["version"].as_str().unwrap();
    let page = include_str!("../../docs/embedding.md");
    assert!(page.contains(&format!("`rmcp = \"{version}\"`")), "{version}");
}
