//! A store in memory, with the same contract but without durability. It commits inline and has no threads, so a test
//! under a paused clock is deterministic.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, DueExecution,
    ExecutionSummary, Import, ListPage, ListQuery, LoadedExecution, PastChange, PlacedEntry,
    Position, RefusedCall, Store, TelemetryEntry, TelemetryQuery, digest_search::DigestSearch,
    find_named_contents, import::id_taken_error, merge, record,
};
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence, clock::Timestamp, error::Result,
    event::OwnerEpoch, limits,
};

/// A store in memory, lost when the process ends.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    executions: BTreeMap<ExecutionId, StoredExecution>,
    journal: BTreeMap<u64, Arc<Row>>,
    /// The keys of rows in the journal, by execution and revision.
    row_keys: BTreeMap<(ExecutionId, u64), u64>,
    contents: BTreeMap<Digest, Arc<[u8]>>,
    refusals: BTreeMap<u64, RefusedCall>,
    /// When executions were deleted.
    tombstones: BTreeMap<ExecutionId, Timestamp>,
    /// Contents that deleted executions named, until the next sweep.
    candidates: BTreeSet<Digest>,
    /// The forks: a forked execution and its fork.
    forks: BTreeSet<(ExecutionId, ExecutionId)>,
    /// The last key of the sequence that rows and refusals share.
    last_key: u64,
    is_closed: bool,
}

/// An execution as last stored.
#[derive(Debug)]
struct StoredExecution {
    execution: Arc<Execution>,
    /// The key of its last row.
    last_key: u64,
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

    fn lock_open_state(&self) -> Result<MutexGuard<'_, MemoryState>> {
        let state = self.lock();
        if state.is_closed {
            return Err(super::store_closed_error());
        }
        Ok(state)
    }
}

impl Store for MemoryStore {
    fn owner(&self, _: &ExecutionId) -> Result<OwnerEpoch> {
        Ok(OwnerEpoch(1))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(async move { self.lock_open_state()?.commit(&commit) })
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        _position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        Box::pin(async move {
            let state = self.lock_open_state()?;
            let stored_revision = state.find_revision(execution.id());
            if stored_revision != execution.revision() {
                return Err(super::revision_conflict_error(
                    execution.id(),
                    execution.revision(),
                    stored_revision,
                ));
            }
            Ok(snapshot_position(execution.revision()))
        })
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
        Box::pin(async move {
            Ok(self.lock_open_state()?.executions.get(id).map(|stored| LoadedExecution {
                position: snapshot_position(stored.execution.revision()),
                execution: Execution::clone(&stored.execution),
            }))
        })
    }

    fn load_rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let state = self.lock_open_state()?;
            let newest_first = revisions.into_iter().rev();
            Ok(newest_first.filter_map(|revision| state.find_row(id, revision)).collect())
        })
    }

    fn load_history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let state = self.lock_open_state()?;
            let revisions = 1..=state.find_revision(id);
            Ok(revisions.filter_map(|revision| state.find_row(id, revision)).collect())
        })
    }

    fn load_forks<'a>(
        &'a self,
        source: &'a ExecutionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ExecutionId>>> {
        Box::pin(async move {
            let state = self.lock_open_state()?;
            let forks = state.forks.iter().filter(|(of, _)| of == source);
            Ok(forks.map(|(_, fork)| fork.clone()).take(limit).collect())
        })
    }

    fn load_content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        Box::pin(async move { Ok(self.lock_open_state()?.contents.get(&digest).cloned()) })
    }

    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>> {
        Box::pin(async move { self.lock_open_state()?.find_holders(&contents) })
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        if let Ok(mut state) = self.lock_open_state() {
            state.add_refusal(refusal);
        }
    }

    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        Box::pin(async move {
            let state = self.lock_open_state()?;
            let transitions = state.journal.iter().rev();
            let transitions = transitions.map(|(key, row)| {
                Ok((Sequence(*key), TelemetryEntry::Transition(Row::clone(row))))
            });
            let refusals = state.refusals.iter().rev();
            let refusals = refusals
                .map(|(key, one)| Ok((Sequence(*key), TelemetryEntry::Refusal(one.clone()))));
            merge::latest_entries(transitions, refusals, &query)
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(async move { Ok(self.lock_open_state()?.list(&query)) })
    }

    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>> {
        Box::pin(async move {
            let state = self.lock_open_state()?;
            let all = state.executions.iter();
            let due = all.filter_map(|(id, kept)| Some((id.clone(), kept.due?)));
            let mut due: Vec<_> = due.filter(|(_, due)| *due < before).collect();
            due.sort_by_key(|(_, due)| *due);
            due.truncate(limit);
            Ok(due)
        })
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.lock_open_state()?.delete(&deletion) })
    }

    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.lock_open_state()?.import(import) })
    }

    fn load_tombstone<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> BoxFuture<'a, Result<Option<Timestamp>>> {
        Box::pin(async move { Ok(self.lock_open_state()?.tombstones.get(id).copied()) })
    }

    fn sweep(&self, sweep: ContentSweep) -> BoxFuture<'_, Result<ContentSweep>> {
        Box::pin(async move {
            self.lock_open_state()?.sweep(sweep.tombstones_before)?;
            Ok(ContentSweep { is_done: true, ..sweep })
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.lock().is_closed = true;
            Ok(())
        })
    }
}

impl MemoryState {
    fn find_revision(&self, id: &ExecutionId) -> u64 {
        let stored = self.executions.get(id);
        stored.map_or(0, |kept| kept.execution.revision())
    }

    fn find_row(&self, id: &ExecutionId, revision: u64) -> Option<Row> {
        let key = self.row_keys.get(&(id.clone(), revision))?;
        self.journal.get(key).map(|row| Row::clone(row))
    }

