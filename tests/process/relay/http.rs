//! HTTP belongs to one process of a directory, which owns it.

use std::{fs::File, thread};

use midex_domain::limits;
use serde_json::json;

use super::{stateless, two_of};
use midex_test::{
    Server, Shows,
    client::Client,
    door::{Door, preamble},
    http::HttpServer,
    project::{Project, eventually, line},
};

/// A server over HTTP of the project, as it is started from a terminal.
fn over_http(project: &Project) -> HttpServer {
    HttpServer::run(project.command("serve --http 127.0.0.1:0"))
}

#[test]
fn a_process_that_serves_http_is_handed_the_directory_and_nobody_notices() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let first = owner.begin("line", "e");
    let http = over_http(&project);
    let mut session = http.session();
    let second = session.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    // The one that had it relays now, as the other one does.
    let third = owner.finish(&second["new_token"], "b is done");
    assert_eq!(third["step_name"], "c");
    let end = relay.finish(&third["new_token"], "c is done");
    assert_eq!(end["workflow_state"], "completed");
    assert_eq!(session.status("e")["state"], "completed");
}

#[test]
fn a_second_server_over_http_is_refused_with_the_address_of_the_first() {
    let project = line();
    let http = over_http(&project);
    http.session().done("execution.list", json!({}));
    let mut second = project.command("serve --http 127.0.0.1:0");
    let said = second.output().expect("it ends");
    assert_eq!(said.status.code(), Some(2));
    let log = String::from_utf8_lossy(&said.stderr).into_owned();
    let address = http.address.to_string();
    log.shows(&["ADDRESS_UNUSABLE", &address, "Use that address"]);
    assert!(!log.contains("running on"), "{log}");
    // A window beside it relays to it.
    let mut relay = project.serve();
    assert_eq!(relay.begin("line", "e")["step_name"], "a");
}

#[test]
fn after_a_server_over_http_the_others_go_on() {
    let project = line();
    let mut http = over_http(&project);
    let first = http.session().begin("line", "e");
    let mut relay = project.serve();
    assert_eq!(relay.status("e")["state"], "running");
    http.terminate();
    assert!(http.wait().success());
    assert_eq!(relay.finish(&first["new_token"], "a is done")["step_name"], "b");
}

#[test]
fn the_directory_is_handed_over_though_the_owner_s_client_takes_nothing() {
    let project = line();
    // What it writes nobody reads, for nobody waits for any of it.
    let mut owner = Server::run(project.command("serve"));
    let uri = json!({ "uri": "midex://workflow/available_workflows" });
    for _ in 0..300 {
        owner.post("tools/call", stateless("workflow.read", uri.clone()));
    }
    let socket = project.data_dir().join("control.sock");
    eventually("it owns the directory", || socket.exists().then_some(()));
    let first = project.serve().begin("line", "e");
    let http = over_http(&project);
    let second = http.session().finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
fn an_owner_leaves_the_directory_to_whoever_asked_until_they_have_looked_again() {
    let project = line();
    let mut owner = project.serve();
    owner.begin("line", "e");
    let mut asking = Door::knock(&project.data_dir());
    let mut asks = preamble(project.root());
    asks["role"] = json!("relay");
    asks["http"] = json!("127.0.0.1:0");
    asking.say(&asks).expect("the owner reads");
    let greeting = asking.line().expect("a greeting");
    assert!(greeting["error"].is_null(), "{greeting}");
    let lock = File::open(project.data_dir().join("executions.lock")).expect("a lock file");
    eventually("the owner closes its store", || {
        lock.try_lock().is_ok().then(|| lock.unlock().expect("a lock that was held"))
    });
    // Whoever asked looked a moment too early and waits to look again.
    thread::sleep(limits::OWNER_LOOK_EVERY_MAX);
    lock.try_lock().expect("nobody has taken the directory");
}
