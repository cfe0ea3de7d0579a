//! The changes of a batch to the tables, in order and encoded: the body of a log record. Applying all of them twice, in
//! order, has the effect of applying them once.
//!
//! A change is its kind `u8`, the length of its key and of its value, each `u32` little-endian, the key and the value.

use super::record::damaged_database_error;
use midex_domain::error::{Code, Error, Result};

/// One insertion or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogChange<'a> {
    /// A journal row at its key, sealed.
    Row(u64, &'a [u8]),
    /// The snapshot of an execution, sealed.
    Snapshot(&'a str, &'a [u8]),
    /// Content at its digest.
    Content(&'a [u8; 32], &'a [u8]),
    /// An execution is open, with its next deadline.
    Open(&'a str, Option<i64>),
    /// An execution has ended.
    Ended(&'a str),
    /// An execution was forked: its id, and that of the fork.
    Fork(&'a str, &'a str),
    /// A refusal at its key. The oldest refusals beyond the limit are removed.
    Refusal(u64, &'a [u8]),
    /// An execution was deleted, with the rows at these keys, at this time.
    Deleted(&'a str, DeletedRows<'a>),
    /// A fork was deleted: the execution that it was made of, and its id.
    ForkDeleted(&'a str, &'a str),
    /// A content became a candidate for a sweep.
    Candidate(&'a [u8; 32]),
    /// A candidate was examined. Whether its content was freed.
    Swept(&'a [u8; 32], bool),
    /// A tombstone was removed.
    TombstoneRemoved(&'a str),
}

/// The rows of a deleted execution, encoded: the time of the deletion in milliseconds, the first key that no row had then, and
/// the keys of the rows, each of eight bytes. The keys are listed, so that a repeated removal finds them without the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeletedRows<'a>(&'a [u8]);

impl<'a> DeletedRows<'a> {
    pub(super) fn encode(at: i64, next_key: u64, keys: &[u64]) -> Vec<u8> {
        let keys = keys.iter().flat_map(|key| key.to_le_bytes());
        at.to_le_bytes().into_iter().chain(next_key.to_le_bytes()).chain(keys).collect()
    }

    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        let is_valid = bytes.len() >= 16 && bytes.len().is_multiple_of(8);
        is_valid.then_some(Self(bytes)).ok_or_else(unreadable_record_error)
    }

    fn numbers(self) -> impl Iterator<Item = u64> + 'a {
        self.0.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    pub(super) fn at(self) -> i64 {
        self.numbers().next().unwrap_or_default().cast_signed()
    }

    pub(super) fn next_key(self) -> u64 {
        self.numbers().nth(1).unwrap_or_default()
    }

    pub(super) fn keys(self) -> impl Iterator<Item = u64> + 'a {
        self.numbers().skip(2)
    }
}

const ROW_KIND: u8 = 1;
const SNAPSHOT_KIND: u8 = 2;
const CONTENT_KIND: u8 = 3;
const OPEN_KIND: u8 = 4;
const OPEN_UNTIL_KIND: u8 = 5;
const ENDED_KIND: u8 = 6;
const REFUSAL_KIND: u8 = 7;
const FORK_KIND: u8 = 8;
const DELETED_KIND: u8 = 9;
const FORK_DELETED_KIND: u8 = 10;
const CANDIDATE_KIND: u8 = 11;
const SWEPT_KIND: u8 = 12;
const TOMBSTONE_REMOVED_KIND: u8 = 13;

/// The encoded changes so far, as long as they fit into the log.
#[derive(Debug)]
pub(super) struct ChangeBuffer {
    bytes: Option<Vec<u8>>,
    max_bytes: usize,
}

impl ChangeBuffer {
    /// No changes yet, after the bytes of `prefix`. Once all bytes exceed `max_bytes`, nothing is kept.
    pub(super) fn new_after_prefix(prefix: Vec<u8>, max_bytes: usize) -> Self {
        Self { bytes: (max_bytes > prefix.len()).then_some(prefix), max_bytes }
    }

    /// The encoded changes; `None` if they were too large.
    pub(super) fn into_bytes(self) -> Option<Vec<u8>> {
        self.bytes
    }

    /// Appends a change.
    pub(super) fn push(&mut self, change: LogChange<'_>) {
        match change {
            LogChange::Row(key, value) => self.append_encoded(ROW_KIND, &key.to_le_bytes(), value),
            LogChange::Snapshot(id, value) => {
                self.append_encoded(SNAPSHOT_KIND, id.as_bytes(), value);
            }
            LogChange::Content(digest, value) => self.append_encoded(CONTENT_KIND, digest, value),
            LogChange::Open(id, None) => self.append_encoded(OPEN_KIND, id.as_bytes(), &[]),
            LogChange::Open(id, Some(due)) => {
                self.append_encoded(OPEN_UNTIL_KIND, id.as_bytes(), &due.to_le_bytes());
            }
            LogChange::Fork(source, fork) => {
                self.append_encoded(FORK_KIND, source.as_bytes(), fork.as_bytes());
            }
            LogChange::Ended(id) => self.append_encoded(ENDED_KIND, id.as_bytes(), &[]),
            LogChange::Refusal(key, value) => {
                self.append_encoded(REFUSAL_KIND, &key.to_le_bytes(), value);
            }
            LogChange::Deleted(id, rows) => {
                self.append_encoded(DELETED_KIND, id.as_bytes(), rows.0);
            }
            LogChange::ForkDeleted(source, fork) => {
                self.append_encoded(FORK_DELETED_KIND, source.as_bytes(), fork.as_bytes());
            }
            LogChange::Candidate(digest) => self.append_encoded(CANDIDATE_KIND, digest, &[]),
            LogChange::Swept(digest, is_freed) => {
                self.append_encoded(SWEPT_KIND, digest, &[u8::from(is_freed)]);
            }
            LogChange::TombstoneRemoved(id) => {
                self.append_encoded(TOMBSTONE_REMOVED_KIND, id.as_bytes(), &[]);
            }
        }
    }

    fn append_encoded(&mut self, kind: u8, key: &[u8], value: &[u8]) {
        let lengths = u32::try_from(key.len()).and_then(|k| Ok((k, u32::try_from(value.len())?)));
        let (Some(bytes), Ok((key_bytes, value_bytes))) = (&mut self.bytes, lengths) else {
            self.bytes = None;
            return;
        };
        if bytes.len() + 9 + key.len() + value.len() > self.max_bytes {
            self.bytes = None;
            return;
        }
        bytes.push(kind);
        bytes.extend_from_slice(&key_bytes.to_le_bytes());
        bytes.extend_from_slice(&value_bytes.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
}

/// Decodes the changes of a record.
///
/// # Errors
/// `STORE_CORRUPT` where they cannot be read, `STORE_TOO_NEW` where one is of a kind that this midex does not know.
pub(super) fn decode_changes(mut bytes: &[u8]) -> Result<Vec<LogChange<'_>>> {
    let mut changes = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        let (change, rest) = decode_change(*kind, rest)?;
        changes.push(change);
        bytes = rest;
    }
    Ok(changes)
}

fn decode_change(kind: u8, bytes: &[u8]) -> Result<(LogChange<'_>, &[u8])> {
    let split = || {
        let (key_bytes, rest) = bytes.split_first_chunk()?;
        let (value_bytes, rest) = rest.split_first_chunk()?;
        let length = |bytes| usize::try_from(u32::from_le_bytes(bytes)).ok();
        let (key, rest) = rest.split_at_checked(length(*key_bytes)?)?;
        let (value, rest) = rest.split_at_checked(length(*value_bytes)?)?;
        Some((key, value, rest))
    };
    let (key, value, rest) = split().ok_or_else(unreadable_record_error)?;
    Ok((change_from_parts(kind, key, value)?, rest))
}

fn change_from_parts<'a>(kind: u8, key: &'a [u8], value: &'a [u8]) -> Result<LogChange<'a>> {
    let number = |bytes: &[u8]| bytes.try_into().map_err(|_| unreadable_record_error());
    let id = || std::str::from_utf8(key).map_err(|_| unreadable_record_error());
    let other_id = || std::str::from_utf8(value).map_err(|_| unreadable_record_error());
    let digest = || key.try_into().map_err(|_| unreadable_record_error());
    Ok(match kind {
        ROW_KIND => LogChange::Row(u64::from_le_bytes(number(key)?), value),
        SNAPSHOT_KIND => LogChange::Snapshot(id()?, value),
        CONTENT_KIND => LogChange::Content(digest()?, value),
        OPEN_KIND => LogChange::Open(id()?, None),
        OPEN_UNTIL_KIND => LogChange::Open(id()?, Some(i64::from_le_bytes(number(value)?))),
        ENDED_KIND => LogChange::Ended(id()?),
        FORK_KIND => LogChange::Fork(id()?, other_id()?),
        DELETED_KIND => LogChange::Deleted(id()?, DeletedRows::new(value)?),
        FORK_DELETED_KIND => LogChange::ForkDeleted(id()?, other_id()?),
        CANDIDATE_KIND => LogChange::Candidate(digest()?),
        SWEPT_KIND => LogChange::Swept(digest()?, value == [1]),
        TOMBSTONE_REMOVED_KIND => LogChange::TombstoneRemoved(id()?),
        REFUSAL_KIND => LogChange::Refusal(u64::from_le_bytes(number(key)?), value),
        later => return Err(unknown_change_kind_error(later)),
    })
}

fn unreadable_record_error() -> Error {
    damaged_database_error("a record of its log cannot be read")
}

fn unknown_change_kind_error(kind: u8) -> Error {
    let message = format!(
        "the log of the database holds a change of kind {kind}, which this midex does not know"
    );
    Error::new(Code::StoreTooNew, message)
}
