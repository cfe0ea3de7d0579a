//! Reads within one read transaction. No read waits, and none goes on after the end of its transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec,
};

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::{
    ContentHolders, LoadedExecution, PlacedEntry, Position, TelemetryEntry, TelemetryQuery,
    digest_search::DigestSearch,
    fault::redb_error,
    merge,
    record::{self, SnapshotHeader, damaged_database_error},
    shared::SharedStore,
    tables::{
        CONTENT_TABLE, EXECUTIONS_TABLE, FORKS_TABLE, JOURNAL_TABLE, OPEN_TABLE, REFUSALS_TABLE,
        TOMBSTONES_TABLE, open_if_present,
    },
};
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence,
    clock::Timestamp,
    error::{Error, Result},
};

/// Journal rows that a search reads in one transaction.
const ROWS_READ_TOGETHER: usize = 256;

pub(super) type JournalTable = ReadOnlyTable<u64, &'static [u8]>;

/// The execution as last made durable: its snapshot, and the rows after it up to `head`.
pub(super) fn load(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Option<LoadedExecution>> {
    let executions = transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
    let Some(bytes) = executions.get(id.as_str()).map_err(redb_error)? else {
        return Ok(None);
    };
    let (header, execution) = record::decode_snapshot(bytes.value())?;
    let mut execution = match execution {
        Some(execution) => execution,
        None => read_first_state(transaction, header.last_key)?,
    };
    if execution.id() != id {
        return Err(damaged_database_error("a snapshot lies under another id"));
    }
    let mut position = Position {
        snapshot_revision: header.revision,
        snapshot_bytes: bytes.value().len() as u64,
        bytes_since_snapshot: 0,
        oversized_snapshot_bytes: 0,
        due: read_next_deadline(transaction, id)?,
    };
    for link in read_rows_after(transaction, id, header, head)?.into_iter().rev() {
        execution = Execution::apply_row(Some(execution), &link.row)
            .ok_or_else(|| damaged_database_error("a journal row cannot be applied"))?;
        position.bytes_since_snapshot += link.bytes;
    }
    Ok(Some(LoadedExecution { execution, position }))
}

/// The state that the first row of an execution tells.
fn read_first_state(transaction: &ReadTransaction, key: u64) -> Result<Execution> {
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let link = read_link(&journal, key)?;
    Execution::apply_row(None, &link.row)
        .ok_or_else(|| damaged_database_error("the first row of an execution does not create it"))
}

/// The key of an execution's last row; `None` where there is no such execution.
pub(super) fn read_last_row_key(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Option<u64>> {
    let executions = transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
    let snapshot = executions.get(id.as_str()).map_err(redb_error)?;
    let header = snapshot.map(|bytes| record::decode_snapshot_header(bytes.value()));
    // A head that was read before the transaction began may be older than the snapshot.
    Ok(head.max(header.transpose()?.map(|header| header.last_key)))
}

/// The forks of an execution, in the order of their ids, at most `limit`.
pub(super) fn read_forks(
    transaction: &ReadTransaction,
    source: &ExecutionId,
    limit: usize,
) -> Result<Vec<ExecutionId>> {
    let Some(forks) = open_if_present(transaction, FORKS_TABLE)? else {
        return Ok(Vec::new());
    };
    let first = (source.as_str(), "");
    let mut found = Vec::new();
    for entry in forks.range(first..).map_err(redb_error)?.take(limit) {
        let (key, _) = entry.map_err(redb_error)?;
        let (of, fork) = key.value();
        if of != source.as_str() {
            break;
        }
        found.push(record::parse_indexed_id(fork)?);
    }
    Ok(found)
}

/// When an execution was deleted, in milliseconds; `None` where there is no tombstone.
pub(super) fn read_tombstone(
    transaction: &ReadTransaction,
    id: &ExecutionId,
) -> Result<Option<Timestamp>> {
    let Some(tombstones) = open_if_present(transaction, TOMBSTONES_TABLE)? else {
        return Ok(None);
    };
    let at = tombstones.get(id.as_str()).map_err(redb_error)?;
    Ok(at.map(|at| Timestamp::from_milliseconds(at.value())))
}

/// The next deadline of an open execution.
fn read_next_deadline(
    transaction: &ReadTransaction,
    id: &ExecutionId,
) -> Result<Option<Timestamp>> {
    let open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
    let entry = open.get(id.as_str()).map_err(redb_error)?;
    let due = entry.and_then(|entry| entry.value());
    Ok(due.map(Timestamp::from_milliseconds))
}

/// The rows of one execution with these revisions, newest first. Rows in between are not decoded.
pub(super) fn read_rows(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    revisions: &BTreeSet<u64>,
    head: Option<u64>,
) -> Result<Vec<Row>> {
    if revisions.is_empty() {
        return Ok(Vec::new());
    }
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let Some(key) = read_last_row_key(transaction, id, head)? else {
        return Ok(Vec::new());
    };
    let newest = read_link(&journal, key)?;
    let (mut revision, mut previous) = (newest.row.revision, newest.previous);
    let (mut newest, mut found) = (Some(newest.row), Vec::new());
    for &target_revision in revisions.range(1..=revision).rev() {
        let mut row = newest.take();
        while revision > target_revision {
            let key = previous.ok_or_else(broken_chain_error)?;
            revision -= 1;
            if revision == target_revision {
                let link = read_link(&journal, key)?;
                previous = link.previous;
                row = Some(link.row);
            } else {
                let bytes = journal.get(key).map_err(redb_error)?.ok_or_else(missing_row_error)?;
                previous = record::decode_row_header(bytes.value())?.previous;
            }
        }
        let is_target = |row: &Row| row.execution_id == *id && row.revision == target_revision;
        found.push(row.filter(is_target).ok_or_else(broken_chain_error)?);
    }
    Ok(found)
}

/// The row at a key.
pub(super) fn read_row(transaction: &ReadTransaction, key: u64) -> Result<Option<Row>> {
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let bytes = journal.get(key).map_err(redb_error)?;
    bytes.map(|bytes| Ok(record::decode_row(bytes.value())?.1)).transpose()
}

/// Every row of one execution, oldest first.
pub(super) fn read_history(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Vec<Row>> {
    let links: Result<Vec<_>> =
        open_row_chain(transaction, id, head)?.map(|link| link.map(|link| link.row)).collect();
    let mut rows = links?;
    rows.reverse();
    Ok(rows)
}

/// Content by its digest. Fails if the content is damaged.
pub(super) fn read_content(
    transaction: &ReadTransaction,
    digest: Digest,
) -> Result<Option<Arc<[u8]>>> {
    let table = transaction.open_table(CONTENT_TABLE).map_err(redb_error)?;
    let Some(bytes) = table.get(digest.as_bytes()).map_err(redb_error)? else {
        return Ok(None);
    };
    check_content(digest.as_bytes(), bytes.value())?;
    Ok(Some(bytes.value().into()))
}

/// The digest of content. Fails if it is not the key of the content.
pub(super) fn check_content(key: &[u8; 32], bytes: &[u8]) -> Result<Digest> {
    let digest = Digest::compute(bytes);
    let matches = digest.as_bytes() == key;
    matches
        .then_some(digest)
        .ok_or_else(|| damaged_database_error("content does not have the digest it lies under"))
}

/// Checks that a row can be read and that it follows the row that it names.
pub(super) fn check_row(journal: &JournalTable, key: u64, bytes: &[u8]) -> Result<()> {
    let JournalLink { previous, row, .. } = JournalLink::decode(key, bytes)?;
    let previous_link = previous.map(|previous| read_link(journal, previous));
    let follows = match previous_link.transpose()? {
        None => row.revision == 1,
        Some(previous_link) => {
            previous_link.row.execution_id == row.execution_id
                && previous_link.row.revision.checked_add(1) == Some(row.revision)
        }
    };
    follows.then_some(()).ok_or_else(broken_chain_error)
}

/// The latest entries of one execution that match `query`, oldest first.
pub(super) fn read_execution_telemetry(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    query: &TelemetryQuery,
    head: Option<u64>,
) -> Result<Vec<PlacedEntry>> {
    let refusals = read_refusals(transaction)?.into_iter().map(Ok);
    let rows =
        open_row_chain(transaction, id, head)?.map(|link| link.map(JournalLink::into_placed_entry));
    merge::latest_entries(rows, refusals, query)
}

/// The latest entries of all executions that match `query`, oldest first. May read many rows, and reads them in
/// portions: between two portions the database may be shut and reopened.
pub(super) fn read_telemetry(
    shared: &SharedStore,
    query: &TelemetryQuery,
) -> Result<Vec<PlacedEntry>> {
    let refusals = shared.read(read_refusals)?.into_iter().map(Ok);
    let rows = JournalRows { shared, portion: Vec::new().into_iter(), before: u64::MAX };
    merge::latest_entries(rows, refusals, query)
}

/// Searches the journal for the executions that need these contents. Between two portions of rows the database may be
/// shut and reopened.
pub(super) fn find_holders(
    shared: &SharedStore,
    contents: &BTreeSet<Digest>,
) -> Result<ContentHolders> {
    let search = DigestSearch::new(contents);
    let mut by_content = BTreeMap::<Digest, BTreeSet<_>>::new();
    let (mut next_key, mut end) = (0, None);
    loop {
        let is_done = shared.read(|transaction| {
            let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
            let last = journal.last().map_err(redb_error)?;
            let end = *end.get_or_insert(last.map_or(0, |(key, _)| key.value() + 1));
            let rows = journal.range(next_key..end).map_err(redb_error)?;
            for entry in rows.take(ROWS_READ_TOGETHER) {
                let (key, bytes) = entry.map_err(redb_error)?;
                next_key = key.value() + 1;
                for digest in search.find_in(bytes.value()) {
                    let id = record::decode_row_execution_id(bytes.value())?;
                    by_content.entry(digest).or_default().insert(id);
                }
            }
            Ok(next_key >= end)
        })?;
        if is_done {
            return Ok(ContentHolders {
                by_content,
                searched_before: Sequence(end.unwrap_or_default()),
            });
        }
    }
}

/// All refusals, newest first. Their number is small.
fn read_refusals(transaction: &ReadTransaction) -> Result<Vec<PlacedEntry>> {
    let refusals = transaction.open_table(REFUSALS_TABLE).map_err(redb_error)?;
    refusals
        .range::<u64>(..)
        .map_err(redb_error)?
        .rev()
        .map(|entry| {
            let (key, bytes) = entry.map_err(redb_error)?;
            let refusal = record::decode_refusal(bytes.value())?;
            Ok((Sequence(key.value()), TelemetryEntry::Refusal(refusal)))
        })
        .collect()
}

/// All journal rows, newest first.
struct JournalRows<'a> {
    shared: &'a SharedStore,
    portion: vec::IntoIter<JournalLink>,
    /// The key of the last row that was read. The next portion begins before it.
    before: u64,
}

impl JournalRows<'_> {
    fn read_next_portion(&mut self) -> Result<Option<JournalLink>> {
        let portion: Vec<_> = self.shared.read(|transaction| {
            let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
            let rows = journal.range(..self.before).map_err(redb_error)?.rev();
            rows.take(ROWS_READ_TOGETHER)
                .map(|entry| {
                    let (key, bytes) = entry.map_err(redb_error)?;
                    JournalLink::decode(key.value(), bytes.value())
                })
                .collect()
        })?;
        self.before = portion.last().map_or(0, |link| link.key);
        self.portion = portion.into_iter();
        Ok(self.portion.next())
    }
}

impl Iterator for JournalRows<'_> {
    type Item = Result<PlacedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let link = match self.portion.next() {
            Some(link) => Ok(Some(link)),
            None => self.read_next_portion(),
        };
        link.map(|link| link.map(JournalLink::into_placed_entry)).transpose()
    }
}

