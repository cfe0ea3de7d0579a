//! A disk that fails: what was answered stays, what was not is refused, and the store comes back.

use std::{
    future::poll_fn,
    io,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
        mpsc,
    },
    task::Poll,
    time::{Duration, Instant},
};

use midex_domain::error::Code;
use midex_engine::store::{Commit, FileHook, FileOperation, Options, RedbStore, Store};

use super::script::{Script, build_refusal};

/// Fails the operations of one kind from the k-th after it is armed, as many as it is told.
#[derive(Clone, Default)]
pub(super) struct Saboteur {
    before: Arc<AtomicI64>,
    fails: Arc<AtomicI64>,
    failed: Arc<AtomicU64>,
}

impl Saboteur {
    pub(super) fn hook(
        &self,
        wanted: impl Fn(FileOperation<'_>) -> bool + Send + Sync + 'static,
        kind: io::ErrorKind,
    ) -> FileHook {
        let this = self.clone();
        FileHook::new(move |operation| {
            if !wanted(operation) || this.fails.load(Ordering::SeqCst) == 0 {
                return Ok(());
            }
            if this.before.fetch_sub(1, Ordering::SeqCst) > 0 {
                return Ok(());
            }
            this.fails.fetch_sub(1, Ordering::SeqCst);
            this.failed.fetch_add(1, Ordering::SeqCst);
            Err(kind.into())
        })
    }

    pub(super) fn arm(&self, before: i64, fails: i64) {
        self.before.store(before, Ordering::SeqCst);
        self.failed.store(0, Ordering::SeqCst);
        self.fails.store(fails, Ordering::SeqCst);
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }

    pub(super) fn disarm(&self) {
        self.fails.store(0, Ordering::SeqCst);
    }
}

pub(super) fn open(directory: &Path, hook: FileHook, snapshot_every: u32) -> RedbStore {
    let options = Options { snapshot_every, hook: Some(hook), ..Options::default() };
    RedbStore::open(directory, options).unwrap()
}

fn writes(operation: FileOperation<'_>) -> bool {
    matches!(
        operation,
        FileOperation::Write { .. } | FileOperation::Sync | FileOperation::Resize(_)
    )
}

/// Until the store answers again: it opens its file in its own time.
pub(super) async fn back(store: &RedbStore, tale: &Script) {
    let back = async {
        while store.load(&tale.id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), back).await.unwrap();
}

#[tokio::test]
async fn a_failed_commit_is_refused_and_the_store_comes_back() {
    for snapshot_every in [1, 16] {
        for k in (0..24).step_by(if snapshot_every == 1 { 1 } else { 5 }) {
            let directory = tempfile::tempdir().unwrap();
            let saboteur = Saboteur::default();
            let store =
                open(directory.path(), saboteur.hook(writes, io::ErrorKind::Other), snapshot_every);
            let mut tale = Script::new("one", 90);
            tale.commit_steps(&store, 5).await;
            saboteur.arm(k, 1);
            // Many operations lie in one commit: the k-th is met within a few of them.
            let mut refused = None;
            while saboteur.failed() == 0 {
                if let Err(error) = tale.commit_step(&store).await {
                    refused = Some(error);
                }
            }
            let error = refused.unwrap();
            assert_eq!(error.code(), Code::StoreUnavailable, "{k}: {error:?}");
            assert_eq!(store.counts().reopenings, 1);
            // Whether the failed one reached the disk is unknown: the store says.
            let stored = store.load(&tale.id).await.unwrap().unwrap();
            let known = tale.execution.clone().unwrap();
            assert!(stored.execution.revision() - known.revision() <= 1, "{k}");
            tale.rows = store.load_history(&tale.id).await.unwrap();
            tale.execution = Some(stored.execution);
            tale.position = stored.position;
            tale.check_store(&store).await;
            tale.commit_steps(&store, 5).await;
            tale.check_store(&store).await;
            store.close().await.unwrap();
            tale.check_store(&RedbStore::open(directory.path(), Options::default()).unwrap()).await;
        }
    }
}

#[tokio::test]
async fn a_store_that_stays_broken_comes_back_with_its_disk() {
    let directory = tempfile::tempdir().unwrap();
    let saboteur = Saboteur::default();
    // All but setting blocks aside: where that fails the batch is refused, and nothing is broken.
    let all = |operation: FileOperation<'_>| !matches!(operation, FileOperation::Reserve(_));
    let store = open(directory.path(), saboteur.hook(all, io::ErrorKind::Other), 16);
    let mut tale = Script::new("one", 9);
    tale.commit_steps(&store, 3).await;
    store.note_refusal(build_refusal(0, None));
    tale.commit_steps(&store, 1).await;
    // The refusal goes with a batch that fails, and whether it was stored is not known for long.
    saboteur.arm(0, i64::MAX);
    store.note_refusal(build_refusal(1, None));
    tale.commit_step(&store).await.unwrap_err();
    let failed = saboteur.failed();
    for _ in 0..3 {
        let error = tale.commit_step(&store).await.unwrap_err();
        assert!(error.code().retryable(), "{error:?}");
    }
    let error = store.load(&tale.id).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    // Opening again is not tried at each call, but refused calls are answered.
    assert!(saboteur.failed() < failed + 3);
    // Nobody else may take the store meanwhile: what its callers know would be stale.
    let error = RedbStore::open(directory.path(), Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::StoreBusy, "{error:?}");
    saboteur.disarm();
    back(&store, &tale).await;
    tale.commit_step(&store).await.unwrap();
    tale.check_store(&store).await;
    let query = midex_engine::store::TelemetryQuery {
        event_type: Some(midex_domain::telemetry::EventType::TokenExpired),
        limit: 10,
        ..Default::default()
    };
    assert_eq!(store.load_telemetry(query).await.unwrap().len(), 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_failed_read_heals_without_a_write() {
    for kind in [io::ErrorKind::Other, io::ErrorKind::UnexpectedEof] {
        let directory = tempfile::tempdir().unwrap();
        let saboteur = Saboteur::default();
        let options = Options {
            // Nearly every read reaches the disk.
            cache_bytes: 0,
            hook: Some(saboteur.hook(|operation| operation == FileOperation::Read, kind)),
            ..Options::default()
        };
        let store = RedbStore::open(directory.path(), options).unwrap();
        let mut tale = Script::new("one", 90);
        tale.commit_steps(&store, 50).await;
        saboteur.arm(0, 1);
        store.load(&tale.id).await.unwrap_err();
        assert_eq!(saboteur.failed(), 1);
        back(&store, &tale).await;
        tale.check_store(&store).await;
        let counts = store.counts();
        assert_eq!((counts.transitions, counts.reopenings), (50, 1));
        tale.commit_step(&store).await.unwrap();
        tale.check_store(&store).await;
    }
}

#[tokio::test]
async fn a_broken_store_comes_back_without_being_asked_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let saboteur = Saboteur::default();
    let store = open(directory.path(), saboteur.hook(|_| true, io::ErrorKind::Other), 1);
    let mut tale = Script::new("one", 9);
    tale.commit_steps(&store, 3).await;
    saboteur.arm(0, i64::MAX);
    tale.commit_step(&store).await.unwrap_err();
    saboteur.disarm();
    back(&store, &tale).await;
    tale.check_store(&store).await;
}

#[tokio::test]
async fn a_full_disk_changes_nothing_and_is_met_before_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let hook = {
        let full = Arc::clone(&full);
        FileHook::new(move |operation| {
            if matches!(operation, FileOperation::Reserve(_)) && full.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        })
    };
    let store = open(directory.path(), hook, 1);
    let mut tale = Script::new("one", 400);
    tale.commit_steps(&store, 2).await;
    full.store(true, Ordering::SeqCst);
    // What was set aside before still serves.
    tale.commit_step(&store).await.unwrap();
    let text = "x".repeat(2 << 20);
    let error = tale.commit_output(&store, &text).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreFull);
    assert!(error.code().retryable());
    let action = error.suggested_action();
    let path = directory.path().join("executions.redb");
    for part in ["free at least ", " MiB", path.to_str().unwrap()] {
        assert!(action.contains(part), "{action}");
    }
    let commits = store.counts().commits;
    tale.check_store(&store).await;
    let error = tale.commit_output(&store, &text).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreFull);
    tale.check_store(&store).await;
    full.store(false, Ordering::SeqCst);
    tale.commit_output(&store, &text).await.unwrap();
    let counts = store.counts();
    assert_eq!((counts.commits, counts.reopenings), (commits + 1, 0));
    tale.check_store(&store).await;
}

