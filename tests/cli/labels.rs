//! Labels: of a start, and of a workflow.

use serde_json::{Value, json};

use super::Place;
use midex_test::{Client, Fields, Server, Shows, Words, project::text};

const LABELED: &str = "workflow: labeled\ndescription: d
labels: { team: red, build: 7, ratio: 1.50, urgent: true, answer: yes }
steps: [{ id: a, guidance: Do it. }]
";

fn place() -> Place {
    let place = Place::new();
    place.manifest(LABELED);
    place
}

/// The labels of an execution, as a list shows them.
fn labels(place: &Place, id: &str) -> Value {
    let rows = place.rows("list executions");
    let row = rows.as_array().unwrap().iter().find(|row| row["execution_id"] == id);
    row.unwrap_or_else(|| panic!("{id} is not in {rows}"))["labels"].clone()
}

/// A server in the project of the place.
fn serve(place: &Place) -> Server {
    let mut command = place.command("serve");
    command.stdin(std::process::Stdio::piped());
    Server::greeted(command)
}

/// So many labels.
fn many(count: usize) -> String {
    let flags: Vec<_> = (0..count).map(|at| format!(" --label n{at}=x")).collect();
    flags.concat()
}

#[test]
fn a_start_adds_labels_to_those_of_its_workflow_and_wins() {
    let place = place();
    place.with_stdin("run labeled --id plain", "");
    let own =
        json!({ "answer": "yes", "build": "7", "ratio": "1.50", "team": "red", "urgent": "true" });
    assert_eq!(labels(&place, "plain"), own);
    place.with_stdin("run labeled --id more --label pr=12 --label 'team=blue green'", "");
    let mut expected = own.clone();
    (expected["pr"], expected["team"]) = (json!("12"), json!("blue green"));
    assert_eq!(labels(&place, "more"), expected);
    place.with_stdin("run bug-fix --id empty --label a.b/c-d_e=", "");
    assert_eq!(labels(&place, "empty"), json!({ "a.b/c-d_e": "" }));
    place.with_stdin("run bug-fix --id none", "");
    assert_eq!(labels(&place, "none"), Value::Null);
    place.done("show plain").shows("labels…answer=yes, build=7, ratio=1.50, team=red, urgent=true");
    assert!(!place.done("show none").contains("labels"));
    // Labels that are given again must be those that it has.
    let again = place.with_stdin("run labeled --id plain --label build=7", "");
    assert!(!again.err.contains("EXECUTION_ID_TAKEN"), "{again:?}");
    let other = place.with_stdin("run labeled --id plain --label build=8", "");
    other.says("error[EXECUTION_ID_TAKEN]: execution 'plain' was started with other labels…Choose another --id");
}

#[test]
fn tools_start_and_run_with_labels() {
    let place = place();
    let mut server = serve(&place);
    let start = json!({ "workflow_name": "labeled", "execution_id": "one", "labels": { "pr": "12", "team": "blue" } });
    server.done("workflow.start", start.clone());
    labels(&place, "one").has_fields(json!({ "pr": "12", "team": "blue", "build": "7" }));
    // A repeat is the same start with the same labels only.
    assert_eq!(server.done("workflow.start", start.clone())["execution_id"], "one");
    let mut other = start;
    other["labels"]["pr"] = json!("13");
    let refused = server.refused("workflow.start", other);
    refused.has_fields(json!({ "error_code": "EXECUTION_ID_TAKEN" }));
    let run = json!({ "workflow_id": "labeled", "labels": { "pr": "14" } });
    let run = server.done("workflow.run", run);
    labels(&place, text(&run["execution_id"])).has_fields(json!({ "pr": "14", "team": "red" }));
    for (labels, words) in [
        (json!({ "a b": "1" }), "`a b` cannot be the name of a label"),
        (json!({ "": "1" }), "`` cannot be the name of a label"),
        (json!({ "n".repeat(64): "1" }), "at most 63"),
        (json!({ "a": "v".repeat(257) }), "at most 256 bytes"),
        (json!({ "a": "two\nlines" }), "on one line"),
        (json!({ "a": 1 }), "/labels/a"),
        (json!(["a"]), "/labels"),
    ] {
        for tool in ["workflow.start", "workflow.run"] {
            let name = if tool == "workflow.run" { "workflow_id" } else { "workflow_name" };
            let refused = server.refused(tool, json!({ (name): "labeled", "labels": labels }));
            refused.has_fields(json!({ "error_code": "ARGUMENTS_INVALID" }));
            refused.to_string().shows(&[words]);
        }
    }
    let longest = json!({ "n".repeat(63): "v".repeat(256) });
    server.done("workflow.start", json!({ "workflow_name": "labeled", "labels": longest }));
}

