//! `midex help`, the names that people try first, and what a misspelt flag is answered with.

use midex_cli::command_line;
use serde_json::Value;

use super::Place;
use midex_test::Shows;

#[test]
fn the_options_of_all_commands_stand_on_a_page_of_their_own() {
    let place = Place::new();
    let options = place.done("help options");
    let line = command_line();
    let all = line.get_arguments().filter(|arg| arg.is_global_set());
    let all: Vec<_> = all.filter_map(clap::Arg::get_long).collect();
    assert_eq!(all.len(), 11, "{all:?}");
    let run = place.done("run --help");
    let listed = place.done("help list");
    for name in all {
        let flag = format!("--{name}");
        options.shows(&[&flag]);
        for page in [&run, &listed] {
            assert_eq!(page.contains(&flag), name == "json", "{flag}: {page}");
        }
    }
    options.shows("[or in midex.toml]");
    run.shows("midex help options");
}

#[test]
fn the_commands_stand_in_groups_and_each_in_one() {
    let place = Place::new();
    let help = place.done("help");
    assert_eq!(help, place.done("--help"));
    help.shows("Run workflows:\n…Write workflows and agents:\n…Call services:\n");
    for command in command_line().get_subcommands() {
        let line = format!("\n  {} ", command.get_name());
        let expected = usize::from(!command.is_hide_set());
        assert_eq!(help.matches(&line).count(), expected, "{line:?} in {help}");
    }
}

#[test]
fn the_names_that_people_try_first_are_understood_and_shown_nowhere() {
    let place = Place::new();
    place.begun("fixit");
    for (tried, meant) in [
        ("status fixit", "show fixit"),
        ("ls", "list"),
        ("ps", "list executions"),
        ("logs fixit --no-follow", "tail fixit --no-follow"),
        ("version", "--version"),
        ("schema manifest", "schema workflow"),
    ] {
        // Times move on between two commands.
        let steady = |text: String| {
            text.lines().filter(|line| !line.contains(" s")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(steady(place.done(tried)), steady(place.done(meant)), "{tried:?}");
    }
    place.done("cancel fixit");
    let status = place.json("show fixit")["status"].take();
    assert_eq!(status["state"], Value::from("abandoned"));
    let help = place.done("help");
    for name in ["status", "ls", "ps", "logs", "cancel", "version", "agent-guard"] {
        assert!(!help.contains(&format!("\n  {name} ")), "{name}: {help}");
    }
}

#[test]
fn only_what_is_clearly_like_it_is_suggested() {
    let place = Place::new();
    for (given, suggested) in [
        ("serve --port 8080", None),
        ("run x --outptu x", Some("--output")),
        ("stop", None),
        ("validte", Some("validate")),
        ("list runs", None),
        ("list agent", Some("agents")),
    ] {
        let ran = place.ends(2, given);
        match suggested {
            Some(near) => ran.says(&["similar", near]),
            None => assert!(!ran.err.contains("similar"), "{given:?}: {ran:?}"),
        }
    }
}

#[test]
fn a_run_without_a_name_has_one_picked_on_a_terminal() {
    let place = Place::new();
    let ran = place.ends(2, "run");
    ran.says("no workflow is named…`midex list`");
    let mut terminal = place.terminal("run");
    terminal.answer("Which workflow?", "bug-fix");
    terminal.expect("The defect: what was expected");
    terminal.left_at("task> ", "\u{3}");
    let ran = place.ends(2, "run --json");
    ran.says("USAGE_INVALID");
}

#[test]
fn the_help_of_findings_names_commands_and_no_tools() {
    let place = Place::new();
    place.manifest(
        "workflow: w
description: d
on: { push: {} }
requires: { catalogs: [{ vendor: shop, title: Shop, source: shop.yaml }] }
steps:
  - { id: a, run: nothing items:list }
",
    );
    let ran = place.midex("validate workflows");
    let shown = ran.out.clone() + &ran.err;
    shown.shows("midex catalog add…midex run");
    for tool in ["catalog.import_openapi", "workflow.start", "command.list", "catalog.set_enabled"]
    {
        assert!(!shown.contains(tool), "{tool}: {shown}");
    }
}
