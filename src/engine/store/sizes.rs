//! The sizes of the data file and of its tables.

use redb::{ReadTransaction, ReadableTableMetadata as _, TableHandle as _, UntypedTableHandle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    fault::{file_unusable_error, redb_error},
    paths,
    shared::SharedStore,
    tables::META_TABLE,
};
use midex_domain::error::Result;

/// The sizes of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreSizes {
    /// The length of the data file in bytes, with the room in it that is free.
    pub file_bytes: u64,
    /// The length of the redo log in bytes.
    pub log_bytes: u64,
    /// The tables, the largest first.
    pub tables: Vec<TableSize>,
}

/// The size of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableSize {
    /// The name of the table, without its version.
    pub name: String,
    /// The number of entries.
    pub entries: u64,
    /// The bytes of keys and values.
    pub bytes: u64,
}

/// Measures the tables, one after the other: between two of them the database may be shut.
pub(super) fn measure_store(shared: &SharedStore) -> Result<StoreSizes> {
    let file_length = |path: &std::path::Path| std::fs::metadata(path).map(|file| file.len());
    let file_bytes =
        file_length(&shared.path).map_err(|error| file_unusable_error(&shared.path, &error))?;
    let handles =
        shared.read(|read| Ok(read.list_tables().map_err(redb_error)?.collect::<Vec<_>>()))?;
    let handles = handles.into_iter().filter(|handle| handle.name() != META_TABLE.name());
    let tables = handles.map(|handle| shared.read(|read| measure_table(read, handle)));
    let mut tables = tables.collect::<Result<Vec<_>>>()?;
    tables.sort_by_key(|table| std::cmp::Reverse(table.bytes));
    let log_bytes = file_length(&paths::redo_log_path(&shared.path)).unwrap_or_default();
    Ok(StoreSizes { file_bytes, log_bytes, tables })
}

fn measure_table(transaction: &ReadTransaction, handle: UntypedTableHandle) -> Result<TableSize> {
    let name = handle.name().trim_end_matches(".v1").to_owned();
    let table = transaction.open_untyped_table(handle).map_err(redb_error)?;
    let entries = table.len().map_err(redb_error)?;
    let bytes = table.stats().map_err(redb_error)?.stored_bytes();
    Ok(TableSize { name, entries, bytes })
}
