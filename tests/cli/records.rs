//! `midex delete`, `midex prune` and `midex stats`.

use midex_domain::State;
use midex_engine::store::{
    Options, RedbStore, Store,
    contract::script::{Script, build_named_definition},
};
use serde_json::{Value, json};

use super::Place;
use midex_test::{
    Client, Fields, Shows, Words,
    project::{each, list},
};

const QUICK: &str =
    "workflow: quick\ndescription: d\nmemory: { b: 0 }\nsteps: [{ id: a, set: { b: 1 } }]\n";
const SLOW: &str = "workflow: slow\ndescription: d\nsteps: [{ id: a, guidance: Do it. }]\n";
const PARENT: &str = "workflow: parent\ndescription: d\nsteps:
  - { id: child, workflow: quick }
  - { id: wait, guidance: Wait. }
";

/// A place with these three workflows.
fn place() -> Place {
    let place = Place::new();
    for text in [QUICK, SLOW, PARENT] {
        place.manifest(text);
    }
    place
}

/// An execution that has completed.
fn completed(place: &Place, id: &str) {
    place.done(&["run", "quick", "--id", id]);
}

/// An execution whose only step is open.
fn open(place: &Place, id: &str) {
    place.with_stdin(&["run", "slow", "--id", id], "").ends(1);
}

/// The ids of all executions in order, also of children and of other projects.
fn ids(place: &Place) -> Vec<String> {
    let rows = place.rows("list executions --all-projects --children --limit 1000");
    let mut ids = each(&list(&rows), "execution_id");
    ids.sort();
    ids
}

/// Executions of 2023: of the project of the place, apart from `elsewhere`.
async fn store_old_executions(place: &Place) {
    let store = RedbStore::open(&place.data, Options::default()).unwrap();
    let project = place.project().display().to_string();
    for (second, (id, workflow, state)) in [
        ("deploy-1", "deploy", State::Completed),
        ("deploy-2", "deploy", State::Completed),
        ("deploy-3", "deploy", State::Completed),
        ("deploy-4", "deploy", State::Failed),
        ("review-1", "review", State::Abandoned),
        ("review-2", "review", State::Completed),
        ("review-3", "review", State::Running),
        ("elsewhere", "deploy", State::Completed),
    ]
    .into_iter()
    .enumerate()
    {
        let project = if id == "elsewhere" { "/elsewhere" } else { &project };
        let definition = build_named_definition(workflow, 2);
        let script = Script::with_definition(id, definition.clone());
        let mut script = script.with_project(Some(project));
        script.set_second(1_700_000_000 + 100 * i64::try_from(second).unwrap());
        let start = script.build_transition("");
        let mut start = script.build_commit(start);
        start.contents.push((definition.digest(), definition.encode()));
        script.store_commit(&store, start).await.unwrap();
        if state != State::Running {
            script.commit_state(&store, state).await.unwrap();
        }
    }
    store.close().await.unwrap();
}

#[test]
fn deleted_executions_are_gone_and_their_ids_say_so() {
    let place = place();
    for id in ["one", "one-more", "two", "three"] {
        completed(&place, id);
    }
    assert_eq!(place.done("delete one"), "deleted one\n");
    for command in ["show one", "tail one --no-follow", "delete one"] {
        let ran = place.ends(1, command);
        ran.says("error[EXECUTION_DELETED]…'one' was deleted at…help: Run `midex list executions`");
    }
    place.with_stdin("run quick --id one", "").ends(1).says("EXECUTION_DELETED");
    // The id of a deleted execution is not the beginning of another id.
    assert_eq!(ids(&place), ["one-more", "three", "two"]);
    let deleted = place.json("delete two thre");
    assert_eq!(deleted, json!({ "success": true, "deleted": ["two", "three"] }));
    assert_eq!(ids(&place), ["one-more"]);
}

#[test]
fn a_deletion_that_is_refused_names_what_was_deleted_before() {
    let place = place();
    for id in ["one", "two"] {
        completed(&place, id);
    }
    let ran = place.ends(1, "delete one nobody two");
    assert_eq!(ran.out, "deleted one\n");
    ran.says("error[EXECUTION_NOT_FOUND]…nobody");
    assert_eq!(ids(&place), ["two"]);
    place.ends(2, "delete").says("EXECUTION");
}

#[test]
fn an_open_execution_is_not_deleted_before_it_is_ended() {
    let place = place();
    open(&place, "one");
    let ran = place.ends(1, "delete one");
    ran.says("error[EXECUTION_STILL_OPEN]…'one' cannot be deleted: it has not ended");
    ran.says("help: Run `midex show one`: it says what that execution waits for; `midex abandon one` ends it");
    assert_eq!(place.state("one"), "running");
    place.done("abandon one");
    place.done("delete one");
    assert!(ids(&place).is_empty());
}

