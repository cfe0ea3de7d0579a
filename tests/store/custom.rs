//! The store of `examples/custom-store` keeps the contract, and is opened again after a torn commit.

use std::{fs, path::Path, sync::Arc};

use midex::{
    Code,
    store::{
        Store,
        contract::{
            check_reopening,
            purge::{PURGED_CONTENT, build_payload, purge_content, store_ended_script},
            suite,
        },
    },
};

use self::log_store::LogStore;
use super::script::Script;

#[path = "../../examples/custom-store/log_store.rs"]
mod log_store;

async fn open(directory: &Path) -> Arc<dyn Store> {
    Arc::new(LogStore::open(directory).await.unwrap())
}

suite!(open);

#[test]
fn the_store_outlives_its_process() {
    check_reopening(open);
}

#[tokio::test]
async fn a_purge_removes_content_from_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let holds_content = || {
        let log = fs::read(directory.path().join("commits.log")).unwrap();
        log.windows(PURGED_CONTENT.len()).any(|window| window == PURGED_CONTENT.as_bytes())
    };
    let store = open(directory.path()).await;
    let mut script = store_ended_script(&*store, "one").await;
    assert!(holds_content());
    let digest = build_payload(PURGED_CONTENT).digest;
    let holders = store.find_holders([digest].into()).await.unwrap();
    purge_content(&mut script, &*store, holders.searched_before).await;
    assert!(!holds_content());
}

#[tokio::test]
async fn a_torn_commit_is_dropped_and_damage_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("commits.log");
    let store = open(directory.path()).await;
    let mut script = Script::new("one", 9);
    script.commit_steps(&*store, 2).await;
    let whole = fs::read(&log).unwrap();
    let before = script.duplicate();
    script.commit_step(&*store).await.unwrap();
    let busy = LogStore::open(directory.path()).await.unwrap_err();
    assert_eq!(busy.code(), Code::StoreBusy);
    drop(store);

    let longer = fs::read(&log).unwrap();
    for length in whole.len()..longer.len() {
        fs::write(&log, &longer[..length]).unwrap();
        let store = open(directory.path()).await;
        before.check_store(&*store).await;
    }
    let mut damaged = longer;
    damaged[40] ^= 1;
    fs::write(&log, &damaged).unwrap();
    let error = LogStore::open(directory.path()).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt);
}
