//! Deletion of executions: what is removed with one, what is kept, and which deletions are refused.

use std::{path::Path, sync::Arc, time::Duration};

use midex_domain::{
    Digest, LifecycleAction,
    clock::{Clock, SeededIds, Timestamp},
    error::{Code, Error},
    limits,
    view::AdvanceReply,
};
use midex_engine::{
    Cleanup, Engine, ForkRequest, Options, Retention, StartRequest,
    store::{self, ContentSweep, ListQuery, MemoryStore, RedbStore, Store},
};
use midex_test::{
    EPOCH, TokioClock, assert_has,
    play::{self, Calls, id, token},
};
use serde_json::{Value, json};

const ONE_STEP: &str = "inputs: { text: { type: string } }
steps:
  - { id: say, guidance: 'Say ${{ inputs.text }}.', result: {} }
";

/// Longer than what a row holds itself.
fn long_text(letter: &str) -> String {
    letter.repeat(100_000)
}

async fn engine_with(store: Arc<dyn Store>, retention: Option<Retention>) -> Engine {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(EPOCH));
    let options = Options::new(store, clock, Arc::new(SeededIds::new(1)));
    // The paused time runs on while a store on disk is at work, so tokens must not expire.
    let token_ttl = limits::TOKEN_TTL_MAX;
    Engine::new(Options { retention, token_ttl, ..options }).await.expect("an engine")
}

async fn start(engine: &Engine, name: &str, text: &str) -> AdvanceReply {
    let inputs = Some(json!({ "text": text }));
    let request = StartRequest { inputs, ..play::request(play::defined(ONE_STEP), name) };
    engine.start(request).await.expect("a start")
}

/// An execution of [`ONE_STEP`] that has ended.
async fn ended(engine: &Engine, name: &str, text: &str) {
    let begun = start(engine, name, text).await;
    engine
        .report(&token(&begun), midex_domain::execution::Report::Output(json!({ "said": text })))
        .await;
}

async fn refusal(engine: &Engine, name: &str) -> Error {
    engine.delete(&id(name)).await.expect_err("a refusal")
}

async fn listed(engine: &Engine) -> Vec<String> {
    let page = engine.list(ListQuery { limit: 100, ..ListQuery::default() }).await.expect("a list");
    page.executions.iter().map(|row| row.execution_id.clone()).collect()
}

fn digest_of(value: &Value) -> Digest {
    Digest::compute(value.to_string().as_bytes())
}

/// A sweep follows a deletion after a second.
async fn let_the_sweep_run() {
    tokio::time::sleep(limits::SWEEP_DELAY + Duration::from_secs(1)).await;
}

/// A whole sweep. A store on disk does its work in threads, which the paused time does not wait for.
async fn sweep(store: &dyn Store, tombstones_before: Timestamp) {
    let mut sweep = ContentSweep::new(tombstones_before);
    while !sweep.is_done() {
        sweep = store.sweep(sweep).await.expect("a slice of a sweep");
    }
}

/// With `sweeps`, the test calls `sweep` itself.
async fn an_execution_goes_with_what_it_alone_named(store: Arc<dyn Store>, sweeps: bool) {
    let let_the_sweep_run = async |after: Duration| {
        let_the_sweep_run().await;
        if sweeps {
            sweep(&*store, EPOCH.plus(after)).await;
        }
    };
    let engine = engine_with(store.clone(), None).await;
    let (own, shared) = (long_text("a"), long_text("b"));
    ended(&engine, "one", &own).await;
    ended(&engine, "two", &shared).await;
    ended(&engine, "three", &shared).await;
    assert_eq!(engine.delete(&id("one")).await.expect("a deletion"), [id("one")]);
    assert_eq!(engine.delete(&id("two")).await.expect("a deletion"), [id("two")]);
    assert_eq!(listed(&engine).await, ["three"]);
    let_the_sweep_run(Duration::ZERO).await;
    let is_stored = async |text: &str| {
        let digest = digest_of(&json!({ "said": text }));
        store.load_content(digest).await.expect("a read").is_some()
    };
    assert!(!is_stored(&own).await, "nothing names it");
    assert!(is_stored(&shared).await, "another execution names it");
    assert_eq!(engine.history_now("three").await.len(), 1);
    let gone = engine.status(&id("one")).await.expect_err("it is gone");
    assert_eq!(gone.code(), Code::ExecutionDeleted);
    assert_has(gone.message(), &["'one'", "was deleted at"]);
    assert_eq!(refusal(&engine, "one").await.code(), Code::ExecutionDeleted);
    assert_eq!(refusal(&engine, "four").await.code(), Code::ExecutionNotFound);
    // A repeat of the start does not begin the work anew, before the tombstone is gone.
    let again = || StartRequest {
        inputs: Some(json!({ "text": own })),
        ..play::request(play::defined(ONE_STEP), "one")
    };
    let refused = engine.start(again()).await.expect_err("the id was deleted");
    assert_eq!(refused.code(), Code::ExecutionDeleted);
    tokio::time::sleep(limits::TOMBSTONE_KEPT + limits::RETENTION_EVERY).await;
    let_the_sweep_run(limits::TOMBSTONE_KEPT).await;
    assert_eq!(store.load_tombstone(&id("one")).await.expect("a read"), None);
    engine.start(again()).await.expect("a start under an id that is free again");
    let stats = engine.stats(None).await.expect("figures");
    let counts: Vec<_> = stats.workflows.iter().flat_map(|workflow| &workflow.states).collect();
    assert_eq!(counts, [(&"completed".to_owned(), &1), (&"running".to_owned(), &1)]);
    engine.stop().await.expect("a stop");
}

#[tokio::test(start_paused = true)]
async fn an_execution_goes_with_what_it_alone_named_in_memory() {
    an_execution_goes_with_what_it_alone_named(Arc::new(MemoryStore::new()), false).await;
}

