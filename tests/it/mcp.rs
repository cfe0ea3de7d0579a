//! The main job over MCP: a raw client against the real binary.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, address, output, wait};

const STEPS: [(&str, &str); 3] = [
    ("design", "architect"),
    ("implement", "implementer"),
    ("review", "reviewer"),
];

fn start(server: &mut Server, id: &str) -> Value {
    server.done(
        "workflow.start",
        json!({ "workflow_name": "feature-development", "execution_id": id }),
    )
}

fn next(server: &mut Server, token: &Value, summary: &str) -> Value {
    server.done(
        "workflow.next_step",
        json!({ "token": token, "output": output(summary) }),
    )
}

fn keys(value: &Value) -> HashSet<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

fn has(value: &Value, wanted: &[&str]) {
    let keys = keys(value);
    for key in wanted {
        assert!(keys.contains(key), "{key} is missing in {value}");
    }
}

#[test]
fn a_shipped_workflow_runs_from_start_to_completed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let listed = server.read("midex://workflow/available_workflows");
    let listed: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|w| w["name"] == "feature-development")
        .collect();
    has(
        listed[0],
        &["name", "description", "tags", "complexity", "phases"],
    );
    assert_eq!(listed[0]["complexity"], "high");

    let mut step = start(&mut server, "exec_001");
    assert_eq!(
        step["message"],
        "Workflow 'feature-development' started. Step 'design' ready."
    );
    for (at, (name, agent)) in STEPS.iter().enumerate() {
        assert_eq!(
            (&step["step_name"], &step["agent_name"]),
            (&json!(name), &json!(agent))
        );
        assert_eq!(
            (&step["workflow_state"], &step["success"]),
            (&json!("running"), &json!(true))
        );
        assert_eq!(step["progress"], format!("{}/3", at + 1));
        assert_eq!(
            step["new_tokens"][0]["continuation_token"],
            step["new_token"]
        );
        assert!(
            step["agent_content"].as_str().unwrap().len() > 1000,
            "a persona worth reading"
        );
        step = next(&mut server, &step["new_token"], name);
    }
    assert_eq!(
        (&step["workflow_state"], &step["message"]),
        (
            &json!("completed"),
            &json!("Workflow completed successfully")
        )
    );
    assert!(step["new_token"].is_null() && step["step_name"].is_null());

    let status = server.read(&address("workflow_status", "exec_001"));
    assert_eq!(
        (&status["state"], &status["steps"]["completed"]),
        (&json!("completed"), &json!(3))
    );
    assert!(status["completed_at"].is_string() && status["duration_ms"].is_number());
}

#[test]
fn the_resources_have_every_field_of_the_documents() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let current = server.read(&address("current_step", "exec_001"));
    has(
        &current,
        &[
            "execution_id",
            "workflow_name",
            "workflow_state",
            "current_step",
            "step_status",
            "agent_name",
            "progress",
            "continuation_token",
            "agent_content",
            "instructions",
            "ready_steps",
            "expires_at",
        ],
    );
    assert_eq!(
        (&current["current_step"], &current["step_status"]),
        (&json!("design"), &json!("running"))
    );
    assert_eq!(current["continuation_token"], first["new_token"]);
    assert_eq!(current["agent_content"], first["agent_content"]);
    next(&mut server, &first["new_token"], "done");

    let status = server.read(&address("workflow_status", "exec_001"));
    has(
        &status,
        &[
            "execution_id",
            "workflow_name",
            "state",
            "current_step",
            "started_at",
            "updated_at",
            "completed_at",
            "duration_ms",
            "steps",
            "revision",
        ],
    );
    assert_eq!(
        status["steps"],
        json!({ "total": 3, "completed": 1, "failed": 0, "running": 1, "pending": 1, "skipped": 0 })
    );
    assert!(status["completed_at"].is_null() && status["duration_ms"].is_null());
    let started = status["started_at"].as_str().unwrap();
    assert!(started.len() == 24 && started.ends_with('Z'), "{started}");

    let history = server.read(&address("step_history", "exec_001"));
    assert_eq!(history.as_array().unwrap().len(), 2);
    has(
        &history[0],
        &[
            "step_name",
            "agent_name",
            "status",
            "started_at",
            "completed_at",
            "duration_ms",
            "output",
        ],
    );
    assert_eq!(
        (&history[0]["status"], &history[0]["output"]["summary"]),
        (&json!("completed"), &json!("done"))
    );
    assert_eq!(
        (&history[1]["status"], &history[1]["output"]),
        (&json!("running"), &Value::Null)
    );

    let details = server.read("midex://workflow/workflow_details/feature-development");
    has(
        &details,
        &[
            "name",
            "description",
            "content",
            "tags",
            "complexity",
            "phases",
        ],
    );
}

