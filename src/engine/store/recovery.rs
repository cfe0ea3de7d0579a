//! What an opening does after redb's checks: finds the executions that are ahead of their snapshots, and writes fresh
//! snapshots for them.

use std::collections::HashMap;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};

use super::{
    batch::WriterState,
    dirty::DirtySet,
    fault::redb_error,
    reader,
    record::{self, damaged_database_error},
    tables::{
        EXECUTIONS_TABLE, JOURNAL_TABLE, META_TABLE, NEXT_KEY_KEY, REFUSALS_TABLE, REPLAY_FROM_KEY,
        read_meta_key,
    },
};
use midex_domain::{ExecutionId, error::Result};

/// The maximum number of snapshots in one transaction of [`checkpoint_all`].
const CHECKPOINTED_TOGETHER_MAX: usize = 256;
/// A safe estimate of what one of these snapshots adds to the file.
const CHECKPOINT_BYTES: u64 = 32 << 10;

/// Reads what the writer needs to know about the file. Changes nothing.
pub(super) fn read_writer_state(database: &Database) -> Result<WriterState> {
    let transaction = database.begin_read().map_err(redb_error)?;
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let refusals = transaction.open_table(REFUSALS_TABLE).map_err(redb_error)?;
    let last_refusal = refusals.last().map_err(redb_error)?;
    let mut state = WriterState {
        heads: DirtySet::default(),
        next_key: last_refusal.map_or(1, |(key, _)| key.value().saturating_add(1)),
        scan_from: 1,
        unfolded_log_bytes: None,
    };
    let meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    let used_before = read_meta_key(&meta, NEXT_KEY_KEY)?;
    state.next_key = state.next_key.max(used_before);
    if let Some((key, bytes)) = journal.last().map_err(redb_error)? {
        let replay_from = record::decode_row_header(bytes.value())?.replay_from;
        state.next_key = state.next_key.max(key.value().saturating_add(1));
        state.scan_from = replay_from.max(read_meta_key(&meta, REPLAY_FROM_KEY)?);
        if state.scan_from > state.next_key {
            return Err(damaged_database_error(
                "the place from which to replay lies behind its last row",
            ));
        }
        state.heads = find_uncovered_heads(&transaction, state.scan_from)?;
    }
    Ok(state)
}

/// The disk space that [`checkpoint_all`] may need.
pub(super) fn estimate_checkpoint_bytes(state: &WriterState) -> u64 {
    state.heads.iter().count() as u64 * CHECKPOINT_BYTES
}

/// Brings the snapshot of every execution up to date, and then moves the start of replay behind the last row. That row
/// still names an earlier start, from which the next opening would scan. Each transaction of this function leaves a
/// consistent file.
pub(super) fn checkpoint_all(database: &Database, state: &mut WriterState) -> Result<()> {
    let heads: Vec<_> = state.heads.iter().map(|(id, head)| (id.clone(), head.last_key)).collect();
    for heads in heads.chunks(CHECKPOINTED_TOGETHER_MAX) {
        checkpoint_executions(database, heads)?;
        for (id, _) in heads {
            state.heads.record_snapshot(id);
        }
    }
    if state.scan_from < state.next_key {
        record_replay_start(database, state.next_key)?;
        state.scan_from = state.next_key;
    }
    Ok(())
}

fn record_replay_start(database: &Database, key: u64) -> Result<()> {
    let transaction = database.begin_write().map_err(redb_error)?;
    let mut meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    meta.insert(REPLAY_FROM_KEY, key.to_le_bytes().as_slice()).map_err(redb_error)?;
    drop(meta);
    transaction.commit().map_err(redb_error)
}

fn checkpoint_executions(database: &Database, heads: &[(ExecutionId, u64)]) -> Result<()> {
    let read_transaction = database.begin_read().map_err(redb_error)?;
    let write_transaction = database.begin_write().map_err(redb_error)?;
    {
        let mut executions = write_transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
        for (id, last) in heads {
            let stored = reader::load(&read_transaction, id, Some(*last))?.ok_or_else(|| {
                damaged_database_error("an execution has journal rows and no snapshot")
            })?;
            let mut bytes =
                record::encode_snapshot(&stored.execution, stored.position.snapshot_bytes)?;
            record::seal_snapshot(&mut bytes, *last);
            executions.insert(id.as_str(), bytes.as_slice()).map_err(redb_error)?;
        }
    }
    write_transaction.commit().map_err(redb_error)
}

/// The heads, computed from the rows from `replay_from` on.
fn find_uncovered_heads(transaction: &ReadTransaction, replay_from: u64) -> Result<DirtySet> {
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let executions = transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
    let mut heads = DirtySet::default();
    let mut covered_keys = HashMap::new();
    for entry in journal.range(replay_from..).map_err(redb_error)? {
        let (key, bytes) = entry.map_err(redb_error)?;
        let (_, row) = record::decode_row(bytes.value())?;
        let id = row.execution_id;
        if !covered_keys.contains_key(&id) {
            let snapshot = executions.get(id.as_str()).map_err(redb_error)?;
            let snapshot = snapshot.ok_or_else(|| {
                damaged_database_error("an execution has journal rows and no snapshot")
            })?;
            covered_keys
                .insert(id.clone(), record::decode_snapshot_header(snapshot.value())?.last_key);
        }
        if key.value() > covered_keys[&id] {
            heads.record_row(&id, row.revision, key.value());
        }
    }
    Ok(heads)
}
