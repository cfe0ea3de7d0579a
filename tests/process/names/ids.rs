//! An id may hold spaces, slashes and whatever people write: it works on every surface, and so does every address that
//! midex gives for it.

use std::{path::Path, process::Command};

use midex_domain::uri::encode_segment;
use serde_json::{Value, json};

use midex_test::{Client, Fields, Server, address, output, serve_alone};

const IDS: [&str; 9] = [
    "release 1.2 / hotfix",
    "a/b/c",
    "../../etc/passwd",
    "ключ 鍵 🗝",
    "\u{202e}right to left",
    "100% of #1? a=b&c",
    "%2F%20",
    "-- --json",
    "\"quoted\" 'and' {braced} \\ back",
];

const ONE_STEP: &str = "workflow: short\ndescription: x\nsteps:\n- { id: only, agent: reviewer }\n- { id: last, agent: reviewer }\n";

/// A command in the same project; it must succeed and print JSON.
fn midex(home: &Path, args: &[&str]) -> Value {
    let mut command = Command::new(midex_test::binary());
    command
        .args(["--json", "--data-dir"])
        .arg(home.join("data"))
        .args(args)
        .current_dir(home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("RUST_LOG");
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {said}");
    let shown = String::from_utf8(ran.stdout).unwrap();
    let rows = shown.lines().map(serde_json::from_str);
    match args {
        ["list", ..] => rows.collect::<Result<_, _>>().map(Value::Array),
        _ => serde_json::from_str(&shown),
    }
    .unwrap()
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("workflows")).unwrap();
    std::fs::write(home.path().join("workflows/short.yaml"), ONE_STEP).unwrap();
    home
}

fn start(server: &mut Server, id: &str) -> Value {
    server.begin("short", id)
}

fn next(server: &mut Server, token: &Value) -> Value {
    let artifacts = json!([{ "type": "report", "name": "a / b?", "content": "the content" }]);
    let output = json!({ "summary": "done", "artifacts": artifacts });
    server.hand_in(token, &output)
}

fn completions(server: &mut Server, path: &str, name: &str, begun: &str, id: &str) -> Value {
    let reference = json!({ "type": "ref/resource", "uri": format!("midex://workflow/{path}") });
    let params = json!({
        "ref": reference, "argument": { "name": name, "value": begun }, "context": { "arguments": { "execution_id": id } }
    });
    server.request("completion/complete", params)["result"]["completion"]["values"].clone()
}

fn ids(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["execution_id"].as_str().unwrap()).collect()
}

#[test]
fn every_resource_has_them() {
    let home = home();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let longest = "x".repeat(200);
    for id in IDS.into_iter().chain([longest.as_str()]) {
        let first = start(&mut server, id);
        next(&mut server, &first["new_token"]);
        for kind in ["current_step", "workflow_status"] {
            assert_eq!(server.read(&address(kind, id))["execution_id"], id, "{kind}");
        }
        assert_eq!(server.history(id).len(), 2);
        let told = server.read(&address("telemetry", id));
        assert!(told.as_array().unwrap().len() > 8 && ids(&told).iter().all(|told| *told == id));
        let all = server.read(&address("workflow_artifacts", id));
        assert_eq!(all, server.read(&format!("{}/only", address("workflow_artifacts", id))));
        assert_eq!(server.read(&format!("{}/last", address("workflow_artifacts", id))), json!([]));
        // By the address that it gives itself, by its id and by its name.
        let given = all[0]["uri"].as_str().unwrap().to_owned();
        let by_name = format!("{}/{}", address("artifact", id), encode_segment("a / b?"));
        for uri in [given, format!("{}/1", address("artifact", id)), by_name] {
            assert_eq!(server.read(&uri)["content"], "the content", "{uri}");
        }
    }
}

#[test]
fn every_list_has_them() {
    let home = home();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    for id in IDS {
        start(&mut server, id);
    }
    let mut expected: Vec<_> = IDS.to_vec();
    expected.reverse();
    let listed = server.read("midex://workflow/executions?state=open&workflow=short&limit=200");
    assert_eq!(ids(&listed["executions"]), expected, "the one that moved last first");
    let listed = server.done("execution.list", json!({ "state": "running" }));
    assert_eq!(ids(&listed["executions"]), expected);
    // A page ends between any two of them.
    let mut seen = Vec::new();
    let mut uri = "midex://workflow/executions?limit=2".to_owned();
    loop {
        let listed = server.read(&uri);
        seen.extend(ids(&listed["executions"]).into_iter().map(str::to_owned));
        let Some(cursor) = listed["next_cursor"].as_str() else {
            break;
        };
        uri = format!("midex://workflow/executions?limit=2&cursor={}", encode_segment(cursor));
    }
    assert_eq!(seen, expected);
}

#[test]
fn every_completion_has_them() {
    let home = home();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    for id in IDS {
        let first = start(&mut server, id);
        next(&mut server, &first["new_token"]);
    }
    let all = ["current_step", "workflow_status", "step_history", "workflow_artifacts"]
        .map(|kind| format!("{kind}/{{execution_id}}"));
    let queried = "telemetry/{execution_id}{?event_type,limit}".to_owned();
    for template in all.into_iter().chain([queried]) {
        for id in IDS {
            let begun: String = id.chars().take(3).collect();
            let values = completions(&mut server, &template, "execution_id", &begun, "");
            assert!(values.as_array().unwrap().contains(&json!(id)), "{template} {id}: {values}");
        }
    }
    for id in IDS {
        let steps = completions(
            &mut server,
            "workflow_artifacts/{execution_id}/{step_name}",
            "step_name",
            "o",
            id,
        );
        assert_eq!(steps, json!(["only"]), "{id}");
        let artifacts = completions(
            &mut server,
            "artifact/{execution_id}/{artifact}{?offset,limit}",
            "artifact",
            "",
            id,
        );
        assert!(artifacts.as_array().unwrap().contains(&json!("1")), "{id}: {artifacts}");
    }
}

