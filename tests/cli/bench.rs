//! `midex bench`: that its table is whole, that what failed or was interrupted prints no figure, and that nothing is left
//! behind. What it measures is no matter here.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::{Place, Ran, Running, Words, until};
use midex_test::Shows;

/// So short that only few in flight are measured.
const QUICK: &str = "bench --seconds 0.05 --only";

/// What lies beside the data directory.
fn beside(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.dir.path()).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn figures<'a>(said: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = said["figures"].as_array().expect("a list");
    all.iter().filter(|figure| figure["name"] == name).collect()
}

fn median(figure: &Value, measure: &str) -> f64 {
    let median = figure["measures"][measure]["median"].as_f64();
    median.unwrap_or_else(|| panic!("no {measure} in {figure}"))
}

/// The same command with files of at most so many blocks of 512 bytes.
fn with_small_files(command: &Command, blocks: u32) -> Command {
    let mut shell = Command::new("sh");
    // Else the signal that comes with the refusal ends the process.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    shell.args(["-c", &script, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().expect("a project"));
    shell
}

fn end(mut command: Command) -> Ran {
    use std::process::Stdio;
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command).end()
}

#[test]
fn transitions_are_measured_beside_a_sync_and_nothing_is_left_behind() {
    let place = Place::new();
    let said = place.json(QUICK.and("engine"));
    for name in ["fdatasync", "midex", "midex, snapshot_every 16", "redb, a commit each"] {
        let found = figures(&said, name);
        let levels: Vec<_> = found.iter().map(|figure| &figure["in_flight"]).collect();
        assert_eq!(levels, [1, 16], "{name}");
        for figure in found {
            assert!(median(figure, "rate") > 0.0 && median(figure, "cpu") > 0.0, "{figure}");
            assert!(median(figure, "p50") <= median(figure, "p99"), "{figure}");
            assert_eq!(figure["measures"]["p50"]["turns"].as_array().unwrap().len(), 2);
        }
    }
    // Alone each transition is a commit, and so a sync.
    for name in ["midex", "redb, a commit each"] {
        assert!(median(figures(&said, name)[0], "syncs") >= 1.0, "{said}");
        assert!(median(figures(&said, name)[0], "writes") >= 1.0, "{said}");
    }
    assert!(said["machine"]["cores"].as_u64() > Some(0), "{said}");
    said["notes"].to_string().shows("too short for 256 in flight…too short for 4096");
    assert_eq!(beside(&place), ["project"]);
}

#[test]
fn starts_wakes_and_reads_are_measured_alone_or_together_as_a_table() {
    let place = Place::new();
    let shown = place.done(QUICK.and("start,wake"));
    shown.shows("cores…calls…in flight…rate 1/s…start …wake …fdatasync");
    shown.lacks("transitions…current_step");
    let said = place.json(QUICK.and("current_step"));
    let found = figures(&said, "current_step");
    assert!(median(found[0], "rate") > 0.0, "{said}");
    assert!(figures(&said, "wake").is_empty(), "{said}");
}

#[test]
fn servers_are_measured_over_every_transport_with_their_own_processor_time() {
    let place = Place::new();
    let said = place.json(QUICK.and("next_step"));
    for name in ["stdio", "stdio, through a relay", "HTTP, stateless", "HTTP, session"] {
        let found = figures(&said, name);
        assert_eq!(found.len(), 1, "{name}: {said}");
        assert!(median(found[0], "rate") > 0.0, "{said}");
        // The clock of the system may be too coarse to see any of so short a turn.
        assert!(median(found[0], "cpu") >= 0.0, "{said}");
    }
    assert!(median(figures(&said, "engine, in this process")[0], "rate") > 0.0);
    assert_eq!(beside(&place), ["project"]);
}

#[test]
fn servers_are_measured_as_a_whole_and_a_file_with_many_stored_beside_a_new_one() {
    let place = Place::new();
    let said = place.json(QUICK.and("cold_start,memory,stored --stored 300"));
    for name in ["cold start", "start after a kill"] {
        assert!(median(figures(&said, name)[0], "p50") > 0.0, "{said}");
    }
    for measure in ["rss", "private", "live"] {
        assert!(median(figures(&said, "memory")[0], measure) > 0.0, "{said}");
    }
    for name in ["new file", "many stored"] {
        assert!(median(figures(&said, name)[0], "rate") > 0.0, "{said}");
    }
    assert!(figures(&said, "memory, then asleep").is_empty(), "{said}");
    assert_eq!(beside(&place), ["project"]);
}

#[test]
fn a_slow_disk_is_as_slow_for_all() {
    let place = Place::new();
    let said = place.json(QUICK.and("engine,next_step,memory --slow-disk 5ms"));
    for name in ["fdatasync", "midex", "redb, a commit each"] {
        let alone = figures(&said, name)[0];
        assert!(median(alone, "p50") >= 5000.0, "{alone}");
    }
    assert_eq!(said["slow_disk_ms"], 5.0);
    assert!(figures(&said, "stdio").is_empty() && figures(&said, "memory").is_empty());
    said["notes"].to_string().shows("servers are not measured");
}

#[test]
fn a_run_in_which_something_failed_prints_no_figure() {
    let place = Place::new();
    let command = place.command(QUICK.and("engine"));
    // Too small for the page of the probe, and for a new database.
    for blocks in [4, 100, 1100] {
        let ran = end(with_small_files(&command, blocks));
        assert_ne!(ran.code, Some(0), "{blocks}: {ran:?}");
        assert_eq!(ran.out, "");
        ran.says("no figure is shown…help: …--data-dir");
        assert_eq!(beside(&place), ["project"]);
    }
}

#[test]
fn where_nothing_can_be_written_it_says_so() {
    let place = Place::new();
    let ran = place.midex("bench --data-dir /proc/none/data");
    assert_eq!(ran.out, "");
    ran.says("error[FILE_UNUSABLE]: `/proc` cannot be measured on");
}

#[test]
fn an_interrupted_run_prints_no_figure_and_leaves_nothing_behind() {
    use rustix::process::Signal;
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let running = Running::start(place.command("bench --seconds 600"));
        let has_store = |directory: &Path| {
            let stores = fs::read_dir(directory).into_iter().flatten().flatten();
            stores.into_iter().any(|entry| entry.path().join("executions.redb").exists())
        };
        let works = || {
            let name = beside(&place).into_iter().find(|name| name.starts_with(".midex-bench-"));
            name.is_some_and(|name| has_store(&place.dir.path().join(name)))
        };
        until(works, "a store is measured");
        running.signal(signal);
        let ran = running.end().ends(130);
        assert_eq!(ran.out, "");
        ran.says("interrupted");
        assert!(!ran.err.contains("was removed or moved"), "{}", ran.err);
        assert_eq!(beside(&place), ["project"]);
    }
}

#[test]
fn a_length_or_a_number_that_means_nothing_is_refused() {
    let place = Place::new();
    for seconds in ["0", "-1", "x", "NaN", "inf", "3600.1"] {
        let ran = place.midex(&["bench", &format!("--seconds={seconds}")]);
        ran.ends(2).says("expected seconds, more than 0 and at most 3600");
    }
}
