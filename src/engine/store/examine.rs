//! Examines a store in slices while it is in use: journal rows with their chains, content with its digests, executions,
//! and the index of open executions. The pages below are checked by redb, and only when it opens a file.

use std::ops::Bound;

use redb::{ReadOnlyTable, ReadTransaction, Value};

use super::{
    ExaminationProgress, ExaminedPortion, ExecutionSummary, LoadedExecution,
    fault::redb_error,
    index, reader,
    record::{self, damaged_database_error},
    shared::SharedStore,
    tables::{
        CONTENT_TABLE, EXECUTIONS_TABLE, JOURNAL_TABLE, OPEN_TABLE, SUMMARIES_TABLE,
        open_if_present,
    },
};
use midex_domain::{Digest, ExecutionId, error::Result, limits};

/// Examines the entries after `from`, up to [`limits::EXAMINED_BYTES_MAX`], and at least one if there is one.
pub(super) fn examine_portion(
    shared: &SharedStore,
    from: ExaminationProgress,
) -> Result<ExaminedPortion> {
    let mut slice = ExamineSlice {
        bytes_left: limits::EXAMINED_BYTES_MAX,
        misplaced: Vec::new(),
        portion: ExaminedPortion::default(),
    };
    let next = match from {
        ExaminationProgress::Row(key) => {
            (slice.examine_rows(shared, key)?).or(Some(ExaminationProgress::Content(None)))
        }
        ExaminationProgress::Content(digest) => {
            (slice.examine_contents(shared, digest)?).or(Some(ExaminationProgress::Execution(None)))
        }
        ExaminationProgress::Execution(id) => (slice.examine_executions(shared, id.as_ref())?)
            .or(Some(ExaminationProgress::Open(None))),
        ExaminationProgress::Open(id) => slice.examine_open_index(shared, id.as_ref())?,
    };
    slice.portion.next_progress = next;
    slice.portion.misindexed = slice.count_misindexed(shared)?;
    Ok(slice.portion)
}

struct ExamineSlice {
    bytes_left: usize,
    /// The executions to which the index does not lead, each with the key of its last row.
    misplaced: Vec<(ExecutionId, u64)>,
    portion: ExaminedPortion,
}

/// Each function examines a portion of its table and returns how far it came, or `None` at the present end of the
/// table. Entries that are added meanwhile may be missed.
impl ExamineSlice {
    fn examine_rows(
        &mut self,
        shared: &SharedStore,
        after: u64,
    ) -> Result<Option<ExaminationProgress>> {
        shared.read(|transaction| {
            let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
            for entry in journal.range(after.saturating_add(1)..).map_err(redb_error)? {
                let (key, bytes) = entry.map_err(redb_error)?;
                reader::check_row(&journal, key.value(), bytes.value())?;
                if self.count_entry(bytes.value().len()) {
                    return Ok(Some(ExaminationProgress::Row(key.value())));
                }
            }
            Ok(None)
        })
    }

    fn examine_contents(
        &mut self,
        shared: &SharedStore,
        after: Option<Digest>,
    ) -> Result<Option<ExaminationProgress>> {
        let after = after.as_ref().map(Digest::as_bytes);
        shared.read(|transaction| {
            let contents = transaction.open_table(CONTENT_TABLE).map_err(redb_error)?;
            let lower_bound = after.map_or(Bound::Unbounded, Bound::Excluded);
            for entry in
                contents.range::<&[u8; 32]>((lower_bound, Bound::Unbounded)).map_err(redb_error)?
            {
                let (key, bytes) = entry.map_err(redb_error)?;
                let digest = reader::check_content(key.value(), bytes.value())?;
                if self.count_entry(bytes.value().len()) {
                    return Ok(Some(ExaminationProgress::Content(Some(digest))));
                }
            }
            Ok(None)
        })
    }

    fn examine_executions(
        &mut self,
        shared: &SharedStore,
        after: Option<&ExecutionId>,
    ) -> Result<Option<ExaminationProgress>> {
        let ids = shared.read(|transaction| {
            read_ids_after(&transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?, after)
        })?;
        // Read the heads before the transaction begins in which they are used.
        let heads = shared.uncovered_heads(ids.iter());
        shared.read(|transaction| {
            for (id, head) in ids.iter().zip(heads) {
                let bytes = self.examine_execution(transaction, id, head);
                let bytes =
                    bytes.map_err(|error| error.with_context("execution_id", id.as_str()))?;
                if self.count_entry(bytes) {
                    return Ok(Some(ExaminationProgress::Execution(Some(id.clone()))));
                }
            }
            Ok(last_id_if_full(&ids).map(|id| ExaminationProgress::Execution(Some(id))))
        })
    }