/// Where no room can be set aside the database itself meets the full disk: what it stored is not known then.
#[tokio::test]
async fn a_full_disk_that_the_database_meets_is_named_too() {
    for sabotaged in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let saboteur = Saboteur::default();
        let wanted = move |operation: FileOperation<'_>| match operation {
            FileOperation::Write { .. } => sabotaged,
            FileOperation::Sync => !sabotaged,
            _ => false,
        };
        let hook = saboteur.hook(wanted, io::ErrorKind::StorageFull);
        let store = open(directory.path(), hook, 1);
        let mut tale = Script::new("one", 9);
        tale.commit_steps(&store, 2).await;
        saboteur.arm(0, 1);
        let error = tale.commit_step(&store).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
        let action = error.suggested_action();
        assert!(action.contains("free at least 16 MiB"), "{action}");
        back(&store, &tale).await;
    }
}

#[tokio::test]
async fn refusals_outlive_a_failed_batch() {
    let directory = tempfile::tempdir().unwrap();
    let saboteur = Saboteur::default();
    let store = open(
        directory.path(),
        saboteur.hook(|operation| operation == FileOperation::Sync, io::ErrorKind::Other),
        1,
    );
    let mut tale = Script::new("one", 9);
    tale.commit_steps(&store, 2).await;
    saboteur.arm(0, 1);
    store.note_refusal(build_refusal(1, None));
    while saboteur.failed() == 0 {
        let _ = tale.commit_step(&store).await;
    }
    back(&store, &tale).await;
    let stored = store.load(&tale.id).await.unwrap().unwrap();
    tale.execution = Some(stored.execution);
    tale.position = stored.position;
    tale.commit_step(&store).await.unwrap();
    let query = midex_engine::store::TelemetryQuery {
        event_type: Some(midex_domain::telemetry::EventType::TokenExpired),
        limit: 10,
        ..Default::default()
    };
    let told = store.load_telemetry(query).await.unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
}

