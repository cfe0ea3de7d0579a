//! How a person names an execution: by an id, the beginning or a part of one, `@last`, `@last-failed`, or from a list.

use serde_json::json;

use super::Place;
use midex_test::{Client, Fields, Shows, project::Project, says, terminal::Terminal};

/// A place with two executions that begin alike, `release-one` and `release-two`, and a third one that failed, `other`.
fn place() -> Place {
    let place = Place::new();
    place.begun("release-one");
    place.begun("release-two");
    let failure = r#"{"step_name":"diagnose","error":"cannot be reproduced"}"#;
    place.run(1, "other", failure);
    place
}

#[test]
fn the_beginning_of_an_id_is_enough_wherever_one_is_asked() {
    let place = place();
    place.done("show release-o").shows("release-one  bug-fix");
    place.done("show o").shows("other  bug-fix");
    // A part from elsewhere too, once it is long enough.
    place.done("show -- -two").shows("release-two  bug-fix");
    place.ends(1, "show two").says("EXECUTION_NOT_FOUND");
    for (args, expected) in [
        ("pause release-o", "'release-one' is paused"),
        ("resume release-o", "'release-one' is running"),
        ("abandon release-o", "'release-one' is abandoned"),
    ] {
        place.done(args).shows(&[expected]);
    }
    let told = place.done("tail release-t --no-follow");
    told.shows("bug-fix begins");
    for args in ["signal release-t go", "resolve release-t fix --retry", "approve release-t"] {
        let ran = place.midex(args);
        (ran.out + &ran.err).shows("release-two");
    }
}

#[test]
fn an_id_counts_before_what_begins_with_it() {
    let place = Place::new();
    place.begun("a");
    place.begun("ab");
    place.done("show a").shows("a  bug-fix");
    // An agent may have called one so.
    let mut server = place.listening();
    server.begin("bug-fix", "@last");
    place.begun("b");
    place.done("show @last").shows("@last  bug-fix");
}

#[test]
fn a_run_goes_on_with_what_a_word_means_and_begins_nothing_of_that_name() {
    let place = Place::new();
    let ran = place.ends(1, "run bug-fix --id @last");
    ran.says("has no executions");
    place.begun("one");
    place.ends(1, "run bug-fix --id @las").says("no execution is called '@las'");
    let ran = place.with_stdin("run bug-fix --id @last", "");
    ran.out.shows("one");
    let rows = place.rows("list executions");
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
}

#[test]
fn what_fits_several_is_refused_with_their_names() {
    let place = place();
    let ran = place.ends(2, "abandon release");
    ran.says(&[
        "error[USAGE_INVALID]: 'release' fits several executions\n",
        "\n  release-two: bug-fix, running, fix\n",
        "\n  release-one: bug-fix, running, fix\n",
        "help: Type more of the id",
    ]);
    assert_eq!(place.state("release-one"), "running");
}

#[test]
fn the_last_one_has_a_word() {
    let place = place();
    place.done("show @last").shows("other  bug-fix");
    place.done("pause release-one");
    place.done("show @last").shows("release-one  bug-fix");
    place.done("show @last-failed").shows("other  bug-fix");
    let ran = place.ends(1, "show @lst");
    ran.says("no execution is called '@lst'…help: Type @last ");
    let empty = Place::new();
    for word in ["@last", "@last-failed"] {
        let ran = empty.ends(1, &["show", word]);
        ran.says("EXECUTION_NOT_FOUND…this project has no execution");
    }
    let ran = empty.ends(2, "show ''");
    ran.says("the id of the execution is empty");
}

#[test]
fn executions_of_other_projects_are_named_by_their_ids_alone() {
    let place = Place::new();
    let mut server = place.listening();
    server.begin("bug-fix", "elsewhere");
    let ran = place.ends(1, "show @last");
    ran.says("this project has no executions");
    place.done("show elsew").shows("elsewhere  bug-fix");
}