#[test]
fn telemetry_tells_what_happened_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let mut step = start(&mut server, "exec_001");
    for (name, _) in STEPS {
        step = next(&mut server, &step["new_token"], name);
    }
    start(&mut server, "other");
    let told = server.read(&address("telemetry", "exec_001"));
    let told = told.as_array().unwrap();
    let types: Vec<_> = told
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    let between = [
        "token_validated",
        "step_completed",
        "step_started",
        "token_generated",
    ];
    let mut expected = vec![
        "workflow_created",
        "workflow_state_transition",
        "workflow_started",
        "step_started",
        "token_generated",
    ];
    expected.extend(between);
    expected.extend(between);
    expected.extend([
        "token_validated",
        "step_completed",
        "workflow_state_transition",
        "workflow_completed",
    ]);
    assert_eq!(types, expected);
    let ids: Vec<_> = told
        .iter()
        .map(|event| event["id"].as_u64().unwrap())
        .collect();
    assert!(ids.is_sorted() && ids.iter().collect::<HashSet<_>>().len() == ids.len());
    has(
        &told[0],
        &[
            "id",
            "event_type",
            "execution_id",
            "step_name",
            "agent_name",
            "metadata",
            "created_at",
        ],
    );
    assert_eq!(
        told[0]["metadata"],
        json!({ "workflow_name": "feature-development" })
    );
    assert_eq!(told[4]["metadata"], json!({ "step_name": "design" }));
    assert_eq!(
        told.last().unwrap()["metadata"],
        json!({ "total_steps": 3 })
    );

    let uri = format!(
        "{}?event_type=step_completed&limit=2",
        address("telemetry", "exec_001")
    );
    let some = server.read(&uri);
    let steps: Vec<_> = some
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["step_name"])
        .collect();
    assert_eq!(
        steps,
        [&json!("implement"), &json!("review")],
        "the latest two, oldest first"
    );
    let all = server.read("midex://workflow/telemetry?event_type=workflow_created");
    assert_eq!(all.as_array().unwrap().len(), 2);
    for bad in [
        "?event_type=nonsense",
        "?limit=0",
        "?limit=x",
        "?limit=1001",
        "?other=1",
    ] {
        let error = server.read_error(&format!("midex://workflow/telemetry{bad}"));
        assert_eq!(
            error["data"]["error_code"], "ARGUMENTS_INVALID",
            "{bad}: {error}"
        );
    }
}

