//! Looking at workflows and taking them: `midex show workflow`, `midex cat` and `midex new workflow --from`.

use std::fs;

use super::Place;
use midex_test::Shows;

#[test]
fn a_workflow_is_shown_with_what_it_takes_and_its_steps() {
    let place = Place::new();
    let shown = place.done("show workflow app-scaffold");
    shown.shows(&[
        "app-scaffold\n  Set up a new app from a request",
        "  comes with midex\n",
        "\ninputs\n",
        "\nsteps\n",
        "• design",
        "→ document if",
        "start it: midex run app-scaffold",
    ]);
    let json = place.json("show workflow bug-fix");
    assert_eq!(json["graph"]["nodes"][0]["id"], "diagnose");
    place.manifest("workflow: odd\ndescription: d\nsteps: [{ id: a, agent: nobody }]\n");
    let shown = place.done("show workflow odd");
    shown.shows("odd.yaml…line 3: no agent is called `nobody`");
    place.ends(2, "show x bug-fix").says("midex show workflow NAME");
}

#[test]
fn a_workflow_is_printed_as_it_lies_and_copied_under_another_name() {
    let place = Place::new();
    let text = place.done("cat release");
    assert!(text.contains("workflow: release\n"), "{text}");
    let json = place.json("cat release");
    assert_eq!(json["text"], text.as_str());
    let new = "new workflow our-release --from release";
    let path = place.done(new);
    let copy = fs::read_to_string(path.trim_end()).unwrap();
    assert_eq!(copy, text.replacen("workflow: release\n", "workflow: our-release\n", 1));
    place.done(&["validate", path.trim_end()]);
    // Markdown keeps its form.
    let path = place.done("new workflow our-fix --from bug-fix");
    assert!(path.trim_end().ends_with("our-fix.md"), "{path}");
    place.done("cat our-fix").shows("name: our-fix\n…diagnose");
    place.ends(1, new).says("FILE_EXISTS");
    place.ends(1, "new workflow x --from nope").says("WORKFLOW_NOT_FOUND");
    place.ends(2, "new workflow x --from release --format json").says("cannot be used with");
}

#[test]
fn a_name_that_is_nearly_right_keeps_the_command_that_was_given() {
    let place = Place::new();
    for (given, meant) in [
        ("cat bug-fixx", "cat bug-fix"),
        ("show workflow bug-fixx", "show workflow bug-fix"),
        ("validate --print bug-fixx", "validate --print bug-fix"),
        ("graph bug-fixx", "graph bug-fix"),
        ("new workflow ours --from bug-fixx --force", "new workflow ours --from bug-fix --force"),
        ("run bug-fixx --id bug-fixx", "run bug-fix --id bug-fixx"),
    ] {
        let words: Vec<_> = given.split(' ').collect();
        let ran = place.ends(1, &words);
        ran.says(&["WORKFLOW_NOT_FOUND", &format!("help: Run `midex {meant}`, if that is meant")]);
    }
    place.ends(1, "cat nothing-like-it").says("help: Run `midex list workflows`");
}

#[test]
fn a_new_file_says_what_comes_next() {
    let place = Place::new();
    let shown = place.terminal("new workflow notes").ends(0);
    shown.shows("notes.yaml…Next: edit it…midex run notes");
    let shown = place.terminal("new agent editor").ends(0);
    shown.shows("`agent: editor`");
    let text = fs::read_to_string(place.project().join("agents/editor.md")).unwrap();
    text.shows("call `workflow.next_step` with");
}

#[test]
fn giving_up_what_has_effects_to_take_back_names_the_state_to_come() {
    let place = Place::new();
    place.manifest(
        "workflow: parent
description: d
memory: { a: 0 }
compensate_when: [abandoned]
steps:
  - { id: put, set: { a: 1 }, compensate: { workflow: bug-fix } }
  - { id: ask, guidance: Ask. }
",
    );
    place.with_stdin("run parent --id p", "");
    let said = place.done("abandon p");
    said.shows("is running, and becomes abandoned once the steps for that are done");
    let said = place.done("abandon p");
    said.shows("'p' is abandoned");
}