/// The addresses of midex in a text.
fn addresses(text: &str) -> Vec<String> {
    let ends = |c: char| c.is_whitespace() || ",;`'\"".contains(c);
    let starts = text.match_indices("midex://").map(|(at, _)| &text[at..]);
    starts.map(|rest| rest.split(ends).next().unwrap().trim_end_matches('.').to_owned()).collect()
}

/// What is said of an execution that is paused and goes on again.
fn paused_and_resumed(server: &mut Server, id: &str, finish: &Value) {
    let named = json!({ "execution_id": id });
    assert_eq!(server.done("execution.pause", named.clone())["execution_id"], id);
    let paused = server.refused("workflow.next_step", finish.clone());
    let twice = server.refused("execution.pause", named.clone());
    for (refused, code) in [(&paused, "EXECUTION_PAUSED"), (&twice, "STATE_TRANSITION_REFUSED")] {
        refused.has_fields(json!({ "error_code": code, "execution_id": id }));
    }
    // Outside an address an id stands as it is, but for its quotes.
    let said = format!("execution_id '{}'", id.replace('\'', "''"));
    for told in [&paused["suggested_action"], &twice["suggested_action"]] {
        let told = told.as_str().unwrap();
        assert!(told.contains(&said), "{told}");
    }
    let told = server.done("execution.resume", json!({}));
    // Where it is the only one, it is told of alone.
    let open = match &told["open_executions"][0] {
        Value::Null => &told,
        first => first,
    };
    open.has_fields(json!({ "execution_id": id, "state": "paused" }));
    assert!(told["message"].as_str().unwrap().contains(&said), "{told}");
    assert_eq!(server.done("execution.resume", named)["state"], "running");
}

/// What is said of one whose first step is finished.
fn finished_and_repeated(server: &mut Server, id: &str, finish: &Value) -> Vec<Value> {
    let next = server.next_step(finish.clone());
    next.has_fields(json!({ "execution_id": id, "step_name": "last" }));
    let other = json!({ "token": finish["token"], "output": output("y") });
    let other = server.refused("workflow.next_step", other);
    assert_eq!(other["error_code"], "TOKEN_ALREADY_USED");
    let again = json!({ "workflow_name": "short", "execution_id": id });
    let again = server.refused("workflow.start", again);
    assert_eq!(again["error_code"], "EXECUTION_ID_TAKEN");
    let waited = json!({ "execution_id": id, "since_revision": 1, "timeout_s": 0 });
    assert_eq!(server.done("execution.wait", waited)["execution_id"], id);
    vec![
        next["instructions"].clone(),
        other["suggested_action"].clone(),
        again["suggested_action"].clone(),
    ]
}

#[test]
fn every_tool_has_them_and_every_address_it_names_can_be_read() {
    let home = home();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    for id in IDS {
        let token = start(&mut server, id)["new_token"].clone();
        let finish = json!({ "token": token, "output": output("x") });
        paused_and_resumed(&mut server, id, &finish);
        for text in finished_and_repeated(&mut server, id, &finish) {
            let named = addresses(text.as_str().unwrap());
            assert!(!named.is_empty(), "{text}");
            // What still has a variable in it is a template.
            for uri in named.iter().filter(|uri| !uri.contains('{')) {
                server.read(uri);
            }
        }
        let ended = server.done("execution.abandon", json!({ "execution_id": id }));
        ended.has_fields(json!({ "state": "abandoned", "execution_id": id }));
    }
}

#[test]
fn every_command_has_them_beside_a_server_and_without_one() {
    let home = home();
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let tokens = IDS.map(|id| start(&mut server, id)["new_token"].clone());
    drop(midex_test::door::Door::knock(&home.path().join("data")));
    let listed = midex(home.path(), &["list", "executions"]);
    let mut expected = IDS.to_vec();
    expected.reverse();
    assert_eq!(ids(&listed), expected);
    for id in IDS {
        let paused = midex(home.path(), &["pause", &format!("--reason={id}"), "--", id]);
        paused.has_fields(json!({ "execution_id": id, "state": "paused", "reason": id }));
        let status = server.status(id);
        status.has_fields(json!({ "state": "paused", "revision": 2 }));
    }
    let (exit, ..) = server.close();
    assert!(exit.success());
    for id in IDS {
        let resumed = midex(home.path(), &["resume", "--", id]);
        resumed.has_fields(json!({ "execution_id": id, "revision": 3 }));
    }
    let told = midex(home.path(), &["resume"]);
    let told_of = ids(&told["open_executions"]);
    assert_eq!(told_of.len() + usize::try_from(told["more"].as_u64().unwrap()).unwrap(), IDS.len());
    assert_eq!(told_of[..], expected[..told_of.len()]);
    let abandoned = midex(home.path(), &["abandon", "--", IDS[0]]);
    abandoned.has_fields(json!({ "execution_id": IDS[0], "state": "abandoned" }));
    assert_eq!(ids(&midex(home.path(), &["list", "executions", "--state", "abandoned"])), [IDS[0]]);
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    for (id, token) in IDS.into_iter().zip(tokens).skip(1) {
        let next = next(&mut server, &token);
        next.has_fields(json!({ "execution_id": id, "step_name": "last" }));
    }
}
