//! Copies a database as of one instant into another file, which is complete without a redo log: for backups and for
//! compaction.
//!
//! The copy is written to a [`Draft`] in transactions of bounded size, synced and closed. It gets its name only after it was
//! opened again with every page checked, and has as many entries as its source in each table.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{
    Database, Key, MultimapTableHandle, ReadTransaction, ReadableTableMetadata, TableDefinition,
    TableHandle, UntypedTableHandle, Value,
};

use super::{
    backend::{DataFile, FileOperation},
    database,
    fault::{catch_redb_panic, file_unusable_error, redb_error},
    options::Options,
    paths, redo,
    tables::{
        CANDIDATES_TABLE, CONTENT_TABLE, EXECUTIONS_TABLE, FILE_FORMAT, FORKS_TABLE, FORMAT_KEY,
        INDEXED_TO_KEY, JOURNAL_TABLE, META_TABLE, OPEN_TABLE, REFUSALS_TABLE, SUMMARIES_TABLE,
        TERMS_TABLE, TOMBSTONES_TABLE, open_if_present,
    },
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The entries of `meta.v1` that a copy leaves out: the log, the index, and the format, which comes last.
const LEFT_OUT_KEYS: [&str; 3] = [redo::LOG_KEY, INDEXED_TO_KEY, FORMAT_KEY];

/// The size of a finished copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopySize {
    pub(super) bytes: u64,
    pub(super) executions: u64,
}

/// Copies what `source` sees into the draft, and verifies the copy. Room for `reserved_bytes` is reserved first.
pub(super) fn copy_database(
    source: &ReadTransaction,
    draft: &Draft,
    reserved_bytes: u64,
    options: &Options,
) -> Result<CopySize> {
    catch_redb_panic(|| write_copy(source, draft, reserved_bytes, options))?;
    let counts = count_entries(source)?;
    let verified = draft.verify(&draft.path, options, |copy| {
        let copied = count_entries(copy)?;
        // The `meta.v1` of the copy has no entries about the log and the index.
        let is_counted = |(name, _): &&(String, u64)| name != META_TABLE.name();
        let missing = counts.iter().filter(is_counted).find(|count| !copied.contains(count));
        missing.map_or(Ok(()), |(name, count)| {
            let message = format!("`{name}` has not the {count} entries that were copied");
            Err(Error::new(Code::StoreUnavailable, message))
        })
    });
    verified.map_err(|error| {
        let message = format!("a copy of the database cannot be read back: {}", error.message());
        Error::new(Code::StoreUnavailable, message).with_source(error)
    })
}

fn write_copy(
    source: &ReadTransaction,
    draft: &Draft,
    reserved_bytes: u64,
    options: &Options,
) -> Result<()> {
    let to_error = |error: io::Error| file_unusable_error(&draft.path, &error);
    let copy = draft.create(options).map_err(to_error)?;
    copy.keep_changes();
    copy.reserve(reserved_bytes).map_err(to_error)?;
    let opened = database::open_database(copy, &draft.path, options, 0)?;
    let target = &opened.database;
    copy_table(source, target, EXECUTIONS_TABLE)?;
    copy_table(source, target, JOURNAL_TABLE)?;
    copy_table(source, target, OPEN_TABLE)?;
    copy_table(source, target, FORKS_TABLE)?;
    copy_table(source, target, TOMBSTONES_TABLE)?;
    copy_table(source, target, CANDIDATES_TABLE)?;
    copy_table(source, target, CONTENT_TABLE)?;
    copy_table(source, target, REFUSALS_TABLE)?;
    copy_table(source, target, META_TABLE)?;
    // A copy would lack any other table.
    refuse_unknown_tables(source)?;
    // A draft that is not complete has no format, so it is never mistaken for a database.
    let mut transaction = opened.database.begin_write().map_err(redb_error)?;
    transaction.set_two_phase_commit(true);
    let mut meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    meta.insert(FORMAT_KEY, FILE_FORMAT.as_bytes()).map_err(redb_error)?;
    drop(meta);
    transaction.commit().map_err(redb_error)?;
    opened.database.close().map_err(redb_error)?;
    opened.data_file.release_reserved_space().map_err(to_error)?;
    opened.data_file.sync().map_err(to_error)
}

/// Copies a table, if there is one, in portions, each of them one durable transaction.
fn copy_table<K: Key + 'static, V: Value + 'static>(
    source: &ReadTransaction,
    target: &Database,
    definition: TableDefinition<'static, K, V>,
) -> Result<()> {
    let Some(table) = open_if_present(source, definition)? else {
        return Ok(());
    };
    let mut entries = table.range::<K::SelfType<'_>>(..).map_err(redb_error)?;
    let mut is_complete = false;
    while !is_complete {
        let transaction = target.begin_write().map_err(redb_error)?;
        let mut copy = transaction.open_table(definition).map_err(redb_error)?;
        let mut bytes = 0;
        while bytes < limits::COPY_PORTION_BYTES && !is_complete {
            let Some(entry) = entries.next() else {
                is_complete = true;
                continue;
            };
            let (key, value) = entry.map_err(redb_error)?;
            let (key, value) = (key.value(), value.value());
            let key_bytes = K::as_bytes(&key);
            let is_excluded = definition.name() == META_TABLE.name()
                && LEFT_OUT_KEYS.map(str::as_bytes).contains(&key_bytes.as_ref());
            if !is_excluded {
                bytes += key_bytes.as_ref().len() + V::as_bytes(&value).as_ref().len();
                copy.insert(&key, &value).map_err(redb_error)?;
            }
        }
        drop(copy);
        transaction.commit().map_err(redb_error)?;
    }
    Ok(())
}