#[test]
fn children_are_deleted_with_their_parent_and_not_before_it_has_ended() {
    let place = place();
    place.with_stdin("run parent --id p", "").ends(1);
    let rows = list(&place.rows("list executions --children"));
    let child = each(&rows, "execution_id").into_iter().find(|id| id != "p").expect("a child");
    let ran = place.ends(1, &["delete", &child]);
    ran.says("error[EXECUTION_STILL_OPEN]…its parent 'p' has not ended…`midex abandon p`");
    assert_eq!(place.state(&child), "completed");
    place.done("abandon p");
    let deleted = place.json("delete p");
    assert_eq!(deleted["deleted"], json!(["p", child]));
    assert!(ids(&place).is_empty());
    place.ends(1, &["show", &child]).says("EXECUTION_DELETED");
}

#[test]
fn a_source_is_not_deleted_before_its_fork_has_ended() {
    let place = place();
    place.with_stdin("run slow --id source", "{\"summary\":\"done\"}\n").ends(0);
    place.done("fork source --from a --id fork");
    let ran = place.ends(1, "delete source");
    ran.says("error[EXECUTION_STILL_OPEN]…its fork 'fork' has not ended…`midex abandon fork`");
    let ran = place.ends(0, "prune --state completed --yes");
    assert_eq!(
        ran.out,
        "removed 0 executions\nkept 1 execution: an execution that depends on it has not ended, or it cannot be read\n"
    );
    assert_eq!(ids(&place), ["fork", "source"]);
    place.done("abandon fork");
    assert_eq!(place.json("prune --older-than 0s --yes"), json!({ "removed": 2, "kept": 0 }));
    assert!(ids(&place).is_empty());
}

#[tokio::test]
async fn a_prune_removes_exactly_what_its_conditions_choose() {
    for (conditions, expected) in [
        ("--older-than 30d", "deploy-1 deploy-2 deploy-3 deploy-4 review-1 review-2"),
        ("--state failed", "deploy-4"),
        ("--workflow review", "review-1 review-2"),
        ("--keep-last 1", "deploy-1 deploy-2 deploy-3 review-1"),
        ("--state completed --keep-last 2", "deploy-1"),
        ("--older-than 30d --workflow deploy --state completed", "deploy-1 deploy-2 deploy-3"),
        ("--older-than 30d --workflow quick", ""),
        (
            "--older-than 30d --all-projects",
            "deploy-1 deploy-2 deploy-3 deploy-4 elsewhere review-1 review-2",
        ),
        ("--all-projects --keep-last 1 --workflow deploy", "deploy-1 deploy-2 deploy-3 deploy-4"),
        ("--yes", "deploy-1 deploy-2 deploy-3 deploy-4 new review-1 review-2"),
    ] {
        let place = place();
        store_old_executions(&place).await;
        completed(&place, "new");
        let before = ids(&place);
        let expected: Vec<_> = expected.split(' ').filter(|id| !id.is_empty()).collect();
        let prune = "prune".and(conditions);
        let plan = place.json((&prune).and("--dry-run"));
        let ended = if conditions.contains("--all-projects") { 8 } else { 7 };
        plan.has_fields(json!({ "selected": expected.len(), "ended": ended, "removed": 0 }));
        assert_eq!(ids(&place), before, "{conditions}");
        let removed = place.json(&prune);
        if expected.is_empty() {
            assert_eq!(removed["selected"], 0, "{removed}");
        } else {
            assert_eq!(removed, json!({ "removed": expected.len(), "kept": 0 }), "{conditions}");
        }
        let after = ids(&place);
        let gone: Vec<_> = before.iter().filter(|id| !after.contains(id)).collect();
        assert_eq!(gone, expected, "{conditions}");
    }
}

#[tokio::test]
async fn a_prune_without_a_condition_names_one_to_run() {
    let place = place();
    store_old_executions(&place).await;
    completed(&place, "new");
    for prune in ["prune", "prune --dry-run", "prune --all-projects"] {
        let ran = place.ends(2, prune);
        ran.says("error[USAGE_INVALID]: no condition is given");
        ran.says("help: Run `midex prune --older-than 30d --dry-run`");
    }
    let before = ids(&place);
    let suggested = place.done("prune --older-than 30d --dry-run");
    assert_eq!(
        suggested,
        "6 of 7 ended executions would be removed\nan execution with an open fork is kept\n"
    );
    assert_eq!(ids(&place), before);
    assert_eq!(place.done("prune --older-than 30d"), "removed 6 executions\n");
    for args in ["--older-than soon", "--state running", "--state open", "--keep-last 0"] {
        place.ends(2, "prune".and(args)).says(args.split(' ').next_back().unwrap());
    }
}