#[test]
fn where_nobody_can_be_asked_it_is_said_what_to_type() {
    let place = place();
    for command in ["pause", "abandon", "signal"] {
        let ran = place.ends(2, &[command]);
        ran.says(&[
            &format!("`midex {command}` needs an execution: its id or the beginning of it, @last or @last-failed"),
            "help: Run `midex list executions --state ",
            "and name one behind the command",
        ]);
    }
    place.ends(2, "resolve --retry").says("`midex resolve` needs an execution");
    place.ends(2, "signal release-one").says("waits for a signal…midex show release-one");
}

#[test]
fn a_terminal_is_asked_which_one() {
    let place = place();
    let mut terminal = place.terminal("pause");
    let shown = terminal.expect("Which execution? ");
    shown.shows("  1  release-two  bug-fix, running, fix…  2  release-one");
    assert!(!shown.contains("other"), "it has ended: {shown}");
    // Meanwhile nothing is held.
    place.done("show release-two").shows("running");
    terminal.type_line("release");
    terminal.answer("Several of them have that.", "nonsense");
    // A number of the list alone is meant by digits, whatever ids have them.
    terminal.answer("None of them is that.", "7");
    terminal.answer("The list goes from 1 to 2.", "2");
    terminal.ends(0).shows("'release-one' is paused");
    let mut terminal = place.terminal("abandon");
    terminal.answer("Which execution? ", "two");
    let asked = "Abandon 'release-two'? It cannot go on afterwards.";
    terminal.answer(asked, "no");
    terminal.ends(1).shows("Nothing was done.");
    let mut terminal = place.terminal("abandon");
    terminal.answer("Which execution? ", "two");
    terminal.answer(asked, "y");
    terminal.ends(0).shows("'release-two' is abandoned");
    let mut terminal = place.terminal("resume");
    let shown = terminal.expect("Which execution? ");
    assert!(!shown.contains("release-two"), "{shown}");
    terminal.type_line("");
    terminal.ends(1).shows("Nothing was done.");
    assert_eq!(place.state("release-one"), "paused");
}

#[test]
fn a_terminal_that_never_says_which_one_is_given_up() {
    let place = place();
    let mut terminal = place.terminal("pause");
    for _ in 0..midex_domain::limits::PICK_ATTEMPTS_MAX {
        terminal.answer("Which execution? ", "nonsense");
    }
    terminal.ends(1).shows("Nothing was done.");
}

const WAITING: &str = "workflow: waiting\ndescription: d\nsteps:\n  \
    - { id: hear, wait: { signal: ready } }\n  - { id: other, depends_on: [], wait: { signal: steady } }\n";

#[test]
fn a_terminal_is_asked_for_the_signal() {
    let project = Project::new(&[("workflows/waiting.yaml", WAITING)]);
    let mut server = project.serve();
    server.begin("waiting", "w");
    let ran = project.command("signal w").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    said.shows("the signal is not named; there is ready, steady");
    let mut terminal = Terminal::open(project.command("signal w"));
    terminal.answer("Which signal? ", "steady");
    terminal.ends(0);
    let waits = server.status("w")["waits"].take();
    assert_eq!(waits.as_array().map(Vec::len), Some(1), "{waits}");
    assert_eq!(waits[0]["signal"], "ready");
}

const GATE: &str =
    "workflow: gated\ndescription: d\nsteps:\n  - { id: go, gate: { ask: 'Go?' } }\n";

