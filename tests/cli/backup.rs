//! `midex backup`, `midex restore` and `midex compact`, with a server beside them and without.

use std::fs;

use midex_domain::State;
use midex_engine::store::{
    Options, RedbStore, Store,
    contract::{
        deletion::{build_deletion, sweep_store},
        script::Script,
    },
};
use serde_json::{Value, json};

use super::{Place, Ran, Words};
use midex_test::{Client, Shows, project::each};

/// A command that is refused.
fn refused(place: &Place, args: impl Words) -> Ran {
    let ran = place.midex(args);
    assert!(ran.code.is_some_and(|code| code != 0), "{ran:?}");
    ran
}

fn ids(place: &Place) -> Vec<Value> {
    let listed = place.rows("list executions --all-projects");
    let mut ids = each(listed.as_array().unwrap(), "execution_id");
    ids.sort();
    ids.into_iter().map(Value::from).collect()
}

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(&place.data).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_of_a_running_server_is_restored_elsewhere() {
    let mut place = Place::new();
    let mut server = place.listening();
    for id in ["one", "two"] {
        server.begin("bug-fix", id);
    }
    // The path is that of the command, not of the server.
    let made = place.json("backup monday.redb");
    let file = place.project().join("monday.redb");
    assert_eq!(made["path"], json!(file));
    assert_eq!(made["executions"], 2);
    assert_eq!(made["bytes"], fs::metadata(&file).unwrap().len());
    server.begin("bug-fix", "later");
    refused(&place, "backup monday.redb").says("FILE_EXISTS…Name another FILE");
    refused(&place, &["backup", place.data.join("executions.redb").to_str().unwrap()])
        .says("the store itself");
    refused(&place, "backup nowhere/monday.redb").says("FILE_UNUSABLE");
    // Both need the store for themselves.
    for command in ["compact", "restore monday.redb --replace"] {
        refused(&place, command).says("STORE_BUSY…Stop the midex that uses the data directory");
    }
    server.begin("bug-fix", "last");
    drop(server);
    refused(&place, "restore monday.redb").says("FILE_EXISTS…--replace");
    let replaced = place.json("restore monday.redb --replace");
    assert_eq!(replaced["executions"], 2);
    assert_eq!(ids(&place), ["one", "two"]);
    // What was there is kept.
    let kept = replaced["replaced"].as_str().unwrap().to_owned();
    place.data = place.dir.path().join("new");
    refused(&place, "restore missing.redb").says("FILE_UNUSABLE");
    assert!(!place.data.exists());
    place.done("restore monday.redb").shows("new/executions.redb has 2 executions again");
    assert_eq!(ids(&place), ["one", "two"]);
    place.data = place.dir.path().join("kept");
    place.done(&["restore", &kept]);
    assert_eq!(ids(&place), ["last", "later", "one", "two"]);
    let mut server = place.listening();
    server.begin("bug-fix", "next");
}

#[test]
fn a_backup_needs_no_server_and_a_damaged_one_is_refused() {
    let mut place = Place::new();
    place.begun("one");
    place.done("backup monday.redb").shows("monday.redb has 1 execution in ");
    let file = place.project().join("monday.redb");
    let mut bytes = fs::read(&file).unwrap();
    let half = bytes.len() / 2;
    bytes[..half].fill(7);
    fs::write(&file, bytes).unwrap();
    let ran = refused(&place, "restore monday.redb --replace");
    ran.says("STORE_CORRUPT…Restore another backup");
    assert_eq!(ids(&place), ["one"]);
    place.data = place.dir.path().join("new");
    refused(&place, "restore monday.redb").says("STORE_CORRUPT");
    assert_eq!(names(&place), ["executions.lock"]);
}

#[tokio::test]
async fn a_compaction_makes_the_store_smaller() {
    let place = Place::new();
    refused(&place, "compact").says("FILE_UNUSABLE");
    assert!(!place.data.exists());
    let store = RedbStore::open(&place.data, Options::default()).unwrap();
    let mut scripts = Vec::new();
    for at in 10..60 {
        let mut script = Script::new(&format!("deleted-{at}"), 9);
        script.commit_step(&store).await.unwrap();
        script.commit_output(&store, &format!("{at}").repeat(20_000)).await.unwrap();
        script.commit_state(&store, State::Abandoned).await.unwrap();
        scripts.push(script);
    }
    store.close().await.unwrap();
    place.begun("kept");
    let store = RedbStore::open(&place.data, Options::default()).unwrap();
    for script in &scripts {
        store.delete(build_deletion(script, 1)).await.unwrap();
    }
    sweep_store(&store, 9).await;
    store.close().await.unwrap();
    let length = || fs::metadata(place.data.join("executions.redb")).unwrap().len();
    let before = length();
    let compaction = place.json("compact");
    assert_eq!(compaction["bytes_before"], before);
    assert_eq!(compaction["bytes_after"], length());
    assert!(length() * 2 < before, "{compaction}");
    assert_eq!(ids(&place), ["kept"]);
    place.done("compact").shows("executions.redb has ");
    assert_eq!(names(&place), ["executions.lock", "executions.redb"]);
    place.done("doctor");
}

#[tokio::test]
async fn a_wrong_index_is_a_warning_until_it_is_made_anew() {
    let place = Place::new();
    place.begun("one");
    let store = RedbStore::open(&place.data, Options::default()).unwrap();
    while store.update_index(1).await.unwrap() {}
    store.close().await.unwrap();
    place.done("doctor").lacks("leave out");
    let database = redb::Database::open(place.data.join("executions.redb")).unwrap();
    let writing = database.begin_write().unwrap();
    let summaries = redb::TableDefinition::<u64, &[u8]>::new("summaries.v1");
    let mut table = writing.open_table(summaries).unwrap();
    drop(table.pop_first().unwrap().unwrap());
    drop(table);
    writing.commit().unwrap();
    drop(database);
    place.done("doctor").shows("lists leave out 1 execution…`midex compact`");
    place.done("compact");
    place.done("doctor").lacks("leave out");
    assert_eq!(ids(&place), ["one"]);
}

#[test]
fn a_server_makes_backups_as_its_users_file_says() {
    let place = Place::new();
    let file = place.dir.path().join("midex/midex.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "[backup]\nevery = \"1d\"\nkeep = 2\ndirectory = \"mine\"\n").unwrap();
    let directory = file.with_file_name("mine");
    let mut command = place.command("serve");
    command.stdin(std::process::Stdio::piped());
    let mut server = midex_test::Server::greeted(command);
    server.begin("bug-fix", "one");
    let made = || -> Vec<_> {
        let entries = fs::read_dir(&directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    // A draft is there for a moment.
    let is_made = || matches!(&made()[..], [name] if name.starts_with("midex-"));
    super::until(is_made, "a backup is made");
}
