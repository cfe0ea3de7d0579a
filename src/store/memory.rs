//! A store in memory: the same contract, nothing durable. It commits inline and has no threads, so a
//! test under a paused clock sees every step in its place.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    BoxFuture, Commit, Committed, ListQuery, Page, Position, Refusal, Store, Stored,
    TelemetryQuery, Told, merge,
};
use crate::{
    domain::{Digest, Execution, ExecutionId, Row, Sequence},
    error::Result,
    limits,
};

/// Executions in memory, gone with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    executions: BTreeMap<ExecutionId, Execution>,
    journal: BTreeMap<u64, Row>,
    contents: BTreeMap<Digest, Arc<[u8]>>,
    refusals: BTreeMap<u64, Refusal>,
    /// The last number of the sequence of both.
    last: u64,
    closed: bool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, Inside>> {
        let inside = self.lock();
        if inside.closed {
            return Err(super::closed());
        }
        Ok(inside)
    }
}

impl Store for MemoryStore {
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
                return Err(super::conflict(
                    execution.id(),
                    execution.revision(),
                    stored,
                ));
            }
            Ok(position(execution.revision()))
        })
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<Stored>>> {
        Box::pin(async move {
            let execution = self.open()?.executions.get(id).cloned();
            Ok(execution.map(|execution| Stored {
                position: position(execution.revision()),
                execution,
            }))
        })
    }

    fn row(&self, key: Sequence) -> BoxFuture<'_, Result<Option<Row>>> {
        Box::pin(async move { Ok(self.open()?.journal.get(&key.0).cloned()) })
    }

    fn history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<(Sequence, Row)>>> {
        Box::pin(async move {
            let inside = self.open()?;
            let rows = inside.journal.iter();
            Ok(rows
                .filter(|(_, row)| row.execution_id == *id)
                .map(|(key, row)| (Sequence(*key), row.clone()))
                .collect())
        })
    }

    fn content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        Box::pin(async move { Ok(self.open()?.contents.get(&digest).cloned()) })
    }

    fn note(&self, refusal: Refusal) {
        if let Ok(mut inside) = self.open() {
            inside.note(refusal);
        }
    }

    fn telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<Told>>> {
        Box::pin(async move {
            let inside = self.open()?;
            let transitions = inside.journal.iter().rev();
            let transitions = transitions.map(|(key, row)| Ok(Told::transition(*key, row.clone())));
            let refusals = inside.refusals.iter().rev();
            let refusals = refusals.map(|(key, one)| Ok(Told::refusal(*key, one.clone())));
            merge::latest(transitions, refusals, &query)
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Page>> {
        Box::pin(async move { Ok(self.open()?.list(&query)) })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.lock().closed = true;
            Ok(())
        })
    }
}

impl Inside {
    fn revision(&self, id: &ExecutionId) -> u64 {
        self.executions.get(id).map_or(0, Execution::revision)
    }

    fn commit(&mut self, commit: &Commit) -> Result<Committed> {
        super::check(commit)?;
        let (id, row) = (commit.next.id(), &commit.row);
        let before = self.executions.get(id);
        super::check_follows(
            row,
            before.map_or(0, Execution::revision),
            before.and_then(Execution::row),
        )?;
        let key = self.next_key();
        let mut next = Execution::clone(&commit.next);
        next.settle(Sequence(key));
        self.executions.insert(id.clone(), next);
        for (digest, content) in &commit.contents {
            let content = || Arc::clone(content);
            self.contents.entry(*digest).or_insert_with(content);
        }
        self.journal.insert(key, row.clone());
        Ok(Committed {
            row: Sequence(key),
            position: position(row.revision),
        })
    }

    fn list(&self, query: &ListQuery) -> Page {
        let reached = |one: &&Execution| one.row().is_some_and(|row| query.reaches(row));
        let executions = self.executions.values().filter(reached);
        let mut wanted: Vec<_> = executions.filter(|one| query.wants(one)).collect();
        wanted.sort_unstable_by_key(|one| Reverse(one.row()));
        let more = wanted.len() > query.limit;
        wanted.truncate(query.limit);
        Page {
            next: wanted.last().and_then(|one| one.row()).filter(|_| more),
            executions: wanted.into_iter().cloned().collect(),
        }
    }

    fn next_key(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn note(&mut self, refusal: Refusal) {
        let key = self.next_key();
        self.refusals.insert(key, refusal);
        if self.refusals.len() as u64 > limits::REFUSALS_KEPT_MAX {
            self.refusals.pop_first();
        }
    }
}

/// Every state in memory is its own snapshot.
fn position(revision: u64) -> Position {
    Position {
        snapshot_revision: revision,
        ..Position::default()
    }
}
