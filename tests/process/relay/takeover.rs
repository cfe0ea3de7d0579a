//! What a client notices when the owner of its directory goes: nothing, but for calls whose outcome nobody knows.

use rustix::process::Signal;
use serde_json::json;

use super::{hold, stateless, two_of};
use midex_test::{
    Client, Fields, Server, fails_with,
    long::rounds,
    project::{Project, eventually, line, list},
};

#[test]
fn after_a_kill_another_process_goes_on_with_the_same_tokens() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let mut third = project.serve();
    let first = owner.begin("line", "e");
    let uri = "midex://workflow/workflow_status/e";
    third.request("resources/subscribe", json!({ "uri": uri }));
    owner.kill();
    let second = relay.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    // The subscription outlives the owner that it was made with: what came meanwhile is told too.
    let told = third.next_line();
    told.has_fields(json!({ "method": "notifications/resources/updated", "/params/uri": uri }));
    let third_step = third.finish(&second["new_token"], "b is done");
    assert_eq!(third_step["step_name"], "c");
}

#[test]
fn the_end_of_the_owner_s_client_hands_the_directory_over() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let first = owner.begin("line", "e");
    let (status, _, lines) = owner.close();
    assert!(status.success() && lines.is_empty(), "{lines:?}");
    let second = relay.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    // The next one finds the new owner.
    let mut third = project.serve();
    assert_eq!(third.finish(&second["new_token"], "b is done")["step_name"], "c");
}

#[test]
fn calls_in_flight_when_the_owner_is_killed_are_answered_once_and_done_once() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let call = |n: u64| {
        let arguments = json!({ "workflow_name": "line", "execution_id": format!("e{n}") });
        json!({ "name": "workflow.start", "arguments": arguments })
    };
    let mut waiting: std::collections::HashSet<_> =
        (0..200).map(|n| relay.post("tools/call", call(n))).collect();
    let first = relay.next_line();
    assert!(waiting.remove(&first["id"].as_u64().expect("a number")));
    owner.kill();
    while !waiting.is_empty() {
        let answer = relay.next_line();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        assert!(waiting.remove(&answer["id"].as_u64().expect("a number")), "{answer}");
    }
    for n in 0..200 {
        assert_eq!(relay.status(&format!("e{n}"))["revision"], 1);
    }
}

#[test]
fn a_question_of_an_owner_that_has_gone_is_withdrawn_and_asked_anew() {
    let (_project, mut owner, mut relay, id, asked) = super::asked();
    owner.kill();
    let withdrawn = relay.next_line();
    withdrawn.has_fields(json!({ "method": "notifications/cancelled" }));
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    let anew = relay.next_line();
    assert_eq!(anew["method"], "elicitation/create", "{anew}");
    assert_ne!(anew["id"], asked["id"]);
    // An answer to the old question is for nobody.
    super::approve(&mut relay, &asked);
    super::approve(&mut relay, &anew);
    let reply = relay.next_line();
    assert_eq!(reply["id"], id);
    reply.has_fields(json!({ "/result/structuredContent/step_name": "tell" }));
}

#[test]
fn a_call_that_needs_its_user_is_sent_again_to_the_next_owner_with_the_answer() {
    let project = Project::new(&[("workflows/gated.yaml", super::GATE)]);
    let mut owner = project.serve();
    owner.done("execution.list", json!({}));
    let mut relay = Server::run(project.command("serve"));
    // An id that the server makes: done twice, the start would make two executions.
    let arguments = json!({ "workflow_name": "gated" });
    let mut start = stateless("workflow.start", arguments);
    let needs = relay.request("tools/call", start.clone())["result"].clone();
    assert_eq!(needs["resultType"], "input_required", "{needs}");
    owner.kill();
    // A call that the dying owner may have read is not made twice; a read is, and is answered by the next one.
    let list_all = stateless("execution.list", json!({}));
    relay.request("tools/call", list_all.clone());
    let asked = needs["inputRequests"].as_object().expect("questions");
    let (key, _) = asked.iter().next().expect("a question");
    let approved = json!({ "action": "accept", "content": { "decision": "approve" } });
    start["requestState"] = needs["requestState"].clone();
    start["inputResponses"] = json!({ key: approved });
    let reply = relay.request("tools/call", start)["result"].clone();
    assert_eq!(reply["structuredContent"]["step_name"], "tell", "{reply}");
    let listed = relay.request("tools/call", list_all)["result"].clone();
    let listed = list(&listed["structuredContent"]["executions"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
}

/// A directory with the execution `e` that somebody holds who opens no door, and a server of it.
fn unowned() -> (Project, std::fs::File, Server) {
    let project = line();
    let mut first = project.serve();
    first.begin("line", "e");
    first.kill();
    let lock = hold(&project);
    let server = project.serve();
    (project, lock, server)
}

#[test]
fn the_second_call_under_one_id_is_refused_while_nobody_owns_the_directory() {
    let (_project, lock, mut server) = unowned();
    let uri = "midex://workflow/workflow_status/e";
    let read = json!({ "jsonrpc": "2.0", "id": "twice", "method": "resources/read", "params": { "uri": uri } });
    server.send(&read);
    server.send(&read);
    let refused = server.next_line();
    refused.has_fields(json!({ "id": null, "/error/code": -32600 }));
    drop(lock);
    let answer = server.next_line();
    assert_eq!(answer["id"], "twice");
    assert!(answer["result"]["contents"].is_array(), "{answer}");
    // It was answered once: what comes next answers the next call.
    assert!(server.request("ping", json!({}))["error"].is_null());
}

/// The relay has read what it may, so the end of its input is behind a line that it does not read.
#[test]
fn a_client_that_goes_while_the_owner_takes_nothing_is_noticed() {
    let project = line();
    let (owner, mut relay) = two_of(&project);
    owner.signal(Signal::STOP);
    for text in ["x".repeat(4 << 20), "behind it".to_owned()] {
        relay.post("resources/read", json!({ "uri": text }));
    }
    let (status, _, lines) = relay.close();
    assert!(status.success() && lines.is_empty(), "{lines:?}");
}

#[test]
fn while_nobody_can_own_the_directory_lists_are_answered_and_calls_refused() {
    let (_project, lock, mut server) = unowned();
    assert!(!super::tools(&mut server).is_empty());
    let id = server.post("resources/read", json!({ "uri": "midex://workflow/workflow_status/e" }));
    let refused = server.next_line();
    assert_eq!(refused["id"], id);
    fails_with(&refused["error"], -32603, "STORE_BUSY");
    drop(lock);
    let uri = "midex://workflow/workflow_status/e";
    eventually("the server owns the directory", || {
        let answer = server.request("resources/read", json!({ "uri": uri }));
        answer["error"].is_null().then_some(())
    });
}

#[test]
fn of_servers_that_start_at_one_instant_one_owns_and_no_client_is_refused() {
    for round in 0..rounds(5, 100) {
        let project = line();
        let mut servers: Vec<_> = (0..2).map(|_| Server::run(project.command("serve"))).collect();
        for (at, server) in servers.iter_mut().enumerate() {
            server.shake_hands();
            let id = format!("e{round}-{at}");
            assert_eq!(server.begin("line", &id)["step_name"], "a");
        }
        for server in &mut servers {
            let listed = server.done("execution.list", json!({}));
            assert_eq!(list(&listed["executions"]).len(), 2, "round {round}");
        }
    }
}
