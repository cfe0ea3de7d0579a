//! Reads within one read transaction. No read waits, and none goes on after the end of its transaction.

use std::{collections::BTreeSet, sync::Arc, vec};

use redb::{ReadOnlyTable, ReadTransaction};

use super::{
    Entry, Placed, Position, Stored, TelemetryQuery,
    batch::{CONTENT, EXECUTIONS, JOURNAL, OPEN, REFUSALS},
    fault::fault,
    merge,
    record::{self, SnapshotHeader, damaged},
    shared::Shared,
};
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence,
    clock::Timestamp,
    error::{Error, Result},
};

/// Journal rows that a search for telemetry reads in one transaction.
const ROWS_READ_TOGETHER: usize = 256;

pub(super) type Journal = ReadOnlyTable<u64, &'static [u8]>;

/// The execution as last made durable: its snapshot, and the rows after it up to `head`.
pub(super) fn load(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Option<Stored>> {
    let executions = transaction.open_table(EXECUTIONS).map_err(fault)?;
    let Some(bytes) = executions.get(id.as_str()).map_err(fault)? else {
        return Ok(None);
    };
    let (header, mut execution) = record::decode_snapshot(bytes.value())?;
    if execution.id() != id {
        return Err(damaged("a snapshot lies under another id"));
    }
    let mut position = Position {
        snapshot_revision: header.revision,
        snapshot_bytes: bytes.value().len() as u64,
        bytes_since_snapshot: 0,
        oversized_snapshot_bytes: 0,
        due: due(transaction, id)?,
    };
    for link in rows_after(transaction, id, header, head)?.into_iter().rev() {
        execution = Execution::advance(Some(execution), &link.row)
            .ok_or_else(|| damaged("a journal row cannot be applied"))?;
        position.bytes_since_snapshot += link.bytes;
    }
    Ok(Some(Stored {
        execution,
        position,
    }))
}

/// The key of an execution's last row; `None` where there is no such execution.
pub(super) fn last(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Option<u64>> {
    let executions = transaction.open_table(EXECUTIONS).map_err(fault)?;
    let snapshot = executions.get(id.as_str()).map_err(fault)?;
    let header = snapshot.map(|bytes| record::snapshot_header(bytes.value()));
    // A head that was read before the transaction began may be older than the snapshot.
    Ok(head.max(header.transpose()?.map(|header| header.last)))
}

/// The next deadline of an open execution.
fn due(transaction: &ReadTransaction, id: &ExecutionId) -> Result<Option<Timestamp>> {
    let open = transaction.open_table(OPEN).map_err(fault)?;
    let entry = open.get(id.as_str()).map_err(fault)?;
    let due = entry.and_then(|entry| entry.value());
    Ok(due.map(Timestamp::from_milliseconds))
}

/// The rows of one execution with these revisions, newest first. Rows in between are not decoded.
pub(super) fn rows(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    revisions: &BTreeSet<u64>,
    head: Option<u64>,
) -> Result<Vec<Row>> {
    if revisions.is_empty() {
        return Ok(Vec::new());
    }
    let journal = transaction.open_table(JOURNAL).map_err(fault)?;
    let Some(mut key) = last(transaction, id, head)? else {
        return Ok(Vec::new());
    };
    let newest = get(&journal, key)?.row;
    let mut revision = newest.revision;
    let (mut newest, mut found) = (Some(newest), Vec::new());
    for &wanted in revisions.range(1..=revision).rev() {
        while revision > wanted {
            let bytes = journal.get(key).map_err(fault)?.ok_or_else(hole)?;
            let previous = record::row_header(bytes.value())?.previous;
            key = previous.ok_or_else(astray)?;
            revision -= 1;
        }
        let row = match newest.take().filter(|newest| newest.revision == wanted) {
            Some(newest) => newest,
            None => get(&journal, key)?.row,
        };
        if row.execution_id != *id || row.revision != wanted {
            return Err(astray());
        }
        found.push(row);
    }
    Ok(found)
}

/// Every row of one execution, oldest first.
pub(super) fn history(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Vec<Row>> {
    let links: Result<Vec<_>> = chain(transaction, id, head)?
        .map(|link| link.map(|link| link.row))
        .collect();
    let mut rows = links?;
    rows.reverse();
    Ok(rows)
}

/// Content by its digest. Fails if the content is damaged.
pub(super) fn content(transaction: &ReadTransaction, digest: Digest) -> Result<Option<Arc<[u8]>>> {
    let table = transaction.open_table(CONTENT).map_err(fault)?;
    let Some(bytes) = table.get(digest.as_bytes()).map_err(fault)? else {
        return Ok(None);
    };
    check_content(digest.as_bytes(), bytes.value())?;
    Ok(Some(bytes.value().into()))
}

/// The digest of content. Fails if it is not the key of the content.
pub(super) fn check_content(key: &[u8; 32], bytes: &[u8]) -> Result<Digest> {
    let digest = Digest::of(bytes);
    let is_right = digest.as_bytes() == key;
    is_right
        .then_some(digest)
        .ok_or_else(|| damaged("content does not have the digest it lies under"))
}

/// Checks that a row can be read and that it follows the row that it names.
pub(super) fn check_row(journal: &Journal, key: u64, bytes: &[u8]) -> Result<()> {
    let Link { previous, row, .. } = Link::decode(key, bytes)?;
    let before = previous.map(|previous| get(journal, previous));
    let follows = match before.transpose()? {
        None => row.revision == 1,
        Some(before) => {
            before.row.execution_id == row.execution_id
                && before.row.revision.checked_add(1) == Some(row.revision)
        }
    };
    follows.then_some(()).ok_or_else(astray)
}

/// The latest entries of one execution that match `query`, oldest first.
pub(super) fn telemetry_of(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    query: &TelemetryQuery,
    head: Option<u64>,
) -> Result<Vec<Placed>> {
    let refusals = refusals(transaction)?.into_iter().map(Ok);
    let rows = chain(transaction, id, head)?.map(|link| link.map(Link::placed));
    merge::latest(rows, refusals, query)
}

/// The latest entries of all executions that match `query`, oldest first. May read many rows, and reads them in
/// portions: between two portions the database may be shut and reopened.
pub(super) fn telemetry(shared: &Shared, query: &TelemetryQuery) -> Result<Vec<Placed>> {
    let refusals = shared.read(refusals)?.into_iter().map(Ok);
    let rows = Rows {
        shared,
        portion: Vec::new().into_iter(),
        before: u64::MAX,
    };
    merge::latest(rows, refusals, query)
}

/// All refusals, newest first. Their number is small.
fn refusals(transaction: &ReadTransaction) -> Result<Vec<Placed>> {
    let refusals = transaction.open_table(REFUSALS).map_err(fault)?;
    refusals
        .range::<u64>(..)
        .map_err(fault)?
        .rev()
        .map(|entry| {
            let (key, bytes) = entry.map_err(fault)?;
            let refusal = record::decode_refusal(bytes.value())?;
            Ok((Sequence(key.value()), Entry::Refusal(refusal)))
        })
        .collect()
}

/// All journal rows, newest first.
struct Rows<'a> {
    shared: &'a Shared,
    portion: vec::IntoIter<Link>,
    /// The key of the last row that was read. The next portion begins before it.
    before: u64,
}

impl Rows<'_> {
    fn read_on(&mut self) -> Result<Option<Link>> {
        let portion: Vec<_> = self.shared.read(|transaction| {
            let journal = transaction.open_table(JOURNAL).map_err(fault)?;
            let rows = journal.range(..self.before).map_err(fault)?.rev();
            rows.take(ROWS_READ_TOGETHER)
                .map(|entry| {
                    let (key, bytes) = entry.map_err(fault)?;
                    Link::decode(key.value(), bytes.value())
                })
                .collect()
        })?;
        self.before = portion.last().map_or(0, |link| link.key);
        self.portion = portion.into_iter();
        Ok(self.portion.next())
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Placed>;

    fn next(&mut self) -> Option<Self::Item> {
        let link = match self.portion.next() {
            Some(link) => Ok(Some(link)),
            None => self.read_on(),
        };
        link.map(|link| link.map(Link::placed)).transpose()
    }
}

/// A journal row as a link in the chain of its execution's rows.
struct Link {
    key: u64,
    previous: Option<u64>,
    row: Row,
    bytes: u64,
}

impl Link {
    fn decode(key: u64, bytes: &[u8]) -> Result<Self> {
        let (header, row) = record::decode_row(bytes)?;
        Ok(Self {
            key,
            previous: header.previous,
            row,
            bytes: bytes.len() as u64,
        })
    }

    fn placed(self) -> Placed {
        (Sequence(self.key), Entry::Transition(self.row))
    }
}

fn get(journal: &Journal, key: u64) -> Result<Link> {
    let bytes = journal.get(key).map_err(fault)?.ok_or_else(hole)?;
    Link::decode(key, bytes.value())
}

fn hole() -> Error {
    damaged("a chain of journal rows has a hole")
}

fn astray() -> Error {
    damaged("a chain of journal rows leads astray")
}

/// The rows that the snapshot with `header` does not cover, newest first.
fn rows_after(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    header: SnapshotHeader,
    head: Option<u64>,
) -> Result<Vec<Link>> {
    let Some(head) = head.filter(|head| *head > header.last) else {
        return Ok(Vec::new());
    };
    let journal = transaction.open_table(JOURNAL).map_err(fault)?;
    let links: Result<Vec<_>> = Chain::new(journal, id, Some(head))
        .take_while(|link| link.as_ref().map_or(true, |link| link.key > header.last))
        .collect();
    let links = links?;
    let first = links.last().map(|link| (link.previous, link.row.revision));
    if first != Some((Some(header.last), header.revision + 1)) {
        return Err(damaged("a chain of journal rows misses its snapshot"));
    }
    Ok(links)
}

/// The rows of an execution, newest first. Empty if there is no such execution.
fn chain(transaction: &ReadTransaction, id: &ExecutionId, head: Option<u64>) -> Result<Chain> {
    let journal = transaction.open_table(JOURNAL).map_err(fault)?;
    let last = last(transaction, id, head)?;
    Ok(Chain::new(journal, id, last))
}

/// Walks back along `previous`, and checks that the rows belong to one execution and have no gap.
struct Chain {
    journal: Journal,
    id: ExecutionId,
    next: Option<u64>,
    revision: Option<u64>,
}

impl Chain {
    fn new(journal: Journal, id: &ExecutionId, last: Option<u64>) -> Self {
        Self {
            journal,
            id: id.clone(),
            next: last,
            revision: None,
        }
    }

    fn step(&mut self, key: u64) -> Result<Link> {
        let link = get(&self.journal, key)?;
        let follows = self
            .revision
            .is_none_or(|later| link.row.revision.checked_add(1) == Some(later));
        let ends = (link.row.revision == 1) == link.previous.is_none();
        if link.row.execution_id != self.id || !follows || !ends {
            return Err(astray());
        }
        self.revision = Some(link.row.revision);
        self.next = link.previous;
        Ok(link)
    }
}

impl Iterator for Chain {
    type Item = Result<Link>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.next.take()?;
        Some(self.step(key))
    }
}
