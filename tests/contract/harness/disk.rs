//! The store on disk, under paused time.

use std::{
    collections::BTreeSet,
    future::Future,
    path::Path,
    sync::{Arc, mpsc},
};

use midex_domain::{
    Digest, Execution, ExecutionId, Row, clock::Timestamp, error::Result, event::OwnerEpoch,
};
use midex_engine::store::{
    BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, DueExecution, Import,
    ListPage, ListQuery, LoadedExecution, Options, PlacedEntry, Position, RedbStore, RefusedCall,
    Store, TelemetryQuery,
};

/// A store on disk whose thread writes while no time passes: tokio's paused clock runs on as soon as every task waits,
/// also for that thread, unless a blocking task is under way.
#[derive(Debug)]
pub(super) struct DiskStore(RedbStore);

impl DiskStore {
    pub(super) fn open(directory: &Path) -> Self {
        Self(RedbStore::open(directory, Options::default()).expect("a store"))
    }
}

/// Completes `work` while no time passes.
async fn without_time<T>(work: impl Future<Output = T>) -> T {
    let (done, end) = mpsc::channel::<()>();
    // The channel closes once the work is done or dropped.
    tokio::task::spawn_blocking(move || end.recv());
    let result = work.await;
    drop(done);
    result
}

impl Store for DiskStore {
    fn owner(&self, id: &ExecutionId) -> Result<OwnerEpoch> {
        self.0.owner(id)
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(without_time(self.0.commit(commit)))
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        Box::pin(without_time(self.0.checkpoint(execution, position)))
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
        Box::pin(without_time(self.0.load(id)))
    }

    fn load_rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(without_time(self.0.load_rows(id, revisions)))
    }

    fn load_history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(without_time(self.0.load_history(id)))
    }

    fn load_forks<'a>(
        &'a self,
        source: &'a ExecutionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ExecutionId>>> {
        Box::pin(without_time(self.0.load_forks(source, limit)))
    }

    fn load_content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        Box::pin(without_time(self.0.load_content(digest)))
    }

    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>> {
        Box::pin(without_time(self.0.find_holders(contents)))
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        self.0.note_refusal(refusal);
    }

    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        Box::pin(without_time(self.0.load_telemetry(query)))
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(without_time(self.0.list(query)))
    }

    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>> {
        Box::pin(without_time(self.0.due_executions(before, limit)))
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(without_time(self.0.delete(deletion)))
    }

    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>> {
        Box::pin(without_time(self.0.import(import)))
    }

    fn load_tombstone<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> BoxFuture<'a, Result<Option<Timestamp>>> {
        Box::pin(without_time(self.0.load_tombstone(id)))
    }

    fn sweep(&self, sweep: ContentSweep) -> BoxFuture<'_, Result<ContentSweep>> {
        Box::pin(without_time(self.0.sweep(sweep)))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(without_time(self.0.close()))
    }
}
