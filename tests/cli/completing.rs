//! Completion of words, as a shell asks for it.

use std::process::{Command, Stdio};

use midex_domain::limits;

use super::{Place, until};
use midex_test::{Shows, Words};

/// What `bash` offers for the last of these words, with the script that `midex completions` prints; `None` without a bash.
fn offered(place: &Place, words: &str) -> Option<Vec<String>> {
    let script = place.done("completions bash");
    let path = place.dir.path().join("completions.bash");
    std::fs::write(&path, script).unwrap();
    let binary = std::path::Path::new(midex_test::binary());
    let line = format!(
        "source {}; COMP_WORDS=(midex \"$@\"); COMP_CWORD=$#; _clap_complete_midex midex \"${{@: -1}}\" x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        path.display()
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &line, "bash"])
        .args(words.words())
        .current_dir(place.project())
        .env("PATH", format!("{}:/usr/bin:/bin", binary.parent().unwrap().display()))
        .env("MIDEX_DATA_DIR", &place.data)
        .env("HOME", place.dir.path())
        .env("XDG_CONFIG_HOME", place.dir.path())
        .env_remove("RUST_LOG");
    let ran = bash.stdin(Stdio::null()).output().ok()?;
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "{words:?}");
    let out = String::from_utf8(ran.stdout).unwrap();
    Some(out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// It comes to be offered: a busy machine may be too slow for the first tries.
fn offers(place: &Place, words: &str, expected: &str) {
    let mut last = Vec::new();
    let has_all = || match offered(place, words) {
        Some(offered) => {
            last = offered;
            expected.words().iter().all(|one| last.contains(one))
        }
        None => true,
    };
    until(has_all, &format!("{expected:?} for {words:?}"));
}

const WAITING: &str =
    "workflow: waiting\ndescription: d\nsteps:\n  - { id: hear, wait: { signal: ready } }\n";

#[test]
fn bash_offers_what_is_there_just_now() {
    let place = Place::new();
    place.manifest(WAITING);
    place.begun("release-one");
    place.begun("a b$(x)");
    let server = place.listening();
    place.done("pause release-one");
    offers(&place, "sho", "show");
    offers(&place, "show --data", "--data-dir");
    offers(&place, "show ''", "release-one @last @last-failed");
    offers(&place, "resume rel", "release-one");
    offers(&place, "run wai", "waiting");
    let Some(shown) = offered(&place, "show a") else {
        return;
    };
    assert!(shown.is_empty(), "bash would run it: {shown:?}");
    drop(server);
}

#[test]
fn signals_and_workflows_are_offered() {
    let place = Place::new();
    place.manifest(WAITING);
    let run = place.command("run waiting --id w");
    let running = super::Running::start_piped(run);
    until(|| place.midex("show w").code == Some(0), "it has begun");
    running.signal(rustix::process::Signal::TERM);
    running.end().ends(1);
    let _server = place.listening();
    offers(&place, "signal w ''", "ready");
    offers(&place, "signal '' ''", "ready");
    offers(&place, "list --workflow bug", "bug-fix");
}

#[test]
fn a_completion_says_nothing_and_makes_nothing_whatever_it_finds() {
    let place = Place::new();
    let ask = || {
        let mut command = place.command("-- midex show ''");
        command.env("MIDEX_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
        super::Running::start(command).end().ends_quietly(0)
    };
    assert!(!ask().out.contains("@last"));
    assert!(!place.data.exists(), "the first use of a directory is not its own");
    place.begun("a");
    let held = place.lock();
    #[expect(clippy::disallowed_methods, reason = "times a real process")]
    let before = std::time::Instant::now();
    assert!(!ask().out.contains("@last"));
    assert!(before.elapsed().as_secs() < 5);
    drop(held);
    std::fs::write(place.data.join("executions.redb"), "this is no database").unwrap();
    ask();
    for shell in ["nonsense", "bash"] {
        let mut command = place.command("-- midex");
        command.env("MIDEX_COMPLETE", shell);
        super::Running::start(command).end().ends_quietly(0);
    }
}

#[test]
fn there_is_a_script_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.done(&["completions", shell]);
        script.shows("MIDEX_COMPLETE…midex");
    }
    place.ends(2, "completions tcsh");
}

#[test]
fn no_more_is_offered_than_the_limit_says_and_what_fits_comes_before_it() {
    let place = Place::new();
    let most = limits::COMPLETIONS_MAX;
    for at in 0..most + 10 {
        let name = format!("many-{at:03}");
        place.workflow(&name, &[("a", &[])]);
    }
    let Some(shown) = offered(&place, "run many") else {
        return;
    };
    assert_eq!(shown.len(), most, "{shown:?}");
    // The last of them fit, though they stand past the limit of all.
    let last = format!("many-{:03}", most + 9);
    offers(&place, &format!("run {last}"), &last);
    for at in 0..10 {
        place.run(1, &format!("many-e{at}"), "");
    }
    let _server = place.listening();
    offers(&place, "show ''", "@last many-e0");
    let shown = offered(&place, "graph many").unwrap_or_default();
    assert_eq!(shown.len(), most, "{shown:?}");
}

#[test]
fn steps_that_wait_and_odd_names_are_offered_where_a_shell_takes_them() {
    let place = Place::new();
    place.manifest("workflow: gated\ndescription: d\nsteps:\n  - { id: agree, gate: Is it so? }\n");
    for id in ["größe", "release 4", "-x", "日本"] {
        let id = format!("--id={id}");
        place.with_stdin(&["run", "bug-fix", &id], "");
    }
    place.with_stdin("run gated --id g", "");
    let _server = place.listening();
    offers(&place, "approve g ''", "agree");
    offers(&place, "show grö", "größe");
    offers(&place, "graph 日", "日本");
    offers(&place, "run bug-fix --id 日", "日本");
    offers(&place, "new workflow x --from gat", "gated");
    for begun in ["release", "-x"] {
        let Some(shown) = offered(&place, &format!("show {begun}")) else {
            return;
        };
        // Neither a shell nor midex would read them as they are.
        assert!(!shown.iter().any(|word| word == "-x" || word.starts_with("release")), "{shown:?}");
    }
}
