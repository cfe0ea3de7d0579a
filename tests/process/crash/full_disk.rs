//! Each command that writes, where the files of its process may not grow: a write in its middle fails, as on a full disk, which
//! needs no rights to make. It says so, leaves no file behind and the store whole, and works as soon as there is room.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{
    copies::{listed, midex},
    records::{Template, check_imported, check_pruned, done, import_all},
};
use midex_test::long::{self, Dice};

/// `command`, with a limit on the size of files in blocks of 512 bytes.
fn limit_files(command: &Command, blocks: u64) -> Command {
    let mut limited = Command::new("sh");
    let script = r#"trap '' XFSZ; ulimit -f "$0"; exec "$@""#;
    limited.args(["-c", script, &blocks.to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stdin(Stdio::null());
    limited
}

/// Runs the command with the limit. Returns whether it was done.
fn run_limited(home: &Path, command: &[&str], blocks: u64) -> bool {
    let ran = limit_files(&midex(home, command), blocks).output().unwrap();
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    let codes = ["STORE_UNAVAILABLE", "STORE_FULL", "FILE_UNUSABLE"];
    if !ran.status.success() {
        assert!(ran.status.code().is_some(), "{command:?} at {blocks}: {:?}", ran.status);
        assert!(codes.iter().any(|code| said.contains(code)), "{command:?} at {blocks}: {said}");
        assert!(said.contains("it would be too large"), "{command:?} at {blocks}: {said}");
        let is_export = command[0] == "export" && said.contains("FILE_UNUSABLE");
        assert!(!is_export || said.contains("Free room on the file system of "), "{said}");
    }
    ran.status.success()
}

/// The files that a command left in a place other than their own.
fn leftovers(home: &Path, is_done: bool) -> Vec<String> {
    let own = ["data", "config", "executions.lock", "executions.redb", "control.sock"];
    let is_own = |name: &String| {
        own.contains(&name.as_str()) || is_done && (name == "made" || name.contains(".replaced-"))
    };
    let names = listed(home).into_iter().chain(listed(&home.join("data")));
    names.filter(|name| !is_own(name)).collect()
}

#[tokio::test]
async fn a_command_without_room_says_so_and_harms_nothing() {
    let mut dice = Dice(long::seed(46));
    let template = Template::new().await;
    let (imported, bundle) = import_all(&template).await;
    let backup = template.home.path().join("backup.redb").into_os_string().into_string().unwrap();
    done(template.home.path(), &["backup", &backup]);
    let commands: [&[&str]; 6] = [
        &["export", "--all", "-o", "made"],
        &["backup", "made"],
        &["compact"],
        &["restore", &backup, "--replace"],
        &["prune", "--all-projects", "--keep-last", "3", "--yes"],
        &["import", &bundle],
    ];
    let mut failures = 0;
    for _ in 0..long::rounds(1, 20) {
        for command in commands {
            let copy = template.copy();
            let home = copy.path();
            if command[0] == "import" {
                fs::remove_file(home.join("data/executions.redb")).unwrap();
            }
            let largest = if command[0] == "export" { &bundle } else { &backup };
            let blocks = dice.roll(fs::metadata(largest).unwrap().len() / 512);
            let is_done = run_limited(home, command, blocks);
            assert_eq!(leftovers(home, is_done), [""; 0], "{command:?} at {blocks}");
            failures += u64::from(!is_done);
            let check = async |is_done: bool| match command[0] {
                "import" => {
                    let found = check_imported(home, &imported, true).await;
                    assert!(!is_done || found == imported.ids());
                }
                "prune" => {
                    let left = check_pruned(home, &template).await;
                    assert!(!is_done || left == template.kept());
                }
                _ => assert_eq!(check_pruned(home, &template).await, template.whole.ids()),
            };
            check(is_done).await;
            if !is_done {
                done(home, command);
                check(true).await;
            }
        }
    }
    assert!(failures >= 4, "{failures}");
}
