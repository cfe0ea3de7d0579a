//! The entry of the data file about its redo log.

use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use crate::store::{
    fault::redb_error,
    record::damaged_database_error,
    tables::{FILE_FORMAT, FORMAT_KEY, META_TABLE},
};
use midex_domain::error::Result;

/// The entry of `meta.v1` about the log: the id of the log that follows the data file (zeros where there is none), its
/// minimum length in bytes (`u64`, little-endian), and the ids of folded logs, the latest first.
pub(in crate::store) const LOG_KEY: &str = "redo";

/// The format of a data file that is incomplete without its log. A midex that does not know logs refuses it.
pub(in crate::store) const FORMAT_WITH_LOG: &str = "midex-1 with a log";

/// How many ids of folded logs a data file keeps. A log that was not removed, or that came back after a power cut,
/// begins with a record of one of them.
const FOLDED_KEPT_MAX: usize = 64;

/// The id of a log. It changes at each fold, so a data file can tell whether a log follows its present content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogId([u8; 16]);

impl LogId {
    /// The id of the record that a new file begins with, before it is used as a log.
    pub(super) const NONE: Self = Self([0; 16]);

    /// A random id, which no other log has.
    pub(super) fn random() -> Self {
        Self(rand::random())
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Whether a header with this id was torn while `new` was written over `old`.
    fn is_torn_between(&self, new: &Self, old: &Self) -> bool {
        (0..=self.0.len()).any(|at| self.0[..at] == new.0[..at] && self.0[at..] == old.0[at..])
    }

    fn from_known_bytes(bytes: &[u8; 16]) -> Option<Self> {
        (*bytes != [0; 16]).then_some(Self(*bytes))
    }
}

/// A log with changes that the data file lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct FollowingLog {
    pub(super) id: LogId,
    /// Its minimum length.
    pub(super) bytes: u64,
}

/// The entry of the data file about its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogState {
    /// The log without which the data file is incomplete.
    pub(super) following_log: Option<FollowingLog>,
    /// Logs whose content is in the data file, the latest first.
    folded_ids: Vec<LogId>,
}

impl LogState {
    /// Reads the entry of the data file.
    pub(super) fn read(transaction: &ReadTransaction) -> Result<Self> {
        let meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
        let entry = meta.get(LOG_KEY).map_err(redb_error)?;
        entry.map_or(Ok(Self::default()), |said| Self::decode(said.value()))
    }

    fn decode(entry: &[u8]) -> Result<Self> {
        let split = || {
            let (follows, rest) = entry.split_first_chunk()?;
            let (bytes, folded) = rest.split_first_chunk()?;
            let bytes = u64::from_le_bytes(*bytes);
            let follows = LogId::from_known_bytes(follows).map(|id| FollowingLog { id, bytes });
            let (folded, []) = folded.as_chunks() else {
                return None;
            };
            let folded = folded.iter().map(|id| LogId(*id)).collect();
            Some(Self { following_log: follows, folded_ids: folded })
        };
        split().ok_or_else(|| damaged_database_error("what it says of its log cannot be read"))
    }

    fn encode(&self) -> Vec<u8> {
        let follows = self.following_log.map(|follows| follows.id.0);
        let bytes = self.following_log.map_or(0, |follows| follows.bytes);
        let mut entry = follows.unwrap_or_default().to_vec();
        entry.extend(bytes.to_le_bytes());
        entry.extend(self.folded_ids.iter().flat_map(|id| id.0));
        entry
    }

    /// Whether a log may begin with this id: that of the log that follows, of a folded log, or [`LogId::NONE`], or a
    /// torn mixture of two of these, left when the first record of one was written over that of another.
    pub(super) fn knows_log(&self, id: LogId) -> bool {
        let follows = self.following_log.map(|follows| follows.id);
        let ids = || follows.iter().chain(&self.folded_ids).chain([&LogId::NONE]);
        ids().any(|new| ids().any(|old| id.is_torn_between(new, old)))
    }
}

/// Records in `transaction` that the data file holds everything of the previous log, and which log follows it.
pub(in crate::store) fn record_following_log(
    transaction: &WriteTransaction,
    follows: Option<FollowingLog>,
) -> Result<()> {
    let mut meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    let previous = meta.get(LOG_KEY).map_err(redb_error)?;
    let previous = previous.map(|said| LogState::decode(said.value()));
    let previous = previous.transpose()?.unwrap_or_default();
    let mut folded = previous.folded_ids;
    folded.splice(0..0, previous.following_log.map(|log| log.id));
    folded.truncate(FOLDED_KEPT_MAX);
    let state = LogState { following_log: follows, folded_ids: folded };
    let format = follows.map_or(FILE_FORMAT, |_| FORMAT_WITH_LOG);
    meta.insert(LOG_KEY, state.encode().as_slice()).map_err(redb_error)?;
    meta.insert(FORMAT_KEY, format.as_bytes()).map_err(redb_error)?;
    Ok(())
}