/// How long a flush of the slow disk takes.
const FLUSH: Duration = Duration::from_millis(8);
/// How many callers come while it flushes what the first one stores.
const CALLERS: usize = 5;
const ROUNDS: usize = 20;

/// Polls a commit for the first time, which queues it.
async fn queue<F: Future + Unpin>(commit: &mut F) {
    let is_pending =
        poll_fn(|context| Poll::Ready(Pin::new(&mut *commit).poll(context).is_pending()));
    assert!(is_pending.await, "it is stored at once");
}

/// An execution's first two commits. The second one still needs the position of the first.
fn build_commits(name: &str) -> [Commit; 2] {
    let mut script = Script::new(name, 9);
    let start = script.build_transition("");
    script.execution = Some(start.execution.clone());
    let step = script.build_transition("done");
    [start, step].map(|transition| script.build_commit(transition))
}

/// One commit stores all who came while the disk was busy, and with them the first caller, who was answered by then and comes
/// again at once: else two halves of the callers would wait for each other. How much a busy machine gets done during a flush
/// does not matter: a round counts if the callers came in time, and the first one may come too late now and then.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the writer waits for callers in real time")]
async fn a_slow_disk_gathers_its_callers() {
    let directory = tempfile::tempdir().unwrap();
    let (begin, begins) = mpsc::channel();
    let hook = FileHook::new(move |operation| {
        if matches!(operation, FileOperation::Sync | FileOperation::SyncLog) {
            begin.send(Instant::now()).unwrap();
            // A flush of a real disk, on the writer's own thread.
            let never = mpsc::channel::<()>();
            let _ = never.1.recv_timeout(FLUSH);
        }
        Ok(())
    });
    let store = open(directory.path(), hook, 16);
    let (start, mut counted, mut gathered) = (Instant::now(), 0, 0);
    for round in 0.. {
        assert!(start.elapsed() < Duration::from_secs(60), "{counted} of {round} rounds count");
        let [first, mut again] = build_commits(&format!("first {round}"));
        let others = (0..CALLERS).map(|at| build_commits(&format!("other {round} {at}")));
        let others: Vec<_> = others.collect();
        begins.try_iter().for_each(drop);
        let commits = store.counts().commits;
        let mut first = store.commit(first);
        queue(&mut first).await;
        let flush = begins.recv_timeout(Duration::from_secs(20)).unwrap();
        let others = others.into_iter().map(|[other, _]| store.commit(other));
        let mut others: Vec<_> = others.collect();
        for other in &mut others {
            queue(other).await;
        }
        let is_in_time = flush.elapsed() < FLUSH;
        again.position = first.await.unwrap().position;
        store.commit(again).await.unwrap();
        for other in others {
            other.await.unwrap();
        }
        if is_in_time {
            let commits = store.counts().commits - commits;
            assert!(commits <= 3, "{commits} commits in round {round}");
            (counted, gathered) = (counted + 1, gathered + usize::from(commits == 2));
        }
        if counted == ROUNDS {
            break;
        }
    }
    assert!(gathered > ROUNDS / 2, "{gathered} of {ROUNDS}");
}
