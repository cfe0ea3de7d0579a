//! Lists of executions with filters: `midex list executions` and the tool `execution.list`.

use midex_domain::State;
use midex_engine::store::{Options, RedbStore, Store, contract::script::Script};
use serde_json::{Value, json};

use super::Place;
use midex_test::{
    Client, Fields, Server, Shows, Words,
    project::{each, list},
};

const SLOW: &str = "workflow: slow\ndescription: d\nsteps: [{ id: a, guidance: Do it. }]\n";
const BREAKS: &str = "workflow: breaks\ndescription: d
steps: [{ id: a, fail: { code: CLOSED, message: The Harbour is closed } }]
";

/// A place with executions of today, and one of 2023.
async fn place() -> Place {
    let place = Place::new();
    for text in [SLOW, BREAKS] {
        place.manifest(text);
    }
    let store = RedbStore::open(&place.data, Options::default()).unwrap();
    let project = place.project().display().to_string();
    let mut old = Script::new("old", 2).with_project(Some(&project)).with_label("pr", "1");
    old.commit_step(&store).await.unwrap();
    old.commit_state(&store, State::Failed).await.unwrap();
    let mut elsewhere = Script::new("elsewhere", 2).with_project(Some("/x")).with_label("pr", "1");
    elsewhere.commit_step(&store).await.unwrap();
    store.close().await.unwrap();
    place.with_stdin("run slow --id alpha --label pr=1 --input topic=Lighthouse", "").ends(1);
    place.ends(1, "run breaks --id beta --label pr=1 --label team=red");
    place.ends(1, "run breaks --id gamma --label pr=2");
    place.with_stdin("run slow --id delta --label pr=2", "").ends(1);
    place.done(&["abandon", "delta", "--reason", "Superseded by the Quay"]);
    // Larger than what a row holds itself.
    let inputs = json!({ "long": "x".repeat(10_000), "last": "Beacon" }).to_string();
    let args = ["run", "slow", "--id", "epsilon", "--inputs", &inputs];
    place.with_stdin(&args, "{\"summary\":\"done\"}\n").ends(0);
    place
}

/// The ids that a list shows, in order.
fn found(place: &Place, filters: impl Words) -> Vec<String> {
    each(&list(&place.rows("list executions".and(filters))), "execution_id")
}

/// The arguments of `execution.list` for the same filters.
fn arguments(filters: &str) -> Value {
    let mut arguments = json!({});
    let mut words = filters.words().into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match &*word {
            "--label" => {
                let label = value();
                let (name, value) = label.split_once('=').expect("a label");
                arguments["labels"][name] = json!(value);
            }
            "--workflow" => arguments["workflow_name"] = json!(value()),
            "--all-projects" => arguments["project"] = json!("*"),
            flag if flag.starts_with("--") => arguments[&flag[2..]] = json!(value()),
            text => arguments["text"] = json!(text),
        }
    }
    arguments
}

/// A server in the project of the place.
fn serve(place: &Place) -> Server {
    let mut command = place.command("serve");
    command.stdin(std::process::Stdio::piped());
    Server::greeted(command)
}

#[tokio::test]
async fn every_filter_alone_and_with_others_finds_exactly_its_executions() {
    let place = place().await;
    let cases = [
        ("", "epsilon delta gamma beta alpha old"),
        ("--label pr=1", "beta alpha old"),
        ("--label pr=2", "delta gamma"),
        ("--label pr=1 --label team=red", "beta"),
        ("--label pr=2 --label team=red", ""),
        ("--label team=Red", ""),
        ("--all-projects --label pr=1", "beta alpha elsewhere old"),
        ("--state failed", "gamma beta old"),
        ("--state open", "alpha"),
        ("--workflow breaks", "gamma beta"),
        ("--label pr=1 --state failed", "beta old"),
        ("--since 2d", "epsilon delta gamma beta alpha"),
        ("--since 0s", ""),
        ("--until 2d", "old"),
        ("--since 2024-01-01T00:00:00Z", "epsilon delta gamma beta alpha"),
        ("--until 2024-01-01T00:00:00Z", "old"),
        ("--until 2023-01-01T00:00:00Z", ""),
        ("--since 2023-01-01T00:00:00Z --until 2024-01-01T01:00:00+01:00", "old"),
        // The last transition was at 22:13:22.
        ("--since 2023-11-14T22:13:22Z --until 2d", "old"),
        ("--since 2023-11-14T22:13:22.001Z --until 2d", ""),
        ("--until 2023-11-14T22:13:22Z", ""),
        ("--until 2023-11-14T22:13:22.001Z", "old"),
        ("--label pr=1 --state failed --since 2d", "beta"),
        ("--label pr=1 --state failed --since 2d harbour", "beta"),
        ("--label pr=1 --state failed --since 2d lighthouse", ""),
        ("--label pr=1 --workflow slow --since 2d LIGHT", "alpha"),
        // In an id, in inputs, in a reason, and in a failure.
        ("LpHa", "alpha"),
        ("lighthouse", "alpha"),
        ("Lighthouse", "alpha"),
        ("beacon", "epsilon"),
        ("'superseded BY the quay'", "delta"),
        ("HARBOUR", "gamma beta"),
        ("nowhere", ""),
    ];
    let check = |find: &mut dyn FnMut(&str) -> Vec<String>| {
        for (filters, expected) in cases {
            let expected: Vec<_> = expected.split(' ').filter(|id| !id.is_empty()).collect();
            assert_eq!(find(filters), expected, "{filters}");
        }
    };
    check(&mut |filters| found(&place, filters));
    let mut server = serve(&place);
    check(&mut |filters| {
        let page = server.done("execution.list", arguments(filters));
        assert_eq!(page["next_cursor"], Value::Null, "{page}");
        each(&list(&page["executions"]), "execution_id")
    });
    // Pages keep the filters.
    let mut call = arguments("--label pr=1 --limit 1");
    call["limit"] = json!(1);
    let mut ids = Vec::new();
    loop {
        let page = server.done("execution.list", call.clone());
        ids.extend(each(&list(&page["executions"]), "execution_id"));
        assert!(ids.len() < 5, "{page}");
        match page["next_cursor"].as_str() {
            Some(cursor) => call["cursor"] = json!(cursor),
            None => break,
        }
    }
    assert_eq!(ids, ["beta", "alpha", "old"]);
}

