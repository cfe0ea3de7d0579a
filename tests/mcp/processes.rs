//! How a server starts, stands beside another one, and ends.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    project::{Project, line, list},
};

/// Fault F1 of the study: a fresh clone could not start.
#[test]
fn f01_an_empty_directory_and_no_flags_serve_at_once() {
    let project = Project::new(&[]);
    let mut server = Server::run(project.command("serve"));
    let hello = server.shake_hands();
    assert_eq!(hello["result"]["serverInfo"]["name"], "midex");
    assert!(!list(&server.read("midex://workflow/available_workflows")).is_empty());
    let first = server.begin("bug-fix", "e");
    assert_eq!(first["workflow_state"], "running");
    assert_eq!(server.run_to_end(&first), ["diagnose", "fix", "verify"]);
    assert!(project.data_file().is_file());
}

/// Fault F11 of the study: of two servers on one database both lost executions to `database is locked`.
#[test]
fn f11_two_servers_on_one_directory_lose_nothing_and_refuse_nobody() {
    let project = line();
    let (mut one, mut two) = (project.serve(), project.serve());
    let start = |id: String| json!({ "name": "workflow.start", "arguments": { "workflow_name": "line", "execution_id": id } });
    for round in 0..50 {
        one.post("tools/call", start(format!("one-{round}")));
        two.post("tools/call", start(format!("two-{round}")));
    }
    for _ in 0..50 {
        for server in [&mut one, &mut two] {
            let served = server.next_line()["result"].clone();
            assert_eq!(served["isError"], false, "{served}");
        }
    }
    assert!(one.close().0.success());
    for round in 0..50 {
        for name in ["one", "two"] {
            let status = two.status(&format!("{name}-{round}"));
            assert_eq!(status["state"], "running");
        }
    }
}

/// Fault W4 of the study: a session of another library wrote a thousand lines of its log among those of the protocol.
#[test]
fn w4_whatever_is_logged_every_line_of_the_output_is_the_protocol_s() {
    let project = line();
    let mut command = project.command("serve");
    command.env("RUST_LOG", "trace");
    let mut server = Server::run(command);
    server.shake_hands();
    // Each line that it reads meanwhile is parsed.
    let first = server.begin("line", "e");
    server.run_to_end(&first);
    let (status, _, rest) = server.close();
    assert!(status.success(), "{status}");
    for line in rest {
        let line: Value = serde_json::from_str(&line).expect("a line of the protocol");
        assert_eq!(line["jsonrpc"], "2.0");
    }
}

/// Fault F12 of the study: after its input had ended the server lived on for up to ten minutes.
#[test]
fn f12_the_end_of_input_ends_the_process_within_a_second() {
    // A machine that is busy with other things may keep one process waiting, not each of several.
    let quickest = (0..8).map(|_| time_to_end()).find(|took| took.as_secs() < 1);
    assert!(quickest.is_some(), "eight servers, none ended in time");
}

/// How long a server lives without input that has an open execution, and a call in work that would take 25 s.
fn time_to_end() -> Duration {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "e");
    let wait = json!({ "execution_id": "e", "timeout_s": 25 });
    let waiting = server.post_call("execution.wait", wait);
    let ping = server.post("ping", json!({}));
    let (status, took, lines) = server.close();
    assert!(status.success());
    let answers = lines.iter().map(|line| {
        let line: Value = serde_json::from_str(line).expect("stdout is clean");
        (line["id"].as_u64(), line["result"].clone())
    });
    let answers: HashMap<_, _> = answers.collect();
    assert!(answers.contains_key(&Some(ping)), "what could be answered was");
    if let Some(given_up) = answers.get(&Some(waiting)) {
        assert_eq!(given_up["structuredContent"]["retryable"], true);
    }
    took
}