    /// Examines one execution, and returns how many bytes were read for it.
    fn examine_execution(
        &mut self,
        transaction: &ReadTransaction,
        id: &ExecutionId,
        head: Option<u64>,
    ) -> Result<usize> {
        let stored = reader::load(transaction, id, head)?;
        let LoadedExecution { execution, position } =
            stored.ok_or_else(|| damaged_database_error("an execution is gone"))?;
        let open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
        let is_open = open.get(id.as_str()).map_err(redb_error)?.is_some();
        if is_open == execution.is_over() {
            return Err(damaged_database_error(
                "the index of open executions does not say what an execution does",
            ));
        }
        let misplaced = find_misplaced_key(transaction, id, head)?;
        self.misplaced.extend(misplaced.map(|key| (id.clone(), key)));
        if is_open {
            self.portion.open.push(execution);
        }
        let bytes = position.snapshot_bytes + position.bytes_since_snapshot;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Looks again for those to which the index did not lead. One that moved meanwhile has another last row now.
    fn count_misindexed(&self, shared: &SharedStore) -> Result<u64> {
        let heads = shared.uncovered_heads(self.misplaced.iter().map(|(id, _)| id));
        shared.read(|transaction| {
            let mut count = 0;
            for ((id, key), head) in self.misplaced.iter().zip(heads) {
                count += u64::from(find_misplaced_key(transaction, id, head)? == Some(*key));
            }
            Ok(count)
        })
    }

    fn examine_open_index(
        &mut self,
        shared: &SharedStore,
        after: Option<&ExecutionId>,
    ) -> Result<Option<ExaminationProgress>> {
        shared.read(|transaction| {
            let executions = transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
            let ids =
                read_ids_after(&transaction.open_table(OPEN_TABLE).map_err(redb_error)?, after)?;
            for id in &ids {
                if executions.get(id.as_str()).map_err(redb_error)?.is_none() {
                    return Err(damaged_database_error(
                        "the index of open executions names one that is not there",
                    ));
                }
            }
            self.portion.entries += ids.len() as u64;
            Ok(last_id_if_full(&ids).map(|id| ExaminationProgress::Open(Some(id))))
        })
    }

    /// Counts an entry. Returns true if the slice has no room for another one.
    fn count_entry(&mut self, bytes: usize) -> bool {
        self.portion.entries += 1;
        let bytes = bytes.max(limits::EXAMINED_ENTRY_BYTES_MIN);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.bytes_left == 0
    }
}

/// The key of an execution's last row if the index covers the row and does not lead to the execution.
fn find_misplaced_key(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Option<u64>> {
    let last_key = reader::read_last_row_key(transaction, id, head)?.unwrap_or_default();
    if last_key > index::read_indexed_to(transaction)? {
        return Ok(None);
    }
    let summaries = open_if_present(transaction, SUMMARIES_TABLE)?;
    let summary = summaries.as_ref().map(|summaries| summaries.get(last_key)).transpose();
    let summary = summary.map_err(redb_error)?.flatten();
    let summary = summary.and_then(|bytes| record::decode::<ExecutionSummary>(bytes.value()).ok());
    Ok(summary.is_none_or(|summary| summary.id != *id).then_some(last_key))
}

/// The next ids of a table, at most [`limits::EXAMINED_IDS_MAX`].
fn read_ids_after<V: Value + 'static>(
    table: &ReadOnlyTable<&'static str, V>,
    after: Option<&ExecutionId>,
) -> Result<Vec<ExecutionId>> {
    let lower_bound = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.as_str()));
    let range = table.range::<&str>((lower_bound, Bound::Unbounded)).map_err(redb_error)?;
    let ids = range.take(limits::EXAMINED_IDS_MAX);
    ids.map(|entry| record::parse_indexed_id(entry.map_err(redb_error)?.0.value())).collect()
}

/// The last of the ids, if more may follow.
fn last_id_if_full(ids: &[ExecutionId]) -> Option<ExecutionId> {
    let is_full = ids.len() == limits::EXAMINED_IDS_MAX;
    ids.last().filter(|_| is_full).cloned()
}
