//! The control socket: whoever talks nonsense to it is turned away, and nobody else notices.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::Path,
    process::{Command, Output},
};

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, Words, address,
    door::{Door, preamble, until},
    serve_alone,
    witness::{WITNESS, Witness},
};

fn midex(home: &Path, args: impl Words) -> Output {
    let mut command = Command::new(midex_test::binary());
    command
        .args(args.words())
        .arg("--data-dir")
        .arg(home.join("data"))
        .current_dir(home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1");
    command.output().unwrap()
}

/// A command beside a server that must succeed; what it printed.
fn commanded(home: &Path, args: impl Words) -> Value {
    let args = args.words();
    let output = midex(home, &args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("one row")
}

#[test]
fn a_caller_that_does_not_say_who_it_is_is_turned_away() {
    let witness = Witness::new();
    let mut other = Door::enter(&witness.data(), witness.home());
    let mut wrong = preamble(witness.home());
    wrong["project_dir"] = json!(5);
    let lines = [
        "\n".to_owned(),
        "garbage\n".to_owned(),
        "{}\n".to_owned(),
        "[]\n".to_owned(),
        "null\n".to_owned(),
        format!("{wrong}\n"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("{}\n", "[".repeat(50_000)),
    ];
    for line in &lines {
        let mut door = Door::knock(&witness.data());
        door.say_bytes(line.as_bytes()).unwrap();
        let answer = door.line().expect("a reason");
        assert_eq!(answer["error"]["error_code"], "USAGE_INVALID", "{line:?}: {answer}");
        assert_eq!(door.line(), None, "{line:?}: the door is closed");
    }
    // Not even a line: bytes that are no text, one of a megabyte, and one that has no end.
    let megabyte = "x".repeat(1 << 20) + "\n";
    for bytes in [&b"\xff\xfe\n"[..], b"\0\0\0\0\n", megabyte.as_bytes()] {
        let mut door = Door::knock(&witness.data());
        // It may be closed before all of it is written.
        let _ = door.say_bytes(bytes);
        while door.line().is_some() {}
    }
    drop(Door::knock(&witness.data()));
    let mut half = Door::knock(&witness.data());
    half.say_bytes(b"{\"midex\":").unwrap();
    drop(half);
    assert_eq!(other.request("ping", json!({}))["result"], json!({}), "others do not notice");
    assert_eq!(commanded(witness.home(), "list executions --json")["execution_id"], WITNESS);
    witness.survives();
}

#[test]
fn garbage_of_one_caller_is_answered_to_it_alone() {
    let witness = Witness::new();
    let mut other = Door::enter(&witness.data(), witness.home());
    let mut noisy = Door::enter(&witness.data(), witness.home());
    let long = "x".repeat(limits::FRAME_BYTES_MAX + 1);
    for line in
        ["garbage", "[]", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":1}", &"[".repeat(100_000), &long]
    {
        noisy.say_bytes(format!("{line}\n").as_bytes()).unwrap();
        let answer = noisy.line().unwrap();
        assert!(answer["error"]["code"].is_number(), "{answer}");
    }
    let arguments = json!({ "execution_id": WITNESS, "nonsense": 1 });
    assert_eq!(noisy.refused("execution.abandon", arguments)["error_code"], "ARGUMENTS_INVALID");
    noisy
        .say_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":")
        .unwrap();
    drop(noisy);
    assert_eq!(other.request("ping", json!({}))["result"], json!({}));
    witness.survives();
}

#[test]
fn silent_callers_make_room_for_those_that_speak() {
    const SILENT: usize = 5 * limits::CONTROL_CLIENTS_MAX;
    let mut witness = Witness::new();
    let mut inside = Door::enter(&witness.data(), witness.home());
    let mut silent: Vec<_> = (0..SILENT).map(|_| Door::knock(&witness.data())).collect();
    for door in silent.iter_mut().step_by(2) {
        // Some are turned away by now.
        let _ = door.say_bytes(b"{\"midex\":\"half a line");
    }
    assert_eq!(inside.request("ping", json!({}))["result"], json!({}), "who is in is served");
    witness.unharmed();
    // All of them together may be silent for much longer than a command waits for its turn.
    assert_eq!(commanded(witness.home(), "list executions --json")["execution_id"], WITNESS);
    let mut late = Door::enter(&witness.data(), witness.home());
    assert_eq!(read_status(&mut late)["state"], "running");
    for door in &mut silent {
        assert_eq!(door.line(), None, "turned away");
    }
    witness.survives();
}

fn read_status(door: &mut Door) -> Value {
    let read =
        door.request("resources/read", json!({ "uri": address("workflow_status", WITNESS) }));
    serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn a_caller_may_name_directories_that_there_are_not() {
    let witness = Witness::new();
    for odd in ["/nonexistent/project", "", "a\0b", "../nowhere", "/dev/null", &"x".repeat(10_000)]
    {
        let mut said = preamble(Path::new(odd));
        said["workflows_dir"] = json!(odd);
        said["agents_dir"] = json!(odd);
        let mut door = Door::knock(&witness.data());
        door.say(&said).unwrap();
        assert!(door.line().unwrap()["error"].is_null(), "{odd:?}");
        let client = json!({ "name": "test", "version": "0" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        door.request("initialize", hello);
        let started = door.begin_with(json!({ "workflow_name": "bug-fix" }));
        assert_eq!(started["step_name"], "diagnose", "{odd:?}");
    }
    witness.survives();
}

#[test]
fn what_a_killed_server_left_at_the_door_is_no_obstacle() {
    let mut witness = Witness::new();
    drop(Door::knock(&witness.data()));
    witness.server.kill();
    let door = witness.data().join("control.sock");
    assert!(fs::symlink_metadata(&door).unwrap().file_type().is_socket(), "it is left behind");
    // A command without a server, then one beside the next server.
    let paused = commanded(witness.home(), &["pause", WITNESS, "--json"]);
    assert_eq!(paused["state"], "paused");
    witness.server = Server::greeted(serve_alone(witness.home(), &[]));
    Door::enter(&witness.data(), witness.home());
    let resumed = commanded(witness.home(), &["resume", WITNESS, "--json"]);
    resumed.has_fields(json!({ "state": "running", "revision": 3 }));
}

#[test]
fn a_file_or_a_link_at_the_door_gives_way_and_what_it_leads_to_stays() {
    let home = tempfile::tempdir().unwrap();
    let (data, kept) = (home.path().join("data"), home.path().join("kept"));
    fs::create_dir(&data).unwrap();
    fs::write(&kept, "mine").unwrap();
    let door = data.join("control.sock");
    let puts: [fn(&Path, &Path); 3] = [
        |door, _| fs::write(door, "no socket").unwrap(),
        |door, kept| symlink(kept, door).unwrap(),
        |door, _| symlink("/nonexistent/x", door).unwrap(),
    ];
    for (at, put) in puts.into_iter().enumerate() {
        let _ = fs::remove_file(&door);
        put(&door, &kept);
        let mut server = Server::greeted(serve_alone(home.path(), &[]));
        let id = format!("e{at}");
        server.begin("bug-fix", &id);
        Door::enter(&data, home.path());
        assert_eq!(commanded(home.path(), &["pause", &id, "--json"])["state"], "paused");
        server.close();
        assert_eq!(fs::read(&kept).unwrap(), b"mine");
    }
}

#[test]
fn a_directory_at_the_door_leaves_the_server_as_it_is_and_commands_say_so() {
    let home = tempfile::tempdir().unwrap();
    let door = home.path().join("data/control.sock");
    fs::create_dir_all(door.join("inner")).unwrap();
    let witness = Witness::in_home(home, &[]);
    let refused = midex(witness.home(), &["pause", WITNESS, "--json"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(75), "it may be tried again: {said}");
    assert!(said.contains("STORE_BUSY"), "{said}");
    assert!(door.join("inner").is_dir());
    let (server, home) = witness.survives();
    server.close();
    let paused = midex(home.path(), &["pause", WITNESS, "--json"]);
    assert!(paused.status.success(), "without a server there is nobody to ask");
}

#[test]
fn a_path_too_long_for_a_socket_is_served_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let deep = (0..6).fold(home.path().to_owned(), |path, _| path.join("y".repeat(40)));
    fs::create_dir_all(&deep).unwrap();
    let mut server = Server::greeted(serve_alone(&deep, &[]));
    server.begin("bug-fix", WITNESS);
    let door = deep.join("data/control.sock");
    assert!(door.as_os_str().len() > 108, "longer than any system's addresses");
    until("a door", || door.exists().then_some(()));
    assert_eq!(commanded(&deep, &["pause", WITNESS, "--json"])["state"], "paused");
    let status = server.status(WITNESS);
    assert_eq!(status["revision"], 2, "the command went through the server");
    server.close();
    assert!(!door.exists());
    assert_eq!(commanded(&deep, &["resume", WITNESS, "--json"])["revision"], 3);
}
