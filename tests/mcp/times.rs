//! One format for all times.

use serde_json::{Value, json};

use midex_test::{
    Client, Server, address, output,
    project::{eventually, line, list, outlive, payload, text},
};

/// Every time in a value: fields whose names end in `_at`, wherever they lie.
fn times(value: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| times(item, at, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = format!("{at}.{name}");
                times(value, &at, found);
                if name.ends_with("_at") {
                    found.push((at, value.clone()));
                }
            }
        }
        _ => {}
    }
}

/// Whether it is `2026-01-31T23:59:59.999Z`.
fn is_time(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:dd.dddZ";
    let fits = |(form, found): (char, char)| match form {
        'd' => found.is_ascii_digit(),
        other => other == found,
    };
    text.len() == form.len() && form.chars().zip(text.chars()).all(fits)
}

/// Checks all times of a value, of which there must be some.
#[track_caller]
fn check(what: &str, value: &Value) {
    let mut found = Vec::new();
    times(value, what, &mut found);
    assert!(found.iter().any(|(_, time)| time.is_string()), "{what} shows no time: {value}");
    for (at, time) in found {
        assert!(time.is_null() || time.as_str().is_some_and(is_time), "{at} is {time}");
    }
}

/// Executions in several states, with artifacts, an expired token and refusals; what was answered.
fn populate(server: &mut Server) -> Vec<Value> {
    let mut replies = Vec::new();
    for verb in ["pause", "abandon", "diverge", "fail"] {
        replies.push(server.begin("line", verb));
        replies.push(server.change(verb, verb));
    }
    let first = server.begin("line", "late");
    outlive(&first["expires_at"]);
    server.refuse(&first["new_token"], output("s"));
    replies.push(first);
    replies.push(server.begin("line", "some"));
    let artifact = json!({ "type": "data", "name": "n", "content": "c", "metadata": { "v": 1 } });
    for output in [json!({ "summary": "s", "artifacts": [artifact] }), output("s")] {
        // With tokens that live for a second, a busy machine may need another.
        replies.push(eventually("a token is used in time", || {
            let token = server.current("some")["continuation_token"].clone();
            let call = json!({ "token": token, "output": output });
            let answer = server.call("workflow.next_step", call);
            (answer["isError"] == false).then(|| answer["structuredContent"].clone())
        }));
    }
    replies
}

/// Fault F17 of the study: some times were `YYYY-MM-DD HH:MM:SS`, others ISO with milliseconds.
#[test]
fn f17_every_time_everywhere_is_iso_8601_with_milliseconds_and_z() {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    for reply in populate(&mut server) {
        check("a reply", &reply);
        if reply["new_token"].is_string() {
            assert!(is_time(text(&payload(&reply["new_token"])["issued_at"])));
        }
    }
    for id in ["pause", "abandon", "diverge", "fail", "late", "some"] {
        for resource in ["workflow_status", "step_history", "telemetry"] {
            check(resource, &server.read(&address(resource, id)));
        }
        let current = server.current(id);
        if current["current_step"].is_string() {
            check("current_step", &current);
        }
    }
    check("workflow_artifacts", &server.read(&address("workflow_artifacts", "some")));
    check("of a step", &server.read(&(address("workflow_artifacts", "some") + "/a")));
    check("artifact", &server.read(&(address("artifact", "some") + "/1")));
    check("telemetry", &server.read("midex://workflow/telemetry?limit=1000"));
    let wait = json!({ "execution_id": "late", "timeout_s": 0 });
    check("execution.wait", &server.done("execution.wait", wait));
}

/// The same, where executions are listed.
#[test]
fn every_time_in_lists_of_executions_is_of_that_format_too() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "e");
    let first = server.begin("line", "f");
    server.finish(&first["new_token"], "s");
    check("execution.list", &server.done("execution.list", json!({})));
    check("execution.resume", &server.done("execution.resume", json!({})));
    let executions = server.read("midex://workflow/executions");
    assert_eq!(list(&executions["executions"]).len(), 2);
    check("executions", &executions);
}
