//! Opens a database: checks its pages, refuses other formats, and brings its snapshots up to date.

use std::{fs::File, path::Path, sync::Arc};

use redb::{Database, ReadTransaction, ReadableDatabase, TableHandle};

use super::{
    backend::{Backend, DataFile},
    batch::WriterState,
    fault::{catch_redb_panic, file_unusable_error, redb_error, redb_opening_error},
    lock::DirectoryLock,
    options::Options,
    paths::keep_damaged_copy,
    record::damaged_database_error,
    recovery, redo,
    shared::OpenDatabase,
    tables::{
        CONTENT_TABLE, EXECUTIONS_TABLE, FILE_FORMAT, FORMAT_KEY, JOURNAL_TABLE, META_TABLE,
        OPEN_TABLE, REFUSALS_TABLE,
    },
};
use midex_domain::error::{Code, Error, Result};

/// The keys under which builds before the first release stored their format.
const UNRELEASED_KEYS: [&str; 7] = [
    "format",
    "release_format",
    "released_format",
    "store_format",
    "state_format",
    "record_format",
    "journal_format",
];

/// The tables of midex, without the version at the end of their names.
const TABLE_NAMES: [&str; 6] = ["executions", "journal", "content", "refusals", "meta", "open"];

/// Opens the data file, or a copy that is to replace it. Every page of it is checked if it has fewer bytes than
/// `checked_below`.
pub(super) fn open_data_file(
    path: &Path,
    data_file: Arc<DataFile>,
    options: &Options,
    checked_below: u64,
) -> Result<(OpenDatabase, WriterState)> {
    let opened = catch_redb_panic(|| open_unguarded(path, data_file, options, checked_below));
    opened.map_err(|error| {
        let error = error.with_context("path", path.display().to_string());
        // If the log is at fault, the data file needs no copy.
        if error.code() == Code::StoreCorrupt && error.context("redo").is_none() {
            return keep_damaged_copy(path, error);
        }
        error
    })
}

fn open_unguarded(
    path: &Path,
    data_file: Arc<DataFile>,
    options: &Options,
    checked_below: u64,
) -> Result<(OpenDatabase, WriterState)> {
    if data_file.file_length().map_err(|error| file_unusable_error(path, &error))? == 0 {
        return Err(damaged_database_error("it is empty"));
    }
    let opened = open_database(data_file, path, options, checked_below)?;
    check_format(&opened.database, path)?;
    let pending = redo::read_pending_log(&opened.database, path, options)?;
    let mut state = recovery::read_writer_state(&opened.database)?;
    // From here on changes need not be undone: each transaction that writes fresh snapshots leaves a complete database.
    opened.data_file.keep_changes();
    if pending.must_be_folded() {
        let has_room = reserve_space(&opened.data_file, pending.fold_space_needed(), path)?;
        pending.fold(&opened.database, has_room)?;
        state = recovery::read_writer_state(&opened.database)?;
        if !has_room {
            // The records are in memory and can be read. The writer makes them durable as soon as there is room.
            state.unfolded_log_bytes = Some(pending.fold_space_needed());
            return Ok((opened, state));
        }
    }
    let checkpoint_space = recovery::estimate_checkpoint_bytes(&state);
    match opened.data_file.reserve(checkpoint_space) {
        Ok(_) => recovery::checkpoint_all(&opened.database, &mut state)?,
        Err(error) => tracing::warn!(%error, "no room for fresh snapshots: they stay as they are"),
    }
    Ok((opened, state))
}

/// Reserves room for the content of the log. Returns false if the file system is full.
fn reserve_space(data_file: &DataFile, bytes: u64, path: &Path) -> Result<bool> {
    let error = match data_file.reserve(bytes) {
        Ok(_) => return Ok(true),
        Err(error) => file_unusable_error(path, &error),
    };
    if error.code() != Code::StoreFull {
        return Err(error);
    }
    tracing::warn!(error = %error, "the redo log is not put into the database, which can only be read until there is room");
    Ok(false)
}

