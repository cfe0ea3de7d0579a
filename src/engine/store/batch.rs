//! One batch inside one write transaction: a compare-and-set for each request.

mod import;
mod removal;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

pub(super) use self::removal::apply_removal;
use super::{
    Deletion, PastChange, RefusedCall,
    changes::{ChangeBuffer, LogChange},
    check_next_revision,
    digest_search::DigestSearch,
    dirty::DirtySet,
    fault::redb_error,
    import::EncodedImport,
    index::{self, IndexChange},
    record::{self, RowHeader, damaged_database_error},
    revision_conflict_error,
    tables::{
        CONTENT_TABLE, EXECUTIONS_TABLE, FORKS_TABLE, JOURNAL_TABLE, OPEN_TABLE, REFUSALS_TABLE,
    },
};
use midex_domain::{
    Digest, ExecutionId, Row, Sequence,
    clock::Timestamp,
    error::{Error, Result},
    limits,
};

/// The writer's data about the file. Always rebuilt from the file alone.
#[derive(Debug, Default)]
pub(super) struct WriterState {
    /// Executions that are ahead of their snapshots.
    pub(super) heads: DirtySet,
    /// The key of the next row or refusal.
    pub(super) next_key: u64,
    /// The key from which the next opening would search for rows that no snapshot covers.
    pub(super) scan_from: u64,
    /// The disk space needed to make durable the records that an opening has read from the redo log, if there was not
    /// enough. The records are then in memory only, and the log is kept.
    pub(super) unfolded_log_bytes: Option<u64>,
}

/// An encoded request to the writer.
#[derive(Debug)]
pub(super) enum WriteRequest {
    /// Store a transition.
    Transition {
        /// The row, needed for the comparison.
        row: Arc<Row>,
        /// The same row, encoded.
        row_bytes: Vec<u8>,
        /// The execution after it, where a snapshot is due.
        snapshot: Option<Vec<u8>>,
        /// Content to be stored by digest.
        contents: Vec<(Digest, Arc<[u8]>)>,
        /// The change of its entry in the index of open executions.
        open_index_change: OpenIndexChange,
        /// The change of earlier rows, if it is a purge.
        past: Option<Box<EncodedPastChange>>,
    },
    /// Store a snapshot of an execution that is stored already.
    Checkpoint {
        /// The execution.
        id: ExecutionId,
        /// Its revision.
        revision: u64,
        /// The encoded snapshot.
        snapshot: Vec<u8>,
    },
    /// Remove an execution.
    Delete(Deletion),
    /// Do a step of the index.
    Index(IndexChange),
    /// Store executions of another store.
    Import(EncodedImport),
    /// Free those of the contents that no row from this key on names, and forget the other candidates.
    Free {
        /// The contents.
        unnamed: Vec<Digest>,
        /// Candidates that a row names.
        named: Vec<Digest>,
        /// The rows before this key were searched.
        searched_before: u64,
        /// The ids of tombstones to remove.
        tombstones: Vec<String>,
    },
}

/// A [`PastChange`] whose rows are encoded.
#[derive(Debug)]
pub(super) struct EncodedPastChange {
    /// The rows by revision.
    rows: BTreeMap<u64, Vec<u8>>,
    released: BTreeSet<Digest>,
    searched_before: u64,
}

impl EncodedPastChange {
    pub(super) fn encode(change: PastChange) -> Result<Self> {
        let rows = change.rows.iter().map(|row| Ok((row.revision, record::encode_row(row)?)));
        Ok(Self {
            rows: rows.collect::<Result<_>>()?,
            released: change.released,
            searched_before: change.searched_before.0,
        })
    }
}

/// The change of an execution's entry in the index of open executions.
#[derive(Clone, Copy, Debug)]
pub(super) enum OpenIndexChange {
    /// No change.
    Keep,
    /// Set the next deadline.
    Set(Option<Timestamp>),
    /// Remove the entry, because the execution has ended.
    Remove,
}

