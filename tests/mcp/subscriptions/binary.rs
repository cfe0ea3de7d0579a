//! The same with the real binary: over standard streams and beside the control socket.

use std::sync::Arc;

use midex_domain::clock::{SystemClock, SystemIds};
use midex_mcp::{
    ToolProfile, client,
    control::{self, ClientRole, Preamble},
};
use midex_server::{app::Options, config::Config};
use serde_json::{Value, json};

use super::{LIST_CHANGED, UPDATED, uri, write_workflow};
use midex_test::{Client, Server, serve_alone};

/// Reads until a notification of this method, of this address where there is one.
fn told(server: &mut Server, method: &str, address: Option<&str>) -> Value {
    loop {
        let line = server.next_line();
        let is_it = line["method"] == method;
        if is_it && address.is_none_or(|address| line["params"]["uri"] == address) {
            return line;
        }
    }
}

#[test]
fn a_hot_reload_is_told_of_in_both_eras() {
    let home = tempfile::tempdir().expect("a directory");
    write_workflow(home.path(), "mine", "one");
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let subscribed =
        server.request("resources/subscribe", json!({ "uri": uri("workflow_details/mine") }));
    assert!(subscribed["result"].is_object(), "{subscribed}");
    write_workflow(home.path(), "mine", "two");
    told(&mut server, LIST_CHANGED, None);
    told(&mut server, UPDATED, Some(&uri("workflow_details/mine")));
    server.close();

    let mut server = Server::run(serve_alone(home.path(), &[]));
    server.post("subscriptions/listen", listen(&[uri("available_workflows")]));
    told(&mut server, "notifications/subscriptions/acknowledged", None);
    write_workflow(home.path(), "mine", "three");
    told(&mut server, UPDATED, Some(&uri("available_workflows")));
    let (status, _, _) = server.close();
    assert!(status.success(), "a listen keeps nobody from the end");
}

fn listen(addresses: &[String]) -> Value {
    json!({
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
        },
        "notifications": { "resourceSubscriptions": addresses }
    })
}

/// A client of the control socket moves what a client of the standard streams listens to, the moment it was told
/// that it listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_client_does_the_other_is_told() {
    let home = tempfile::tempdir().expect("a directory");
    write_workflow(home.path(), "mine", "one");
    let mut server = Server::run(serve_alone(home.path(), &[]));
    let address = uri("workflow_status/x");
    let config = Config {
        project_dir: home.path().to_owned(),
        ..Config::new(Some(home.path().join("data"))).expect("a configuration")
    };
    let data_dir = config.data_dir.clone();
    let options = Options::new(config, Arc::new(SystemClock), Arc::new(SystemIds));
    let preamble = Preamble::from_options(&options, ClientRole::Command, ToolProfile::default());
    let owner = loop {
        if let Some(owner) =
            control::connect_to_owner(&data_dir, &preamble).await.expect("an owner")
        {
            break owner;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    let beside = client::Client::connect(owner.input, owner.output).await.expect("a client");
    for round in 0..50 {
        server.post("subscriptions/listen", listen(std::slice::from_ref(&address)));
        told(&mut server, "notifications/subscriptions/acknowledged", None);
        let (tool, arguments) = match round {
            0 => ("workflow.start", json!({ "workflow_name": "mine", "execution_id": "x" })),
            odd if odd % 2 == 1 => ("execution.pause", json!({ "execution_id": "x" })),
            _ => ("execution.resume", json!({ "execution_id": "x" })),
        };
        beside.call_tool(tool, arguments).await.expect("a move");
        // Every listen so far is told, the new one among them.
        for _ in 0..=round {
            told(&mut server, UPDATED, Some(&address));
        }
    }
    beside.stop().await.expect("a good-bye");
}