    fn commit(&mut self, commit: &Commit) -> Result<CommitReceipt> {
        let (id, row) = (commit.execution.id(), &commit.row);
        commit.check(self.find_revision(id))?;
        let key = self.next_key();
        let stored =
            StoredExecution { execution: commit.execution.clone(), last_key: key, due: commit.due };
        self.executions.insert(id.clone(), stored);
        self.row_keys.insert((id.clone(), row.revision), key);
        for (digest, content) in &commit.contents {
            let content = || Arc::clone(content);
            self.contents.entry(*digest).or_insert_with(content);
        }
        if let Some(origin) = row.fork_origin() {
            self.forks.insert((origin.execution_id.clone(), id.clone()));
        }
        self.journal.insert(key, row.clone());
        if let Some(past) = &commit.past {
            self.change_past(id, past)?;
        }
        Ok(CommitReceipt { row: Sequence(key), position: snapshot_position(row.revision) })
    }

    fn change_past(&mut self, id: &ExecutionId, past: &PastChange) -> Result<()> {
        for row in &past.rows {
            if let Some(key) = self.row_keys.get(&(id.clone(), row.revision)) {
                self.journal.insert(*key, Arc::new(row.clone()));
            }
        }
        let later_rows = self.journal.range(past.searched_before.0..).map(|(_, row)| &**row);
        let named = find_named_contents(later_rows, &past.released)?;
        for digest in past.released.difference(&named) {
            self.contents.remove(digest);
        }
        Ok(())
    }

    fn delete(&mut self, deletion: &Deletion) -> Result<()> {
        let Deletion { id, revision, at, fork_of, contents } = deletion;
        let stored_revision = self.find_revision(id);
        if stored_revision != *revision || stored_revision == 0 {
            return Err(super::revision_conflict_error(id, *revision, stored_revision));
        }
        for revision in 1..=*revision {
            if let Some(key) = self.row_keys.remove(&(id.clone(), revision)) {
                self.journal.remove(&key);
            }
        }
        self.executions.remove(id);
        if let Some(source) = fork_of {
            self.forks.remove(&(source.clone(), id.clone()));
        }
        self.tombstones.insert(id.clone(), *at);
        self.candidates.extend(contents);
        Ok(())
    }

    fn import(&mut self, import: Import) -> Result<()> {
        let states = import.check()?;
        for id in states.iter().map(Execution::id) {
            if self.executions.contains_key(id) || self.tombstones.contains_key(id) {
                return Err(id_taken_error(id));
            }
        }
        for (digest, content) in import.contents {
            if let Entry::Vacant(vacant) = self.contents.entry(digest) {
                vacant.insert(content);
                self.candidates.insert(digest);
            }
        }
        for (execution, rows) in states.into_iter().zip(import.executions) {
            let id = execution.id().clone();
            for row in rows {
                let key = self.next_key();
                self.row_keys.insert((id.clone(), row.revision), key);
                self.journal.insert(key, Arc::new(row));
            }
            if let Some(origin) = execution.origin() {
                self.forks.insert((origin.execution_id.clone(), id.clone()));
            }
            let (execution, last_key) = (Arc::new(execution), self.last_key);
            self.executions.insert(id, StoredExecution { execution, last_key, due: None });
        }
        Ok(())
    }

    fn sweep(&mut self, tombstones_before: Timestamp) -> Result<()> {
        self.tombstones.retain(|_, at| *at >= tombstones_before);
        let candidates = std::mem::take(&mut self.candidates);
        let named = find_named_contents(self.journal.values().map(|row| &**row), &candidates)?;
        for digest in candidates.difference(&named) {
            self.contents.remove(digest);
        }
        Ok(())
    }

    fn find_holders(&self, contents: &BTreeSet<Digest>) -> Result<ContentHolders> {
        let mut holders = ContentHolders {
            searched_before: Sequence(self.last_key + 1),
            ..ContentHolders::default()
        };
        let search = DigestSearch::new(contents);
        for row in self.journal.values() {
            for digest in search.find_in(&record::encode_row(row)?) {
                let executions = holders.by_content.entry(digest).or_default();
                executions.insert(row.execution_id.clone());
            }
        }
        Ok(holders)
    }

    fn list(&self, query: &ListQuery) -> ListPage {
        let all = self.executions.values();
        let matches = all.filter(|one| query.admits_last_key(Sequence(one.last_key)));
        let mut matches: Vec<_> = matches.filter(|one| self.admits(query, one)).collect();
        matches.sort_unstable_by_key(|one| Reverse(one.last_key));
        let has_more = matches.len() > query.limit;
        matches.truncate(query.limit);
        let last = matches.last().filter(|_| has_more);
        ListPage {
            next_key: last.map(|one| Sequence(one.last_key)),
            executions: matches
                .into_iter()
                .map(|one| (Sequence(one.last_key), Execution::clone(&one.execution)))
                .collect(),
        }
    }

    fn admits(&self, query: &ListQuery, stored: &StoredExecution) -> bool {
        let summary = ExecutionSummary::new(&stored.execution);
        query.admits_summary(&summary)
            && query.text.as_ref().is_none_or(|text| {
                let load = |digest| Ok(self.contents.get(&digest).cloned());
                let first_row = self.find_row(&summary.id, 1);
                text.is_in_summary(&summary)
                    || first_row
                        .is_some_and(|row| text.is_in_inputs(&row, load).unwrap_or_default())
            })
    }

    fn next_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
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
fn snapshot_position(revision: u64) -> Position {
    Position { snapshot_revision: revision, ..Position::default() }
}