#[test]
fn an_execution_has_at_most_sixteen_labels_with_those_of_its_workflow() {
    let place = place();
    place.with_stdin("run bug-fix --id full".and(&many(16)), "").ends(1);
    assert_eq!(labels(&place, "full").as_object().map(serde_json::Map::len), Some(16));
    let ran = place.with_stdin("run bug-fix --id past".and(&many(17)), "").ends(1);
    ran.says("error[ARGUMENTS_INVALID]: 17 labels…at most 16");
    place.with_stdin("run labeled --id full-too".and(&many(11)), "").ends(1);
    assert_eq!(labels(&place, "full-too").as_object().map(serde_json::Map::len), Some(16));
    let ran = place.with_stdin("run labeled --id past".and(&many(12)), "").ends(1);
    ran.says("error[ARGUMENTS_INVALID]: 17 labels, with those of the workflow");
    place.ends(1, "show past").says("EXECUTION_NOT_FOUND");
}

#[test]
fn flags_that_are_no_labels_are_refused_before_anything_starts() {
    let place = place();
    for (label, words) in [
        ("pr", "a label is NAME=VALUE, as pr=123"),
        ("=1", "`` cannot be the name of a label"),
        ("'a b=1'", "`a b` cannot be the name of a label"),
    ] {
        for command in ["run labeled --id one --label", "list executions --label"] {
            place.ends(2, command.and(label)).says(&["invalid value", words]);
        }
    }
    for command in ["run labeled --id one", "list executions"] {
        let ran = place.ends(2, command.and("--label pr=1 --label pr=2"));
        ran.says("error[USAGE_INVALID]: the label `pr` is given twice…help: Give each name once");
    }
    place.ends(1, "show one").says("EXECUTION_NOT_FOUND");
}

#[test]
fn forks_and_retries_keep_the_labels() {
    let place = place();
    let failure = r#"{"step_name":"a","error":"cannot be done"}"#;
    place.with_stdin("run labeled --id one --label pr=12 --label team=blue", failure).ends(1);
    let expected = labels(&place, "one");
    expected.has_fields(json!({ "pr": "12", "team": "blue", "urgent": "true" }));
    place.done("retry one");
    let newest = place.rows("list executions")[0].take();
    assert_ne!(newest["execution_id"], "one");
    assert_eq!(newest["labels"], expected);
    place.done("fork one --from a --id fork");
    assert_eq!(labels(&place, "fork"), expected);
}

#[test]
fn labels_of_a_manifest_that_break_their_rules_are_findings_with_their_place() {
    let place = Place::new();
    let lines = ["'bad name': 1", "list: [1]", "nothing: null", "good: 1", "long: "];
    let long = "x".repeat(257);
    let text = format!("  {}\n", lines.join("\n  "));
    let text = text.replace("long: ", &format!("long: {long}"));
    let manifest = |labels: &str| {
        format!(
            "workflow: bad\ndescription: d\nlabels:\n{labels}steps: [{{ id: a, guidance: x }}]\n"
        )
    };
    place.file("bad.yaml", &manifest(&text));
    let shown = place.ends(1, "validate bad.yaml").out;
    shown.shows(
        &["error[ill_formed_name]: `bad name` cannot be the name of a label…"]
            .map(|part| part.trim_end_matches('…')),
    );
    shown.shows("bad.yaml:4:3…bad.yaml:5:…bad.yaml:6:3…bad.yaml:8:3");
    shown.shows("error[wrong_type]: `list` must be a text, a number, `true` or `false`");
    shown.shows("error[wrong_type]: the label `nothing` has no value");
    shown.shows("error[ill_formed_name]: the value of the label `long` has at most 256 bytes");
    shown.shows("1 file, 4 findings");
    let entries = |count: usize| {
        let lines: Vec<_> = (0..count).map(|at| format!("  n{at}: 1\n")).collect();
        lines.concat()
    };
    place.file("bad.yaml", &manifest(&entries(16)));
    place.done("validate bad.yaml");
    place.file("bad.yaml", &manifest(&entries(17)));
    place
        .ends(1, "validate bad.yaml")
        .shows("error[limit_exceeded]: there are 17 `labels`, the limit is 16");
}