/// The tables that are copied: all but the index. The index is made anew from the journal, so a copy has none that is damaged.
fn list_tables(transaction: &ReadTransaction) -> Result<Vec<UntypedTableHandle>> {
    if let Some(table) = transaction.list_multimap_tables().map_err(redb_error)?.next() {
        return Err(unknown_table_error(table.name()));
    }
    let is_index = |table: &UntypedTableHandle| {
        [SUMMARIES_TABLE.name(), TERMS_TABLE.name()].contains(&table.name())
    };
    let tables = transaction.list_tables().map_err(redb_error)?;
    Ok(tables.filter(|table| !is_index(table)).collect())
}

/// Refuses a database with a table that this version does not know.
pub(super) fn refuse_unknown_tables(transaction: &ReadTransaction) -> Result<()> {
    let known = [
        [EXECUTIONS_TABLE.name(), JOURNAL_TABLE.name(), OPEN_TABLE.name()],
        [FORKS_TABLE.name(), TOMBSTONES_TABLE.name(), CANDIDATES_TABLE.name()],
        [CONTENT_TABLE.name(), REFUSALS_TABLE.name(), META_TABLE.name()],
    ];
    let is_known = |table: &&UntypedTableHandle| known.as_flattened().contains(&table.name());
    let tables = list_tables(transaction)?;
    let unknown = tables.iter().find(|table| !is_known(table));
    unknown.map_or(Ok(()), |table| Err(unknown_table_error(table.name())))
}

fn unknown_table_error(name: &str) -> Error {
    let message =
        format!("no copy is made of the table `{name}`, which a later version has written");
    Error::new(Code::StoreTooNew, message)
}

/// The number of entries of each table.
fn count_entries(transaction: &ReadTransaction) -> Result<Vec<(String, u64)>> {
    let counts = list_tables(transaction)?.into_iter().map(|handle| {
        let name = handle.name().to_owned();
        let table = transaction.open_untyped_table(handle).map_err(redb_error)?;
        Ok((name, table.len().map_err(redb_error)?))
    });
    counts.collect()
}

/// The bytes of the pages that a copy needs about as many of. Reads the whole database.
pub(super) fn estimate_copy_bytes(transaction: &ReadTransaction) -> Result<u64> {
    let mut bytes = 0;
    for handle in list_tables(transaction)? {
        let table = transaction.open_untyped_table(handle).map_err(redb_error)?;
        let stats = table.stats().map_err(redb_error)?;
        bytes += stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    }
    Ok(bytes)
}

/// A file beside a target that is not complete yet. It is removed when this is dropped. If the process is killed before, the
/// next opening of the store removes it: it has a name in the store's directory that leads to it.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) path: PathBuf,
    /// A link in the store's directory, if the draft is in another one.
    note: Option<PathBuf>,
}

impl Draft {
    /// A draft of `target`. Nothing is created yet, except the link beside the data file `store`.
    pub(super) fn new(target: &Path, store: &Path) -> io::Result<Self> {
        let path = paths::draft_path(target);
        let (directory, store_directory) = (real_parent(&path)?, real_parent(store)?);
        let note = (directory != store_directory).then(|| paths::draft_path(store));
        if let Some(note) = &note {
            let name = path.file_name().unwrap_or_default();
            symlink(directory.join(name), note)?;
        }
        Ok(Self { path, note })
    }

    pub(super) fn create(&self, options: &Options) -> io::Result<Arc<DataFile>> {
        options.call_hook_before(FileOperation::Create)?;
        let file = paths::create_new_file(&self.path)?;
        Ok(DataFile::new_copy(file, options.hook.clone()))
    }

    /// Opens the draft as a database, checks all of it, and `check`s its content. Errors name the file `shown`.
    pub(super) fn verify(
        &self,
        shown: &Path,
        options: &Options,
        check: impl FnOnce(&ReadTransaction) -> Result<()>,
    ) -> Result<CopySize> {
        let file = paths::open_read_write(&self.path)?;
        let copy = DataFile::new_copy(file, options.hook.clone());
        let executions = database::verify_copy(shown, copy, options, |transaction| {
            check(transaction)?;
            let executions = transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
            executions.len().map_err(redb_error)
        })?;
        let metadata = fs::metadata(&self.path);
        let bytes = metadata.map_err(|error| file_unusable_error(&self.path, &error))?.len();
        Ok(CopySize { bytes, executions })
    }

    /// Gives the draft the name `target`, which must be free.
    pub(super) fn place(self, target: &Path, options: &Options) -> io::Result<()> {
        options.call_hook_before(FileOperation::Rename)?;
        paths::add_name(&self.path, target)?;
        let synced = options
            .call_hook_before(FileOperation::SyncDirectory)
            .and_then(|()| paths::sync_directory(target.parent().unwrap_or(target)));
        synced.inspect_err(|_| {
            let _ = paths::remove_if_exists(target);
        })
    }

    /// Puts the draft in the place of the file at `target`, if there is one.
    pub(super) fn replace(self, target: &Path, options: &Options) -> io::Result<()> {
        options.call_hook_before(FileOperation::Rename)?;
        fs::rename(&self.path, target)?;
        options.call_hook_before(FileOperation::SyncDirectory)?;
        paths::sync_directory(target.parent().unwrap_or(target))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        for path in [Some(&self.path), self.note.as_ref()].into_iter().flatten() {
            if let Err(error) = paths::remove_if_exists(path) {
                tracing::warn!(path = %path.display(), %error, "a draft of a copy cannot be removed");
            }
        }
    }
}

/// The directory of a path, without links.
pub(super) fn real_parent(path: &Path) -> io::Result<PathBuf> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::canonicalize(parent.unwrap_or(Path::new(".")))
}