impl WriteRequest {
    /// The bytes to be written, without [`WriteRequest::contents`].
    pub(super) fn encoded_bytes(&self) -> usize {
        match self {
            Self::Transition { row_bytes, snapshot, past, .. } => {
                let past_rows = past.iter().flat_map(|past| past.rows.values());
                let past_bytes: usize = past_rows.map(Vec::len).sum();
                row_bytes.len() + snapshot.as_ref().map_or(0, Vec::len) + past_bytes
            }
            Self::Checkpoint { snapshot, .. } => snapshot.len(),
            Self::Delete(deletion) => deletion.contents.len() * 32,
            Self::Index(change) => change.encoded_bytes(),
            Self::Import(import) => import.record_bytes(),
            Self::Free { .. } => 0,
        }
    }

    /// Whether it must go to the data file at once, because it changes earlier rows or is too large for the log.
    pub(super) fn bypasses_log(&self) -> bool {
        matches!(self, Self::Transition { past: Some(_), .. } | Self::Import(_))
    }

    /// Content to be written unless it is stored already.
    pub(super) fn contents(&self) -> &[(Digest, Arc<[u8]>)] {
        match self {
            Self::Transition { contents, .. } => contents,
            Self::Import(import) => &import.contents,
            _ => &[],
        }
    }
}

/// The results of a batch, once it is durable.
#[derive(Debug, Default)]
pub(super) struct BatchEffects {
    /// For each request its journal key, or why it was refused.
    pub(super) answers: Vec<Result<Sequence>>,
    /// The last row of each execution that became ahead of its snapshot, or `None` where a snapshot was written. For
    /// readers.
    pub(super) heads: Vec<(ExecutionId, Option<u64>)>,
    /// Transitions stored.
    pub(super) transitions: u64,
    /// Snapshots stored.
    pub(super) snapshots: u64,
    /// Whether there is anything to commit.
    pub(super) has_changes: bool,
}

/// The total length of those `contents` that are stored already.
pub(super) fn count_stored_bytes(
    transaction: &ReadTransaction,
    contents: &HashMap<Digest, usize>,
) -> Result<usize> {
    let table = transaction.open_table(CONTENT_TABLE).map_err(redb_error)?;
    let mut bytes = 0;
    for (digest, length) in contents {
        if table.get(digest.as_bytes()).map_err(redb_error)?.is_some() {
            bytes += length;
        }
    }
    Ok(bytes)
}

/// Writes `refusals` into `transaction`, and then `requests`, each after comparing it with the stored revision. Every
/// write is also recorded in `changes`. After an error neither the transaction nor the state may be used again.
pub(super) fn apply_writes<'a>(
    transaction: &WriteTransaction,
    state: &mut WriterState,
    requests: impl Iterator<Item = &'a mut WriteRequest>,
    refusals: &[RefusedCall],
    changes: &mut ChangeBuffer,
) -> Result<BatchEffects> {
    let mut effects = BatchEffects::default();
    if !refusals.is_empty() {
        insert_refusals(transaction, state, refusals, changes)?;
        effects.has_changes = true;
    }
    let mut batch = Batch {
        transaction,
        open_table: None,
        executions: transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?,
        journal: transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?,
        content: transaction.open_table(CONTENT_TABLE).map_err(redb_error)?,
        state,
        effects,
        changes,
    };
    for request in requests {
        let answer = batch.apply_write(request)?;
        batch.effects.answers.push(answer);
    }
    Ok(batch.effects)
}

struct Batch<'a> {
    transaction: &'a WriteTransaction,
    /// Opened by the first transition that changes it: most batches have none.
    open_table: Option<Table<'a, &'static str, Option<i64>>>,
    executions: Table<'a, &'static str, &'static [u8]>,
    journal: Table<'a, u64, &'static [u8]>,
    content: Table<'a, &'static [u8; 32], &'static [u8]>,
    state: &'a mut WriterState,
    effects: BatchEffects,
    changes: &'a mut ChangeBuffer,
}

/// The last row of an execution, as the transaction sees it.
struct StoredHead {
    revision: u64,
    last_key: Option<u64>,
    is_covered: bool,
}