#[tokio::test]
async fn filters_that_cannot_be_read_are_refused_with_what_is_expected() {
    let place = place().await;
    let mut server = serve(&place);
    for (flag, value) in
        [("since", "yesterday"), ("since", "3"), ("until", "2030-13-01"), ("until", "")]
    {
        let args = ["list", "executions", &format!("--{flag}"), value];
        let ran = place.ends(1, &args);
        let words = format!(
            "`{value}` cannot be the value of `{flag}`; expected 2d or 12h for so long ago"
        );
        ran.says(&["error[ARGUMENTS_INVALID]: ", &words, "an instant like 2030-01-31T09:00:00Z"]);
        let refused = server.refused("execution.list", json!({ (flag): value }));
        refused.has_fields(json!({ "error_code": "ARGUMENTS_INVALID" }));
        refused.has_fields(json!({ "/violations/0/path": format!("/{flag}") }));
        refused["message"].as_str().unwrap().shows(&words);
    }
    place.ends(1, &["list", "executions", ""]).says("text…shorter than 1 character");
    let longest = "x".repeat(midex_domain::limits::LIST_TEXT_CHARS_MAX);
    assert_eq!(found(&place, &[&longest]), ["epsilon"]);
    let past = longest + "x";
    place.ends(1, &["list", "executions", &past]).says("text…longer than 200 characters");
    let refused = server.refused("execution.list", json!({ "text": past }));
    refused.has_fields(json!({ "error_code": "ARGUMENTS_INVALID" }));
    for labels in [json!({ "pr": 1 }), json!("pr=1")] {
        let refused = server.refused("execution.list", json!({ "labels": labels }));
        refused.has_fields(json!({ "error_code": "ARGUMENTS_INVALID" }));
    }
}

/// The command in the line that says how many more there are.
fn more(shown: &str) -> Option<(&str, &str)> {
    shown.lines().find_map(|line| line.split_once(" more: midex "))
}

#[tokio::test]
async fn the_command_for_more_rows_repeats_the_filters() {
    let place = place().await;
    for id in ["-x-1", "-x-2"] {
        let args =
            ["run", "breaks", &format!("--id={id}"), "--label", "pr=1", "--label", "note=it's"];
        place.ends(1, &args);
    }
    for (filters, count, flags) in [
        (vec!["--label", "pr=1", "--since", "2d"], "3", "--since 2d --label pr=1 --limit 4"),
        (
            vec![
                "--state",
                "failed",
                "--label",
                "pr=1",
                "--until",
                "2100-01-01T00:00:00Z",
                "harbour IS",
            ],
            "2",
            "--state failed --until 2100-01-01T00:00:00Z --label pr=1 --limit 3 'harbour IS'",
        ),
        (vec!["--workflow", "breaks", "--", "-x"], "1", "--workflow breaks --limit 2 -- -x"),
    ] {
        let args = [&["list", "executions", "--limit", "1"], &filters[..]].concat();
        let shown = place.done(&args);
        let (shown_count, command) = more(&shown).unwrap_or_else(|| panic!("{shown}"));
        assert_eq!((shown_count, command), (count, &*format!("list executions {flags}")));
        let whole = place.done(command);
        assert_eq!(more(&whole), None, "{whole}");
        let all = [&["list", "executions"], &filters[..]].concat();
        assert_eq!(whole, place.done(&all));
    }
    // A quoted value is one that a shell reads.
    let shown = place.done(&["list", "executions", "--limit", "1", "--label", "note=it's"]);
    shown.shows(r"list executions --label 'note=it'\''s' --limit 2");
}

#[tokio::test]
async fn filters_of_executions_are_refused_where_others_are_listed() {
    let place = place().await;
    for (args, subject) in [("list workflows", "workflows"), ("list agents", "agents")] {
        let ran = place.ends(2, args.and("'the harbour'"));
        let message = format!("a text searches executions, and {subject} are listed here");
        ran.says(&[&*message, "Run `midex list executions 'the harbour'`, or leave"]);
    }
    place.ends(2, "list workflows -- -x").says("`midex list executions -- -x`");
    assert_eq!(found(&place, "'the harbour'"), ["gamma", "beta"]);
    for (flag, found_ids) in [
        ("--label pr=2", "delta gamma"),
        ("--since 2023-11-20T00:00:00Z", "epsilon delta gamma beta alpha"),
    ] {
        let ran = place.ends(2, "list".and(flag));
        ran.says(&format!("help: Run `midex list executions {flag}`"));
        assert_eq!(found(&place, flag).join(" "), found_ids);
    }
}