/// A journal row as a link in the chain of its execution's rows.
struct JournalLink {
    key: u64,
    previous: Option<u64>,
    row: Row,
    bytes: u64,
}

impl JournalLink {
    fn decode(key: u64, bytes: &[u8]) -> Result<Self> {
        let (header, row) = record::decode_row(bytes)?;
        Ok(Self { key, previous: header.previous, row, bytes: bytes.len() as u64 })
    }

    fn into_placed_entry(self) -> PlacedEntry {
        (Sequence(self.key), TelemetryEntry::Transition(self.row))
    }
}

fn read_link(journal: &JournalTable, key: u64) -> Result<JournalLink> {
    let bytes = journal.get(key).map_err(redb_error)?.ok_or_else(missing_row_error)?;
    JournalLink::decode(key, bytes.value())
}

pub(super) fn missing_row_error() -> Error {
    damaged_database_error("a chain of journal rows has a hole")
}

fn broken_chain_error() -> Error {
    damaged_database_error("a chain of journal rows leads astray")
}

/// The rows that the snapshot with `header` does not cover, newest first.
fn read_rows_after(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    header: SnapshotHeader,
    head: Option<u64>,
) -> Result<Vec<JournalLink>> {
    let Some(head) = head.filter(|head| *head > header.last_key) else {
        return Ok(Vec::new());
    };
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let links: Result<Vec<_>> = RowChain::new(journal, id, Some(head))
        .take_while(|link| link.as_ref().map_or(true, |link| link.key > header.last_key))
        .collect();
    let links = links?;
    let first = links.last().map(|link| (link.previous, link.row.revision));
    if first != Some((Some(header.last_key), header.revision + 1)) {
        return Err(damaged_database_error("a chain of journal rows misses its snapshot"));
    }
    Ok(links)
}

