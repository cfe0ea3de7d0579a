//! A store that fails when told to, and outlives the engines on it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    Digest, Execution, ExecutionId, Row,
    clock::Timestamp,
    error::{Code, Error, Result},
    event::OwnerEpoch,
};
use midex_engine::store::{
    BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, DueExecution,
    ListPage, ListQuery, LoadedExecution, MemoryStore, PlacedEntry, Position, RefusedCall, Store,
    TelemetryQuery,
};

#[derive(Debug, Default)]
pub struct Faulty {
    inner: MemoryStore,
    /// So many of the next commits fail without having reached the disk.
    pub refuses: AtomicUsize,
    /// So many of the next commits fail although they reached the disk.
    pub loses: AtomicUsize,
    /// So many of the next commits are answered a minute late.
    pub late: AtomicUsize,
    /// The commits of this execution fail without having reached the disk.
    pub refused: Mutex<Option<ExecutionId>>,
    /// So many of the next looks for what is due fail.
    pub hides: AtomicUsize,
    /// So many of the next loads fail.
    pub unreadable: AtomicUsize,
    /// Whether a load panics.
    pub panics: AtomicBool,
    /// Whether content is gone.
    pub forgets: AtomicBool,
    /// The bytes of content in all commits.
    pub content_bytes: AtomicUsize,
    /// How often content was asked for that is gone.
    pub missed: AtomicUsize,
}

fn take(count: &AtomicUsize) -> bool {
    let one_less = |count: usize| count.checked_sub(1);
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
}

fn unavailable() -> Error {
    Error::new(Code::StoreUnavailable, "a fault made by a test")
}

impl Store for Faulty {
    fn owner(&self) -> OwnerEpoch {
        self.inner.owner()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(async move {
            let is_refused = self.refused.lock().unwrap().as_ref() == Some(commit.execution.id());
            if is_refused || take(&self.refuses) {
                return Err(unavailable());
            }
            let bytes = commit.contents.iter().map(|(_, content)| content.len());
            self.content_bytes.fetch_add(bytes.sum(), Ordering::SeqCst);
            let committed = self.inner.commit(commit).await;
            if take(&self.loses) {
                return Err(unavailable());
            }
            if take(&self.late) {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            committed
        })
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        self.inner.checkpoint(execution, position)
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
        let panics = self.panics.load(Ordering::SeqCst);
        assert!(!panics, "a fault made by a test");
        if take(&self.unreadable) {
            return Box::pin(async { Err(unavailable()) });
        }
        self.inner.load(id)
    }

    fn load_rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        self.inner.load_rows(id, revisions)
    }

    fn load_history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>> {
        self.inner.load_history(id)
    }

    fn load_forks<'a>(
        &'a self,
        source: &'a ExecutionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ExecutionId>>> {
        self.inner.load_forks(source, limit)
    }

    fn load_content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        if self.forgets.load(Ordering::SeqCst) {
            let missed = self.missed.fetch_add(1, Ordering::SeqCst);
            assert!(missed < 1000, "it is asked for again and again");
            return Box::pin(async { Ok(None) });
        }
        self.inner.load_content(digest)
    }

    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>> {
        self.inner.find_holders(contents)
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>> {
        self.inner.delete(deletion)
    }

    fn load_tombstone<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> BoxFuture<'a, Result<Option<Timestamp>>> {
        self.inner.load_tombstone(id)
    }

    fn sweep(&self, sweep: ContentSweep) -> BoxFuture<'_, Result<ContentSweep>> {
        self.inner.sweep(sweep)
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        self.inner.note_refusal(refusal);
    }

    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        self.inner.load_telemetry(query)
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>> {
        self.inner.list(query)
    }

    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>> {
        if take(&self.hides) {
            return Box::pin(async { Err(unavailable()) });
        }
        self.inner.due_executions(before, limit)
    }

    /// The next engine finds it as it was left.
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
