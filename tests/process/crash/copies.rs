//! Backups, restores and compactions under kills: the store is whole afterwards, and the next opening leaves no leftovers.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use midex_domain::State;
use midex_engine::store::{
    Options, RedbStore, Store,
    contract::{pages, script::Script},
};

use super::records::{Records, scan};
use midex_test::long::{self, Dice};

const EXECUTIONS: usize = 60;

/// What a store must have.
struct Filled {
    scripts: Vec<Script>,
    whole: Records,
}

/// A store with as many executions, closed.
async fn fill(data: &Path, name: &str) -> Filled {
    let store = RedbStore::open(data, Options::default()).unwrap();
    let mut scripts = Vec::new();
    for at in 0..EXECUTIONS {
        let mut script = Script::new(&format!("{name}-{at}"), 9);
        script.commit_steps(&store, 2).await;
        script.commit_output(&store, &format!("{at}").repeat(20_000)).await.unwrap();
        // A doctor looks for the definition of an open one, which these have not.
        script.commit_state(&store, State::Abandoned).await.unwrap();
        scripts.push(script);
    }
    let whole = Records::read(&store).await;
    store.close().await.unwrap();
    Filled { scripts, whole }
}

/// The store has these executions and no others, and the contents that they name.
async fn check(data: &Path, Filled { scripts, whole }: &Filled) {
    let store = RedbStore::open(data, Options::default()).unwrap();
    for script in scripts {
        script.check_store(&store).await;
    }
    let all = pages::read_all(&store, pages::query_all(200)).await;
    assert_eq!(all.len(), scripts.len());
    scan(&store, scripts.iter().map(|script| &script.id), whole).await;
    store.close().await.unwrap();
}

pub(super) fn listed(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(super) fn midex(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(midex_test::binary());
    command.args(arguments).args(["--json", "--data-dir"]).arg(home.join("data"));
    command.current_dir(home).env("HOME", home).env("XDG_CONFIG_HOME", home.join("config"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
#[expect(clippy::disallowed_methods, reason = "it kills at random")]
async fn survive(command: &[&str], kills: u64, seed: u64) {
    println!("midex {command:?} under kills: seed {seed}, {kills} kills");
    let template = tempfile::tempdir().unwrap();
    let old = fill(&template.path().join("data"), "old").await;
    let new = fill(&template.path().join("other"), "new").await;
    let (mut dice, mut duration, mut done) = (Dice(seed), Duration::ZERO, 0);
    // The first one is not killed: it tells how long the command takes.
    for kill in 0..=kills {
        let home = tempfile::tempdir().unwrap();
        let (data, there) = (home.path().join("data"), home.path().join("there"));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&there).unwrap();
        fs::copy(template.path().join("data/executions.redb"), data.join("executions.redb"))
            .unwrap();
        let backup = home.path().join("new.redb");
        fs::copy(template.path().join("other/executions.redb"), backup).unwrap();
        let start = std::time::Instant::now();
        let mut child = midex(home.path(), command).spawn().unwrap();
        if kill == 0 {
            assert!(child.wait().unwrap().success());
            duration = start.elapsed();
        } else {
            let after = dice.roll(u64::try_from(duration.as_micros()).unwrap() * 11 / 10);
            std::thread::sleep(Duration::from_micros(after));
            child.kill().unwrap();
            done += u64::from(child.wait().unwrap().success());
        }
        // Only the restore puts another store in the place of this one.
        let kept = |name: &String| name.contains(".replaced-");
        let is_replaced = RedbStore::open(&data, Options::default())
            .unwrap()
            .load(&old.scripts[0].id)
            .await
            .unwrap()
            .is_none();
        assert!(!is_replaced || command[0] == "restore");
        check(&data, if is_replaced { &new } else { &old }).await;
        if is_replaced {
            let kept = listed(&data).into_iter().find(kept).expect("the old one is kept");
            let other = tempfile::tempdir().unwrap();
            fs::copy(data.join(kept), other.path().join("executions.redb")).unwrap();
            check(other.path(), &old).await;
        }
        let made = listed(&there);
        if made.contains(&"backup.redb".to_owned()) {
            let other = tempfile::tempdir().unwrap();
            fs::copy(there.join("backup.redb"), other.path().join("executions.redb")).unwrap();
            check(other.path(), &old).await;
        }
        assert!(made.iter().all(|name| name == "backup.redb"), "{made:?}");
        let doctor = midex(home.path(), &["doctor"]).stdout(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.status.code(), Some(0), "{said}");
        let whole = ["executions.lock", "executions.redb", "control.sock"];
        let is_expected =
            |name: &String| whole.contains(&name.as_str()) || is_replaced && kept(name);
        let mut left = listed(&data);
        left.retain(|name| !is_expected(name));
        assert!(left.is_empty(), "{left:?}");
    }
    println!("midex {command:?}: {done} of {kills} ended before the kill, after {duration:?}");
}

#[tokio::test]
async fn a_compaction_that_is_killed_leaves_a_whole_store() {
    survive(&["compact"], long::rounds(8, 50), long::seed(41)).await;
}

#[tokio::test]
async fn a_restore_that_is_killed_leaves_the_old_store_or_the_new_one() {
    survive(&["restore", "new.redb", "--replace"], long::rounds(8, 50), long::seed(42)).await;
}

#[tokio::test]
async fn a_backup_that_is_killed_leaves_a_whole_one_or_none() {
    survive(&["backup", "there/backup.redb"], long::rounds(8, 50), long::seed(43)).await;
}
