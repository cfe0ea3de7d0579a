//! A data directory that is none, or may not be used: each call says so, and nothing is lost or replaced.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

use midex_test::{Client, Server, address, has_fields, output, without_rights, witness::tree};

/// A server on this data directory; its definitions are the shipped ones.
fn serve(home: &Path, data: &Path) -> Command {
    let mut command = Command::new(midex_test::binary());
    command
        .args(["serve", "--data-dir"])
        .arg(data)
        .current_dir(home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("RUST_LOG");
    command
}

fn start(server: &mut Server) -> Value {
    server.begin("bug-fix", "e")
}

/// What needs the store is refused with this code and names the path; what does not is answered; the end is orderly.
fn refuses(mut server: Server, code: &str, path: &Path) {
    let path = path.display().to_string();
    for (tool, arguments) in [
        ("workflow.start", json!({ "workflow_name": "bug-fix" })),
        ("execution.list", json!({})),
        ("execution.resume", json!({})),
        ("execution.pause", json!({ "execution_id": "e" })),
        ("execution.wait", json!({ "execution_id": "e", "timeout_s": 0 })),
    ] {
        let refused = server.refused(tool, arguments);
        assert_eq!(refused["error_code"], json!(code), "{tool}: {refused}");
        assert_eq!(refused["retryable"], false, "{tool}: {refused}");
        let action = refused["suggested_action"].as_str().unwrap();
        assert!(action.contains(&path), "{tool} names {path}: {refused}");
    }
    let unread = server.read_error(&address("workflow_status", "e"));
    assert_eq!(unread["data"]["error_code"], code, "{unread}");
    let listed = server.read("midex://workflow/available_workflows");
    assert!(!listed.as_array().unwrap().is_empty(), "what needs no store is answered");
    let (exit, _, lines) = server.close();
    assert!(exit.success() && lines.is_empty(), "{exit} {lines:?}");
}

/// The same from a command: exit 2, the code on stderr, nothing on stdout.
fn command_refuses(home: &Path, data: &Path, code: &str) {
    let listed = Command::new(midex_test::binary())
        .args(["list", "executions", "--json", "--data-dir"])
        .arg(data)
        .current_dir(home)
        .output()
        .unwrap();
    let said = String::from_utf8(listed.stderr).unwrap();
    assert_eq!(listed.status.code(), Some(2), "{said}");
    assert!(listed.stdout.is_empty() && said.contains(code), "{said}");
}

#[test]
fn a_data_directory_that_is_none_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let here = |name: &str| home.path().join(name);
    fs::write(here("file"), "mine").unwrap();
    symlink(here("circle"), here("circle")).unwrap();
    symlink(here("nowhere/at/all"), here("dangling")).unwrap();
    let before = tree(home.path());
    let long = "x".repeat(300);
    for data in ["file", "file/below", "circle", "circle/below", &long] {
        let data = here(data);
        refuses(Server::greeted(serve(home.path(), &data)), "FILE_UNUSABLE", &data);
        command_refuses(home.path(), &data, "FILE_UNUSABLE");
    }
    assert_eq!(tree(home.path()), before);
    assert_eq!(fs::read(here("file")).unwrap(), b"mine");
    // Nothing is served through a link that leads nowhere either, nor made where nothing can be.
    for data in [here("dangling"), "/proc/midex/data".into(), "/dev/null".into()] {
        refuses(Server::greeted(serve(home.path(), &data)), "FILE_UNUSABLE", &data);
    }
}

/// A file of which no more is known than that an earlier build says its format in it.
fn written_before_the_first_release(path: &Path) {
    let database = redb::Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta.v1");
    let mut meta = transaction.open_table(meta).unwrap();
    meta.insert("format", [3].as_slice()).unwrap();
    drop(meta);
    transaction.commit().unwrap();
}