impl Batch<'_> {
    fn find_stored_head(&self, id: &ExecutionId) -> Result<StoredHead> {
        if let Some(head) = self.state.heads.get(id) {
            return Ok(StoredHead {
                revision: head.revision,
                last_key: Some(head.last_key),
                is_covered: false,
            });
        }
        let snapshot = self.executions.get(id.as_str()).map_err(redb_error)?;
        let header = snapshot.map(|bytes| record::decode_snapshot_header(bytes.value()));
        let header = header.transpose()?;
        Ok(StoredHead {
            revision: header.map_or(0, |header| header.revision),
            last_key: header.map(|header| header.last_key),
            is_covered: true,
        })
    }

    /// An outer error fails the whole batch. An inner error is the answer to this request alone.
    fn apply_write(&mut self, request: &mut WriteRequest) -> Result<Result<Sequence>> {
        match request {
            WriteRequest::Transition {
                row,
                row_bytes,
                snapshot,
                contents,
                open_index_change: open,
                past,
            } => {
                let head = self.find_stored_head(&row.execution_id)?;
                if let Err(error) = check_next_revision(row, head.revision) {
                    return Ok(Err(error));
                }
                self.insert_contents(contents)?;
                if let Some(past) = past {
                    self.change_past(head.last_key, head.revision, past)?;
                }
                self.update_open_index(&row.execution_id, *open)?;
                self.insert_fork(row)?;
                self.write_transition(row, head.last_key, row_bytes, snapshot.as_deref_mut())
                    .map(Ok)
            }
            WriteRequest::Checkpoint { id, revision, snapshot } => {
                self.write_checkpoint(id, *revision, snapshot)
            }
            WriteRequest::Delete(deletion) => self.delete_execution(deletion),
            WriteRequest::Index(change) => self.update_index(change),
            WriteRequest::Import(import) => self.import(import),
            WriteRequest::Free { unnamed, named, searched_before, tombstones } => {
                self.free_contents(unnamed, named, *searched_before)?;
                self.remove_tombstones(tombstones)?;
                Ok(Ok(Sequence(self.state.next_key)))
            }
        }
    }

    /// Does a step of the index, which the log does not hold.
    fn update_index(&mut self, change: &IndexChange) -> Result<Result<Sequence>> {
        let is_stored = |id: &ExecutionId| Ok(self.find_stored_head(id)?.last_key.is_some());
        index::apply_change(self.transaction, change, is_stored)?;
        self.effects.has_changes = true;
        Ok(Ok(Sequence(self.state.next_key)))
    }

    /// Those of the contents that a row from this key on names.
    fn find_named_from(&self, key: u64, contents: &BTreeSet<Digest>) -> Result<BTreeSet<Digest>> {
        let search = DigestSearch::new(contents);
        let mut named = BTreeSet::new();
        for entry in self.journal.range(key..).map_err(redb_error)? {
            named.extend(search.find_in(entry.map_err(redb_error)?.1.value()));
        }
        Ok(named)
    }

    /// Stores earlier rows of an execution anew under their keys, and removes the content that no row names any more. The
    /// writer does not put such a batch into the log.
    fn change_past(
        &mut self,
        last_key: Option<u64>,
        last_revision: u64,
        past: &mut EncodedPastChange,
    ) -> Result<()> {
        let (mut key, mut revision) = (last_key, last_revision);
        while let Some(current) = key.filter(|_| !past.rows.is_empty()) {
            let stored = self.journal.get(current).map_err(redb_error)?;
            let stored = stored.ok_or_else(missing_row_error)?;
            let header = record::decode_row_header(stored.value())?;
            drop(stored);
            if let Some(mut bytes) = past.rows.remove(&revision) {
                record::seal_row(&mut bytes, header);
                self.journal.insert(current, bytes.as_slice()).map_err(redb_error)?;
            }
            (key, revision) = (header.previous, revision.saturating_sub(1));
        }
        if !past.rows.is_empty() {
            return Err(missing_row_error());
        }
        let named = self.find_named_from(past.searched_before, &past.released)?;
        for digest in past.released.difference(&named) {
            self.content.remove(digest.as_bytes()).map_err(redb_error)?;
        }
        Ok(())
    }

    fn write_transition(
        &mut self,
        row: &Row,
        previous: Option<u64>,
        row_bytes: &mut [u8],
        snapshot: Option<&mut [u8]>,
    ) -> Result<Sequence> {
        let id = &row.execution_id;
        let key = self.state.next_key;
        if let Some(snapshot) = snapshot {
            self.insert_snapshot(id, key, snapshot)?;
        } else {
            self.state.heads.record_row(id, row.revision, key);
            self.effects.heads.push((id.clone(), Some(key)));
        }
        let replay_from = self.state.heads.replay_from().unwrap_or(key + 1);
        let header = RowHeader { previous, replay_from };
        record::seal_row(row_bytes, header);
        self.journal.insert(key, &*row_bytes).map_err(redb_error)?;
        self.changes.push(LogChange::Row(key, row_bytes));
        self.state.next_key += 1;
        self.effects.transitions += 1;
        self.effects.has_changes = true;
        Ok(Sequence(key))
    }

    fn write_checkpoint(
        &mut self,
        id: &ExecutionId,
        revision: u64,
        snapshot: &mut [u8],
    ) -> Result<Result<Sequence>> {
        let head = self.find_stored_head(id)?;
        let Some(last) = head.last_key.filter(|_| head.revision == revision) else {
            return Ok(Err(revision_conflict_error(id, revision, head.revision)));
        };
        if !head.is_covered {
            self.insert_snapshot(id, last, snapshot)?;
            self.effects.has_changes = true;
        }
        Ok(Ok(Sequence(last)))
    }

    fn insert_snapshot(&mut self, id: &ExecutionId, key: u64, snapshot: &mut [u8]) -> Result<()> {
        record::seal_snapshot(snapshot, key);
        self.executions.insert(id.as_str(), &*snapshot).map_err(redb_error)?;
        self.changes.push(LogChange::Snapshot(id.as_str(), snapshot));
        if self.state.heads.record_snapshot(id) {
            self.effects.heads.push((id.clone(), None));
        }
        self.effects.snapshots += 1;
        Ok(())
    }

    fn update_open_index(&mut self, id: &ExecutionId, entry: OpenIndexChange) -> Result<()> {
        if matches!(entry, OpenIndexChange::Keep) {
            return Ok(());
        }
        let open = match &mut self.open_table {
            Some(open) => open,
            none => none.insert(self.transaction.open_table(OPEN_TABLE).map_err(redb_error)?),
        };
        let id = id.as_str();
        let result = if let OpenIndexChange::Set(due) = entry {
            let due = due.map(Timestamp::milliseconds);
            self.changes.push(LogChange::Open(id, due));
            open.insert(id, due)
        } else {
            self.changes.push(LogChange::Ended(id));
            open.remove(id)
        };
        result.map(drop).map_err(redb_error)
    }

    /// Adds the first row of a fork to the index of forks.
    fn insert_fork(&mut self, row: &Row) -> Result<()> {
        let Some(origin) = row.fork_origin() else {
            return Ok(());
        };
        let (source, fork) = (origin.execution_id.as_str(), row.execution_id.as_str());
        let mut forks = self.transaction.open_table(FORKS_TABLE).map_err(redb_error)?;
        forks.insert((source, fork), ()).map_err(redb_error)?;
        self.changes.push(LogChange::Fork(source, fork));
        Ok(())
    }

    fn insert_contents(&mut self, contents: &[(Digest, Arc<[u8]>)]) -> Result<()> {
        for (digest, content) in contents {
            let is_stored = self.content.get(digest.as_bytes()).map_err(redb_error)?.is_some();
            if !is_stored {
                self.content.insert(digest.as_bytes(), &**content).map_err(redb_error)?;
                self.changes.push(LogChange::Content(digest.as_bytes(), content));
            }
        }
        Ok(())
    }
}

fn insert_refusals(
    transaction: &WriteTransaction,
    state: &mut WriterState,
    refusals: &[RefusedCall],
    changes: &mut ChangeBuffer,
) -> Result<()> {
    let mut table = transaction.open_table(REFUSALS_TABLE).map_err(redb_error)?;
    for refusal in refusals {
        let bytes = record::encode_refusal(refusal)?;
        table.insert(state.next_key, bytes.as_slice()).map_err(redb_error)?;
        changes.push(LogChange::Refusal(state.next_key, &bytes));
        state.next_key += 1;
    }
    remove_old_refusals(&mut table)
}

/// Removes the oldest refusals beyond the limit.
pub(super) fn remove_old_refusals(table: &mut Table<'_, u64, &'static [u8]>) -> Result<()> {
    while table.len().map_err(redb_error)? > limits::REFUSALS_KEPT_MAX {
        table.pop_first().map_err(redb_error)?;
    }
    Ok(())
}

fn missing_row_error() -> Error {
    damaged_database_error("the rows of an execution lack one that is to be changed")
}
