//! Servers whose connections to the database end, or fall silent.

use std::{sync::Arc, time::Duration};

use midex_domain::{
    error::{Code, Error},
    limits,
};
use midex_engine::store::{Store as _, contract::script::Script};
use midex_postgres::LeaseOptions;
use midex_test::long;
use tokio::time::{sleep, timeout};

use crate::{
    place::Place,
    proxy::{Proxy, Slowness},
};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

async fn start_proxy() -> Proxy {
    let slowness = Slowness { delay_max: Duration::ZERO, piece_max: 16_384 };
    Proxy::start(Place::database(), slowness, long::seed(1)).await
}

/// Repeats what the database could not be asked.
macro_rules! repeat {
    ($call:expr) => {
        loop {
            match $call.await {
                Err(error) if error.code() == Code::StoreUnavailable => {}
                result => break result,
            }
        }
    };
}

#[tokio::test]
async fn commits_that_are_repeated_over_connections_that_end_are_stored_once() {
    let proxy = start_proxy().await;
    let place = Place::new("ending").behind(&proxy);
    let store = place.open().await;
    let mut scripts: Vec<_> = (0..4).map(|at| Script::new(&format!("e{at}"), 500)).collect();
    let mut were_stored = 0;
    proxy.cut_one_of(40);
    for _ in 0..long::rounds(40, 400) {
        for script in &mut scripts {
            let transition = script.build_transition("once");
            let commit = script.build_commit(transition);
            match repeat!(script.store_commit(&store, commit.clone())) {
                Ok(_) => {}
                Err(error) => {
                    // An earlier attempt was stored, and its answer was lost.
                    assert_eq!(error.code(), Code::RevisionConflict, "{error}");
                    were_stored += 1;
                    let before = script.rows.len();
                    let history = repeat!(store.load_history(&script.id)).unwrap();
                    assert_eq!(history.len(), before + 1);
                    script.adopt_stored(history, repeat!(store.load(&script.id)).unwrap());
                }
            }
        }
    }
    let cuts = proxy.count_cuts();
    assert!(cuts > 5 && were_stored > 0, "{cuts} connections ended, {were_stored} answers lost");
    proxy.cut_one_of(0);
    for script in scripts {
        let history = repeat!(store.load_history(&script.id)).unwrap();
        assert_eq!(history.len(), script.rows.len());
        script.check_store(&store).await;
    }
}

/// Counts the connections that hold locks of shards and say nothing.
const COUNT_SILENT: &str = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) \
    WHERE relation = 'shards'::regclass AND mode = 'RowShareLock' AND state = 'idle in transaction'";

#[tokio::test]
async fn a_server_that_falls_silent_amid_a_transaction_holds_nobody_up() {
    let proxy = start_proxy().await;
    let place = Place::new("silent");
    let leases = LeaseOptions::new(Duration::from_secs(1));
    let other = place.connect().await;
    let place = place.behind(&proxy);
    let store = Arc::new(place.open_with("http://127.0.0.1:1", leases).await);
    let writing = tokio::spawn(async move {
        let mut script = Script::new("e", 9);
        let transition = script.build_transition("begun");
        let start = script.build_commit(transition);
        store.commit(start.clone()).await.unwrap();
        // A transaction that finds another revision than it expects waits for the server in its middle.
        let conflicts = |error: &Error| error.code() == Code::RevisionConflict;
        while store.commit(start.clone()).await.is_err_and(|error| conflicts(&error)) {}
    });
    let fall_silent = async {
        loop {
            sleep(Duration::from_millis(3)).await;
            proxy.freeze(true);
            sleep(Duration::from_millis(20)).await;
            let silent = other.query_one(COUNT_SILENT, &[]).await.unwrap();
            if silent.get::<_, i64>(0) > 0 {
                return;
            }
            proxy.freeze(false);
        }
    };
    timeout(PATIENCE, fall_silent).await.unwrap();
    let successor = Place::new("silent").open_with("http://127.0.0.1:2", leases).await;
    let take_all = async {
        while successor.count_shards() < 256 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(3), take_all).await.expect("nobody holds a lock");
    writing.abort();
}

#[tokio::test]
async fn a_database_that_falls_silent_is_not_waited_for_without_end() {
    let proxy = start_proxy().await;
    let store = Place::new("mute").behind(&proxy).open().await;
    let mut script = Script::new("e", 9);
    script.commit_step(&store).await.unwrap();
    let id = script.id.clone();
    store.load_history(&id).await.unwrap();
    proxy.freeze(true);
    // Two waits: for the answer, and for another connection.
    let patience = limits::DATABASE_TRANSACTION_MAX * 2 + Duration::from_secs(5);
    let (read, written) = timeout(patience, async {
        tokio::join!(store.load_history(&id), script.commit_step(&store))
    })
    .await
    .unwrap();
    assert_eq!(read.unwrap_err().code(), Code::StoreUnavailable);
    // The leases end meanwhile.
    assert!(matches!(written.unwrap_err().code(), Code::StoreUnavailable | Code::ShardLost));
    proxy.freeze(false);
    let read = timeout(PATIENCE, store.load_history(&id)).await.unwrap();
    assert!(!read.unwrap().is_empty());
}