#[test]
fn what_stands_in_the_place_of_the_stores_files_is_refused_and_left_as_it_is() {
    type Put = fn(&Path);
    let cases: [(&str, &str, Put); 8] = [
        ("executions.redb", "FILE_UNUSABLE", |path| {
            fs::create_dir(path).unwrap();
        }),
        ("executions.redb", "FILE_UNUSABLE", |path| {
            symlink("/nonexistent/x", path).unwrap();
        }),
        ("executions.redb", "FILE_UNUSABLE", |path| {
            symlink(path, path).unwrap();
        }),
        ("executions.redb", "STORE_CORRUPT", |path| {
            fs::write(path, "").unwrap();
        }),
        ("executions.redb", "STORE_CORRUPT", |path| {
            fs::write(path, "x".repeat(100_000)).unwrap();
        }),
        ("executions.redb", "STORE_FORMAT", written_before_the_first_release),
        ("executions.lock", "FILE_UNUSABLE", |path| {
            fs::create_dir(path).unwrap();
        }),
        ("executions.lock", "FILE_UNUSABLE", |path| {
            symlink(path, path).unwrap();
        }),
    ];
    for (name, code, put) in cases {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        let path = data.join(name);
        put(&path);
        let (kind, content) =
            (fs::symlink_metadata(&path).unwrap().file_type(), fs::read(&path).ok());
        refuses(Server::greeted(serve(home.path(), &data)), code, &path);
        command_refuses(home.path(), &data, code);
        let after = (fs::symlink_metadata(&path).unwrap().file_type(), fs::read(&path).ok());
        assert_eq!(after, (kind, content), "{name} is as it was");
        // Once it has gone, all is well.
        if kind.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
        start(&mut Server::greeted(serve(home.path(), &data)));
    }
}

/// The log of a server that was started in a data directory of this mode.
fn log_in(mode: u32) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    permit(&data, mode);
    let log = home.path().join("log");
    let mut server = Server::logging(serve(home.path(), &data), fs::File::create(&log).unwrap());
    server.shake_hands();
    start(&mut server);
    server.close();
    let data = data.display().to_string();
    (fs::read_to_string(log).unwrap(), data)
}

#[test]
fn a_data_directory_that_others_may_write_to_is_warned_of() {
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        let (log, data) = log_in(mode);
        assert!(log.contains(&format!("run `chmod go-w {data}`")), "{log}");
        assert!(log.contains(&format!("mode {mode:04o}")), "{log}");
    }
    for mode in [0o700, 0o755] {
        let (log, _) = log_in(mode);
        assert!(!log.contains("chmod"), "{log}");
    }
}

/// A file system of its own, which the server alone sees. None where this user may not have one; the checks before a
/// landing, which set `CI`, do not go past that.
fn on_a_small_disk(home: &Path, data: &Path, size: &str) -> Option<Command> {
    let script = format!("mount -t tmpfs -o size={size} none \"$1\" && shift && exec \"$@\"");
    let inside = |flags: &[&str], program: &str| {
        let mut command = Command::new("unshare");
        command.args(flags).args(["sh", "-c", &script, "sh"]);
        command.arg(data).arg(program);
        command
    };
    let mut faults = Vec::new();
    // Who is not the superuser may be it in a space of its own.
    for flags in [&["--mount"][..], &["--mount", "--map-root-user"]] {
        match inside(flags, "true").output() {
            Ok(ran) if ran.status.success() => {
                let mut command = inside(flags, midex_test::binary());
                command
                    .args(["serve", "--data-dir"])
                    .arg(data)
                    .current_dir(home)
                    .env("XDG_CONFIG_HOME", home.join("config"))
                    .env_remove("RUST_LOG");
                return Some(command);
            }
            Ok(ran) => faults.push(String::from_utf8_lossy(&ran.stderr).trim().to_owned()),
            Err(error) => faults.push(error.to_string()),
        }
    }
    cannot_run("unshare and mount a file system", &faults);
    None
}

/// Says why a test looks at nothing here.
#[expect(clippy::print_stderr, reason = "the test harness shows it with --nocapture")]
fn cannot_run(what: &str, faults: &[String]) {
    let why = format!("skipped: this user cannot {what} ({})", faults.join("; "));
    eprintln!("{why}");
}

