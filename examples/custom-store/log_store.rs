//! A store in memory with a log of commits, from which it is rebuilt at the next opening.
//!
//! `MemoryStore` answers every query. This module adds what makes it durable: a commit is checked, appended to the log,
//! synced, and only then applied in memory. The log is never shortened, a damaged length is taken for a torn end, and files
//! are written on the thread of the caller: a store that is more than an example would do better.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use midex::{
    Code, Error, ExecutionId, Result, Timestamp,
    store::{
        BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, Digest,
        DueExecution, Execution, Import, ListPage, ListQuery, LoadedExecution, MemoryStore,
        OwnerEpoch, PastChange, PlacedEntry, Position, RefusedCall, Row, Store, TelemetryQuery,
    },
};
use serde::{Deserialize, Serialize};

/// How many refused calls may wait until they are stored.
const WAITING_REFUSALS_MAX: usize = 1000;

#[derive(Debug)]
pub(crate) struct LogStore {
    memory: MemoryStore,
    owner: OwnerEpoch,
    refusals: SyncSender<RefusedCall>,
    /// Held while an entry is appended and applied, so that memory has the order of the log.
    log: tokio::sync::Mutex<Log>,
    /// Locked as long as the store exists, so that no other process opens it.
    _lock: File,
}

/// What happened to the store.
#[derive(Serialize, Deserialize)]
enum LogEntry {
    Opened,
    Refused(RefusedCall),
    Committed {
        row: Row,
        contents: Vec<(Digest, Arc<[u8]>)>,
        due: Option<Timestamp>,
        past: Option<Box<PastChange>>,
    },
    Deleted(Deletion),
    Imported(Import),
}

impl LogStore {
    pub(crate) async fn open(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).map_err(unavailable_error)?;
        let lock = File::create(directory.join("commits.lock")).map_err(unavailable_error)?;
        lock.try_lock()
            .map_err(|_| Error::new(Code::StoreBusy, "another process has the store"))?;
        let (refusals, waiting_refusals) = sync_channel(WAITING_REFUSALS_MAX);
        let mut log = Log { path: directory.join("commits.log"), file: None, waiting_refusals };
        let entries = log.open()?;
        let (memory, mut owner, mut is_purged) = (MemoryStore::new(), OwnerEpoch(1), false);
        for entry in entries {
            match entry {
                LogEntry::Opened => owner.0 += 1,
                LogEntry::Refused(refusal) => memory.note_refusal(refusal),
                LogEntry::Committed { row, contents, due, past } => {
                    is_purged |= past.is_some();
                    let changed_rows = past.as_ref().map_or(&[][..], |past| &past.rows);
                    let execution = Arc::new(rebuild(&memory, &row, changed_rows).await?);
                    let (row, position) = (Arc::new(row), Position::default());
                    let commit = Commit { execution, row, contents, due, position, past };
                    memory.commit(commit).await?;
                }
                LogEntry::Deleted(deletion) => memory.delete(deletion).await?,
                LogEntry::Imported(import) => memory.import(import).await?,
            }
        }
        if is_purged {
            log.forget_purged(&memory).await?;
        }
        log.append(&LogEntry::Opened)?;
        Ok(Self { memory, owner, refusals, log: tokio::sync::Mutex::new(log), _lock: lock })
    }

    /// Appends an entry. After a failure it is unknown what the file holds, so the store is closed until it is opened again.
    async fn append(&self, log: &mut Log, entry: &LogEntry) -> Result<()> {
        let appended = log.append(entry);
        if appended.is_err() {
            self.memory.close().await?;
        }
        appended
    }

    async fn store_refusals(&self, log: &mut Log) -> Result<()> {
        while let Ok(refusal) = log.waiting_refusals.try_recv() {
            self.append(log, &LogEntry::Refused(refusal.clone())).await?;
            self.memory.note_refusal(refusal);
        }
        Ok(())
    }

    async fn store_commit(&self, commit: Commit) -> Result<CommitReceipt> {
        let mut log = self.log.lock().await;
        self.store_refusals(&mut log).await?;
        let stored = self.memory.load(commit.execution.id()).await?;
        commit.check(stored.map_or(0, |stored| stored.execution.revision()))?;
        let Commit { row, contents, due, past, .. } = commit.clone();
        let (row, is_purge) = (Row::clone(&row), past.is_some());
        self.append(&mut log, &LogEntry::Committed { row, contents, due, past }).await?;
        let receipt = self.memory.commit(commit).await?;
        if is_purge {
            log.forget_purged(&self.memory).await?;
        }
        Ok(receipt)
    }
}

/// The execution after `row`, which follows the rows in memory with these changed ones.
async fn rebuild(memory: &MemoryStore, row: &Row, changed_rows: &[Row]) -> Result<Execution> {
    let mut rows = memory.load_history(&row.execution_id).await?;
    for old in &mut rows {
        let changed = changed_rows.iter().find(|new| new.revision == old.revision);
        *old = changed.unwrap_or(old).clone();
    }
    rows.push(row.clone());
    Execution::replay(&rows).ok_or_else(corrupt_error)
}

/// The file of the entries, each with its digest and its length in front.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    /// `None` once an entry could not be appended, and after the closing.
    file: Option<File>,
    waiting_refusals: Receiver<RefusedCall>,
}

