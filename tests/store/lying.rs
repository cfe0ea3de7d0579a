//! The suite of the contract finds a store that accepts commits whose revision does not follow.

use std::{collections::BTreeSet, panic::catch_unwind, sync::Arc};

use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence,
    clock::Timestamp,
    error::{Code, Result},
    event::OwnerEpoch,
};
use midex_engine::store::{
    BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, DueExecution,
    ListPage, ListQuery, LoadedExecution, MemoryStore, PlacedEntry, Position, RefusedCall, Store,
    TelemetryQuery,
    contract::{PROMISES, Promise},
};

/// Which commits a store accepts although their revision does not follow.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Those whose revision is stored already.
    Stale,
    /// Those that skip a revision.
    Ahead,
}

#[derive(Debug)]
struct LyingStore {
    inner: MemoryStore,
    lie: Lie,
}

impl LyingStore {
    fn accepts(&self, revision: u64, stored: u64) -> bool {
        match self.lie {
            Lie::Stale => revision <= stored,
            Lie::Ahead => revision > stored + 1,
        }
    }
}

impl Store for LyingStore {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(async move {
            let stored = self.inner.load(commit.execution.id()).await?;
            let stored = stored.map_or(0, |stored| stored.execution.revision());
            let (revision, position) = (commit.row.revision, commit.position);
            match self.inner.commit(commit).await {
                Err(error)
                    if error.code() == Code::RevisionConflict && self.accepts(revision, stored) =>
                {
                    Ok(CommitReceipt { row: Sequence(u64::MAX), position })
                }
                outcome => outcome,
            }
        })
    }

    fn owner(&self) -> OwnerEpoch {
        self.inner.owner()
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

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        self.inner.checkpoint(execution, position)
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
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
        self.inner.load_content(digest)
    }

    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>> {
        self.inner.find_holders(contents)
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
        self.inner.due_executions(before, limit)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}

/// The promises that a store with this lie breaks.
fn find_broken_promises(lie: Lie) -> Vec<&'static str> {
    let is_broken = |promise: &&Promise| {
        let open = || Arc::new(LyingStore { inner: MemoryStore::new(), lie }) as Arc<dyn Store>;
        catch_unwind(|| promise.check(async |_| open())).is_err()
    };
    PROMISES.iter().filter(is_broken).map(|promise| promise.name).collect()
}

#[test]
fn a_store_that_accepts_what_is_stored_already_is_found() {
    let expected = [
        "a_commit_must_follow_the_stored_revision",
        "an_execution_is_created_once",
        "one_of_two_racing_commits_wins",
        "a_refused_commit_leaves_an_execution_open",
    ];
    assert_eq!(find_broken_promises(Lie::Stale), expected);
}

#[test]
fn a_store_that_accepts_a_skipped_revision_is_found() {
    let broken = find_broken_promises(Lie::Ahead);
    assert_eq!(broken, ["a_commit_that_skips_a_revision_is_refused"]);
}
