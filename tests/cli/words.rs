//! What commands say to a person, and to a program: hints, help, refusals and JSON.

use std::{fs::File, process::Stdio};

use midex_domain::{
    error::{Code, FailureCode},
    limits,
};
use serde_json::Value;

use super::{Place, Words, lines};
use midex_test::{Shows, table};

#[test]
fn hints_carry_the_flags_as_they_were_given() {
    let place = Place::new();
    place.begun("fixit");
    let data = place.data.to_str().unwrap().to_owned();
    let flags = format!("--data-dir {data} --workflows 'my flows' --agents mine");
    let ran = place.ends(1, "show nope".and(&flags));
    let command =
        format!("`midex list executions --data-dir {data} --workflows 'my flows' --agents mine`");
    ran.says(&[&format!("help: Run {command}: use an id that it shows")]);
    let ran = place.ends(1, &["approve", "fixit", "--data-dir", &data]);
    ran.says(&[&format!("Run `midex approve --data-dir {data}` to list what is asked")]);
}

#[test]
fn what_is_not_there_any_more_or_not_yet_is_told() {
    let place = Place::new();
    place.begun("e");
    place.done("abandon e");
    let ran = place.ends(1, "approve e");
    ran.says("has ended, as abandoned…midex show e");
    for empty in ["", "{}"] {
        place.file("empty.yaml", empty);
        let ran = place.ends(1, "validate empty.yaml");
        let told = ran.out + &ran.err;
        assert_eq!(told.matches("there is nothing in it").count(), 1, "{told}");
        told.shows("a workflow manifest needs `workflow`…manifest has no `steps`");
    }
    let listed = place.done("list executions --state failed --all-projects");
    assert_eq!(listed, "no project has such executions\n");
}

/// An exit code, the arguments, and what is said of them.
const WRONG: &str = "
    2 | validate nope.yaml | there is no file `nope.yaml`\\n  help: Name a file or a directory
    2 | graph nope.yaml | there is no file `nope.yaml`
    2 | list executions --limit 0 | it is a whole number from 1 on
    2 | list executions --limit many | it is a whole number from 1 on
    2 | list executions --state nope | possible values: idle, running, paused
    2 | call --limit 0 | it is a whole number from 1 on
    1 | show -- -x | Execution '-x' not found
    1 | show 'über ß' | Execution 'über ß' not found
    1 | run -- -x | Workflow '-x' not found
    1 | pause e --reason LONG | error[ARGUMENTS_INVALID]: what was given cannot be taken as it is\\n  reason:
";

#[test]
fn plain_words_are_said_of_wrong_arguments() {
    let place = Place::new();
    place.begun("e");
    let long = "x".repeat(limits::REASON_CHARS_MAX + 1);
    for [code, args, said] in table(WRONG) {
        let args = args.replace("LONG", &long);
        let ran = place.ends(code.parse().unwrap(), &args);
        ran.says(&said);
        // No words of a schema, of a tool, or of the log.
        let others = "entity not found…(s)…schema…18446744073709551615…execution.…INFO…WARN";
        ran.err.lacks(others);
    }
    let refused = place.with_stdin("run bug-fix --id r", "{\"summary\":7}\n");
    refused.says("breaks its schema in 1 place (");
    let none = place.done("list executions --workflow bug-fx");
    none.shows(
        "no such executions of `bug-fx` here, and this project has no workflow of that name; did you mean `bug-fix`",
    );
}

#[test]
fn a_list_is_json_lines_and_a_result_is_one_object() {
    let place = Place::new();
    place.begun("a");
    place.begun("b");
    for args in [
        "list",
        "list agents",
        "list executions",
        "approve",
        "catalog list",
        "call",
        "doctor",
        "help errors",
        "tail a --no-follow",
    ] {
        let rows = place.rows(args);
        assert!(rows.as_array().unwrap().iter().all(Value::is_object), "{args:?}: {rows}");
    }
    assert_eq!(place.rows("list executions")[0]["execution_id"], "b");
    for args in ["show a", "pause a", "config", "validate", "help errors INTERNAL"] {
        assert!(place.json(args).is_object(), "{args:?}");
    }
    for (code, args) in
        [(2, "show --nonsense --json"), (2, "pause --json"), (1, "show nope --json")]
    {
        let ran = place.ends(code, args);
        assert_eq!(ran.out, "");
        let said = lines(&ran.err);
        assert_eq!(said.len(), 1, "{}", ran.err);
        assert_eq!(said[0]["success"], false);
        assert!(said[0]["error_code"].is_string());
    }
}

#[test]
fn no_line_of_the_log_stands_among_the_output_of_a_command() {
    let place = Place::new();
    place.begun("a");
    std::fs::write(place.data.join("executions.redb"), "this is no database").unwrap();
    let _ = std::fs::remove_file(place.data.join("executions.redo"));
    for args in ["list executions", "show a", "doctor", "approve", "call"] {
        let ran = place.midex(args);
        ran.err.lacks("WARN…ERROR…INFO…midex::");
    }
}