#[test]
fn a_gate_is_picked_and_an_approved_one_is_approved_already() {
    let project = Project::new(&[("workflows/gated.yaml", GATE)]);
    let mut server = project.serve();
    server.begin("gated", "g");
    let mut terminal = Terminal::open(project.command("approve --as ann"));
    let shown = terminal.expect("Which gate? ");
    shown.shows("  1  g  gated, go: Go?");
    // What is said of it names it too.
    terminal.type_line("gated");
    terminal.answer("Approve? ", "y");
    terminal.ends(0);
    let again = project.command("approve g").output().unwrap();
    assert_eq!(
        (String::from_utf8_lossy(&again.stdout).as_ref(), again.status.code()),
        ("gate 'go' of 'g' is approved already, by ann\n", Some(0))
    );
    let again = project.command("approve g nope").output().unwrap();
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn what_is_done_already_is_no_error() {
    let place = place();
    for (command, state) in [("pause", "paused"), ("abandon", "abandoned")] {
        place.done(&[command, "release-one"]);
        let expected = format!("'release-one' is {state} already\n");
        assert_eq!(place.done(&[command, "release-one"]), expected);
        let json = place.json(&[command, "release-one"]);
        json.has_fields(json!({ "success": true, "workflow_state": state }));
    }
    place.done("resume release-two");
    // A failed execution cannot be abandoned; the error suggests a retry.
    place.ends(1, "abandon other").says("help: Run `midex retry other`");
}

const GATES: &str = "workflow: gates\ndescription: d\nsteps:\n  \
    - { id: legal, gate: 'Legal?' }\n  - { id: tech, depends_on: [], gate: 'Tech?' }\n  \
    - { id: each, depends_on: [], foreach: { in: [a, b], as: who, parallel: 2, do: { gate: 'Is ${{ who }} fine?' } } }\n";

/// Waits of gates that are still open.
fn open_gates(server: &mut midex_test::Server) -> Vec<String> {
    let waits = server.status("g")["waits"].take();
    let gates = waits.as_array().into_iter().flatten();
    gates.map(|wait| format!("{}{}", wait["step_name"].as_str().unwrap(), wait["item"])).collect()
}

#[test]
fn the_gate_of_an_item_is_named_and_several_are_asked_one_after_the_other() {
    let project = Project::new(&[("workflows/gates.yaml", GATES)]);
    let mut server = project.serve();
    let begun = server.begin("gates", "g");
    // Each command that the reply names answers its gate.
    let message = begun["message"].as_str().unwrap();
    message.shows("midex approve g legal…midex approve g 'each[2]'");
    let mut terminal = Terminal::open(project.command("approve g each[2]"));
    terminal.expect("Is b fine?");
    terminal.answer("Approve? ", "y");
    terminal.ends(0);
    assert_eq!(open_gates(&mut server), ["legalnull", "technull", "each0"]);
    let again = project.command("approve g each[2]").output().unwrap();
    String::from_utf8_lossy(&again.stdout).shows("gate 'each[2]' of 'g' is approved already");
    let none = project.command("approve g each[9]").output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    // Without a terminal all are named.
    let ran = project.command("approve g").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    said.shows("Run `midex approve g`…it asks for legal, tech, each[1], one after the other");
    // One is left open, the others are answered.
    let mut terminal = Terminal::open(project.command("approve g"));
    terminal.expect("Legal?");
    terminal.answer("Approve? ", "y");
    terminal.expect("Tech?");
    terminal.answer("Approve? ", "later");
    terminal.expect("Is a fine?");
    terminal.answer("Approve? ", "y");
    terminal.ends(1);
    assert_eq!(open_gates(&mut server), ["technull"]);
    let mut terminal = Terminal::open(project.command("approve g"));
    terminal.answer("Approve? ", "y");
    terminal.ends(0);
    assert_eq!(server.status("g")["state"], "completed");
}

#[test]
fn a_comment_that_is_given_is_not_asked_for() {
    let project = Project::new(&[("workflows/gated.yaml", GATE)]);
    let mut server = project.serve();
    server.begin("gated", "g");
    let flags = "approve g --comment 'too early'";
    let mut terminal = Terminal::open(project.command(flags));
    terminal.answer("Approve? ", "r");
    let shown = terminal.ends(0);
    assert!(!shown.contains("Why?"), "{shown}");
    let status = server.status("g");
    says(&status["error"]["message"], "too early");
}

/// Nothing is asked about a step whose outcome is known.
#[test]
fn a_step_that_was_not_cut_off_is_not_resolved() {
    let place = place();
    place.ends(2, "resolve release-two fix").says("--output JSON…--failed WHY…--retry");
    place.ends(1, "resolve release-two fix --retry").says("OUTCOME_KNOWN");
    let shown = place.terminal("resolve release-two fix").ends(2);
    shown.shows("no step of 'release-two' was cut off…midex show release-two");
}
