//! Writers that meet each other, that are killed, and whose disk or directory does not let them write.

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
    time::Duration,
};

use midex_domain::error::Code;
use midex_registry::{
    self as registry, DefinitionDirectory, DefinitionPlaces, LiveDefinitions, Manifest,
    SaveRequest, Source,
};
use serde_json::{Value, json};

use super::TRIAGE;
use midex_test::{
    Client, NOBODY, Server,
    long::{Dice, rounds, seed},
    project::Project,
    says, without_rights,
};

const FILE: &str = "home/.config/midex/workflows/triage.yaml";

/// A text of the workflow that holds these lines.
fn holding(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| format!("# {line}\n")).collect();
    format!("{TRIAGE}{}", lines.concat())
}

fn lines(content: &str) -> Vec<String> {
    let lines = content.lines().filter_map(|line| line.strip_prefix("# "));
    lines.map(str::to_owned).collect()
}

/// What a call came to that was sent before.
fn answer_to(server: &mut Server, call: u64) -> Value {
    loop {
        let line = server.next_line();
        if line["id"] == call {
            return line["result"]["structuredContent"].clone();
        }
    }
}

/// Lets two writers begin while another one has the directory of the user's workflows, and go on once both wait for it.
#[expect(clippy::disallowed_methods, reason = "a lock of this kind tells nobody who waits for it")]
fn held_up<T>(project: &Project, begin: impl FnOnce() -> T) -> T {
    let path = project.path(FILE).with_file_name(".midex.lock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lock = fs::File::options().write(true).create(true).truncate(false).open(path).unwrap();
    lock.lock().unwrap();
    let threads = begin();
    // So long both have read the file and wait.
    std::thread::sleep(Duration::from_millis(500));
    lock.unlock().unwrap();
    threads
}

/// What two windows are answered that overwrite one file at once, the one that did first.
fn overwritten_at_once(project: &Project, mut windows: [&mut Server; 2]) -> [Value; 2] {
    for window in &mut windows {
        // They have begun, and loaded what is there.
        window.done("workflow.list", json!({}));
    }
    let calls = held_up(project, || {
        windows.map(|client| {
            let manifest = holding(&[client.pid().to_string()]);
            let arguments = json!({ "manifest": manifest, "overwrite": true });
            let save = json!({ "name": "workflow.save", "arguments": arguments });
            let call = client.post("tools/call", save);
            (client, call)
        })
    });
    let mut answers = calls.map(|(client, call)| answer_to(client, call));
    answers.sort_by_key(|answer| answer["success"] != true);
    answers
}

/// Two windows that overwrite one file at once: the second one is refused.
#[test]
fn of_two_windows_that_overwrite_one_file_at_once_the_second_is_refused() {
    let project = Project::new(&[]);
    let (mut one, mut two) = (project.serve(), project.serve());
    let first = one.done("workflow.save", json!({ "manifest": TRIAGE }));
    let answers = overwritten_at_once(&project, [&mut one, &mut two]);
    assert_eq!(answers[0]["replaced_version"], first["version"], "{answers:?}");
    assert_eq!(answers[1]["error_code"], "VERSION_CONFLICT", "{answers:?}");
    let after = one.done("workflow.get", json!({ "workflow_id": "triage" }));
    assert_eq!(after["version"], answers[0]["version"]);
}

/// Neither window has seen the other one's file, which was not there when both began.
#[test]
fn of_two_windows_that_save_a_new_file_at_once_the_second_is_refused() {
    let project = Project::new(&[]);
    let (mut one, mut two) = (project.serve(), project.serve());
    let answers = overwritten_at_once(&project, [&mut one, &mut two]);
    assert_eq!(answers[0]["created"], true, "{answers:?}");
    assert_eq!(answers[1]["error_code"], "WORKFLOW_ALREADY_EXISTS", "{answers:?}");
    let after = one.done("workflow.get", json!({ "workflow_id": "triage" }));
    assert_eq!(after["version"], answers[0]["version"]);
}

/// The same of an embedder, for whom no tool looks at the file before.
#[test]
fn of_two_saves_without_a_version_at_once_the_second_is_refused() {
    let project = Project::new(&[]);
    let path = project.path(FILE).parent().unwrap().to_owned();
    let target = DefinitionDirectory { source: Source::User, path };
    let places = DefinitionPlaces {
        user: None,
        ..DefinitionPlaces::new(Some(&target.path), None, project.root())
    };
    project.write(FILE, TRIAGE);
    let writers = ["one", "two"].map(|line| {
        let save = SaveRequest {
            manifest: Manifest::from_text(holding(&[line.to_owned()]), None),
            should_overwrite: true,
            expected_version: None,
        };
        let definitions = LiveDefinitions::new(places.clone());
        definitions.current_registry();
        (definitions, save)
    });
    let first = Manifest::from_text(TRIAGE.to_owned(), None).version();
    let mut ended = std::thread::scope(|scope| {
        let begin = |(definitions, save)| {
            let target = &target;
            scope.spawn(move || registry::save_workflow(&definitions, target, &save))
        };
        let threads = held_up(&project, || writers.map(begin));
        threads.map(|thread| thread.join().unwrap())
    });
    ended.sort_by_key(Result::is_err);
    let [saved, refused] = &ended;
    let saved = json!(saved.as_ref().unwrap());
    assert_eq!(saved["replaced_version"], first.to_string(), "{saved}");
    let refused = refused.as_ref().unwrap_err();
    assert_eq!(refused.code(), Code::VersionConflict, "{refused:?}");
}

/// Two clients each add a line of their own to what they read, as often as it takes.
#[test]
fn two_clients_edit_one_manifest_and_nothing_is_lost() {
    let project = Project::new(&[]);
    let (mut one, mut two) = (project.serve(), project.serve());
    one.done("workflow.save", json!({ "manifest": TRIAGE }));
    let (count, mut dice) = (rounds(60, 1000), Dice(seed(15)));
    let mut clients = [(&mut one, "one", 0), (&mut two, "two", 0)];
    let mut conflicts = 0;
    while clients.iter().any(|(_, _, done)| *done < count) {
        // Both read; then both write, in an order of chance, so that one of two is late.
        let seen: Vec<Value> = { clients.iter_mut() }
            .map(|(client, ..)| client.done("workflow.get", json!({ "workflow_id": "triage" })))
            .collect();
        let mut posted = Vec::new();
        let first = usize::from(dice.roll(2) == 1);
        for at in [first, 1 - first] {
            let (client, name, done) = &mut clients[at];
            let mut held = lines(seen[at]["content"].as_str().unwrap());
            held.push(format!("{name} {done}"));
            let arguments =
                json!({ "manifest": holding(&held), "expected_version": seen[at]["version"] });
            posted.push((
                at,
                client
                    .post("tools/call", json!({ "name": "workflow.save", "arguments": arguments })),
            ));
        }
        let mut won = 0;
        for (at, call) in posted {
            let (client, _, done) = &mut clients[at];
            let answer = answer_to(client, call);
            if answer["success"] == true {
                won += 1;
                *done += 1;
            } else {
                assert_eq!(answer["error_code"], "VERSION_CONFLICT", "{answer}");
                conflicts += 1;
            }
        }
        assert_eq!(won, 1, "of two saves with one version exactly one wins");
    }
    let held = lines(&fs::read_to_string(project.path(FILE)).unwrap());
    for (_, name, done) in clients {
        let own: Vec<_> = held.iter().filter(|line| line.starts_with(name)).cloned().collect();
        let told: Vec<_> = (0..done).map(|at| format!("{name} {at}")).collect();
        assert_eq!(own, told);
    }
    assert!(conflicts >= count, "{conflicts}");
}

/// The writers are in processes of their own, with data directories of their own: only the files are shared.
#[test]
fn of_writers_in_several_processes_exactly_one_wins() {
    let project = Project::new(&[]);
    let mut servers: Vec<_> = (0..3)
        .map(|at| {
            project
                .serve_with(&["--data-dir", project.path(&format!("data{at}")).to_str().unwrap()])
        })
        .collect();
    let mut version =
        servers[0].done("workflow.save", json!({ "manifest": TRIAGE }))["version"].clone();
    for round in 0..rounds(20, 300) {
        let posted: Vec<_> = { servers.iter_mut().enumerate() }
            .map(|(at, server)| {
                let arguments = json!({ "manifest": format!("{TRIAGE}# {round} {at}\n"), "expected_version": version });
                server.post("tools/call", json!({ "name": "workflow.save", "arguments": arguments }))
            })
            .collect();
        let mut won = Vec::new();
        for (server, call) in servers.iter_mut().zip(posted) {
            let answer = answer_to(server, call);
            if answer["success"] == true {
                won.push(answer["version"].clone());
            } else {
                assert_eq!(answer["error_code"], "VERSION_CONFLICT", "{answer}");
            }
        }
        assert_eq!(won.len(), 1, "round {round}");
        version = won.remove(0);
    }
}

#[test]
fn a_writer_that_is_killed_leaves_the_old_text_or_the_new_one() {
    let project = Project::new(&[]);
    let text = |at: u64| format!("{TRIAGE}# {}\n", format!("{at} ").repeat(50_000));
    let mut dice = Dice(seed(16));
    let mut server = project.serve();
    server.done("workflow.save", json!({ "manifest": text(0) }));
    let (mut old, mut renewed) = (text(0), 0);
    for at in 1..=rounds(8, 100) {
        let arguments = json!({ "manifest": text(at), "overwrite": true });
        server.post("tools/call", json!({ "name": "workflow.save", "arguments": arguments }));
        for _ in 0..dice.roll(40) * 10_000 {
            std::hint::spin_loop();
        }
        server.kill();
        let now = fs::read_to_string(project.path(FILE)).unwrap();
        assert!(now == old || now == text(at), "round {at}: {} bytes", now.len());
        renewed += u64::from(now != old);
        server = project.serve();
        let got = server.done("workflow.get", json!({ "workflow_id": "triage" }));
        assert_eq!(got["content"], now);
        old = now;
    }
    let last = json!({ "manifest": TRIAGE, "overwrite": true });
    server.done("workflow.save", last);
    let mut left: Vec<_> = fs::read_dir(project.path(FILE).parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        [".midex.lock", "triage.yaml"],
        "the next writer sweeps; {renewed} took effect"
    );
}

#[test]
fn a_killed_change_of_name_leaves_one_workflow() {
    let project = Project::new(&[]);
    let mut dice = Dice(seed(17));
    let mut server = project.serve();
    let mut id = "w0".to_owned();
    server.done("workflow.save", json!({ "manifest": TRIAGE.replace(": triage", ": w0") }));
    for at in 1..=rounds(8, 100) {
        let new_id = format!("w{at}");
        let arguments = json!({ "workflow_id": id, "new_id": new_id });
        server.post("tools/call", json!({ "name": "workflow.rename", "arguments": arguments }));
        for _ in 0..dice.roll(40) * 10_000 {
            std::hint::spin_loop();
        }
        server.kill();
        server = project.serve();
        let listed = server.done("workflow.list", json!({ "source": "user" }));
        assert_eq!(listed["total"], 1, "{listed}");
        let one = &listed["workflows"][0];
        assert!(
            one["findings"].is_null()
                && (one["workflow_id"] == *id || one["workflow_id"] == *new_id),
            "{one}"
        );
        id = one["workflow_id"].as_str().unwrap().to_owned();
    }
}

#[test]
fn a_directory_that_is_read_only_is_named_and_stays_as_it_is() {
    let project = Project::new(&[(FILE, TRIAGE)]);
    if rustix::process::geteuid().is_root() {
        let shared = project.root().to_str().unwrap();
        let owned = Command::new("chown").args(["-R", &NOBODY.to_string(), shared]).status();
        assert!(owned.unwrap().success());
        chown(project.root(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let Some(command) = without_rights(project.command(&["serve"])) else {
        return;
    };
    let directory = project.path(FILE).parent().unwrap().to_owned();
    let permit = |mode| fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
    let mut server = Server::greeted(command);
    permit(0o555);
    for (tool, arguments) in [
        ("workflow.save", json!({ "manifest": format!("{TRIAGE}# more\n"), "overwrite": true })),
        ("workflow.save", json!({ "manifest": TRIAGE.replace(": triage", ": new") })),
        ("workflow.rename", json!({ "workflow_id": "triage", "new_id": "new" })),
        ("workflow.delete", json!({ "workflow_id": "triage", "confirm": true })),
    ] {
        let error = server.refused(tool, arguments);
        assert_eq!(error["error_code"], "FILE_UNUSABLE", "{error}");
        let path = error["context"]["path"].as_str().unwrap();
        assert!(Path::new(path).starts_with(&directory), "{error}");
    }
    let entries = fs::read_dir(&directory).unwrap().count();
    permit(0o755);
    assert_eq!((entries, &*fs::read_to_string(project.path(FILE)).unwrap()), (1, TRIAGE));
    server.done("workflow.save", json!({ "manifest": TRIAGE, "overwrite": true }));
}

#[test]
fn on_a_full_disk_the_old_text_stays() {
    let project = Project::new(&[]);
    let directory = project.path("small");
    fs::create_dir(&directory).unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$1\" && shift && exec \"$@\"";
    let inside = |program: &str, arguments: &[&str]| {
        let mut command = project.command("");
        let sandboxed = Command::new("unshare");
        let variables: Vec<_> = command
            .get_envs()
            .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
            .collect();
        command = sandboxed;
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&directory)
            .arg(program)
            .args(arguments);
        command.current_dir(project.root()).env("REGISTRY_WORKFLOWS_PATH", &directory);
        command
    };
    if !inside("true", &[]).output().is_ok_and(|ran| ran.status.success()) {
        return;
    }
    let mut server = Server::run(inside(midex_test::binary(), &["serve"]));
    server.shake_hands();
    let saved = server.done("workflow.save", json!({ "manifest": TRIAGE }));
    let seen = format!("/proc/{}/root{}", server.pid(), directory.display());
    let mut filler = fs::File::create(format!("{seen}/fill")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    let longer = format!("{TRIAGE}# {}\n", "x".repeat(100_000));
    let error = server.refused(
        "workflow.save",
        json!({ "manifest": longer, "expected_version": saved["version"] }),
    );
    assert_eq!(error["error_code"], "FILE_UNUSABLE", "{error}");
    says(&error["message"], "no room is left");
    let action = error["suggested_action"].as_str().unwrap();
    assert!(action.starts_with("Ask your user to free room"), "{action}");
    assert_eq!(fs::read_to_string(format!("{seen}/triage.yaml")).unwrap(), TRIAGE);
    filler.set_len(0).unwrap();
    server
        .done("workflow.save", json!({ "manifest": longer, "expected_version": saved["version"] }));
}