#[test]
fn every_refusal_of_a_token_has_its_own_code() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(dir.path(), &["--token-ttl", "1s"]);
    let first = start(&mut server, "exec_001");
    let token = first["new_token"].as_str().unwrap().to_owned();
    let mut refused = |token: &str| {
        server.refused(
            "workflow.next_step",
            json!({ "token": token, "output": output("x") }),
        )
    };
    let malformed = refused("garbage");
    assert_eq!(
        (&malformed["error_code"], &malformed["error"]),
        (
            &json!("TOKEN_MALFORMED"),
            &json!("Invalid or malformed token")
        )
    );
    assert_eq!(
        (&malformed["execution_id"], &malformed["workflow_state"]),
        (&json!(""), &json!("failed"))
    );
    has(
        &malformed,
        &[
            "success",
            "error",
            "error_code",
            "category",
            "message",
            "context",
            "retryable",
            "suggested_action",
            "correlation_id",
        ],
    );
    let change = |from: &str, to: &str| {
        use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as base64url};
        let text = String::from_utf8(base64url.decode(&token).unwrap()).unwrap();
        assert!(text.contains(from), "{text}");
        base64url.encode(text.replace(from, to))
    };
    assert_eq!(
        refused(&change("exec_001", "exec_002"))["error_code"],
        "EXECUTION_NOT_FOUND"
    );
    let foreign = refused(&change("design", "review"));
    assert_eq!(foreign["error_code"], "TOKEN_MISMATCH");
    assert_eq!(
        (&foreign["execution_id"], &foreign["workflow_state"]),
        (&json!("exec_001"), &json!("running"))
    );
    assert_eq!(
        refused(&change("\"issued_at\":\"20", "\"issued_at\":\"21"))["error_code"],
        "TOKEN_FROM_FUTURE"
    );
    assert_eq!(
        refused(&token[..token.len() - 8])["error_code"],
        "TOKEN_MALFORMED"
    );
    outlive_a_second();
    let expired = refused(&token);
    assert_eq!(expired["error_code"], "TOKEN_EXPIRED");
    assert!(
        expired["error"]
            .as_str()
            .unwrap()
            .starts_with("Token expired (issued "),
        "{expired}"
    );
    assert!(
        expired["suggested_action"]
            .as_str()
            .unwrap()
            .contains("midex://workflow/current_step/exec_001")
    );
    let status = server.read(&address("workflow_status", "exec_001"));
    assert_eq!(status["revision"], 1, "no refusal changed anything");
}

#[test]
fn a_repeated_call_gets_the_recorded_answer_and_another_output_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let answer = next(&mut server, &first["new_token"], "done");
    let mut again = next(&mut server, &first["new_token"], "done");
    assert_eq!(again["replayed"], true);
    again.as_object_mut().unwrap().remove("replayed");
    assert_eq!(again, answer);
    let other = json!({ "token": first["new_token"], "output": output("something else") });
    let refused = server.refused("workflow.next_step", other);
    assert_eq!(refused["error_code"], "TOKEN_ALREADY_USED");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("running, at 'implement'"),
        "{refused}"
    );
    assert_eq!(
        start_again(&mut server, "feature-development")["error_code"],
        "EXECUTION_ID_TAKEN"
    );
}

fn start_again(server: &mut Server, workflow: &str) -> Value {
    server.refused(
        "workflow.start",
        json!({ "workflow_name": workflow, "execution_id": "exec_001" }),
    )
}

#[test]
fn outputs_and_arguments_are_checked_and_all_violations_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let bad =
        json!({ "token": first["new_token"], "output": { "artifacts": "x", "findings": [1] } });
    let refused = server.refused("workflow.next_step", bad);
    assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID");
    let paths: Vec<_> = refused["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 3, "{refused}");
    assert!(paths.contains(&"/artifacts") && paths.contains(&"/findings/0") && paths.contains(&""));
    assert_eq!(
        (&refused["step_id"], &refused["execution_id"]),
        (&json!("design"), &json!("exec_001"))
    );
    let cases = [
        ("workflow.start", json!({}), 1),
        (
            "workflow.start",
            json!({ "workflow_name": 1, "inputs": [], "more": 1 }),
            3,
        ),
        ("workflow.next_step", json!({ "output": 1, "other": 2 }), 2),
        ("workflow.next_step", json!({ "token": "x" }), 1),
        (
            "workflow.next_step",
            json!({ "token": "x", "output": 1, "error": { "message": "m" } }),
            1,
        ),
        (
            "workflow.next_step",
            json!({ "token": "x", "error": { "retryable": "no" } }),
            2,
        ),
    ];
    for (tool, arguments, count) in cases {
        let refused = server.refused(tool, arguments);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
        assert_eq!(
            refused["violations"].as_array().unwrap().len(),
            count,
            "{refused}"
        );
    }
    next(&mut server, &first["new_token"], "the token is still valid");
}

