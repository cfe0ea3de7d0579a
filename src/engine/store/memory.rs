//! A store in memory, with the same contract but without durability. It commits inline and has no threads, so a test
//! under a paused clock is deterministic.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    BoxFuture, Commit, Committed, DueExecution, ListPage, ListQuery, LoadedExecution, PlacedEntry,
    Position, RefusedCall, Store, TelemetryEntry, TelemetryQuery, merge,
};
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence, clock::Timestamp, error::Result, event::Owner,
    limits,
};

/// A store in memory, lost when the process ends.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    executions: BTreeMap<ExecutionId, StoredExecution>,
    journal: BTreeMap<u64, Arc<Row>>,
    /// The keys of rows in the journal, by execution and revision.
    places: BTreeMap<(ExecutionId, u64), u64>,
    contents: BTreeMap<Digest, Arc<[u8]>>,
    refusals: BTreeMap<u64, RefusedCall>,
    /// The last key of the sequence that rows and refusals share.
    last: u64,
    closed: bool,
    /// How often an engine asked for its owner: a store in memory has no openings to count.
    owners: u64,
}

/// An execution as last stored.
#[derive(Debug)]
struct StoredExecution {
    execution: Arc<Execution>,
    /// The key of its last row.
    last: u64,
    due: Option<Timestamp>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, MemoryState>> {
        let inside = self.lock();
        if inside.closed {
            return Err(super::store_closed_error());
        }
        Ok(inside)
    }
}

impl Store for MemoryStore {
    fn owner(&self) -> Owner {
        let mut inside = self.lock();
        inside.owners += 1;
        Owner(inside.owners)
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move { self.open()?.commit(&commit) })
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        _position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        Box::pin(async move {
            let inside = self.open()?;
            let stored = inside.revision(execution.id());
            if stored != execution.revision() {
                return Err(super::revision_conflict_error(
                    execution.id(),
                    execution.revision(),
                    stored,
                ));
            }
            Ok(position(execution.revision()))
        })
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
        Box::pin(async move {
            Ok(self.open()?.executions.get(id).map(|kept| LoadedExecution {
                position: position(kept.execution.revision()),
                execution: Execution::clone(&kept.execution),
            }))
        })
    }

    fn rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let inside = self.open()?;
            let newest_first = revisions.into_iter().rev();
            Ok(newest_first.filter_map(|at| inside.row(id, at)).collect())
        })
    }

    fn history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let inside = self.open()?;
            let revisions = 1..=inside.revision(id);
            Ok(revisions.filter_map(|at| inside.row(id, at)).collect())
        })
    }

    fn content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        Box::pin(async move { Ok(self.open()?.contents.get(&digest).cloned()) })
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        if let Ok(mut inside) = self.open() {
            inside.add_refusal(refusal);
        }
    }

    fn telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        Box::pin(async move {
            let inside = self.open()?;
            let transitions = inside.journal.iter().rev();
            let transitions = transitions.map(|(key, row)| {
                Ok((Sequence(*key), TelemetryEntry::Transition(Row::clone(row))))
            });
            let refusals = inside.refusals.iter().rev();
            let refusals = refusals
                .map(|(key, one)| Ok((Sequence(*key), TelemetryEntry::Refusal(one.clone()))));
            merge::latest_entries(transitions, refusals, &query)
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(async move { Ok(self.open()?.list(&query)) })
    }

    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>> {
        Box::pin(async move {
            let inside = self.open()?;
            let all = inside.executions.iter();
            let due = all.filter_map(|(id, kept)| Some((id.clone(), kept.due?)));
            let mut due: Vec<_> = due.filter(|(_, due)| *due < before).collect();
            due.sort_by_key(|(_, due)| *due);
            due.truncate(limit);
            Ok(due)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.lock().closed = true;
            Ok(())
        })
    }
}

impl MemoryState {
    fn revision(&self, id: &ExecutionId) -> u64 {
        let kept = self.executions.get(id);
        kept.map_or(0, |kept| kept.execution.revision())
    }

    fn row(&self, id: &ExecutionId, revision: u64) -> Option<Row> {
        let key = self.places.get(&(id.clone(), revision))?;
        self.journal.get(key).map(|row| Row::clone(row))
    }

    fn commit(&mut self, commit: &Commit) -> Result<Committed> {
        super::check_commit(commit)?;
        let (id, row) = (commit.next.id(), &commit.row);
        super::check_follows(row, self.revision(id))?;
        let key = self.next_key();
        let kept = StoredExecution { execution: commit.next.clone(), last: key, due: commit.due };
        self.executions.insert(id.clone(), kept);
        self.places.insert((id.clone(), row.revision), key);
        for (digest, content) in &commit.contents {
            let content = || Arc::clone(content);
            self.contents.entry(*digest).or_insert_with(content);
        }
        self.journal.insert(key, row.clone());
        Ok(Committed { row: Sequence(key), position: position(row.revision) })
    }

    fn list(&self, query: &ListQuery) -> ListPage {
        let all = self.executions.values();
        let wanted = all.filter(|one| query.admits_last_key(Sequence(one.last)));
        let mut wanted: Vec<_> =
            wanted.filter(|one| query.admits_execution(&one.execution)).collect();
        wanted.sort_unstable_by_key(|one| Reverse(one.last));
        let more = wanted.len() > query.limit;
        wanted.truncate(query.limit);
        let last = wanted.last().filter(|_| more);
        ListPage {
            next: last.map(|one| Sequence(one.last)),
            executions: wanted
                .into_iter()
                .map(|one| (Sequence(one.last), Execution::clone(&one.execution)))
                .collect(),
        }
    }

    fn next_key(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn add_refusal(&mut self, refusal: RefusedCall) {
        let key = self.next_key();
        self.refusals.insert(key, refusal);
        if self.refusals.len() as u64 > limits::REFUSALS_KEPT_MAX {
            self.refusals.pop_first();
        }
    }
}

/// In memory, every state is its own snapshot.
fn position(revision: u64) -> Position {
    Position { snapshot_revision: revision, ..Position::default() }
}