#[test]
fn help_fits_80_columns_and_shows_examples() {
    let place = Place::new();
    for args in [
        "--help",
        "serve --help",
        "list -h",
        "catalog add --help",
        "help install",
        "help catalog add",
        "help",
    ] {
        let shown = place.done(args);
        shown.shows("Examples:\n  midex …--json");
        let wide = shown.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{args:?}");
    }
    let ran = place.ends(2, "help valdate");
    ran.says("there is no command `valdate`; did you mean `validate`?");
}

#[test]
fn help_says_what_an_error_means_and_what_to_do() {
    let place = Place::new();
    let shown = place.done("help errors store-busy");
    shown.shows("STORE_BUSY\n…Another process owns the data directory.…exit code 75…What to do\n…`midex doctor`");
    let all = place.done("help errors");
    for code in Code::ALL {
        assert!(all.contains(code.as_str()), "{code}");
        let one = place.json(&["help", "errors", code.as_str()]);
        assert_eq!(one["error_code"], code.as_str());
        assert!(!one["what_to_do"].as_array().unwrap().is_empty());
    }
    let ran = place.ends(2, "help errors STORE_BUZY");
    ran.says("no error has the code `STORE_BUZY`; did you mean `STORE_BUSY`?");
    let ran = place.ends(2, "help store-busy");
    ran.says("is the code of an error…Run `midex help errors store-busy`");
}

#[test]
fn help_says_what_a_failure_of_a_step_means_too() {
    let place = Place::new();
    let all = place.done("help errors");
    for code in FailureCode::ALL {
        assert!(all.contains(code.as_str()), "{code}");
        let one = place.done(&["help", "errors", code.as_str()]);
        let said: Vec<_> = one.split_whitespace().collect();
        let meant = code.description().split_whitespace();
        let meant: Vec<_> = meant.collect();
        assert!(said.windows(meant.len()).any(|words| words == meant), "{one}");
    }
    let rejected = place.done("help errors gate-rejected");
    rejected.shows("GATE_REJECTED\n…A person rejected a gate.…midex show EXECUTION_ID");
    let status = place.json("help errors HTTP_503");
    assert_eq!(status["error_code"], "HTTP_NNN");
    // A name that a refusal and a failure share stands for both.
    let both = place.json("help errors ARGUMENTS_INVALID");
    assert_eq!(both["as_failure"]["is_of"], "step", "{both}");
    let ran = place.ends(2, "help errors GATE_REJECTD");
    ran.says("did you mean `GATE_REJECTED`?");
}

#[test]
fn what_help_says_to_do_is_said_once_and_does_not_contradict_itself() {
    let place = Place::new();
    for row in place.rows("help errors").as_array().unwrap() {
        let what_to_do = row["what_to_do"].as_array().unwrap();
        let said: Vec<_> = what_to_do.iter().map(|one| one.as_str().unwrap()).collect();
        if row["retryable"] == false {
            assert!(!said.contains(&"Run the same command again"), "{row}");
        }
        for (at, one) in said.iter().enumerate() {
            let start = |text: &str| text.chars().take(25).collect::<String>();
            let again = said[at + 1..].iter().any(|other| start(other) == start(one));
            assert!(!again, "{row}");
        }
    }
}

#[test]
fn a_refusal_of_the_system_is_told_in_plain_words() {
    let place = Place::new();
    place.file("file", "");
    for (args, said) in [
        ("new workflow x --dir file", "is not a directory"),
        ("new agent x --dir /proc/nope", "is not there"),
        ("catalog add nope.yaml --title T", "there is no file"),
        ("catalog add . --title T", "it is a directory"),
        ("list executions --data-dir file/data", "is not a directory"),
    ] {
        let ran = place.midex(args);
        assert_ne!(ran.code, Some(0), "{args:?}");
        ran.says(&[said]);
        ran.err.lacks("os error…entity not found…(os…No such file");
    }
    place.begun("e");
    place.done("abandon e");
    place.ends(1, "pause e").says("an `abandoned` execution");
}

#[test]
fn a_full_disk_behind_the_output_is_named_and_what_frees_it() {
    let place = Place::new();
    let mut command = place.command("list");
    command.stdout(Stdio::from(File::options().write(true).open("/dev/full").unwrap()));
    let ran = command.output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    said.shows("no room is left where standard output goes…Free room on the disk of the file");
}

#[test]
fn a_server_on_a_terminal_says_what_it_waits_for() {
    let place = Place::new();
    let mut terminal = place.terminal("serve");
    terminal.expect("midex waits for an MCP client on standard input");
    terminal.expect("Ctrl-C ends it");
    drop(terminal);
    let mut piped = super::Running::start_piped(place.command("serve"));
    piped.write("");
    let ran = piped.end();
    assert!(!ran.err.contains("waits for an MCP client"), "{}", ran.err);
}