/// The rows of an execution, newest first. Empty if there is no such execution.
fn open_row_chain(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<RowChain> {
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let last = read_last_row_key(transaction, id, head)?;
    Ok(RowChain::new(journal, id, last))
}

/// Walks back along `previous`, and checks that the rows belong to one execution and have no gap.
struct RowChain {
    journal: JournalTable,
    id: ExecutionId,
    next_key: Option<u64>,
    revision: Option<u64>,
}

impl RowChain {
    fn new(journal: JournalTable, id: &ExecutionId, last: Option<u64>) -> Self {
        Self { journal, id: id.clone(), next_key: last, revision: None }
    }

    fn follow_link(&mut self, key: u64) -> Result<JournalLink> {
        let link = read_link(&self.journal, key)?;
        let follows =
            self.revision.is_none_or(|later| link.row.revision.checked_add(1) == Some(later));
        let ends = (link.row.revision == 1) == link.previous.is_none();
        if link.row.execution_id != self.id || !follows || !ends {
            return Err(broken_chain_error());
        }
        self.revision = Some(link.row.revision);
        self.next_key = link.previous;
        Ok(link)
    }
}

impl Iterator for RowChain {
    type Item = Result<JournalLink>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.next_key.take()?;
        Some(self.follow_link(key))
    }
}
