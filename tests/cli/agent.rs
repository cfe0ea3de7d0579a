//! `midex run --agent CMD`: a command does the work of each step.

use rustix::process::{Pid, Signal};
use serde_json::json;

use super::{Place, Running, Words};
use midex_test::{Fields, Shows, door::until};

/// A project with a workflow of two steps and a script that does them.
fn place(script: &str) -> Place {
    let place = Place::new();
    place.manifest("workflow: w
description: Two steps
steps:
  - { id: count, guidance: Count the words, result: { type: object, properties: { words: { type: integer } }, required: [words] } }
  - { id: tell, guidance: 'Tell of ${{ steps.count.words }}' }
");
    place.file("agent.sh", script);
    place
}

/// The script does the steps of the execution `x`.
const RUN: &str = "run w --id x --agent 'sh ./agent.sh'";

fn run(place: &Place, more: impl Words) -> super::Ran {
    place.with_stdin(RUN.and(more), "")
}

#[test]
fn a_script_does_the_work_of_each_step() {
    let place = place(
        "task=$(cat); echo \"working on $MIDEX_STEP\" >&2
case \"$MIDEX_STEP\" in
  count) echo \"$task\" | grep -q 'Count the words' && printf 'I counted {three}.\\n```json\\n{\"words\": 3}\\n```\\n' ;;
  tell) echo \"$task\" | grep -q 'count: {\"words\":3}' && echo '{\"summary\": \"three words\"}' ;;
esac",
    );
    let ran = run(&place, "").ends(0);
    ran.err.shows("working on count…working on tell");
    ran.out.shows("[1/2] count…[2/2] tell…completed");
    let shown = place.json("show x");
    assert_eq!(shown["history"][0]["output"], json!({ "words": 3 }));
    assert_eq!(shown["history"][1]["output"]["summary"], "three words");
}

#[test]
fn the_task_has_what_the_execution_works_on_and_what_was_decided_before() {
    let place = place("cat > task-$MIDEX_STEP.txt; echo '{\"words\": 3, \"summary\": \"s\"}'");
    place.manifest(
        "workflow: w
description: Three steps, of which none names another
inputs: { topic: { type: string } }
steps:
  - { id: count, guidance: Count }
  - { id: tell, guidance: Tell }
  - { id: end, guidance: End }
",
    );
    run(&place, "--input topic=tea").ends(0);
    let task = std::fs::read_to_string(place.project().join("task-end.txt")).unwrap();
    task.shows("# Inputs of the workflow…\"topic\": \"tea\"…# Decided before…count: {…tell: {");
}

#[test]
fn a_command_that_cannot_be_run_leaves_its_step_open() {
    let place = place("");
    for (command, code) in [("no-such-command", 127), ("./agent.sh", 126)] {
        let ran = place.with_stdin("run w --id x --agent".and(command), "").ends(2);
        let ended = format!("ended with exit status: {code}");
        ran.err.shows(&[&ended, "the step is still open"]);
        assert_eq!(place.state("x"), "running");
    }
}

#[test]
fn the_task_may_be_json_and_holds_no_token() {
    let place = place("cat > task-$MIDEX_STEP.json; echo '{\"words\": 1, \"summary\": \"s\"}'");
    run(&place, "--agent-format json");
    let task = std::fs::read_to_string(place.project().join("task-count.json")).unwrap();
    let task: serde_json::Value = serde_json::from_str(&task).unwrap();
    task.has_fields(
        json!({ "step_name": "count", "instructions": "Count the words", "refused": null }),
    );
    assert_eq!(task["output_schema"]["required"], json!(["words"]));
    assert!(task.get("continuation_token").is_none(), "{task}");
}

#[test]
fn an_answer_that_cannot_be_handed_in_is_asked_again_with_the_reason_and_then_no_more() {
    let place = place(
        "echo run >> runs; if grep -q 'is not of type \\|could not be taken'; then echo '{\"words\": 2}'; else echo '{\"words\": \"two\"}'; fi",
    );
    // The second step never gets a summary: it is tried as often as that is allowed.
    let ran = run(&place, "").ends(1);
    ran.out.shows("To go on: midex run w --id x");
    let shown = place.json("show x");
    assert_eq!(shown["history"][0]["output"], json!({ "words": 2 }));
    let runs = std::fs::read_to_string(place.project().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 2 + 3, "{ran:?}");
}

#[test]
fn junk_is_not_handed_in() {
    let place = place("echo run >> runs; echo nothing of use");
    let ran = run(&place, "").ends(1);
    ran.err.shows("printed no JSON value");
    let runs = std::fs::read_to_string(place.project().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 3);
    assert_eq!(place.state("x"), "running");
}