#[test]
fn a_step_that_could_not_be_done_is_reported_with_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let report = json!({ "token": first["new_token"], "error": { "message": "no access", "code": "NO_ACCESS" } });
    let failed = server.done("workflow.next_step", report);
    assert_eq!(
        (&failed["success"], &failed["workflow_state"]),
        (&json!(true), &json!("failed"))
    );
    assert_eq!(
        failed["failure"],
        json!({ "code": "NO_ACCESS", "message": "no access", "step_name": "design" })
    );
    let status = server.read(&address("workflow_status", "exec_001"));
    assert_eq!(
        (&status["state"], &status["error"]["code"]),
        (&json!("failed"), &json!("NO_ACCESS"))
    );
}

#[test]
fn both_spellings_of_a_tool_are_accepted_and_unknown_things_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let listed = server.request("tools/list", json!({}));
    let names: Vec<_> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(
        names,
        [
            "workflow.start",
            "workflow.next_step",
            "execution.list",
            "execution.resume",
            "execution.pause",
            "execution.abandon",
            "execution.diverge",
            "execution.fail",
            "execution.wait",
        ]
    );
    server.done("workflow_start", json!({ "workflow_name": "bug-fix" }));
    let unknown = server.request(
        "tools/call",
        json!({ "name": "workflow.begin", "arguments": {} }),
    );
    assert_eq!(
        (
            &unknown["error"]["code"],
            &unknown["error"]["data"]["error_code"]
        ),
        (&json!(-32602), &json!("TOOL_NOT_FOUND"))
    );
    let missing = server.refused("workflow.start", json!({ "workflow_name": "no-such" }));
    assert_eq!(missing["error_code"], "WORKFLOW_NOT_FOUND");
    for uri in [
        "midex://workflow/nonsense",
        "midex://other/x",
        "file:///etc/passwd",
        "midex://workflow/current_step",
        "midex://workflow/current_step/a%ff",
    ] {
        let error = server.read_error(uri);
        assert_eq!(
            (&error["code"], &error["data"]["error_code"]),
            (&json!(-32002), &json!("RESOURCE_NOT_FOUND")),
            "{uri}"
        );
    }
    for resource in [
        "current_step",
        "workflow_status",
        "step_history",
        "telemetry",
    ] {
        let error = server.read_error(&address(resource, "nobody"));
        assert_eq!(
            (&error["code"], &error["data"]["error_code"]),
            (&json!(-32002), &json!("EXECUTION_NOT_FOUND")),
            "{resource}"
        );
    }
    let templates = server.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].to_string();
    assert!(
        templates.contains("midex://workflow/current_step/{execution_id}"),
        "{templates}"
    );
    assert!(
        templates.contains("midex://workflow/telemetry/{execution_id}{?event_type,limit}"),
        "{templates}"
    );
}

#[test]
fn ids_with_spaces_slashes_and_unicode_work_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    for id in [
        "a b/c",
        "../../etc/passwd",
        "ключ 鍵?#%",
        "x".repeat(200).as_str(),
    ] {
        let first = start(&mut server, id);
        let current = server.read(&address("current_step", id));
        assert_eq!(
            (&current["execution_id"], &current["continuation_token"]),
            (&json!(id), &first["new_token"])
        );
        next(&mut server, &first["new_token"], "done");
        assert_eq!(
            server
                .read(&address("step_history", id))
                .as_array()
                .unwrap()
                .len(),
            2
        );
    }
    for id in ["", " ", "a\nb", "x".repeat(201).as_str()] {
        let refused = server.refused(
            "workflow.start",
            json!({ "workflow_name": "bug-fix", "execution_id": id }),
        );
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{id:?}");
        assert_eq!(
            refused["violations"][0]["path"], "/execution_id",
            "{refused}"
        );
        assert!(
            !refused["suggested_action"].as_str().unwrap().contains('{'),
            "{refused}"
        );
    }
}

