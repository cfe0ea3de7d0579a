//! The sizes of the data file and of its tables.

use redb::{Key, ReadTransaction, ReadableTableMetadata as _, TableDefinition, Value};

use super::{
    fault::{file_unusable_error, redb_error},
    paths,
    shared::SharedStore,
    tables::{
        CANDIDATES_TABLE, CONTENT_TABLE, EXECUTIONS_TABLE, FORKS_TABLE, JOURNAL_TABLE, OPEN_TABLE,
        REFUSALS_TABLE, TOMBSTONES_TABLE, open_if_present,
    },
    tables::{SUMMARIES_TABLE, TERMS_TABLE},
};
use midex_domain::error::Result;

/// The sizes of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSizes {
    /// The length of the data file in bytes, with the room in it that is free.
    pub file_bytes: u64,
    /// The length of the redo log in bytes.
    pub log_bytes: u64,
    /// The tables.
    pub tables: Vec<TableSize>,
}

/// The size of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// The name of the table, without its version.
    pub name: String,
    /// The number of entries.
    pub entries: u64,
    /// The bytes of keys and values.
    pub stored_bytes: u64,
}

impl StoreSizes {
    /// The bytes of keys and values in all tables.
    pub fn stored_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.stored_bytes).sum()
    }
}

/// Measures the tables, one after the other.
pub(super) fn measure_store(shared: &SharedStore) -> Result<StoreSizes> {
    let file_length = |path: &std::path::Path| std::fs::metadata(path).map(|file| file.len());
    let file_bytes =
        file_length(&shared.path).map_err(|error| file_unusable_error(&shared.path, &error))?;
    let tables = [
        shared.read(|read| measure_table(read, JOURNAL_TABLE))?,
        shared.read(|read| measure_table(read, EXECUTIONS_TABLE))?,
        shared.read(|read| measure_table(read, CONTENT_TABLE))?,
        shared.read(|read| measure_table(read, SUMMARIES_TABLE))?,
        shared.read(|read| measure_table(read, TERMS_TABLE))?,
        shared.read(|read| measure_table(read, OPEN_TABLE))?,
        shared.read(|read| measure_table(read, FORKS_TABLE))?,
        shared.read(|read| measure_table(read, TOMBSTONES_TABLE))?,
        shared.read(|read| measure_table(read, CANDIDATES_TABLE))?,
        shared.read(|read| measure_table(read, REFUSALS_TABLE))?,
    ];
    Ok(StoreSizes {
        file_bytes,
        log_bytes: file_length(&paths::redo_log_path(&shared.path)).unwrap_or_default(),
        tables: tables.into_iter().flatten().collect(),
    })
}

fn measure_table<K: Key + 'static, V: Value + 'static>(
    transaction: &ReadTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Result<Option<TableSize>> {
    let name = redb::TableHandle::name(&definition).trim_end_matches(".v1").to_owned();
    let Some(table) = open_if_present(transaction, definition)? else {
        return Ok(None);
    };
    let entries = table.len().map_err(redb_error)?;
    let stored_bytes = table.stats().map_err(redb_error)?.stored_bytes();
    Ok(Some(TableSize { name, entries, stored_bytes }))
}
