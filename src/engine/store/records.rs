//! Reads all records of a store that no process has open, as they are stored, to move them into another store.

use std::{fs, iter, path::PathBuf, sync::Arc};

use redb::{Key, ReadableDatabase, TableDefinition, Value};

use super::{
    LoadedExecution, OwnedDirectory,
    batch::WriterState,
    copy,
    fault::{catch_redb_panic, file_unusable_error, redb_error},
    lock::DirectoryLock,
    offline::{close, open_without_log},
    options::Options,
    paths, reader,
    record::{self, parse_indexed_id},
    shared::OpenDatabase,
    tables,
};
use midex_domain::{Digest, Sequence, clock::Timestamp, error::Result, event::OwnerEpoch};

/// A record of a store.
#[derive(Debug)]
pub struct StoredRecord {
    /// Its table.
    pub table: &'static str,
    /// What identifies it, and the numbers that belong to it, each in a line.
    pub key: String,
    /// Its bytes as they are stored, if it has any.
    pub bytes: Vec<u8>,
}

/// A store that no other process can open as long as this value lives. Nothing moves its executions.
#[derive(Debug)]
pub struct StoreRecords {
    path: PathBuf,
    opened: OpenDatabase,
    writer_state: WriterState,
    lock: Arc<DirectoryLock>,
}

type RecordReader<'a> = Box<dyn Iterator<Item = Result<StoredRecord>> + 'a>;

impl OwnedDirectory {
    /// Opens the store to read its records. Every page of the file is checked.
    ///
    /// # Errors
    /// As [`RedbStore::open_owned`](super::RedbStore::open_owned); `STORE_FULL` if there is no room to apply the redo log;
    /// `STORE_TOO_NEW` for a table that a later version has written.
    pub fn open_records(self, options: &Options) -> Result<StoreRecords> {
        let name = self.directory.join(paths::FILE_NAME);
        let path = fs::canonicalize(&name).map_err(|error| file_unusable_error(&name, &error))?;
        let options = Options { check_all: true, ..options.clone() };
        let (opened, writer_state) = open_without_log(&name, &self.lock, &options)?;
        copy::refuse_unknown_tables(&opened.database.begin_read().map_err(redb_error)?)?;
        Ok(StoreRecords { path, opened, writer_state, lock: self.lock })
    }
}

impl StoreRecords {
    /// No opening of the store was a later owner than this.
    pub fn last_owner(&self) -> OwnerEpoch {
        OwnerEpoch(self.writer_state.next_key)
    }

    /// Reads all records, table by table, and each table in the order of its keys. The lines of a key are: the digest of a content; the
    /// key, execution and revision of a row of the journal; the id of an execution, the key of its last row, its revision and, if it has
    /// one, its deadline; the execution and revision of a snapshot, 0 if it leaves the state to the first row; the source and the id of a
    /// fork; the key of a refusal; the id and time of a tombstone; the digest of a candidate.
    ///
    /// # Errors
    /// Those of the store; `STORE_CORRUPT`, also in the place of a record, for damage.
    pub fn read(&self) -> Result<impl Iterator<Item = Result<StoredRecord>>> {
        let readers = [
            self.read_table("contents", tables::CONTENT_TABLE, |key, bytes| {
                Ok((reader::check_content(key, bytes)?.to_string(), bytes.to_vec()))
            })?,
            self.read_table("journal", tables::JOURNAL_TABLE, |key, bytes| {
                let row = record::decode_row(bytes)?.1;
                Ok((format!("{key}\n{}\n{}", row.execution_id, row.revision), bytes.to_vec()))
            })?,
            self.read_table("executions", tables::EXECUTIONS_TABLE, |id, _| {
                let (Sequence(key), loaded) = self.load(id)?;
                let due = loaded.position.due.map(|due| format!("\n{}", due.milliseconds()));
                let revision = loaded.execution.revision();
                Ok((format!("{id}\n{key}\n{revision}{}", due.unwrap_or_default()), Vec::new()))
            })?,
            self.read_table("snapshots", tables::EXECUTIONS_TABLE, |id, bytes| {
                let (header, state) = record::decode_snapshot(bytes)?;
                let revision = state.map_or(0, |_| header.revision);
                Ok((format!("{id}\n{revision}"), bytes.to_vec()))
            })?,
            self.read_table("forks", tables::FORKS_TABLE, |(source, fork), ()| {
                Ok((format!("{source}\n{fork}"), Vec::new()))
            })?,
            self.read_table("refusals", tables::REFUSALS_TABLE, |key, bytes| {
                record::decode_refusal(bytes)?;
                Ok((key.to_string(), bytes.to_vec()))
            })?,
            self.read_table("tombstones", tables::TOMBSTONES_TABLE, |id, at| {
                Ok((format!("{id}\n{at}"), Vec::new()))
            })?,
            self.read_table("candidates", tables::CANDIDATES_TABLE, |digest, ()| {
                Ok((Digest::from_bytes(*digest).to_string(), Vec::new()))
            })?,
        ];
        Ok(readers.into_iter().flatten())
    }

    fn read_table<'a, K: Key + 'static, V: Value + 'static>(
        &'a self,
        table: &'static str,
        definition: TableDefinition<'static, K, V>,
        read: impl Fn(K::SelfType<'_>, V::SelfType<'_>) -> Result<(String, Vec<u8>)> + 'a,
    ) -> Result<RecordReader<'a>> {
        let transaction = self.opened.database.begin_read().map_err(redb_error)?;
        let entries = tables::open_if_present(&transaction, definition)?
            .map(|table| table.range::<K::SelfType<'_>>(..))
            .transpose();
        let mut entries = entries.map_err(redb_error)?.into_iter().flatten();
        let mut read_next = move || {
            let Some((key, value)) = entries.next().transpose().map_err(redb_error)? else {
                return Ok(None);
            };
            let (key, bytes) = read(key.value(), value.value())?;
            Ok(Some(StoredRecord { table, key, bytes }))
        };
        let path = || self.path.display().to_string();
        Ok(Box::new(iter::from_fn(move || {
            let record = catch_redb_panic(&mut read_next);
            record.map_err(|error| error.with_context("path", path())).transpose()
        })))
    }

    /// An execution, with the key of its last row.
    ///
    /// # Errors
    /// Those of the store; `STORE_CORRUPT` if there is none.
    pub fn load(&self, id: &str) -> Result<(Sequence, LoadedExecution)> {
        let id = parse_indexed_id(id)?;
        let head = self.writer_state.heads.get(&id).map(|head| head.last_key);
        let transaction = self.opened.database.begin_read().map_err(redb_error)?;
        let key = reader::read_last_row_key(&transaction, &id, head)?.map(Sequence);
        let found = key.zip(reader::load(&transaction, &id, head)?);
        found.ok_or_else(reader::missing_row_error)
    }

    /// Closes the store and renames its file, so that no server goes on with it. Returns the new name.
    ///
    /// # Errors
    /// Those of the store; `FILE_UNUSABLE` if the file cannot be renamed.
    pub fn retire(self, now: Timestamp) -> Result<PathBuf> {
        let Self { path, opened, lock, .. } = self;
        close(opened, &path)?;
        let kept = paths::replaced_path(&path, now);
        let renamed = paths::move_to_new_name(&path, &kept);
        renamed.map_err(|error| {
            file_unusable_error(&path, &error)
                .with_action("Move {path} away: all its records are in the other store now")
        })?;
        drop(lock);
        Ok(kept)
    }
}