/// Opens a copy of a database that needs no log, whatever lies beside it, and checks every page of it. Closing it undoes
/// what the opening has changed.
pub(super) fn verify_copy<T>(
    path: &Path,
    data_file: Arc<DataFile>,
    options: &Options,
    read: impl FnOnce(&ReadTransaction) -> Result<T>,
) -> Result<T> {
    let verified = catch_redb_panic(|| {
        if data_file.file_length().map_err(|error| file_unusable_error(path, &error))? == 0 {
            return Err(damaged_database_error("it is empty"));
        }
        let opened = open_database(data_file, path, options, u64::MAX)?;
        check_format(&opened.database, path)?;
        recovery::read_writer_state(&opened.database)?;
        let transaction = opened.database.begin_read().map_err(redb_error)?;
        redo::refuse_incomplete_file(&transaction, path)?;
        let value = read(&transaction)?;
        drop(transaction);
        opened.database.close().map_err(redb_error)?;
        Ok(value)
    });
    verified.map_err(|error| error.with_context("path", path.display().to_string()))
}

pub(super) fn open_database(
    data_file: Arc<DataFile>,
    path: &Path,
    options: &Options,
    checked_below: u64,
) -> Result<OpenDatabase> {
    let backend = Backend::new(&data_file).map_err(|error| file_unusable_error(path, &error))?;
    let bytes = data_file.file_length().map_err(|error| file_unusable_error(path, &error))?;
    let database = Database::builder()
        .set_cache_size(options.cache_bytes)
        // redb trusts a file that it closed cleanly. A small file is cheap to read through, as it is after a crash.
        .set_check_integrity_on_open(bytes < checked_below)
        .create_with_backend(backend)
        .map_err(|error| redb_opening_error(error, path))?;
    Ok(OpenDatabase { database, data_file })
}

pub(super) fn initialize_database(
    file: File,
    draft: &Path,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<()> {
    let data_file = DataFile::new(file, options.hook.clone(), lock);
    let opened = open_database(data_file, draft, options, 0)?;
    opened.data_file.keep_changes();
    let transaction = opened.database.begin_write().map_err(redb_error)?;
    transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
    transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    transaction.open_table(CONTENT_TABLE).map_err(redb_error)?;
    transaction.open_table(REFUSALS_TABLE).map_err(redb_error)?;
    transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
    let mut meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    meta.insert(FORMAT_KEY, FILE_FORMAT.as_bytes()).map_err(redb_error)?;
    drop(meta);
    transaction.commit().map_err(redb_error)?;
    opened.database.close().map_err(redb_error)?;
    opened.data_file.sync().map_err(|error| file_unusable_error(draft, &error))
}

/// Refuses a file that another version wrote, and a file that is no database of midex.
fn check_format(database: &Database, path: &Path) -> Result<()> {
    let transaction = database.begin_read().map_err(redb_error)?;
    let tables: Vec<String> = transaction
        .list_tables()
        .map_err(redb_error)?
        .map(|table| table.name().to_owned())
        .collect();
    refuse_later_tables(&tables)?;
    refuse_other_formats(&transaction, path)?;
    let is_missing = |name: &&str| !tables.contains(&format!("{name}.v1"));
    match TABLE_NAMES.into_iter().find(is_missing) {
        None => Ok(()),
        Some(name) => Err(damaged_database_error(&format!("it has no table `{name}.v1`"))),
    }
}

fn refuse_later_tables(tables: &[String]) -> Result<()> {
    for table in tables {
        if let Some((name, version)) = table.rsplit_once(".v")
            && TABLE_NAMES.contains(&name)
            && version.parse::<u64>().is_ok_and(|version| version > 1)
        {
            return Err(format_too_new_error(&format!("the table `{table}`")));
        }
    }
    Ok(())
}

fn refuse_other_formats(transaction: &ReadTransaction, path: &Path) -> Result<()> {
    let meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    let format = meta.get(FORMAT_KEY).map_err(redb_error)?;
    if let Some(format) = format.as_ref().map(redb::AccessGuard::value) {
        if [FILE_FORMAT, redo::FORMAT_WITH_LOG].map(str::as_bytes).contains(&format) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(format);
        return Err(format_too_new_error(&format!("the format `{name}`")));
    }
    for key in UNRELEASED_KEYS {
        if meta.get(key).map_err(redb_error)?.is_some() {
            return Err(unreleased_format_error(path));
        }
    }
    Err(damaged_database_error("it does not say its format"))
}

fn unreleased_format_error(path: &Path) -> Error {
    let message = format!(
        "`{}` was written by an earlier build, before the first release of midex, and is left as it is",
        path.display()
    );
    Error::new(Code::StoreFormat, message)
}

fn format_too_new_error(feature: &str) -> Error {
    let message = format!("the database was written by a later version: it has {feature}");
    Error::new(Code::StoreTooNew, message)
}