#[test]
fn four_thousand_calls_written_before_a_reply_is_read_are_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn(dir.path(), &[]);
    let client = json!({ "name": "test", "version": "0" });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let mut waiting = HashSet::from([server.post("initialize", hello)]);
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for n in 0..4000 {
        let arguments = json!({ "workflow_name": "bug-fix", "execution_id": format!("e{n}") });
        let call = json!({ "name": "workflow.start", "arguments": arguments });
        waiting.insert(server.post("tools/call", call));
    }
    // Nothing has been read until here.
    while !waiting.is_empty() {
        let answer = server.next_line();
        assert!(
            answer["result"]["isError"] != true && answer["error"].is_null(),
            "{answer}"
        );
        assert!(waiting.remove(&answer["id"].as_u64().unwrap()));
    }
}

#[test]
fn one_token_used_a_thousand_times_at_once_is_answered_a_thousand_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let call = json!({ "name": "workflow.next_step", "arguments": { "token": first["new_token"], "output": output("x") } });
    for _ in 0..1000 {
        server.post("tools/call", call.clone());
    }
    let mut fresh = 0;
    let mut answers = HashSet::new();
    for _ in 0..1000 {
        let mut answer = server.next_line()["result"]["structuredContent"].clone();
        fresh += u32::from(answer.as_object_mut().unwrap().remove("replayed").is_none());
        answers.insert(answer.to_string());
    }
    assert_eq!((fresh, answers.len()), (1, 1), "one transition, one answer");
    assert_eq!(
        server.read(&address("workflow_status", "exec_001"))["revision"],
        2
    );
}

#[test]
fn a_killed_server_is_followed_by_one_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let inputs = json!({ "task": "a dark mode" });
    let arguments = json!({ "workflow_name": "bug-fix", "execution_id": "e", "inputs": inputs });
    let first = server.done("workflow.start", arguments);
    let second = next(&mut server, &first["new_token"], "found it");
    server.kill();
    let mut server = Server::start(dir.path());
    let current = server.read(&address("current_step", "e"));
    assert_eq!(
        (&current["continuation_token"], &current["inputs"]),
        (&second["new_token"], &inputs)
    );
    assert_eq!(
        next(&mut server, &first["new_token"], "found it")["replayed"],
        true,
        "the old answer survives too"
    );
    let third = next(&mut server, &second["new_token"], "fixed it");
    assert_eq!(third["step_name"], "verify");
}

#[test]
fn a_second_server_answers_handshake_and_lists_and_takes_over_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = Server::start(dir.path());
    let first = start(&mut one, "e");
    let mut two = Server::start(dir.path());
    let tools = |server: &mut Server| server.request("tools/list", json!({}))["result"].clone();
    assert_eq!(tools(&mut two), tools(&mut one));
    assert!(
        two.read("midex://workflow/available_workflows")
            .as_array()
            .unwrap()
            .len()
            >= 2
    );
    let call = json!({ "token": first["new_token"], "output": output("x") });
    let busy = two.refused("workflow.next_step", call.clone());
    assert_eq!(
        (&busy["error_code"], &busy["retryable"]),
        (&json!("STORE_BUSY"), &json!(true))
    );
    assert_eq!(
        two.read_error(&address("current_step", "e"))["data"]["error_code"],
        "STORE_BUSY"
    );
    let (status, ..) = one.close();
    assert!(status.success());
    #[expect(clippy::disallowed_methods, reason = "waits for a real process")]
    let start = std::time::Instant::now();
    loop {
        let answer = two.call("workflow.next_step", call.clone());
        if answer["isError"] == false {
            break;
        }
        assert_eq!(answer["structuredContent"]["error_code"], "STORE_BUSY");
        assert!(start.elapsed() < PATIENCE);
        pause();
    }
}

/// An end comes within a second of the end of input: the two waits that it consists of say so. A machine
/// that is busy with other things may take longer to run them.
const A_BUSY_MACHINES_SECOND: Duration = Duration::from_secs(10);

