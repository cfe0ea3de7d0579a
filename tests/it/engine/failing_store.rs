//! A store that fails, and what callers are told then.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use midex::{
    clock::TokioClock,
    domain::{
        Change, Digest, Execution, ExecutionId, Lifecycle, PauseReason, Row, Sequence,
        execution::Report, telemetry::EventType,
    },
    engine::{Engine, StartRequest},
    error::{Code, Error, Result},
    limits,
    store::{
        BoxFuture, Commit, Committed, ListQuery, MemoryStore, Page, Position, Refusal, Store,
        Stored, TelemetryQuery, Told,
    },
};
use serde_json::json;

use super::{good, id, memory_engine, start, token};
use crate::support::{EPOCH, engine, sequence};

/// A store that fails when told to.
#[derive(Debug, Default)]
struct Faulty {
    inner: MemoryStore,
    /// The commit with this number fails, though it reached the disk.
    lost_acknowledgement: AtomicUsize,
    /// The commit with this number fails without having reached the disk.
    refused: AtomicUsize,
    refuses_all: AtomicBool,
    commits: AtomicUsize,
    panics_on_load: AtomicBool,
}

fn unavailable() -> Error {
    Error::new(Code::StoreUnavailable, "a fault made by a test")
}

impl Store for Faulty {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move {
            let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
            if self.refuses_all.load(Ordering::SeqCst)
                || number == self.refused.load(Ordering::SeqCst)
            {
                return Err(unavailable());
            }
            let committed = self.inner.commit(commit).await;
            if number == self.lost_acknowledgement.load(Ordering::SeqCst) {
                Err(unavailable())
            } else {
                committed
            }
        })
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        self.inner.checkpoint(execution, position)
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<Stored>>> {
        let panics = self.panics_on_load.load(Ordering::SeqCst);
        assert!(!panics, "a fault made by a test");
        self.inner.load(id)
    }

    fn row(&self, key: Sequence) -> BoxFuture<'_, Result<Option<Row>>> {
        self.inner.row(key)
    }

    fn history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<(Sequence, Row)>>> {
        self.inner.history(id)
    }

    fn content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        self.inner.content(digest)
    }

    fn note(&self, refusal: Refusal) {
        self.inner.note(refusal);
    }

    fn telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<Told>>> {
        self.inner.telemetry(query)
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Page>> {
        self.inner.list(query)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}

async fn faulty() -> (Arc<Faulty>, Engine) {
    let store = Arc::new(Faulty::default());
    let engine = engine(store.clone(), TokioClock::starting_at(EPOCH), 1).await;
    (store, engine)
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_commit_the_next_call_starts_from_the_store() {
    let (store, engine) = faulty().await;
    let first = token(&start(&engine, "e").await);
    store.refused.store(2, Ordering::SeqCst);
    let error = engine
        .advance(&first, good("x"))
        .await
        .expect_err("the disk refused");
    assert_eq!(
        (error.code(), error.code().retryable()),
        (Code::StoreUnavailable, true)
    );
    assert_eq!(
        engine.status(&id("e")).await.expect("a status").revision,
        1,
        "memory is not ahead of the disk"
    );
    let answer = engine
        .advance(&first, good("x"))
        .await
        .expect("the same call again");
    assert!(!answer.replayed);
}

#[tokio::test(start_paused = true)]
async fn while_the_disk_refuses_every_caller_hears_that_it_may_try_again() {
    let (store, engine) = faulty().await;
    let first = token(&start(&engine, "e").await);
    store.refuses_all.store(true, Ordering::SeqCst);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (engine, first) = (engine.clone(), first.clone());
            tokio::spawn(async move { engine.advance(&first, good("x")).await })
        })
        .collect();
    for call in calls {
        let error = call.await.expect("no panic").expect_err("the disk refuses");
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
        assert_eq!(
            error.context("workflow_state"),
            Some(&json!("running")),
            "{error:?}"
        );
    }
    store.refuses_all.store(false, Ordering::SeqCst);
    assert!(
        !engine
            .advance(&first, good("x"))
            .await
            .expect("there is room again")
            .replayed
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_acknowledgement_was_lost_makes_one_execution() {
    let (store, engine) = faulty().await;
    store.lost_acknowledgement.store(1, Ordering::SeqCst);
    let request = StartRequest {
        definition: sequence(),
        execution_id: None,
        project: None,
        inputs: None,
    };
    let answer = engine
        .start(request)
        .await
        .expect("tried again under the same id");
    assert!(answer.replayed);
    let told = engine
        .telemetry(None, Some(EventType::WorkflowCreated), 10)
        .await
        .expect("telemetry");
    assert_eq!(told.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_output_is_told_once() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    for _ in 0..3 {
        engine
            .advance(&first, Report::Output(json!({})))
            .await
            .expect_err("a bad output");
    }
    let told = engine
        .telemetry(Some(&id("e")), Some(EventType::Error), 10)
        .await
        .expect("telemetry");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_history_past_its_limit_names_outputs_by_digest_and_size() {
    let engine = memory_engine().await;
    let mut step = start(&engine, "e").await;
    for letter in ["a", "b", "c"] {
        let large = letter.repeat(limits::OUTPUT_BYTES_MAX - 100);
        step = engine
            .advance(&token(&step), good(&large))
            .await
            .expect("a large output");
    }
    let history = engine.history(&id("e")).await.expect("a history");
    let shown: Vec<_> = history
        .iter()
        .map(|row| (row.output.is_some(), row.output_digest.is_some()))
        .collect();
    assert_eq!(shown, [(true, false), (true, false), (false, true)]);
    assert!(
        history[2]
            .output_bytes
            .is_some_and(|bytes| bytes > 4_000_000)
    );
}

#[tokio::test(start_paused = true)]
async fn a_transition_whose_acknowledgement_was_lost_is_answered_not_repeated() {
    let (store, engine) = faulty().await;
    let first = token(&start(&engine, "e").await);
    store.lost_acknowledgement.store(2, Ordering::SeqCst);
    engine
        .advance(&first, good("x"))
        .await
        .expect_err("the acknowledgement was lost");
    let answer = engine
        .advance(&first, good("x"))
        .await
        .expect("the same call again");
    assert!(answer.replayed);
    assert_eq!(
        (answer.revision, answer.step_name.as_deref()),
        (2, Some("implement"))
    );
}

#[tokio::test(start_paused = true)]
async fn two_engines_on_one_store_never_both_move_an_execution() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock = TokioClock::starting_at(EPOCH);
    let (one, two) = (
        engine(store.clone(), clock, 1).await,
        engine(store, clock, 2).await,
    );
    let first = token(&start(&one, "e").await);
    let second = two
        .advance(&first, good("x"))
        .await
        .expect("the other engine moves it");
    // The first engine's actor still stands at revision 1; the store knows better.
    let repeat = one.advance(&first, good("x")).await.expect("a repeat");
    assert!(repeat.replayed);
    let third = one
        .advance(&token(&second), good("y"))
        .await
        .expect("an advance");
    let stale = two
        .advance(&token(&second), good("z"))
        .await
        .expect_err("another output");
    assert_eq!(stale.code(), Code::TokenAlreadyUsed);
    assert_eq!(third.revision, 3);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_cannot_be_woken_says_so_and_harms_no_other() {
    let (store, engine) = faulty().await;
    let first = token(&start(&engine, "e").await);
    tokio::time::sleep(limits::IDLE_MAX + 2 * limits::IDLE_SWEEP_EVERY).await;
    assert_eq!(engine.awake(), 0);
    store.panics_on_load.store(true, Ordering::SeqCst);
    let error = engine
        .advance(&first, good("x"))
        .await
        .expect_err("it cannot be woken");
    assert_eq!(error.code(), Code::EngineFault, "{error:?}");
    store.panics_on_load.store(false, Ordering::SeqCst);
    start(&engine, "f").await;
    // It counts as paused, until somebody says that it may be tried again.
    let id = ExecutionId::parse("e").expect("an id");
    let status = engine.status(&id).await.expect("a status");
    assert_eq!(
        (status.state.as_str(), &status.pause_reasons[..]),
        ("paused", &[PauseReason::EngineFault][..])
    );
    let still = engine.advance(&first, good("x")).await.expect_err("paused");
    assert_eq!(still.code(), Code::EngineFault);
    let resume = Change {
        lifecycle: Lifecycle::Resume,
        reason: None,
    };
    let status = engine
        .command(&id, resume)
        .await
        .expect("it is tried again");
    assert_eq!(
        (
            status.state.as_str(),
            status.revision,
            &status.pause_reasons[..]
        ),
        ("running", 1, &[][..])
    );
    engine.advance(&first, good("x")).await.expect("it goes on");
}
