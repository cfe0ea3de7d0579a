//! Content that no row names any more is gone from the log of the database too.

use std::{fs, path::Path};

use midex_engine::store::{
    ExaminationProgress, Options, RedbStore, Store,
    contract::purge::{
        PURGED_CONTENT, build_payload, is_content_stored, purge_content, store_ended_script,
    },
};

use super::{disk::crash, script::Script};

fn logs(directory: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let logs = entries.filter(|path| path.to_string_lossy().contains(".redo"));
    logs.map(|path| fs::read(path).unwrap()).collect()
}

fn holds_secret(bytes: &[u8]) -> bool {
    bytes.windows(PURGED_CONTENT.len()).any(|window| window == PURGED_CONTENT.as_bytes())
}

/// The log that holds the content ends with the purge, also if the process is killed right after it.
#[tokio::test]
async fn a_purge_leaves_no_log_with_what_it_removed() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { redo_after: 0, ..Options::default() };
    let store = RedbStore::open(directory.path(), options.clone()).unwrap();
    Script::new("zero", 1).commit_step(&store).await.unwrap();
    let mut tale = store_ended_script(&store, "one").await;
    assert!(logs(directory.path()).iter().any(|log| holds_secret(log)));
    let holders = store.find_holders([build_payload(PURGED_CONTENT).digest].into()).await.unwrap();
    purge_content(&mut tale, &store, holders.searched_before).await;
    assert_eq!(logs(directory.path()), Vec::<Vec<u8>>::new());
    let mut two = Script::new("two", 9);
    two.commit_steps(&store, 5).await;
    assert!(!logs(directory.path()).iter().any(|log| holds_secret(log)));
    let left = crash(directory.path());
    let store = RedbStore::open(left.path(), options).unwrap();
    for tale in [&tale, &two] {
        tale.check_store(&store).await;
    }
    assert!(!is_content_stored(&store).await);
    let mut progress = Some(ExaminationProgress::default());
    while let Some(from) = progress {
        progress = store.examine(from).await.unwrap().next_progress;
    }
    store.close().await.unwrap();
}
