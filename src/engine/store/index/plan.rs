//! Plans the next step of the index from the rows that are not indexed yet.

use std::collections::HashMap;

use redb::{ReadTransaction, ReadableTable as _};

use super::{ExecutionSummary, IndexChange, IndexEntry, read_indexed_to};
use crate::store::{
    fault::redb_error,
    reader, record,
    shared::SharedStore,
    tables::{JOURNAL_TABLE, SUMMARIES_TABLE, open_if_present},
};
use midex_domain::{ExecutionId, error::Result, limits};

/// The next step of the index; `None` if fewer than `rows_min` rows of the journal are not indexed.
pub(in crate::store) fn plan_change(
    shared: &SharedStore,
    rows_min: u64,
) -> Result<Option<IndexChange>> {
    let Some((mut change, last_keys)) = shared.read(|read| read_next_rows(read, rows_min))? else {
        return Ok(None);
    };
    let heads = shared.uncovered_heads(change.entries.iter().map(|entry| &entry.id));
    shared.read(|transaction| {
        for (entry, head) in change.entries.iter_mut().zip(heads) {
            let last_key = last_keys[&entry.id];
            // The row is durable, even if its commit has not been answered yet.
            let head = head.max(Some(last_key));
            if reader::read_last_row_key(transaction, &entry.id, head)? != Some(last_key) {
                continue;
            }
            let Some(stored) = reader::load(transaction, &entry.id, head)? else {
                continue;
            };
            let mut summary = ExecutionSummary::new(&stored.execution);
            summary.first_key = find_first_key(transaction, entry.previous, last_key)?;
            entry.summary = Some((last_key, record::encode(Vec::new(), &summary)?));
        }
        Ok(())
    })?;
    Ok(Some(change))
}

/// The next rows that are not indexed: the executions that they belong to, and the key of the last one of each.
fn read_next_rows(
    transaction: &ReadTransaction,
    rows_min: u64,
) -> Result<Option<(IndexChange, HashMap<ExecutionId, u64>)>> {
    let indexed_from = read_indexed_to(transaction)?;
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let last = journal.last().map_err(redb_error)?.map_or(0, |(key, _)| key.value());
    if last.saturating_sub(indexed_from) < rows_min.max(1) {
        return Ok(None);
    }
    let mut change = IndexChange { indexed_from, indexed_to: indexed_from, entries: Vec::new() };
    let mut last_keys = HashMap::new();
    let rows = journal.range(indexed_from + 1..).map_err(redb_error)?;
    for entry in rows.take(limits::INDEXED_ROWS_MAX) {
        let (key, bytes) = entry.map_err(redb_error)?;
        let id = record::decode_row_execution_id(bytes.value())?;
        if !last_keys.contains_key(&id) {
            if last_keys.len() == limits::INDEXED_TOGETHER_MAX {
                break;
            }
            let previous = record::decode_row_header(bytes.value())?.previous;
            change.entries.push(IndexEntry { id: id.clone(), previous, summary: None });
        }
        last_keys.insert(id, key.value());
        change.indexed_to = key.value();
    }
    Ok(Some((change, last_keys)))
}

/// The key of an execution's first row: known from its last summary, else found by its chain of rows.
fn find_first_key(
    transaction: &ReadTransaction,
    previous: Option<u64>,
    last_key: u64,
) -> Result<u64> {
    if let Some(previous) = previous
        && let Some(summaries) = open_if_present(transaction, SUMMARIES_TABLE)?
        && let Some(bytes) = summaries.get(previous).map_err(redb_error)?
    {
        return Ok(record::decode::<ExecutionSummary>(bytes.value())?.first_key);
    }
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let mut key = last_key;
    loop {
        let bytes = journal.get(key).map_err(redb_error)?.ok_or_else(reader::missing_row_error)?;
        match record::decode_row_header(bytes.value())?.previous {
            Some(previous) => key = previous,
            None => return Ok(key),
        }
    }
}