#[test]
fn a_full_disk_says_how_much_to_free_and_that_is_enough() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    let Some(command) = on_a_small_disk(home.path(), &data, "32m") else {
        return;
    };
    let mut server = Server::greeted(command);
    let first = start(&mut server);
    let seen = format!("/proc/{}/root{}/fill", server.pid(), data.display());
    let mut filler = fs::File::create(seen).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    let text = "x".repeat(3 << 20);
    let arguments = json!({ "token": first["new_token"], "output": output(&text) });
    let refused = server.refused("workflow.next_step", arguments.clone());
    has_fields(&refused, json!({ "error_code": "STORE_FULL", "retryable": true }));
    let needed = refused["context"]["needed_mib"].as_u64().unwrap();
    let action = refused["suggested_action"].as_str().unwrap();
    for part in [format!("{needed} MiB"), data.display().to_string()] {
        assert!(action.contains(&part), "{refused}");
    }
    let length = filler.metadata().unwrap().len();
    // One less is too little.
    filler.set_len(length - (needed - 1) * (1 << 20)).unwrap();
    let again = server.refused("workflow.next_step", arguments.clone());
    assert_eq!(again["context"]["needed_mib"], 1, "{again}");
    filler.set_len(length - needed * (1 << 20)).unwrap();
    server.done("workflow.next_step", arguments);
    server.close();
}

/// Opening a pipe waits for whoever writes to it: it is not opened.
#[test]
fn a_pipe_in_the_place_of_the_stores_files_is_refused_at_once() {
    for name in ["executions.redb", "executions.lock"] {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        let path = data.join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let server = Server::greeted(serve(home.path(), &data));
        refuses(server, "FILE_UNUSABLE", &path);
        command_refuses(home.path(), &data, "FILE_UNUSABLE");
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        fs::remove_file(&path).unwrap();
        start(&mut Server::greeted(serve(home.path(), &data)));
    }
}

#[test]
fn a_server_whose_executions_were_removed_says_so_and_the_next_one_too() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut server = Server::greeted(serve(home.path(), &data));
    let first = start(&mut server);
    let file = data.join("executions.redb");
    fs::remove_file(&file).unwrap();
    let refused = server.refuse(&first["new_token"], output("done"));
    assert_eq!(refused["error_code"], "STORE_LOST", "{refused}");
    refuses(server, "STORE_LOST", &file);
    let log = home.path().join("log");
    let mut next = Server::logging(serve(home.path(), &data), fs::File::create(&log).unwrap());
    next.shake_hands();
    start(&mut next);
    next.close();
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("is gone; an empty one is begun"), "{log}");
    assert!(log.contains(file.to_str().unwrap()), "{log}");
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_may_not_be_written_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    permit(home.path(), 0o755);
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    // What may be read and not written, what may be neither, and what is to be made below either.
    for mode in [0o555, 0o000] {
        permit(&data, mode);
        let below = data.join("below");
        let run = |data: &Path| without_rights(serve(home.path(), data)).map(Server::greeted);
        let (Some(here), Some(under)) = (run(&data), run(&below)) else {
            return;
        };
        refuses(here, "FILE_UNUSABLE", &data);
        refuses(under, "FILE_UNUSABLE", &below);
    }
    permit(&data, 0o755);
    assert!(tree(&data).is_empty());
}

#[test]
fn executions_that_may_not_be_read_are_refused_and_all_there_once_they_may() {
    let home = tempfile::tempdir().unwrap();
    permit(home.path(), 0o755);
    let data = home.path().join("data");
    let first = start(&mut Server::greeted(serve(home.path(), &data)));
    let file = data.join("executions.redb");
    // Everything but the one file is free to all.
    permit(&data, 0o777);
    permit(&data.join("executions.lock"), 0o666);
    let before = fs::read(&file).unwrap();
    for mode in [0o000, 0o444] {
        permit(&file, mode);
        let Some(command) = without_rights(serve(home.path(), &data)) else {
            return;
        };
        refuses(Server::greeted(command), "FILE_UNUSABLE", &file);
    }
    assert_eq!(fs::read(&file).unwrap(), before, "not a byte has changed");
    permit(&file, 0o600);
    let mut server = Server::greeted(serve(home.path(), &data));
    assert_eq!(server.finish(&first["new_token"], "done")["step_name"], "fix");
}