#[test]
fn a_command_that_fails_is_the_failure_of_the_step() {
    let place = place("echo 'no credit left' >&2; exit 1");
    run(&place, "").ends(1);
    let status = place.json("show x")["status"].take();
    assert_eq!(status["state"], "failed");
    status["error"]["message"].as_str().unwrap().shows("exit status: 1: no credit left");
}

#[test]
fn a_command_that_hangs_is_killed_with_all_it_started_and_nothing_is_lost() {
    let place = place("trap '' TERM; sleep 1000 & echo $! > child; wait; wait; sleep 1000");
    let ran = run(&place, "--agent-timeout 1s").ends(1);
    ran.err.shows("did not end in 1.0 s…--agent-timeout");
    ran.out.shows("To go on: midex run w --id x");
    is_gone(&place, "child");
    assert_eq!(place.state("x"), "running");
}

/// Waits until the process that a file of the project names is gone.
fn is_gone(place: &Place, file: &str) {
    let pid = std::fs::read_to_string(place.project().join(file)).unwrap();
    until_gone(pid.trim());
}

/// Waits until a process is gone.
fn until_gone(pid: &str) {
    let path = format!("/proc/{pid}/stat");
    until("it is gone", || {
        // Nobody may have reaped it yet.
        let stat = std::fs::read_to_string(&path);
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

/// A run whose command wrote its number to `pid` and works on.
fn working(place: &Place) -> Running {
    let running = Running::start_piped(place.command(RUN));
    let pid = place.project().join("pid");
    until("it works", || {
        let pid = std::fs::read_to_string(&pid).unwrap_or_default();
        pid.ends_with('\n').then_some(())
    });
    running
}

/// What leads the process group of the command that works.
fn leader(place: &Place) -> Pid {
    let mut records = std::fs::read_dir(place.data.join("agents")).unwrap();
    let record = records.next().unwrap().unwrap().path();
    let pid = std::fs::read_to_string(record).unwrap().parse().unwrap();
    Pid::from_raw(pid).unwrap()
}

#[test]
fn a_killed_run_leaves_no_command_behind_whatever_that_does_with_signals() {
    for trap in ["", "trap '' TERM HUP INT;"] {
        let place =
            place(&format!("{trap} sleep 1000 & echo $! > below; echo $$ > pid; wait; sleep 1000"));
        let running = working(&place);
        let leader = leader(&place);
        running.signal(Signal::KILL);
        running.end();
        is_gone(&place, "pid");
        is_gone(&place, "below");
        // The leader ends last: it takes its record away once the command has ended.
        until_gone(&leader.as_raw_nonzero().to_string());
        let records = std::fs::read_dir(place.data.join("agents")).unwrap();
        assert_eq!(records.count(), 0);
        assert_eq!(place.state("x"), "running");
    }
}

#[test]
fn a_step_whose_command_still_runs_is_not_begun_again_until_somebody_says_so() {
    let place = place("echo $$ > pid; sleep 1000");
    let running = working(&place);
    let leader = leader(&place);
    let says = |ran: &super::Ran| {
        let group = format!("as process group {}", leader.as_raw_nonzero());
        ran.says(&[
            "STATE_TRANSITION_REFUSED",
            "the step 'count' still runs",
            &group,
            "--agent-again begins the step again",
        ]);
    };
    // Beside a run that is still there, and once both that run and what ends its command were killed.
    says(&run(&place, "").ends(75));
    running.signal(Signal::KILL);
    rustix::process::kill_process(leader, Signal::KILL).unwrap();
    running.end();
    until("it is orphaned", || rustix::process::test_kill_process(leader).is_err().then_some(()));
    says(&run(&place, "").ends(75));
    assert_eq!(place.state("x"), "running");
    place.file("agent.sh", "echo '{\"words\": 1, \"summary\": \"s\"}'");
    run(&place, "--agent-again").ends(0);
    rustix::process::kill_process_group(leader, Signal::KILL).unwrap();
    is_gone(&place, "pid");
}

#[test]
fn its_flags_go_together() {
    let place = place("");
    for (flags, said) in [
        ("--agent-format json", "--agent"),
        ("--agent x --editor", "cannot be used with"),
        ("--agent x --agent-timeout 0s", "from 1s to 24h"),
        ("--agent x --agent-timeout 25h", "from 1s to 24h"),
    ] {
        let ran = place.with_stdin("run w".and(flags), "").ends(2);
        ran.err.shows(&[said]);
    }
}
