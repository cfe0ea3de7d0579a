//! "incomplete executions and resumption across sessions", "pagination"

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, output,
    project::{Project, each, eventually, line, list, outlive, text},
    says,
};

fn ids(server: &mut Server, arguments: Value) -> Vec<String> {
    each(&list(&server.done("execution.list", arguments)["executions"]), "execution_id")
}

/// Seven executions of two workflows in several states; they move in the order of their names.
fn several(server: &mut Server) {
    for id in ["e1", "e2", "e3", "e4", "e5"] {
        server.begin("line", id);
    }
    let first = server.begin("bug-fix", "e6");
    server.run_to_end(&first);
    server.begin("bug-fix", "e7");
    server.change("abandon", "e2");
    server.change("pause", "e4");
    let token = server.current("e3")["continuation_token"].clone();
    server.finish(&token, "s");
}

#[test]
fn executions_are_listed_by_last_movement_filtered_and_paged() {
    let project = line();
    let mut server = project.serve();
    several(&mut server);
    for restarted in [false, true] {
        if restarted {
            server.kill();
            server = project.serve();
        }
        let all = ["e3", "e4", "e2", "e7", "e6", "e5", "e1"];
        assert_eq!(ids(&mut server, json!({})), all, "restarted: {restarted}");
        assert_eq!(ids(&mut server, json!({ "state": "open" })), ["e3", "e4", "e7", "e5", "e1"]);
        assert_eq!(ids(&mut server, json!({ "state": "running" })), ["e3", "e7", "e5", "e1"]);
        assert_eq!(ids(&mut server, json!({ "state": "paused" })), ["e4"]);
        assert_eq!(ids(&mut server, json!({ "state": "completed" })), ["e6"]);
        assert_eq!(ids(&mut server, json!({ "state": "abandoned" })), ["e2"]);
        assert_eq!(ids(&mut server, json!({ "state": "idle" })), [""; 0]);
        assert_eq!(ids(&mut server, json!({ "workflow_name": "bug-fix" })), ["e7", "e6"]);
        assert_eq!(
            ids(&mut server, json!({ "workflow_name": "bug-fix", "state": "open" })),
            ["e7"]
        );
        assert_eq!(ids(&mut server, json!({ "project": "/elsewhere" })), [""; 0]);
        assert_eq!(ids(&mut server, json!({ "project": "*", "limit": 3 })), all[..3]);
        paged(&mut server, &all);
    }
    let row = server.done("execution.list", json!({ "limit": 1 }))["executions"][0].clone();
    let status = server.status("e3");
    for field in
        ["execution_id", "workflow_name", "state", "current_step", "started_at", "updated_at"]
    {
        assert_eq!(row[field], status[field], "{field}");
    }
}

/// Pages of every size, by the tool and by the resource, are the whole list.
fn paged(server: &mut Server, all: &[&str]) {
    for limit in 1..=all.len() {
        let (mut seen, mut cursor) = (Vec::new(), None);
        // A page may hold fewer than asked for, but there is an end to them.
        for _ in 0..50 {
            let page = page(server, limit, cursor.as_deref());
            let rows = list(&page["executions"]);
            assert!(rows.len() <= limit, "{page}");
            seen.extend(each(&rows, "execution_id"));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((seen, cursor), (all.iter().map(|id| (*id).to_owned()).collect(), None));
    }
}

fn page(server: &mut Server, limit: usize, cursor: Option<&str>) -> Value {
    let mut arguments = json!({ "limit": limit });
    let mut uri = format!("midex://workflow/executions?limit={limit}");
    if let Some(cursor) = cursor {
        arguments["cursor"] = json!(cursor);
        uri = format!("{uri}&cursor={}", midex_domain::uri::encode_segment(cursor));
    }
    let mut page = server.done("execution.list", arguments);
    page.as_object_mut().unwrap().remove("success");
    assert_eq!(server.read(&uri), page);
    page
}

#[test]
fn who_lost_the_thread_is_told_what_is_open_and_goes_on_from_it() {
    let project = line();
    let mut server = project.serve();
    several(&mut server);
    server.kill();
    let mut server = project.serve();
    let told = server.done("execution.resume", json!({}));
    let open = list(&told["open_executions"]);
    assert_eq!(each(&open, "execution_id"), ["e3", "e4", "e7", "e5", "e1"]);
    assert_eq!(each(&open, "state"), ["running", "paused", "running", "running", "running"]);
    let (e3, e4) = (&open[0], &open[1]);
    e3.has_fields(json!({ "done": "1/3", "workflow_name": "line" }));
    assert_eq!(
        (&e3["decided"][0]["step_name"], &e3["decided"][0]["output"]),
        (&json!("a"), &output("s"))
    );
    assert_eq!(e4["reason"], "to pause it");
    says(&told["message"], "'b' of 'e3'");
    for execution in open.iter().filter(|execution| execution["state"] == "running") {
        let step = &execution["current_steps"][0];
        let reply = server.finish(&step["continuation_token"], "s");
        assert_eq!(reply["execution_id"], execution["execution_id"]);
    }
    // It is the newest of this project, not of another.
    assert_eq!(
        server.done("execution.resume", json!({ "project": "/elsewhere" }))["open_executions"],
        json!([])
    );
}

#[test]
fn what_is_told_of_many_open_executions_is_short_and_its_tokens_live() {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    let long = "a long story, ".repeat(1000);
    for n in 0..40 {
        let first = server.begin("line", &format!("e{n}"));
        let call = json!({ "token": first["new_token"], "output": output(&long) });
        let answer = server.call("workflow.next_step", call);
        if n == 39 {
            let open = &answer["structuredContent"];
            outlive(if open["expires_at"].is_string() {
                &open["expires_at"]
            } else {
                &first["expires_at"]
            });
        }
    }
    let told = server.call("execution.resume", json!({}));
    // About 2,500 tokens of a model's, at three bytes or more for each.
    assert!(text(&told["content"][0]["text"]).len() <= 7500);
    let told = &told["structuredContent"];
    let shown = list(&told["open_executions"]).len();
    assert_eq!(told["more"], 40 - shown);
    assert!(shown >= 1);
    // All had expired. On a busy machine a second may pass before it is used.
    eventually("a token that was told lives", || {
        let told = server.done("execution.resume", json!({}));
        let token = told["open_executions"][0]["current_steps"][0]["continuation_token"].clone();
        let call = json!({ "token": token, "output": output("s") });
        (server.call("workflow.next_step", call)["isError"] == false).then_some(())
    });
}

#[test]
fn executions_of_one_project_are_not_listed_in_another() {
    let (one, other) = (line(), Project::new(&[]));
    let data = one.path("data");
    let flags = ["--data-dir", data.to_str().unwrap()];
    let mut server = one.serve_with(&flags);
    server.begin("line", "mine");
    assert!(server.close().0.success());
    let mut server = other.serve_with(&flags);
    server.begin("bug-fix", "theirs");
    assert_eq!(ids(&mut server, json!({})), ["theirs"]);
    assert_eq!(ids(&mut server, json!({ "project": "*" })), ["theirs", "mine"]);
    let root = one.root().canonicalize().unwrap();
    assert_eq!(ids(&mut server, json!({ "project": root })), ["mine"]);
    let told = server.done("execution.resume", json!({}));
    // The only one of this project is told of whole.
    told.has_fields(json!({ "execution_id": "theirs", "workflow_state": "running" }));
    assert!(text(&told["instructions"]).contains("workflow.next_step"));
    assert_eq!(server.current("mine")["current_step"], "a", "it filters, it never owns");
}
