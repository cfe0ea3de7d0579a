//! What a model is told with each step.

use serde_json::{Map, Value, json};

use midex_test::{
    Client, Fields, Server, Shows, address,
    client::offers,
    output,
    project::{PERSONA, line, list, text, workflow},
    says,
};

/// Fault F13 of the study: `progress` was always `unknown`.
#[test]
fn f13_progress_counts_the_steps() {
    let project = line();
    let mut server = project.serve();
    let mut reply = server.begin("line", "e");
    for progress in ["1/3", "2/3", "3/3"] {
        assert_eq!(reply["progress"], progress);
        let current = server.current("e");
        assert_eq!(current["progress"], progress);
        reply = server.finish(&reply["new_token"], progress);
    }
    assert_eq!(reply["workflow_state"], "completed");
    assert_eq!(server.current("e")["progress"], Value::Null);
}

/// Fault F22 of the study: the next step was told neither what it is for nor what was decided before.
#[test]
fn f22_each_step_is_told_what_it_is_for_and_what_was_decided_before() {
    let project = line();
    let mut server = project.serve();
    let first = server.begin("line", "e");
    assert_eq!(first["description"], "Do a");
    let decided = json!({ "summary": "We take Rust", "findings": ["it is quick"], "next_step_recommendation": "begin" });
    let second = server.hand_in(&first["new_token"], decided.clone());
    second.has_fields(json!({ "agent_name": "worker", "description": "Do b" }));
    let previous = json!([{ "step_name": "a", "agent_name": "worker", "output": decided }]);
    assert_eq!(second["previous"], previous);
    let current = server.current("e");
    assert_eq!(current["previous"], previous);
    current.has_fields(json!({ "description": "Do b", "instructions": second["instructions"] }));
    let ready = list(&current["ready_steps"]);
    assert_eq!(ready.len(), 1);
    ready[0].has_fields(
        json!({ "step_name": "b", "agent_name": "worker", "instructions": null, "previous": null }),
    );
}

/// Fault F22 of the study, the other way round: what was decided before must not flood the model either.
#[test]
fn f22_what_was_decided_before_is_shortened_to_eight_kib_and_whole_in_the_history() {
    let phases: [(&str, &str, &[&str]); 3] =
        [("a", "worker", &[]), ("b", "worker", &[]), ("c", "worker", &["a", "b"])];
    let project = line();
    project.write("workflows/joined.md", &workflow("joined", &phases));
    let mut server = project.serve();
    let steps = offers(&server.begin("joined", "e"));
    let long = output(&"a long story, ".repeat(10_000));
    server.hand_in(&steps[0].1, long.clone());
    let reply = server.finish(&steps[1].1, "in short");
    for shown in [&reply["previous"], &server.current("e")["previous"]] {
        assert!(shown.to_string().len() <= 8 << 10, "{} bytes", shown.to_string().len());
        let shown = list(shown);
        assert_eq!(shown[0]["truncated"], true);
        assert!(text(&shown[0]["output"]["summary"]).starts_with("a long story, a long"));
        assert_eq!(shown[1]["output"]["summary"], "in short", "what is short stays whole");
    }
    assert_eq!(server.history("e")[0]["output"], long);
}

fn personas(reply: &Value) -> usize {
    let persona = json!(PERSONA).to_string();
    reply.to_string().matches(persona.trim_matches('"')).count()
}

/// Fault F23 of the study: a persona was sent with each answer, whether the client had it or not.
#[test]
fn f23_a_persona_comes_once_in_a_reply_and_not_at_all_to_who_knows_it() {
    let phases: [(&str, &str, &[&str]); 4] = [
        ("a", "worker", &[]),
        ("b", "worker", &[]),
        ("c", "worker", &[]),
        ("d", "reviewer", &["a"]),
    ];
    let project = line();
    project.write("workflows/wide.md", &workflow("wide", &phases));
    let mut server = project.serve();
    let first = server.begin("wide", "e");
    assert_eq!((offers(&first).len(), personas(&first)), (3, 1));
    let start = json!({ "workflow_name": "wide", "execution_id": "f", "known_agents": ["worker"] });
    let known = server.begin_with(start);
    assert_eq!((offers(&known).len(), personas(&known)), (3, 0));
    assert_eq!((&known["agent_name"], known["new_token"].is_string()), (&json!("worker"), true));
    let resumed = json!({ "execution_id": "f", "known_agents": ["worker"] });
    for reply in [&known, &server.done("execution.resume", resumed)] {
        let words = reply["instructions"].as_str().unwrap();
        words.shows("Act as worker, as you know it.");
        words.lacks("agent_uri");
    }
    // Who knows one agent is told of another.
    let mut call =
        json!({ "token": known["new_token"], "output": output("s"), "known_agents": ["worker"] });
    let reviewed = server.next_step(call.clone());
    assert_eq!(
        (&reviewed["agent_name"], reviewed["agent_content"].is_string()),
        (&json!("reviewer"), true)
    );
    // The same call again is the same call, whoever is known by then.
    call["known_agents"] = json!(["worker", "reviewer"]);
    let again = server.next_step(call);
    assert_eq!((&again["replayed"], again.get("agent_content")), (&json!(true), None));
    assert_eq!(personas(&server.read(&address("step_history", "f"))), 0);
}

#[test]
fn a_project_is_the_root_of_an_existing_directory() {
    let home = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(other.path().join(".git")).unwrap();
    std::fs::create_dir_all(other.path().join("src")).unwrap();
    let root = other.path().canonicalize().unwrap().display().to_string();
    let mut server = Server::start(home.path());
    for (id, project) in
        [("a", root.clone()), ("b", format!("{root}/")), ("c", root.clone() + "/src")]
    {
        let start = json!({ "workflow_name": "bug-fix", "execution_id": id, "project": project });
        server.done("workflow.start", start);
        for listed in [&root, &project] {
            let page = server.done("execution.list", json!({ "project": listed, "limit": 1 }));
            assert_eq!(page["executions"][0]["execution_id"], id, "{listed}");
        }
    }
    std::fs::write(other.path().join("file"), "").unwrap();
    for project in ["src", "/does/not/exist", "*", &format!("{root}/file")] {
        let start = json!({ "workflow_name": "bug-fix", "project": project });
        let refused = server.refused("workflow.start", start);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
        says(&refused["error"], "is not the absolute path of a directory");
        says(&refused["suggested_action"], "leave `project` out");
    }
}

#[test]
fn a_page_of_executions_with_long_labels_fits_into_an_answer() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path());
    let labels: Map<_, _> =
        (0..16).map(|at| (format!("label-{at}"), json!("x".repeat(128)))).collect();
    for number in 0..30 {
        let id = format!("e{number}");
        let start = json!({ "workflow_name": "bug-fix", "execution_id": id, "labels": labels });
        server.done("workflow.start", start);
    }
    let (mut cursor, mut count) = (Value::Null, 0);
    loop {
        let mut arguments = json!({ "limit": 50 });
        if cursor.is_string() {
            arguments["cursor"] = cursor;
        }
        let page = server.done("execution.list", arguments);
        let length = page.to_string().len();
        assert!(length <= 25_000, "{length}");
        count += page["executions"].as_array().unwrap().len();
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(count, 30);
}
