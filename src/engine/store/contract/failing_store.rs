//! A store that fails on request, for tests of what runs on a store.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::store::{
    BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, DueExecution,
    ExaminationProgress, ExaminedPortion, Import, ListPage, ListQuery, LoadedExecution,
    MemoryStore, PlacedEntry, Position, RefusedCall, Store, TelemetryQuery,
};
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence,
    clock::Timestamp,
    error::{Code, Error, Result},
    event::OwnerEpoch,
};

/// How often content may be asked for while it is hidden, before the store panics: the caller repeats itself in vain.
const HIDDEN_CONTENT_READS_MAX: usize = 1000;

/// Says of the revision of a commit, and of the stored one that it does not follow, whether the commit is accepted.
pub type ConflictRule = fn(u64, u64) -> bool;

/// A store around another one that fails when a test requests it. Failures answer `STORE_UNAVAILABLE`.
#[derive(Debug)]
pub struct FailingStore {
    inner: Arc<dyn Store>,
    /// As how many openings of the store behind this one it counts after the first.
    pub later_openings: AtomicU64,
    /// This many of the next commits fail and are not stored.
    pub commits_to_refuse: AtomicUsize,
    /// This many of the next commits fail although they are stored.
    pub commits_to_lose: AtomicUsize,
    /// This many of the next commits are stored, and answered a minute later.
    pub commits_to_delay: AtomicUsize,
    /// Which conflicting commits are answered as if they were stored.
    pub accepted_conflicts: Mutex<Option<ConflictRule>>,
    /// The commits of this execution fail and are not stored.
    pub refused_execution: Mutex<Option<ExecutionId>>,
    /// This many of the next searches for due executions fail.
    pub due_searches_to_fail: AtomicUsize,
    /// This many of the next loads fail.
    pub loads_to_fail: AtomicUsize,
    /// Whether loading an execution panics.
    pub panics_on_load: AtomicBool,
    /// Whether content that is stored is not found.
    pub hides_contents: AtomicBool,
    /// Whether `close` closes the store behind this one. Otherwise a test can start another engine on it.
    pub closes: AtomicBool,
    /// Whether another server owns all executions.
    pub is_owned_elsewhere: AtomicBool,
    /// The bytes of content in all commits.
    pub committed_content_bytes: AtomicUsize,
    /// How often content was asked for while it was hidden.
    pub hidden_content_count: AtomicUsize,
}

impl FailingStore {
    /// A store that passes every call to `inner` until a test requests failures.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            later_openings: AtomicU64::default(),
            commits_to_refuse: AtomicUsize::default(),
            commits_to_lose: AtomicUsize::default(),
            commits_to_delay: AtomicUsize::default(),
            accepted_conflicts: Mutex::default(),
            refused_execution: Mutex::default(),
            due_searches_to_fail: AtomicUsize::default(),
            loads_to_fail: AtomicUsize::default(),
            panics_on_load: AtomicBool::default(),
            hides_contents: AtomicBool::default(),
            closes: AtomicBool::default(),
            is_owned_elsewhere: AtomicBool::default(),
            committed_content_bytes: AtomicUsize::default(),
            hidden_content_count: AtomicUsize::default(),
        }
    }

    /// Commits, and answers an accepted conflict as if the commit were stored.
    async fn commit_or_lie(&self, commit: Commit) -> Result<CommitReceipt> {
        let accepts = *self.accepted_conflicts.lock().unwrap();
        let Some(accepts) = accepts else {
            return self.inner.commit(commit).await;
        };
        let stored = self.inner.load(commit.execution.id()).await?;
        let stored = stored.map_or(0, |stored| stored.execution.revision());
        let (revision, position) = (commit.row.revision, commit.position);
        match self.inner.commit(commit).await {
            Err(error) if error.code() == Code::RevisionConflict && accepts(revision, stored) => {
                Ok(CommitReceipt { row: Sequence(u64::MAX), position })
            }
            outcome => outcome,
        }
    }
}

impl Default for FailingStore {
    fn default() -> Self {
        Self::new(Arc::new(MemoryStore::new()))
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    let one_less = |count: usize| count.checked_sub(1);
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
}

fn requested_error() -> Error {
    Error::new(Code::StoreUnavailable, "a failure that a test requested")
}

impl Store for FailingStore {
    fn owner(&self, id: &ExecutionId) -> Result<OwnerEpoch> {
        if self.is_owned_elsewhere.load(Ordering::SeqCst) {
            return Err(Error::new(Code::ShardLost, "another server owns all executions"));
        }
        let OwnerEpoch(owner) = self.inner.owner(id)?;
        Ok(OwnerEpoch(owner + self.later_openings.load(Ordering::SeqCst)))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(async move {
            let is_refused =
                self.refused_execution.lock().unwrap().as_ref() == Some(commit.execution.id());
            if is_refused || take_one(&self.commits_to_refuse) {
                return Err(requested_error());
            }
            let bytes = commit.contents.iter().map(|(_, content)| content.len());
            self.committed_content_bytes.fetch_add(bytes.sum(), Ordering::SeqCst);
            let committed = self.commit_or_lie(commit).await;
            if take_one(&self.commits_to_lose) {
                return Err(requested_error());
            }
            if take_one(&self.commits_to_delay) {
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
        let panics = self.panics_on_load.load(Ordering::SeqCst);
        assert!(!panics, "a failure that a test requested");
        if take_one(&self.loads_to_fail) {
            return Box::pin(async { Err(requested_error()) });
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
        if self.hides_contents.load(Ordering::SeqCst) {
            let read_count = self.hidden_content_count.fetch_add(1, Ordering::SeqCst);
            assert!(read_count < HIDDEN_CONTENT_READS_MAX, "hidden content is read repeatedly");
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

    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>> {
        self.inner.import(import)
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
        if take_one(&self.due_searches_to_fail) {
            return Box::pin(async { Err(requested_error()) });
        }
        self.inner.due_executions(before, limit)
    }

    fn examine(&self, from: ExaminationProgress) -> BoxFuture<'_, Result<ExaminedPortion>> {
        self.inner.examine(from)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        if self.closes.load(Ordering::SeqCst) {
            return self.inner.close();
        }
        Box::pin(async { Ok(()) })
    }
}
