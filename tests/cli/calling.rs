//! `midex call`, with a service on loopback behind it.

use midex_test::{Fields, Shows, door::until};

use std::{fs, process::Stdio};

use serde_json::{Value, json};

use super::{
    Words,
    catalog::{Shop, picture},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_a_table_where_it_is_a_list_and_json_else() {
    let shop = Shop::open().await;
    let ran = shop.ends(0, "call 'pantry jars:list' --with full=true --with room=7");
    ran.shows("jar…label…plums…400");
    ran.out.lacks("red…\u{1b}");
    ran.says("200 in …2 rows…columns left out: tags");
    assert_eq!(shop.service.only().target(), "/jars?full=true&room=7");
    let whole = shop.place.json("call pantry jars:list");
    whole.has_fields(json!({ "status_code": 200, "/payload/0/label": "plums" }));
    let made =
        shop.ends(0, "call 'pantry jars:create' --with label=7 --with grams=7 --with tags=[\"a\"]");
    let made: Value = serde_json::from_str(&made.out).expect("JSON alone on stdout");
    assert_eq!(made, json!({ "label": "7", "grams": 7, "tags": ["a"] }));
    shop.place.file("jar.json", r#"{"label":"figs"}"#);
    let made = shop.ends(0, "call 'pantry jars:create' --body @jar.json");
    made.shows("figs");
    let found = shop.ends(0, "call --search 'throw jar'");
    found.shows("pantry jars:delete…Throw a jar away");
    shop.ends(0, "call --limit 40").shows("pantry jars:list…workflow bug-fix");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_says_what_the_service_said_and_what_to_do() {
    let shop = Shop::open().await;
    let ran = shop.ends(1, "call 'pantry jars:info' --with jar=9");
    ran.says("COMMAND_FAILED…404…no jar of that number…help: …midex show ");
    // A name that the document gave it is as good as the other.
    shop.ends(1, "call 'pantry listJar'").says("did you mean `pantry listJars`?");
    let slow = "call 'pantry jars:info' --with jar=7 --timeout 500ms";
    shop.ends(75, slow).says("within 500ms…more time with --timeout…midex show ");
    let ran = shop.ends(1, "call 'pantry jars:info'");
    ran.says("jar…--with NAME=VALUE…midex catalog show pantry jars:info");
    let ran = shop.ends(1, "call 'pantry jars:inof'");
    ran.says("COMMAND_NOT_FOUND…help: Run `midex call 'pantry jars:info'`");
    for flags in ["--with jar", "--with-json [1]", "--body {", "--timeout soon", "--max-pages 0"] {
        shop.ends(2, "call 'pantry jars:info'".and(flags));
    }
    assert_eq!(shop.service.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_have_been_done_is_looked_for_before_it_is_repeated() {
    let shop = Shop::open().await;
    let put = "call 'pantry jars:create' --with label=broken";
    let ran = shop.ends(1, put);
    ran.says(&[
        "answered 500",
        "help: Look first whether the service has done it all the same",
        "midex show ",
    ]);
    ran.err.lacks("Run the same command again");
    // Looking twice changes nothing.
    shop.ends(75, "call 'pantry jars:info' --with jar=11")
        .says("answered 500…help: Run the same command again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_cut_says_how_many_more_there_are() {
    let shop = Shop::open().await;
    let listing = "catalog show pantry --limit 3";
    shop.ends(0, listing)
        .shows("1 more: --limit 4 shows all, `midex call --search WORDS` finds some");
    let whole = shop.place.json(listing);
    assert_eq!((&whole["total"], whole["commands"].as_array().unwrap().len()), (&json!(4), 3));
    shop.ends(0, "catalog show pantry --limit 4");
    let ran = shop.ends(0, "call --search jar --limit 1");
    ran.shows("more: --limit ");
    let rows = shop.ends(0, "call --search jar --limit 1 --json");
    assert_eq!(rows.out.lines().count(), 1);
    rows.says("more: --limit ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_something_away_is_asked_about_on_a_terminal_alone() {
    let shop = Shop::open().await;
    let delete = "call 'pantry jars:delete' --with jar=1";
    shop.ends(2, delete).says("takes something away…Add --yes");
    shop.ends(2, "catalog remove pantry").says("Add --yes");
    let asked = |args: &str, said: &str, code| {
        let mut terminal = shop.place.terminal(args);
        terminal.answer("does nothing: ", said);
        terminal.ends(code)
    };
    assert!(asked(delete, "n", 1).contains("Nothing was done"));
    assert_eq!(shop.service.seen().len(), 0);
    asked(delete, "y", 0);
    shop.ends(0, delete.and("--yes")).says("204");
    assert_eq!(shop.service.seen().len(), 2);
    asked("catalog remove pantry", "", 1);
    assert_eq!(shop.show()["operations"], 4);
    asked("catalog remove pantry", "yes", 0);
    shop.ends(1, "catalog remove pantry --yes").says("CATALOG_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_bytes_is_named_and_written_to_a_file() {
    let shop = Shop::open().await;
    let ran = shop.ends(0, "call 'pantry jars:info' --with jar=8");
    assert_eq!(ran.out, "");
    ran.says("artifact `8`…image/png of 1500000 bytes, kept with the execution…--output FILE");
    assert!(!ran.err.contains("midex://"), "{}", ran.err);
    let whole = shop.place.json("call 'pantry jars:info' --with jar=8");
    assert_eq!(whole["artifact"]["size_bytes"], 1_500_000, "{whole}");
    for (jar, bytes) in [("jar=8", picture()), ("jar=10", picture()[..100].to_vec())] {
        let call = ["call", "pantry jars:info", "--with", jar, "--output", "jar.png"];
        let ran = shop.ends(0, &call);
        assert_eq!(ran.out, "");
        ran.says("200 in ");
        assert!(fs::read(shop.place.project().join("jar.png")).unwrap() == bytes, "{jar}");
    }
    let nowhere = "call 'pantry jars:list' --output no/such/place";
    shop.ends(2, nowhere).says("FILE_UNUSABLE…no/such/place");
    let failed = "call 'pantry jars:info' --with jar=5 --output none.png";
    shop.ends(1, failed);
    assert!(!shop.place.project().join("none.png").exists());
}

/// A command that ends after one call would cut the work of a server off: it leaves it to a process that stays.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_end_at_once_do_no_work_of_a_server() {
    let shop = Shop::open().await;
    shop.place.manifest(
        "workflow: stock
description: Stock the shelf
steps:
  - { id: paid, gate: { ask: Is it paid? } }
  - { id: first, run: pantry jars:create, with: { label: figs } }
  - { id: second, run: pantry jars:create, with: { label: plums } }
",
    );
    shop.ends(1, "run stock --id s");
    let mut terminal = shop.place.terminal("approve s");
    terminal.answer("leaves it open: ", "y");
    let told = terminal.ends(0);
    assert!(told.contains("To go on: midex run --id s"), "{told}");
    let revision = shop.place.json("show s")["status"]["revision"].clone();
    for _ in 0..3 {
        let shown = shop.ends(0, "show s");
        shown.shows("first: nobody works on it now, for no server runs");
        shop.ends(0, "list executions");
    }
    assert_eq!(shop.service.seen().len(), 0);
    assert_eq!(shop.place.json("show s")["status"]["revision"], revision);
    let ran = shop.ends(0, "run --id s --json");
    let last: Value = serde_json::from_str(ran.out.lines().last().expect("a line")).unwrap();
    assert_eq!(last["state"], "completed", "{ran:?}");
    assert_eq!(shop.service.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_at_an_address_that_is_refused_says_so_before_it_is_called() {
    let shop = Shop::new().await;
    let allow = format!("midex catalog allow pantry {}", shop.service.host);
    let add = "catalog add pantry.yaml --title Pantry";
    shop.ends(0, add).says(&["calls are refused", &allow]);
    shop.ends(0, "catalog show pantry").shows(&["refused", &allow]);
    shop.ends(0, "doctor").shows(&["1 refused", &allow]);
    shop.ends(0, &["catalog", "allow", "pantry", &shop.service.host]);
    shop.ends(0, "catalog show pantry").shows("usable");
}

/// Doing it again is one of three answers, and none of them is taken without a question.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_a_call_that_was_cut_off_is_asked() {
    let shop = Shop::open().await;
    let answers = [
        ("failed", Some(("Why did it fail? ", "7")), "failed"),
        ("output", Some(("Its output", "{}")), "completed"),
        ("retry", None, "running"),
    ];
    for (count, (answer, next, state)) in (1..).zip(answers) {
        let mut call = shop.place.command("call 'pantry jars:create' --with label=slow");
        let mut call = call.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("midex");
        until("the call", || (shop.service.seen().len() == count).then_some(()));
        call.kill().expect("it runs");
        call.wait().expect("it ends");
        let latest = || shop.place.json("list calls --limit 1");
        let id = latest()["execution_id"].clone();
        let begin = format!("run --id {}", id.as_str().expect("an id"));
        shop.place.midex(&begin[..]).shows("cut off…midex resolve");
        let mut terminal = shop.place.terminal("resolve");
        terminal.answer("Which execution? ", "1");
        terminal.answer("Which answer? ", answer);
        if let Some((question, text)) = next {
            terminal.answer(question, text);
        }
        terminal.end();
        assert_eq!(latest()["state"], state);
    }
}
