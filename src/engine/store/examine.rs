//! Examines a store in slices while it is in use: journal rows with their chains, content with its digests, executions,
//! and the index of open executions. The pages below are checked by redb, and only when it opens a file.

use std::ops::Bound;

use redb::{ReadOnlyTable, ReadTransaction, Value};

use super::{
    Examined, Reached, Stored,
    batch::{CONTENT, EXECUTIONS, JOURNAL, OPEN},
    fault::fault,
    list::indexed,
    reader,
    record::damaged,
    shared::Shared,
};
use midex_domain::{Digest, ExecutionId, error::Result, limits};

/// Examines the entries after `from`, up to [`limits::EXAMINED_BYTES_MAX`], and at least one if there is one.
pub(super) fn slice(shared: &Shared, from: Reached) -> Result<Examined> {
    let mut slice = Slice {
        room: limits::EXAMINED_BYTES_MAX,
        examined: Examined::default(),
    };
    let next = match from {
        Reached::Row(key) => (slice.rows(shared, key)?).or(Some(Reached::Content(None))),
        Reached::Content(digest) => {
            (slice.contents(shared, digest)?).or(Some(Reached::Execution(None)))
        }
        Reached::Execution(id) => {
            (slice.executions(shared, id.as_ref())?).or(Some(Reached::Open(None)))
        }
        Reached::Open(id) => slice.examine_open_index(shared, id.as_ref())?,
    };
    slice.examined.next = next;
    Ok(slice.examined)
}

struct Slice {
    room: usize,
    examined: Examined,
}

/// Each function examines a portion of its table and returns how far it came, or `None` at the present end of the
/// table. Entries that are added meanwhile may be missed.
impl Slice {
    fn rows(&mut self, shared: &Shared, after: u64) -> Result<Option<Reached>> {
        shared.read(|transaction| {
            let journal = transaction.open_table(JOURNAL).map_err(fault)?;
            for entry in journal.range(after.saturating_add(1)..).map_err(fault)? {
                let (key, bytes) = entry.map_err(fault)?;
                reader::check_row(&journal, key.value(), bytes.value())?;
                if self.ends_with(bytes.value().len()) {
                    return Ok(Some(Reached::Row(key.value())));
                }
            }
            Ok(None)
        })
    }

    fn contents(&mut self, shared: &Shared, after: Option<Digest>) -> Result<Option<Reached>> {
        let after = after.as_ref().map(Digest::as_bytes);
        shared.read(|transaction| {
            let contents = transaction.open_table(CONTENT).map_err(fault)?;
            let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
            for entry in contents
                .range::<&[u8; 32]>((behind, Bound::Unbounded))
                .map_err(fault)?
            {
                let (key, bytes) = entry.map_err(fault)?;
                let digest = reader::check_content(key.value(), bytes.value())?;
                if self.ends_with(bytes.value().len()) {
                    return Ok(Some(Reached::Content(Some(digest))));
                }
            }
            Ok(None)
        })
    }

    fn executions(
        &mut self,
        shared: &Shared,
        after: Option<&ExecutionId>,
    ) -> Result<Option<Reached>> {
        let ids = shared.read(|transaction| {
            ids_behind(&transaction.open_table(EXECUTIONS).map_err(fault)?, after)
        })?;
        // Read the heads before the transaction begins in which they are used.
        let heads = shared.heads_of(ids.iter());
        shared.read(|transaction| {
            for (id, head) in ids.iter().zip(heads) {
                let bytes = self.execution(transaction, id, head);
                let bytes = bytes.map_err(|error| error.with("execution_id", id.as_str()))?;
                if self.ends_with(bytes) {
                    return Ok(Some(Reached::Execution(Some(id.clone()))));
                }
            }
            Ok(last_of(&ids).map(|id| Reached::Execution(Some(id))))
        })
    }

    /// Examines one execution, and returns how many bytes were read for it.
    fn execution(
        &mut self,
        transaction: &ReadTransaction,
        id: &ExecutionId,
        head: Option<u64>,
    ) -> Result<usize> {
        let stored = reader::load(transaction, id, head)?;
        let Stored {
            execution,
            position,
        } = stored.ok_or_else(|| damaged("an execution is gone"))?;
        let open = transaction.open_table(OPEN).map_err(fault)?;
        let is_open = open.get(id.as_str()).map_err(fault)?.is_some();
        if is_open == execution.is_over() {
            return Err(damaged(
                "the index of open executions does not say what an execution does",
            ));
        }
        if is_open {
            self.examined.open.push(execution);
        }
        let bytes = position.snapshot_bytes + position.bytes_since_snapshot;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn examine_open_index(
        &mut self,
        shared: &Shared,
        after: Option<&ExecutionId>,
    ) -> Result<Option<Reached>> {
        shared.read(|transaction| {
            let executions = transaction.open_table(EXECUTIONS).map_err(fault)?;
            let ids = ids_behind(&transaction.open_table(OPEN).map_err(fault)?, after)?;
            for id in &ids {
                if executions.get(id.as_str()).map_err(fault)?.is_none() {
                    return Err(damaged(
                        "the index of open executions names one that is not there",
                    ));
                }
            }
            self.examined.entries += ids.len() as u64;
            Ok(last_of(&ids).map(|id| Reached::Open(Some(id))))
        })
    }

    /// Counts an entry. Returns true if the slice has no room for another one.
    fn ends_with(&mut self, bytes: usize) -> bool {
        self.examined.entries += 1;
        let bytes = bytes.max(limits::EXAMINED_ENTRY_BYTES_MIN);
        self.room = self.room.saturating_sub(bytes);
        self.room == 0
    }
}

/// The next ids of a table, at most [`limits::EXAMINED_IDS_MAX`].
fn ids_behind<V: Value + 'static>(
    table: &ReadOnlyTable<&'static str, V>,
    after: Option<&ExecutionId>,
) -> Result<Vec<ExecutionId>> {
    let behind = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.as_str()));
    let range = table
        .range::<&str>((behind, Bound::Unbounded))
        .map_err(fault)?;
    let ids = range.take(limits::EXAMINED_IDS_MAX);
    ids.map(|entry| indexed(entry.map_err(fault)?.0.value()))
        .collect()
}

/// The last of the ids, if more may follow.
fn last_of(ids: &[ExecutionId]) -> Option<ExecutionId> {
    let more = ids.len() == limits::EXAMINED_IDS_MAX;
    ids.last().filter(|_| more).cloned()
}