impl Log {
    /// Opens the file without its last entry if that is torn: then its commit was never answered.
    fn open(&mut self) -> Result<Vec<LogEntry>> {
        let mut options = File::options();
        let file = options.create(true).append(true).open(&self.path).map_err(unavailable_error)?;
        let bytes = fs::read(&self.path).map_err(unavailable_error)?;
        let (mut entries, mut rest) = (Vec::new(), &bytes[..]);
        while let Ok((framed, after)) = postcard::take_from_bytes::<(Digest, Vec<u8>)>(rest) {
            let (digest, entry) = framed;
            if Digest::compute(&entry) == digest {
                entries.push(postcard::from_bytes(&entry).map_err(|_| corrupt_error())?);
                rest = after;
            } else if after.is_empty() {
                break;
            } else {
                return Err(corrupt_error());
            }
        }
        file.set_len((bytes.len() - rest.len()) as u64).map_err(unavailable_error)?;
        self.file = Some(file);
        Ok(entries)
    }

    fn append(&mut self, entry: &LogEntry) -> Result<()> {
        let closed_error = || Error::new(Code::StoreUnavailable, "the store is closed");
        let mut file = self.file.take().ok_or_else(closed_error)?;
        file.write_all(&encode(entry))
            .and_then(|()| file.sync_data())
            .map_err(unavailable_error)?;
        self.file = Some(file);
        Ok(())
    }

    /// Writes the log anew, with the rows and contents that are in memory after a purge.
    async fn forget_purged(&mut self, memory: &MemoryStore) -> Result<()> {
        let mut bytes = Vec::new();
        for mut entry in self.open()? {
            let (rows, contents) = match &mut entry {
                LogEntry::Committed { row, contents, past, .. } => {
                    *past = None;
                    (vec![row], contents)
                }
                LogEntry::Imported(import) => {
                    (import.executions.iter_mut().flatten().collect(), &mut import.contents)
                }
                LogEntry::Opened | LogEntry::Refused(_) | LogEntry::Deleted(_) => {
                    bytes.extend(encode(&entry));
                    continue;
                }
            };
            for row in rows {
                // The rows of an execution that was deleted stay as they are.
                let stored = memory.load_rows(&row.execution_id, [row.revision].into()).await?;
                *row = stored.into_iter().next().unwrap_or_else(|| row.clone());
            }
            for (digest, content) in std::mem::take(contents) {
                if memory.load_content(digest).await?.is_some() {
                    contents.push((digest, content));
                }
            }
            bytes.extend(encode(&entry));
        }
        let draft = self.path.with_extension("draft");
        let directory = self.path.parent().unwrap_or(&self.path);
        fs::write(&draft, &bytes)
            .and_then(|()| File::open(&draft)?.sync_all())
            .and_then(|()| fs::rename(&draft, &self.path))
            .and_then(|()| File::open(directory)?.sync_all())
            .map_err(unavailable_error)?;
        self.open().map(drop)
    }
}

fn encode(entry: &LogEntry) -> Vec<u8> {
    let entry = postcard::to_stdvec(entry).expect("an entry can be encoded");
    postcard::to_stdvec(&(Digest::compute(&entry), entry)).expect("bytes can be encoded")
}

fn unavailable_error(error: std::io::Error) -> Error {
    Error::new(Code::StoreUnavailable, "the log of commits failed").with_source(error)
}

fn corrupt_error() -> Error {
    Error::new(Code::StoreCorrupt, "the log of commits is damaged")
}

/// Passes calls that change nothing on to the store in memory.
macro_rules! answer_from_memory {
    ($a:lifetime $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name<$a>(&$a self, $($argument: $type),*) -> BoxFuture<$a, Result<$answer>> {
            self.memory.$name($($argument),*)
        })*
    };
}

impl Store for LogStore {
    fn owner(&self, _: &ExecutionId) -> Result<OwnerEpoch> {
        Ok(self.owner)
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(self.store_commit(commit))
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut log = self.log.lock().await;
            let stored = self.memory.load(&deletion.id).await?;
            if stored.is_some_and(|stored| stored.execution.revision() == deletion.revision) {
                self.append(&mut log, &LogEntry::Deleted(deletion.clone())).await?;
            }
            // Refuses another revision.
            self.memory.delete(deletion).await
        })
    }

    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut log = self.log.lock().await;
            let mut is_refused = import.check().is_err();
            for row in import.executions.iter().flatten() {
                is_refused |= self.memory.load(&row.execution_id).await?.is_some()
                    || self.memory.load_tombstone(&row.execution_id).await?.is_some();
            }
            if !is_refused {
                self.append(&mut log, &LogEntry::Imported(import.clone())).await?;
            }
            // Refuses what was not appended.
            self.memory.import(import).await
        })
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        // A refusal that finds the queue full is dropped.
        let _ = self.refusals.try_send(refusal);
    }

    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        Box::pin(async move {
            self.store_refusals(&mut *self.log.lock().await).await?;
            self.memory.load_telemetry(query).await
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut log = self.log.lock().await;
            if log.file.is_some() {
                self.store_refusals(&mut log).await?;
                log.file = None;
            }
            self.memory.close().await
        })
    }

    answer_from_memory! { 'a
        checkpoint(execution: Arc<Execution>, position: Position) -> Position;
        load(id: &'a ExecutionId) -> Option<LoadedExecution>;
        load_rows(id: &'a ExecutionId, revisions: BTreeSet<u64>) -> Vec<Row>;
        load_history(id: &'a ExecutionId) -> Vec<Row>;
        load_forks(source: &'a ExecutionId, limit: usize) -> Vec<ExecutionId>;
        load_content(digest: Digest) -> Option<Arc<[u8]>>;
        sweep(sweep: ContentSweep) -> ContentSweep;
        load_tombstone(id: &'a ExecutionId) -> Option<Timestamp>;
        find_holders(contents: BTreeSet<Digest>) -> ContentHolders;
        list(query: ListQuery) -> ListPage;
        due_executions(before: Timestamp, limit: usize) -> Vec<DueExecution>;
    }
}
