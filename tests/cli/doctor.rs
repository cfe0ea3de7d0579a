//! `midex doctor`: what it says of directories in every state, and that it changes none of them.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use super::Place;
use midex_test::{Client, Shows};

/// What it says of one thing.
fn of<'a>(said: &'a Value, check: &str) -> &'a Value {
    let all = said.as_array().expect("a list");
    let found = all.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no `{check}` in {said}"))
}

fn doctor(place: &Place, code: i32) -> Value {
    let ran = place.midex("doctor --json");
    // A damaged store is logged too.
    assert_eq!(ran.code, Some(code), "{ran:?}");
    Value::Array(super::lines(&ran.out))
}

#[test]
fn where_nothing_is_yet_nothing_is_wrong_and_nothing_is_made() {
    let place = Place::new();
    let said = doctor(&place, 0);
    assert!(
        said.as_array().expect("a list").iter().all(|finding| finding["verdict"] == "ok"),
        "{said}"
    );
    assert!(!place.data.exists());
}

#[test]
fn a_store_that_nobody_holds_is_read_through() {
    let place = Place::new();
    place.begun("x");
    let said = doctor(&place, 0);
    of(&said, "store")["says"].as_str().unwrap().shows("bytes, read through");
    assert_eq!(of(&said, "owner")["says"], "nobody owns the directory now");
    assert_eq!(of(&said, "executions")["says"], "1 open");
    of(&said, "records")["says"].as_str().unwrap().shows("hold together");
    let mut bytes = fs::read(place.data.join("executions.redb")).unwrap();
    let middle = bytes.len() / 2;
    bytes[..middle].fill(7);
    fs::write(place.data.join("executions.redb"), &bytes).unwrap();
    let said = doctor(&place, 1);
    let store = of(&said, "store");
    assert_eq!(store["verdict"], "fail");
    store["says"].as_str().unwrap().shows("STORE_CORRUPT");
    store["mend"].as_str().unwrap().shows("backup");
    let copied = "a copy of it lies at ";
    let (_, copy) = store["says"].as_str().unwrap().split_once(copied).unwrap();
    assert_eq!(fs::read(copy).unwrap(), bytes);
    assert_eq!(fs::read(place.data.join("executions.redb")).unwrap(), bytes);
}

#[test]
fn an_owner_is_named_with_its_relays_and_its_settings() {
    let place = Place::new();
    let mut owner = place.listening();
    owner.begin("bug-fix", "x");
    let mut relay = place.server();
    relay.status("x");
    let ran = place.midex("doctor --token-ttl 2h");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let pid = format!("process {}, midex ", owner.pid());
    ran.out.shows(&[
        &pid,
        "it serves 1 other\n",
        "warn  settings",
        "--token-ttl is 24h there",
        "1 open",
        "pages were not read through",
        "entries hold together",
    ]);
}

#[test]
fn what_is_open_to_others_is_closed_with_one_command() {
    let place = Place::new();
    let _owner = place.listening();
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&place.data, 0o777);
    mode(&place.socket(), 0o666);
    let said = doctor(&place, 0);
    for (check, mend) in [("directory", "chmod go-w"), ("socket", "chmod 600")] {
        assert_eq!(of(&said, check)["verdict"], "warn");
        of(&said, check)["mend"].as_str().unwrap().shows(&[mend]);
    }
}

#[test]
fn a_directory_that_somebody_holds_without_a_door_is_a_failure() {
    let place = Place::new();
    place.begun("x");
    let _lock = place.lock();
    let said = doctor(&place, 1);
    let owner = of(&said, "owner");
    let process = format!("(process {})", std::process::id());
    owner["says"].as_str().unwrap().shows(&["STORE_BUSY", &process]);
    owner["mend"].as_str().unwrap().shows("end that process");
}

#[test]
fn definitions_that_cannot_be_used_are_named() {
    let place = Place::new();
    place.manifest("workflow: broken\nsteps: 7\n");
    let said = doctor(&place, 0);
    let found = of(&said, "definitions");
    assert_eq!(found["verdict"], "warn");
    found["says"].as_str().unwrap().shows("broken.yaml");
    assert_eq!(found["mend"], "run `midex validate`");
}

#[test]
fn a_database_that_is_gone_is_missed() {
    let place = Place::new();
    place.begun("x");
    fs::remove_file(place.data.join("executions.redb")).unwrap();
    let said = doctor(&place, 0);
    assert_eq!(of(&said, "store")["verdict"], "warn");
    of(&said, "store")["says"].as_str().unwrap().shows("is gone");
    assert!(!place.data.join("executions.redb").exists());
}

#[test]
fn what_is_no_directory_is_said_to_be_none() {
    let place = Place::new();
    let refused = |words: &str| {
        let said = doctor(&place, 1);
        let directory = of(&said, "directory");
        assert_eq!(directory["verdict"], "fail");
        directory["says"].as_str().unwrap().shows(&[words]);
        let all = said.as_array().unwrap();
        assert!(all.iter().all(|finding| finding["check"] != "store"), "{said}");
    };
    fs::write(&place.data, "").unwrap();
    refused("is not a directory");
    fs::remove_file(&place.data).unwrap();
    std::os::unix::fs::symlink("nowhere", &place.data).unwrap();
    refused("is a link to nothing");
    fs::remove_file(&place.data).unwrap();
    std::os::unix::fs::symlink("data", &place.data).unwrap();
    refused("is a link to nothing");
}

#[test]
fn a_directory_that_cannot_be_made_is_a_failure_and_nothing_is_left() {
    let place = Place::new();
    place.file("file", "");
    let here = || {
        let entries = fs::read_dir(place.project()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = here();
    // Nobody can make anything in /proc, whatever it says of its permissions.
    for (path, said) in [
        ("file/below/data", "cannot be made: "),
        ("/proc/midex/data", "cannot be made: /proc cannot be written to"),
    ] {
        let args = ["doctor", "--json", "--data-dir", path];
        let ran = place.ends(1, &args);
        let found = Value::Array(super::lines(&ran.out));
        let directory = of(&found, "directory");
        assert_eq!(directory["verdict"], "fail", "{found}");
        directory["says"].as_str().unwrap().shows(&[said]);
        directory["mend"].as_str().unwrap().shows("--data-dir");
    }
    assert_eq!(here(), before);
    let free = "doctor --data-dir not/yet/there";
    place.ends(0, free).shows("the next server makes it");
    assert_eq!(here(), before);
}

#[test]
fn a_socket_of_a_process_that_was_killed_is_said_to_be_one() {
    let place = Place::new();
    let mut owner = place.listening();
    owner.kill();
    let said = doctor(&place, 0);
    of(&said, "socket")["says"].as_str().unwrap().shows("nobody listens there");
    assert_eq!(of(&said, "owner")["says"], "nobody owns the directory now");
}