fn disk(directory: &Path) -> Arc<dyn Store> {
    Arc::new(RedbStore::open(directory, store::Options::default()).expect("a store"))
}

#[tokio::test(start_paused = true)]
async fn an_execution_goes_with_what_it_alone_named_on_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    an_execution_goes_with_what_it_alone_named(disk(directory.path()), true).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_open_is_not_deleted() {
    let engine = play::memory_engine().await;
    start(&engine, "open", "a").await;
    let refused = refusal(&engine, "open").await;
    assert_eq!(refused.code(), Code::ExecutionStillOpen);
    assert_has(refused.message(), &["'open' cannot be deleted: it has not ended"]);
    engine.changed("open", LifecycleAction::Pause).await;
    assert_eq!(
        refusal(&engine, "open").await.code(),
        Code::ExecutionStillOpen,
        "a pause is no end"
    );

    ended(&engine, "source", "a").await;
    let request = ForkRequest {
        from_step: Some(midex_domain::StepId::parse("say").expect("an id")),
        new_execution_id: Some(id("fork")),
        ..ForkRequest::new(id("source"))
    };
    engine.fork(request).await.expect("a fork");
    let refused = refusal(&engine, "source").await;
    assert_has(refused.message(), &["its fork 'fork' has not ended"]);
    assert_eq!(
        refused.context("execution_id"),
        Some(&json!("fork")),
        "that is what has to end first"
    );
    engine.changed("fork", LifecycleAction::Abandon).await;
    engine.delete(&id("source")).await.expect("a deletion");
    // The fork keeps the contents that it inherited, until it is deleted too.
    let_the_sweep_run().await;
    engine.history_now("fork").await;
    engine.delete(&id("fork")).await.expect("a deletion");
    assert_eq!(listed(&engine).await, ["open"]);
    engine.stop().await.expect("a stop");
}

#[tokio::test(start_paused = true)]
async fn a_clean_up_takes_what_is_old_or_too_many_and_nothing_that_is_open() {
    let engine = play::memory_engine().await;
    start(&engine, "open", "a").await;
    for name in ["a", "b", "c", "d"] {
        ended(&engine, name, name).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let removed = async |cleanup: Cleanup| engine.clean_up(cleanup).await.expect("a clean-up");
    assert_eq!(removed(Cleanup::default()).await, 0, "no condition removes nothing");
    let older_than = Some(Duration::from_secs(200));
    assert_eq!(removed(Cleanup { older_than, keep: None }).await, 1);
    assert_eq!(listed(&engine).await, ["d", "c", "b", "open"]);
    assert_eq!(removed(Cleanup { older_than: None, keep: Some(1) }).await, 2);
    assert_eq!(removed(Cleanup { older_than: None, keep: Some(0) }).await, 1);
    assert_eq!(listed(&engine).await, ["open"], "an open execution is not counted");
    engine.stop().await.expect("a stop");
}

#[tokio::test(start_paused = true)]
async fn the_retention_is_applied_by_itself() {
    let retention = Retention {
        max_sessions: Some(2),
        ttl: Some(Duration::from_secs(3_600)),
        ..Retention::default()
    };
    let engine = engine_with(Arc::new(MemoryStore::new()), Some(retention)).await;
    start(&engine, "open", "a").await;
    for name in ["a", "b", "c"] {
        ended(&engine, name, name).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(limits::RETENTION_EVERY).await;
    assert_eq!(listed(&engine).await, ["c", "b", "open"]);
    tokio::time::sleep(Duration::from_secs(3_600) + limits::RETENTION_EVERY).await;
    assert_eq!(listed(&engine).await, ["open"]);
    engine.stop().await.expect("a stop");
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_stays_deleted_after_a_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    // The redo log holds the deletion, and the data file does not.
    let options = || store::Options { redo_after: 0, ..store::Options::default() };
    let open = |directory: &Path| -> Arc<dyn Store> {
        Arc::new(RedbStore::open(directory, options()).expect("a store"))
    };
    let engine = engine_with(open(directory.path()), None).await;
    for name in ["a", "b", "c"] {
        ended(&engine, name, &long_text(name)).await;
    }
    engine.delete(&id("c")).await.expect("a deletion");
    let killed = tempfile::tempdir().expect("a directory");
    for file in std::fs::read_dir(directory.path()).expect("files") {
        let file = file.expect("a file");
        if file.file_name() != "executions.lock" {
            std::fs::copy(file.path(), killed.path().join(file.file_name())).expect("a copy");
        }
    }
    let store = open(killed.path());
    let owner = store.owner(&id("b")).expect("the owner");
    let engine_after = engine_with(store.clone(), None).await;
    assert_eq!(listed(&engine_after).await, ["b", "a"]);
    let gone = engine_after.status(&id("c")).await.expect_err("it is gone");
    assert_eq!(gone.code(), Code::ExecutionDeleted);
    sweep(&*store, EPOCH).await;
    let content = store.load_content(digest_of(&json!({ "said": long_text("c") })));
    assert!(content.await.expect("a read").is_none(), "a sweep that was cut off is made up for");
    let mut progress = store::ExaminationProgress::default();
    while let Some(next) = store.examine(progress).await.expect("a sound store").next_progress {
        progress = next;
    }
    for name in ["b", "a"] {
        engine_after.delete(&id(name)).await.expect("a deletion");
    }
    engine_after.stop().await.expect("a stop");
    drop((engine_after, store));
    // Without any row, the keys still go on where they were.
    let store = RedbStore::open(killed.path(), options()).expect("a store");
    assert!(store.owner(&id("b")).expect("the owner") > owner);
    engine.stop().await.expect("a stop");
}