#[tokio::test]
async fn everything_that_has_ended_in_a_project_is_removed_only_after_a_yes() {
    let place = place();
    store_old_executions(&place).await;
    let prune = "prune --older-than 30d";
    let before = ids(&place);
    // Other projects have ended executions too, and nothing of this one would be left.
    let ran = place.ends(2, prune);
    ran.says(
        "error[USAGE_INVALID]: there is no terminal to ask on: Remove all 6 ended executions of this project for good?",
    );
    ran.says("help: Add --yes if that is meant; nothing was done");
    let ran = place.ends(2, prune.and("--all-projects"));
    ran.says("Remove all 7 ended executions of all projects for good?");
    place.ends(2, prune.and("--json"));
    assert_eq!(ids(&place), before);
    let mut terminal = place.terminal(prune);
    terminal.answer("Remove all 6 ended executions of this project for good?", "n");
    terminal.ends(1).shows("Nothing was done.");
    assert_eq!(ids(&place), before);
    assert_eq!(place.done(prune.and("--yes")), "removed 6 executions\n");
    assert_eq!(ids(&place), ["elsewhere", "review-3"]);
}

#[tokio::test]
async fn a_terminal_is_asked_before_a_prune() {
    let place = place();
    store_old_executions(&place).await;
    let mut terminal = place.terminal("prune --state failed");
    terminal.answer("Remove 1 of 6 ended executions for good?", "y");
    terminal.ends(0).shows("removed 1 execution");
    let shown = place.terminal("prune --state abandoned --yes").ends(0);
    shown.shows("removed 1 execution");
    let shown = place.terminal("prune --state failed").ends(0);
    shown.shows("0 of 4 ended executions would be removed");
}

#[tokio::test]
async fn figures_count_executions_and_what_a_prune_would_free() {
    let place = place();
    place.done("stats").shows("0 executions, ");
    store_old_executions(&place).await;
    completed(&place, "new");
    let shown = place.done("stats");
    shown.shows("9 executions, …1 started in the last 7 days: about ");
    shown.shows("\ndeploy  4 completed, 1 failed; half took 1.0 s at most, 95 % 1.0 s\n");
    shown.shows("\nreview  1 abandoned, 1 completed, 1 running; half took ");
    shown.shows("\nquick   1 completed; half took ");
    shown.lacks("would free");
    let figures = place.json("stats");
    figures.has_fields(json!({
        "executions": 9, "started_lately": 1, "long_executions": [], "older": null,
        "/workflows/0/workflow_name": "deploy", "/workflows/0/states": { "completed": 4, "failed": 1 },
        "/workflows/0/p50_ms": 1000, "/workflows/0/p95_ms": 1000,
    }));
    assert!(figures["file_bytes"].as_u64() > Some(0), "{figures}");
    let tables = list(&figures["tables"]);
    let of_table = |table: &Value| table["entries"].as_u64().zip(table["bytes"].as_u64());
    assert!(tables.iter().all(|table| of_table(table).is_some()), "{figures}");
    assert!(tables.iter().filter_map(of_table).any(|(entries, bytes)| entries > 8 && bytes > 100));

    let figures = place.json("stats --older-than 30d");
    assert_eq!(figures["older"], 7, "{figures}");
    assert!(figures["older_bytes"].as_u64() > Some(0), "{figures}");
    let shown = place.done("stats --older-than 30d");
    let (_, command) = shown.split_once("7 executions ended more than 30d ago: `").expect("advice");
    let (command, _) = command.split_once("` would free about ").expect("a command");
    assert_eq!(place.done(command.strip_prefix("midex ").unwrap()), "removed 7 executions\n");
    let figures = place.json("stats --older-than 30d");
    figures.has_fields(json!({ "executions": 2, "older": 0, "older_bytes": 0 }));
    place.done("stats --older-than 30d").shows("0 executions ended more than 30d ago");
}

#[test]
fn a_server_deletes_prunes_and_counts_for_its_commands() {
    let place = place();
    let mut server = place.listening();
    for id in ["one", "two", "three"] {
        server.begin("bug-fix", id);
    }
    server.change("abandon", "one");
    server.change("abandon", "two");
    place.done("delete one");
    let gone = server.refused("execution.resume", json!({ "execution_id": "one", "reason": "r" }));
    gone.has_fields(json!({ "error_code": "EXECUTION_DELETED" }));
    assert_eq!(place.json("prune --all-projects --state abandoned --yes")["removed"], 1);
    let gone =
        server.refused("execution.delete", json!({ "execution_id": "two", "confirm": true }));
    gone.has_fields(json!({ "error_code": "EXECUTION_DELETED" }));
    place
        .json("stats")
        .has_fields(json!({ "executions": 1, "/workflows/0/states": { "running": 1 } }));
}