#[test]
fn the_waits_at_the_end_of_input_add_up_to_less_than_a_second() {
    assert!(midex::limits::EOF_GRACE + midex::limits::EOF_CLOSE_MAX <= Duration::from_millis(900));
}

#[test]
fn the_server_ends_with_its_input_and_pending_replies_leave_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    for n in 0..20 {
        let arguments = json!({ "workflow_name": "bug-fix", "execution_id": format!("e{n}") });
        server.post(
            "tools/call",
            json!({ "name": "workflow.start", "arguments": arguments }),
        );
    }
    let (status, took, lines) = server.close();
    assert!(status.success());
    assert!(took < A_BUSY_MACHINES_SECOND, "{took:?}");
    assert_eq!(lines.len(), 20, "every line on stdout is an answer");
    assert!(
        lines
            .iter()
            .all(|line| serde_json::from_str::<Value>(line).unwrap()["result"]["isError"] == false)
    );
    let (status, took, lines) = Server::start(dir.path()).close();
    assert!(status.success() && took < A_BUSY_MACHINES_SECOND && lines.is_empty());
    let (status, _, lines) = Server::spawn(dir.path(), &[]).close();
    assert!(
        status.success() && lines.is_empty(),
        "an end before the handshake is no failure"
    );
}

fn terminate(process_id: u32) {
    let process = rustix::process::Pid::from_raw(i32::try_from(process_id).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn a_signal_ends_the_server_in_order_while_its_input_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "e");
    terminate(server.process_id());
    assert_eq!(server.wait().code(), Some(0));
    let mut server = Server::start(dir.path());
    next(&mut server, &first["new_token"], "still there");
}

