//! The tables of the data file, and the entries of `meta.v1`.

use redb::{
    Key, ReadOnlyTable, ReadTransaction, ReadableTable, TableDefinition, TableError, Value,
};

use super::{fault::redb_error, record::damaged_database_error};
use midex_domain::error::Result;

/// Execution id → snapshot.
pub(super) const EXECUTIONS_TABLE: TableDefinition<'_, &str, &[u8]> =
    TableDefinition::new("executions.v1");
/// Key → row. Rows and refusals share one sequence of keys.
pub(super) const JOURNAL_TABLE: TableDefinition<'_, u64, &[u8]> =
    TableDefinition::new("journal.v1");
/// The id of an execution that has not ended → its next deadline, in milliseconds.
pub(super) const OPEN_TABLE: TableDefinition<'_, &str, Option<i64>> =
    TableDefinition::new("open.v1");
/// The id of a forked execution, the id of its fork.
pub(super) const FORKS_TABLE: TableDefinition<'_, (&str, &str), ()> =
    TableDefinition::new("forks.v1");
/// The id of a deleted execution → the time of its deletion, in milliseconds.
pub(super) const TOMBSTONES_TABLE: TableDefinition<'_, &str, i64> =
    TableDefinition::new("tombstones.v1");
/// The digests of contents that a deleted execution named, until a sweep has examined them.
pub(super) const CANDIDATES_TABLE: TableDefinition<'_, &[u8; 32], ()> =
    TableDefinition::new("candidates.v1");
/// Digest → content.
pub(super) const CONTENT_TABLE: TableDefinition<'_, &[u8; 32], &[u8]> =
    TableDefinition::new("content.v1");
/// Key → refusal.
pub(super) const REFUSALS_TABLE: TableDefinition<'_, u64, &[u8]> =
    TableDefinition::new("refusals.v1");
/// Name → a property of the whole file.
pub(super) const META_TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta.v1");

/// The entry of `meta.v1` with a journal key below which snapshots cover every row, little-endian. Each row holds such
/// a key as of its own time, and the larger one counts. The entry may be missing.
pub(super) const REPLAY_FROM_KEY: &str = "replay_from";

/// The entry of `meta.v1` with a key that no row has, little-endian: the next key after the last deletion. The rows alone do
/// not tell which keys were used, because a deletion removes rows. The entry may be missing.
pub(super) const NEXT_KEY_KEY: &str = "next_key";

/// The entry of `meta.v1` that holds the name of the format. Until the first release, each change of a record renames
/// this entry, and the old name joins those that an opening refuses.
pub(super) const FORMAT_KEY: &str = "file_format";

/// The format of the file as a whole.
pub(super) const FILE_FORMAT: &str = "midex-1";

/// The key of an execution's last row → its summary.
pub(super) const SUMMARIES_TABLE: TableDefinition<'_, u64, &[u8]> =
    TableDefinition::new("summaries.v1");
/// A term, and the key of a summary that has it.
pub(super) const TERMS_TABLE: TableDefinition<'_, (u64, u64), ()> =
    TableDefinition::new("terms.v1");
/// The entry of `meta.v1` with the key up to which the journal is indexed, little-endian. It is missing without an index.
pub(super) const INDEXED_TO_KEY: &str = "indexed_to";

/// Opens a table that is created with its first entry; `None` if it has had none yet.
pub(super) fn open_if_present<K: Key + 'static, V: Value + 'static>(
    transaction: &ReadTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Result<Option<ReadOnlyTable<K, V>>> {
    match transaction.open_table(definition) {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(redb_error(error)),
    }
}

/// The journal key in an entry of `meta.v1`; 0 where there is none.
pub(super) fn read_meta_key(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
    entry: &str,
) -> Result<u64> {
    let Some(key) = meta.get(entry).map_err(redb_error)? else {
        return Ok(0);
    };
    let key = key.value().try_into().map(u64::from_le_bytes);
    key.map_err(|_| damaged_database_error("a key of the journal that it names cannot be read"))
}
