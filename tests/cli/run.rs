//! `midex run`.

use serde_json::json;

use super::{OUTPUTS, Place, Words, lines};
use midex_test::{Client, Shows, says, table};

#[test]
fn a_workflow_runs_from_a_file_of_outputs() {
    let place = Place::new();
    let file = place.file("outputs.jsonl", OUTPUTS);
    let inputs = place.file("inputs.json", r#"{"task":"the 29th of February"}"#);
    let inputs = format!("@{inputs}");
    let ran =
        place.midex(&["run", "bug-fix", "--outputs", &file, "--inputs", &inputs]).ends_quietly(0);
    ran.shows(&[
        "Started bug-fix as exec_",
        "the 29th of February",
        "[1/3] diagnose (debugger)\n  Reproduce",
        "persona (--persona shows it): You find out why",
        "output: the cause",
        "[2/3] fix (implementer)\n  ",
        "before, diagnose: the cause",
        "[3/3] verify (reviewer)\n  ",
        "completed: ",
        "3 of 3",
        "summary: it is gone",
    ]);
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    let shown = place.json("show");
    assert_eq!(shown["status"]["state"], "completed");
    assert_eq!(shown["history"][1]["output"]["findings"], json!(["one"]));
}

#[test]
fn beside_a_server_it_is_the_server_that_runs_it() {
    let place = Place::new();
    let mut server = place.listening();
    let file = place.file("outputs.jsonl", OUTPUTS);
    place.done(&["run", "bug-fix", "--id", "both", "--outputs", &file]);
    let status = server.status("both");
    assert_eq!(status["state"], "completed");
    // The command's project, not that of the server.
    assert_eq!(status["project"], place.project().to_str().unwrap());
    assert_ne!(std::env::current_dir().unwrap(), place.project());
}

#[test]
fn lines_come_from_standard_input_and_an_execution_goes_on_where_it_stood() {
    let place = Place::new();
    let run = ["run", "bug-fix", "--id", "my id", "--inputs", r#"{"task":"1"}"#];
    let ran = place.with_stdin(&run, "\n{\"summary\":\"the cause\"}\n").ends(1);
    ran.shows("standard input has ended…midex run bug-fix --id 'my id'");
    // Other inputs are another execution; the same are not.
    let other = ["run", "bug-fix", "--id", "my id", "--inputs", r#"{"task":"2"}"#];
    let other = place.with_stdin(&other, OUTPUTS).ends(1);
    other.says("EXECUTION_ID_TAKEN…other inputs");
    let other = place.with_stdin("run code-review --id 'my id'", OUTPUTS).ends(1);
    other.says("EXECUTION_ID_TAKEN…'bug-fix'");
    let ran = place.with_stdin(&run, "{\"summary\":\"2\"}\n{\"summary\":\"3\"}\n").ends(0);
    ran.shows("Going on with my id of bug-fix, 1 of 3…[2/3] fix");
    assert!(!ran.out.contains("[1/3]"), "{}", ran.out);
    // One that has ended is only shown. Without a workflow there was nothing to continue.
    place.with_stdin(&run, "").ends(0);
    place.with_stdin("run --id 'my id'", "").ends(1).shows("has ended");
    assert_eq!(place.json("show 'my id'")["history"].as_array().unwrap().len(), 3);
}

#[test]
fn a_line_that_is_no_json_stops_it_where_it_is() {
    let place = Place::new();
    let ran = place.run(1, "x", "{\"summary\":\"the cause\"}\nnonsense\n");
    ran.says("standard input:2: not JSON");
    ran.shows("midex run bug-fix --id x");
    assert_eq!(place.json("show x")["status"]["current_step"], "fix");
}

#[test]
fn replies_are_lines_of_json_and_a_script_can_answer_them() {
    let place = Place::new();
    let ran = place.with_stdin("run bug-fix --json", OUTPUTS).ends_quietly(0);
    let replies = lines(&ran.out);
    let names: Vec<_> = replies.iter().map(|reply| reply["step_name"].as_str()).collect();
    assert_eq!(names, [Some("diagnose"), Some("fix"), Some("verify"), None]);
    says(&replies[0]["agent_content"], "# Debugger");
    assert_eq!(replies[3]["workflow_state"], "completed");
    // A refusal is JSON too, and not among the replies.
    let ran = place.with_stdin("run bug-fix --json --id y", "{\"summary\":7}\n");
    assert_eq!((ran.code, lines(&ran.out).len()), (Some(1), 1));
    let refusal = ran.err.lines().next().unwrap();
    assert_eq!(lines(refusal)[0]["error_code"], "STEP_OUTPUT_INVALID");
    // One that goes on begins with where it stands.
    let ran = place.with_stdin("run bug-fix --json --id y", OUTPUTS).ends(0);
    assert_eq!(lines(&ran.out)[0]["current_step"], "diagnose");
}

#[test]
fn outputs_that_name_their_step_find_it_whatever_their_order() {
    let place = Place::new();
    place.workflow("wide", &[("a", &[]), ("b", &[]), ("c", &[]), ("end", &["a", "b", "c"])]);
    let file = place.file(
        "outputs.jsonl",
        r#"{"step_name":"end","output":{"summary":"of end"}}
{"step_name":"c","output":{"summary":"of c"}}
{"summary":"of the first that is left"}
{"step_name":"a","output":{"summary":"of a"}}
{"step_name":"end","output":{"summary":"too many"}}
"#,
    );
    let ran = place.ends(0, &["run", "wide", "--id", "w", "--outputs", &file]);
    ran.says("not used…outputs.jsonl:5");
    assert_eq!(ran.out.matches("--persona").count(), 1, "{}", ran.out);
    let history = place.history("w");
    let told: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["step_name"].as_str().unwrap(), row["output"]["summary"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [("a", "of a"), ("b", "of the first that is left"), ("c", "of c"), ("end", "of end")]
    );
}

#[test]
fn a_failure_that_is_reported_fails_the_workflow() {
    let place = Place::new();
    let line =
        r#"{"step_name":"diagnose","error":{"message":"cannot be reproduced","code":"NO_RECIPE"}}"#;
    let file = place.file("outputs.jsonl", line);
    let ran = place.ends(1, &["run", "bug-fix", "--id", "f", "--outputs", &file]);
    ran.shows("error: cannot be reproduced…failed: step 'diagnose'");
    let status = place.json("show f")["status"].clone();
    assert_eq!(status["error"]["code"], "NO_RECIPE");
    // It is over: nothing goes on.
    let ran = place.ends(1, &["run", "bug-fix", "--id", "f", "--outputs", &file]);
    assert!(!ran.out.contains("To go on"), "{}", ran.out);
}

#[test]
fn a_refused_output_is_explained_and_the_execution_can_go_on() {
    let place = Place::new();
    let bad = place.file("bad.jsonl", r#"{"findings":"none","artifacts":7}"#);
    let ran = place.ends(1, &["run", "bug-fix", "--id", "r", "--outputs", &bad]);
    ran.says(&[
        "STEP_OUTPUT_INVALID",
        "summary",
        "/findings: ",
        "/artifacts: ",
        "help: Run `midex run bug-fix --id r`: correct every violation of the output\n",
    ]);
    ran.shows("To go on: midex run bug-fix --id r");
    let good = place.file("good.jsonl", OUTPUTS);
    let command = ["run", "bug-fix", "--id", "r", "--outputs", &good];
    place.ends(0, &command);
}

/// What follows `midex run`, the code that it ends with, and what it says.
const WRONG: &str = "
    bug-fix --outputs missing.jsonl | 2 | missing.jsonl cannot be read
    bug-fix --outputs broken.jsonl | 2 | broken.jsonl:3: not JSON
    bug-fix --outputs both.jsonl | 2 | both.jsonl:1: `output` and `error`
    bug-fix --outputs name.jsonl | 2 | name.jsonl:1: workflow 'bug-fix' has no step 'diagnoze'; did you mean `diagnose`?
    bug-fix --outputs huge.jsonl | 1 | huge.jsonl is too long
    bug-fix --inputs nonsense | 2 | --inputs: not JSON
    bug-fix --inputs [1] | 2 | --inputs: not a JSON object
    bug-fix --inputs @missing.json | 2 | missing.json cannot be read
    bug-fix --editor | 2 | neither VISUAL nor EDITOR
    no-such-workflow | 1 | WORKFLOW_NOT_FOUND
    bug-fix --id ' ' | 2 | the id of the execution is empty
    bug-fix --output empty.txt | 2 | `empty.txt` is empty
     | 2 | no workflow is named
";

#[test]
fn what_is_wrong_with_the_arguments_is_found_before_anything_is_started() {
    let place = Place::new();
    place.file("broken.jsonl", "{\"summary\":\"x\"}\n\n{\"summary\":\n");
    place.file("both.jsonl", r#"{"step_name":"fix","output":1,"error":"x"}"#);
    place.file("name.jsonl", r#"{"step_name":"diagnoze","output":1}"#);
    place.file("empty.txt", "\n");
    let huge = place.project().join("huge.jsonl");
    let limit = midex_domain::limits::OUTPUTS_FILE_BYTES_MAX as u64;
    std::fs::File::create(&huge).unwrap().set_len(limit + 1).unwrap();
    for [args, code, message] in table(WRONG) {
        let ran = place.midex("run".and(&args));
        assert_eq!(ran.code, Some(code.parse().unwrap()), "{args:?}: {ran:?}");
        ran.says(&message);
        assert_eq!(ran.out, "", "{args:?}");
    }
    assert_eq!(place.rows("list executions"), json!([]));
}

#[test]
fn standard_input_has_its_limits() {
    let place = Place::new();
    let long = "x".repeat(midex_domain::limits::FRAME_BYTES_MAX + 1);
    let ran = place.run(1, "x", &long);
    ran.says("LIMIT_EXCEEDED…standard input:1 is too long");
    let early = "{\"step_name\":\"verify\",\"output\":1}\n";
    let most = early.repeat(midex_domain::limits::OUTPUTS_WAITING_MAX);
    let ran = place.with_stdin("run bug-fix --id x", &most);
    ran.shows("standard input has ended");
    let ran = place.run(1, "x", &(most + early));
    ran.says("LIMIT_EXCEEDED…not open");
}

/// Runs with a shell script as the editor.
fn edited(place: &Place, script: &str, args: impl Words) -> super::Ran {
    let mut command = place.command("run".and(args).and("--editor"));
    let path = place.project().join("editor.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    command.env("EDITOR", format!("sh '{}' --flag", path.display()));
    super::Running::start(command).end()
}

#[test]
fn outputs_are_written_in_an_editor() {
    let place = Place::new();
    // Text above what is there, JSON in its place, text at its end.
    let script = r##"
        test "$1" = --flag || exit 9
        # While somebody writes, others can have the store.
        flock -n ../data/executions.lock true || exit 8
        cp "$2" "seen-$(wc -l < count 2>/dev/null || echo 0)"; echo >> count
        case "$(wc -l < count)" in
            *1) { echo "# Title"; echo "the cause"; cat "$2"; } > new; cat new > "$2";;
            *2) echo '{"summary":"the remedy","findings":["one"]}' > "$2";;
            *3) echo "it is gone" >> "$2";;
        esac
        echo this must not be on stdout"##;
    let ran = edited(&place, script, "bug-fix --id e --json").ends(0);
    assert_eq!(lines(&ran.out).len(), 4);
    let history = place.history("e");
    let summaries: Vec<_> = (0..3).map(|at| &history[at]["output"]["summary"]).collect();
    assert_eq!(summaries, ["# Title\nthe cause", "the remedy", "it is gone"]);
    let seen = std::fs::read_to_string(place.project().join("seen-1")).unwrap();
    seen.shows("# [2/3] fix (implementer)…# # Implementer…# diagnose: {\"summary\"");
}

#[test]
fn an_editor_that_leaves_nothing_stops_it_and_one_that_fails_does_too() {
    let place = Place::new();
    let ran = edited(&place, "true", "bug-fix --id e").ends_quietly(1);
    ran.shows("midex run bug-fix --id e");
    let ran = edited(&place, "exit 3", "bug-fix --id e").ends(2);
    ran.says("exit status: 3");
    assert_eq!(place.json("show e")["status"]["current_step"], "diagnose");
}

#[test]
fn an_editor_is_opened_again_with_what_was_wrong() {
    let place = Place::new();
    // Wrong JSON first, then an output that is refused, then a good one.
    let script = r#"
        if grep -q 'not JSON' "$2"; then echo '{"summary":7}' > "$2"
        elif grep -q '/summary: ' "$2"; then grep -q '^{"summary":7}' "$2" && echo good > "$2"
        elif grep -q 'fix (impl' "$2"; then : > "$2"
        else echo '{nonsense' > "$2"; fi"#;
    edited(&place, script, "bug-fix --id e").ends(1);
    let shown = place.json("show e");
    assert_eq!(shown["history"][0]["output"]["summary"], "good");
    // The same text again would be refused again.
    let ran = edited(&place, r#"echo '{"summary":7}' > "$2""#, "bug-fix --id e").ends(1);
    ran.says("STEP_OUTPUT_INVALID…/summary: ");
}

#[test]
fn a_token_that_expires_while_somebody_writes_is_no_obstacle() {
    let place = Place::new();
    let ran = edited(
        &place,
        r#"grep -q 'diagnose (' "$2" && sleep 1.2 && echo late > "$2""#,
        "bug-fix --id e --token-ttl 1s",
    );
    // It stops at the second step, where nothing is written.
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let shown = place.json("show e");
    assert_eq!(shown["history"][0]["output"]["summary"], "late");
}

#[test]
fn a_paused_execution_says_how_to_go_on() {
    let place = Place::new();
    place.begun("p");
    place.done("pause p --reason lunch");
    let ran = place.run(1, "p", OUTPUTS);
    ran.shows("lunch…midex resume p…midex run bug-fix --id p");
    place.done("resume p");
    place.run(0, "p", OUTPUTS);
}

#[test]
fn the_way_to_go_on_names_a_data_directory_that_is_not_the_usual_one() {
    let place = Place::new();
    let elsewhere = place.dir.path().join("else where");
    let elsewhere = elsewhere.to_str().unwrap();
    let ran = place.ends(1, &["run", "bug-fix", "--id", "d", "--data-dir", elsewhere]);
    let command = format!("midex run bug-fix --id d --data-dir '{elsewhere}'");
    ran.shows(&[&command]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "measures a real process")]
fn the_steps_of_each_child_are_reached_at_once() {
    let place = Place::new();
    place.manifest(
        "{ workflow: kid, description: A child, steps: [{ id: a, guidance: Do it for a child }] }",
    );
    place.manifest(
        "workflow: kids
description: Children at once and one after another
steps:
  - { id: each, foreach: { in: [1, 2, 3], as: i, do: { workflow: kid } } }
  - { id: last, workflow: kid }
",
    );
    let summary = "{\"summary\": \"done\"}\n".repeat(4);
    let before = std::time::Instant::now();
    let ran = place.with_stdin("run kids --id k", &summary).ends(0);
    // Whoever waited for a child that has begun already would wait five seconds for each.
    assert!(before.elapsed() < std::time::Duration::from_secs(15), "{:?}", before.elapsed());
    assert_eq!(ran.out.matches("Do it for a child").count(), 4, "{}", ran.out);
}