#[test]
fn a_signal_ends_a_server_whose_streams_are_sockets() {
    use std::{
        io::{BufRead, BufReader, Write},
        os::{fd::OwnedFd, unix::net::UnixStream},
        process::Command,
    };
    let dir = tempfile::tempdir().unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    let output = OwnedFd::from(far.try_clone().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_midex"))
        .args(["serve", "--data-dir"])
        .arg(dir.path())
        .stdin(OwnedFd::from(far))
        .stdout(output)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    near.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .unwrap();
    let mut line = String::new();
    BufReader::new(near.try_clone().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
    terminate(child.id());
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn parallel_steps_come_with_all_that_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let file = "workflow: audit\ndescription: x\nsteps:\n\
        - { id: a, agent: reviewer, depends_on: [] }\n\
        - { id: b, agent: reviewer, depends_on: [] }\n\
        - { id: c, agent: architect, depends_on: [], instructions: Look closely. }\n\
        - { id: d, agent: architect, depends_on: [a, b, c], result: { type: integer } }\n";
    std::fs::write(dir.path().join("audit.yaml"), file).unwrap();
    let flags = ["--workflows", dir.path().to_str().unwrap()];
    let mut server = Server::start_with(&dir.path().join("data"), &flags);
    let first = server.done(
        "workflow.start",
        json!({ "workflow_name": "audit", "execution_id": "e" }),
    );
    let offers = first["new_tokens"].as_array().unwrap();
    assert_eq!(offers.len(), 3);
    let shown: Vec<_> = offers
        .iter()
        .map(|offer| offer["agent_content"].is_string())
        .collect();
    assert_eq!(
        shown,
        [false, false, true],
        "each persona once: the first one's is agent_content of the reply"
    );
    assert!(
        offers[2]["instructions"]
            .as_str()
            .unwrap()
            .contains("Look closely.")
    );
    let current = server.read(&address("current_step", "e"));
    assert!(
        current["ready_steps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|step| step["agent_content"].is_string())
    );
    let one = next(&mut server, &offers[1]["continuation_token"], "b");
    assert_eq!(
        (
            &one["new_token"],
            one["open_steps"].as_array().unwrap().len()
        ),
        (&Value::Null, 2)
    );
    next(&mut server, &offers[0]["continuation_token"], "a");
    let last = next(&mut server, &offers[2]["continuation_token"], "c");
    assert_eq!(
        (&last["step_name"], &last["output_schema"]),
        (&json!("d"), &json!({ "type": "integer" }))
    );
    let refused = server.refused(
        "workflow.next_step",
        json!({ "token": last["new_token"], "output": output("x") }),
    );
    assert_eq!(refused["violations"][0]["rule"], "type");
    let end = server.done(
        "workflow.next_step",
        json!({ "token": last["new_token"], "output": 7 }),
    );
    assert_eq!(end["workflow_state"], "completed");
}

#[test]
fn an_execution_keeps_the_definition_it_started_with() {
    let dir = tempfile::tempdir().unwrap();
    let (workflows, agents) = (dir.path().join("workflows"), dir.path().join("agents"));
    std::fs::create_dir(&workflows).unwrap();
    std::fs::create_dir(&agents).unwrap();
    let workflow = |second: &str| {
        let text = format!(
            "workflow: mine\ndescription: x\nsteps:\n- {{ id: a, agent: me }}\n- {{ id: {second}, agent: me }}\n"
        );
        std::fs::write(workflows.join("mine.yaml"), text).unwrap();
    };
    let agent = |persona: &str| {
        let text = format!("---\nname: me\ndescription: x\n---\n{persona}\n");
        std::fs::write(agents.join("me.md"), text).unwrap();
    };
    let data = dir.path().join("data");
    let flags = [
        "--workflows",
        workflows.to_str().unwrap(),
        "--agents",
        agents.to_str().unwrap(),
    ];
    workflow("b");
    agent("The first persona");
    let mut server = Server::start_with(&data, &flags);
    let first = server.done(
        "workflow.start",
        json!({ "workflow_name": "mine", "execution_id": "e" }),
    );
    server.kill();
    workflow("other");
    agent("The second persona");
    let mut server = Server::start_with(&data, &flags);
    let second = next(&mut server, &first["new_token"], "done");
    assert_eq!(
        (&second["step_name"], &second["agent_content"]),
        (&json!("b"), &first["agent_content"])
    );
    let fresh = server.done(
        "workflow.start",
        json!({ "workflow_name": "mine", "execution_id": "f" }),
    );
    assert!(
        fresh["agent_content"]
            .as_str()
            .unwrap()
            .contains("The second persona")
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "the life of a token in a real process"
)]
fn outlive_a_second() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two looks at a real process"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn the_stateless_era_is_served_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn(dir.path(), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" }
    });
    let discovered = server.request("server/discover", json!({ "_meta": meta }));
    assert!(
        discovered["result"]["supportedVersions"]
            .to_string()
            .contains("2026-07-28"),
        "{discovered}"
    );
    let arguments = json!({ "workflow_name": "bug-fix", "execution_id": "e" });
    let call = json!({ "_meta": meta, "name": "workflow.start", "arguments": arguments });
    let started = server.request("tools/call", call);
    assert_eq!(
        started["result"]["structuredContent"]["step_name"],
        "diagnose"
    );
    let read = json!({ "_meta": meta, "uri": address("workflow_status", "e") });
    assert!(server.request("resources/read", read)["result"]["contents"].is_array());
    let unknown = json!({ "_meta": meta, "uri": address("workflow_status", "nobody") });
    assert_eq!(
        server.request("resources/read", unknown)["error"]["code"],
        -32602
    );
}

#[test]
fn a_start_without_an_id_gets_one_that_sorts_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let mut ids = Vec::new();
    for _ in 0..3 {
        let first = server.done("workflow.start", json!({ "workflow_name": "bug-fix" }));
        ids.push(first["execution_id"].as_str().unwrap().to_owned());
        // Ids carry the time in milliseconds; within one they are in no order.
        pause();
    }
    assert!(
        ids.is_sorted() && ids.iter().all(|id| id.starts_with("exec_")),
        "{ids:?}"
    );
}
