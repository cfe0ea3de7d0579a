//! Pages of executions, beyond what every store promises of them.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use midex_domain::{Sequence, State};
use midex_engine::store::{ListQuery, MemoryStore, Options, RedbStore, Store};

use super::pages::{query_all, query_open, read_distinct_ids, read_page, start_scripts};

pub(super) fn narrow(directory: &Path, list_scanned_max: usize) -> RedbStore {
    let options = Options { snapshot_every: 16, list_scanned_max, ..Options::default() };
    RedbStore::open(directory, options).unwrap()
}

/// The contract allows more pages than are needed; the stores of midex save the client the last one.
#[tokio::test]
async fn the_last_page_names_no_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RedbStore::open(directory.path(), Options::default()).unwrap();
    for store in [Arc::new(MemoryStore::new()) as Arc<dyn Store>, Arc::new(disk)] {
        start_scripts(&*store, 3).await;
        for query in [query_all(3), query_open(3)] {
            let page = read_page(&*store, &query).await;
            assert_eq!((page.executions.len(), page.next_key), (3, None));
        }
        for query in [query_all(2), query_open(2)] {
            let page = read_page(&*store, &query).await;
            assert_eq!((page.executions.len(), page.next_key), (2, Some(Sequence(2))));
        }
    }
}

/// Whoever moves while one page is made is on it: with threads, and more rows than one read takes in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_page_misses_nobody_who_moves() {
    for snapshot_every in [1, 16] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { snapshot_every, ..Options::default() };
        let store = Arc::new(RedbStore::open(directory.path(), options).unwrap());
        let done = Arc::new(AtomicBool::new(false));
        let mut tales = start_scripts(&*store, 40).await;
        for tale in tales.iter_mut().take(36) {
            tale.commit_steps(&*store, 15).await;
        }
        let ids: BTreeSet<_> = tales.iter().map(|tale| tale.id.clone()).collect();
        let still: BTreeSet<_> = tales.iter().skip(8).map(|tale| tale.id.clone()).collect();
        let movers: Vec<_> = tales
            .into_iter()
            .take(8)
            .map(|mut tale| {
                let (store, done) = (Arc::clone(&store), Arc::clone(&done));
                tokio::spawn(async move {
                    while !done.load(Ordering::SeqCst) {
                        let to = match tale.execution.as_ref().unwrap().state() {
                            State::Paused => State::Running,
                            _ => State::Paused,
                        };
                        tale.commit_state(&*store, to).await.unwrap();
                    }
                })
            })
            .collect();
        for round in 0..12 {
            for query in [query_all(1000), query_open(1000)] {
                let page = read_page(&*store, &query).await;
                let seen: BTreeSet<_> =
                    page.executions.iter().map(|one| one.id().clone()).collect();
                assert_eq!(seen, ids, "{round} {query:?}");
                assert_eq!(page.executions.len(), ids.len(), "{round} {query:?}");
                let several = ListQuery { limit: 7, ..query };
                let seen = read_distinct_ids(&*store, several).await;
                assert!(still.is_subset(&seen), "{round}");
            }
        }
        done.store(true, Ordering::SeqCst);
        for mover in movers {
            mover.await.unwrap();
        }
    }
}
