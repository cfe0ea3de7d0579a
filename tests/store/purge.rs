//! A change of the past: rows are stored anew in one transaction with a later row, and content that no row names any more is
//! gone, from the database and from its log.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use midex_domain::{Digest, Event, Execution, Payload, Row, Sequence, State, clock::Timestamp};
use midex_engine::store::{Commit, ExaminationProgress, Options, PastChange, RedbStore, Store};

use super::{
    contract::{contract, disk, memory, sparse_disk},
    disk::crash,
    tale::Tale,
};

contract! {
    content_that_no_row_names_goes_with_the_rows
    content_that_another_row_names_stays
}

const SECRET: &str =
    "\"a secret of eighty bytes, which is longer than what fits beside a digest in a row\"";

fn payload(text: &str) -> Payload {
    let digest = Digest::compute(text.as_bytes());
    Payload { digest, bytes: text.len() as u64, inline: None }
}

/// The next transition of the execution, which keeps a signal with this content.
fn naming(tale: &Tale, text: &str) -> Commit {
    let before = tale.execution.clone().unwrap();
    let row = Row {
        execution_id: tale.id.clone(),
        revision: before.revision() + 1,
        at: Timestamp::from_milliseconds(0),
        events: vec![Event::SignalKept { name: "news".into(), payload: payload(text) }],
    };
    Commit {
        execution: Arc::new(Execution::apply_row(Some(before), &row).unwrap()),
        row: Arc::new(row),
        contents: vec![(payload(text).digest, text.as_bytes().into())],
        due: None,
        position: tale.position,
        past: None,
    }
}

/// An execution that has ended and whose second row names the content.
async fn ended(store: &dyn Store, name: &str) -> Tale {
    let mut tale = Tale::new(name, 1);
    tale.step(store).await.unwrap();
    let commit = naming(&tale, SECRET);
    tale.keep(store, commit).await.unwrap();
    tale.turn(store, State::Abandoned).await.unwrap();
    tale
}

/// Has the second row of the execution name another content.
async fn purge(tale: &mut Tale, store: &dyn Store, searched_before: Sequence) {
    let mut rows = tale.rows.clone();
    rows[1].events = vec![Event::SignalKept { name: "news".into(), payload: payload("null") }];
    let row = Row {
        execution_id: tale.id.clone(),
        revision: rows.len() as u64 + 1,
        at: Timestamp::from_milliseconds(0),
        events: vec![Event::InputsForgotten { keys: vec!["key".into()] }],
    };
    let before = Execution::replay(&rows);
    let commit = Commit {
        execution: Arc::new(Execution::apply_row(before, &row).unwrap()),
        row: Arc::new(row),
        contents: vec![(payload("null").digest, b"null".as_slice().into())],
        due: None,
        position: tale.position,
        past: Some(Box::new(PastChange {
            rows: vec![rows[1].clone()],
            released: [payload(SECRET).digest].into(),
            searched_before,
        })),
    };
    tale.rows = rows;
    tale.keep(store, commit).await.unwrap();
}

async fn is_stored(store: &dyn Store) -> bool {
    store.load_content(payload(SECRET).digest).await.unwrap().is_some()
}

async fn content_that_no_row_names_goes_with_the_rows(store: Arc<dyn Store>) {
    let mut tale = ended(&*store, "one").await;
    Tale::new("two", 1).step(&*store).await.unwrap();
    let (secret, absent) = (payload(SECRET).digest, Digest::compute(b"absent"));
    let holders = store.find_holders([secret, absent].into()).await.unwrap();
    let expected = [(secret, BTreeSet::from([tale.id.clone()]))];
    assert_eq!(holders.by_content, expected.into());
    assert_eq!(holders.searched_before, Sequence(5));
    assert!(is_stored(&*store).await);
    purge(&mut tale, &*store, holders.searched_before).await;
    tale.check(&*store).await;
    assert!(!is_stored(&*store).await);
    assert_eq!(store.find_holders([secret].into()).await.unwrap().by_content, [].into());
    // The same content may come again.
    ended(&*store, "three").await;
    assert!(is_stored(&*store).await);
}

/// A row that came after the search names the content.
async fn content_that_another_row_names_stays(store: Arc<dyn Store>) {
    let mut tale = ended(&*store, "one").await;
    let holders = store.find_holders([payload(SECRET).digest].into()).await.unwrap();
    ended(&*store, "two").await;
    purge(&mut tale, &*store, holders.searched_before).await;
    tale.check(&*store).await;
    assert!(is_stored(&*store).await);
}

fn logs(directory: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let logs = entries.filter(|path| path.to_string_lossy().contains(".redo"));
    logs.map(|path| fs::read(path).unwrap()).collect()
}

fn holds_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

/// The log that holds the content ends with the purge, also if the process is killed right after it.
#[tokio::test]
async fn a_purge_leaves_no_log_with_what_it_removed() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { redo_after: 0, ..Options::default() };
    let store = RedbStore::open(directory.path(), options.clone()).unwrap();
    Tale::new("zero", 1).step(&store).await.unwrap();
    let mut tale = ended(&store, "one").await;
    assert!(logs(directory.path()).iter().any(|log| holds_secret(log)));
    let holders = store.find_holders([payload(SECRET).digest].into()).await.unwrap();
    purge(&mut tale, &store, holders.searched_before).await;
    assert_eq!(logs(directory.path()), Vec::<Vec<u8>>::new());
    let mut two = Tale::new("two", 9);
    two.steps(&store, 5).await;
    assert!(!logs(directory.path()).iter().any(|log| holds_secret(log)));
    let left = crash(directory.path());
    let store = RedbStore::open(left.path(), options).unwrap();
    for tale in [&tale, &two] {
        tale.check(&store).await;
    }
    assert!(!is_stored(&store).await);
    let mut progress = Some(ExaminationProgress::default());
    while let Some(from) = progress {
        progress = store.examine(from).await.unwrap().next_progress;
    }
    store.close().await.unwrap();
}
