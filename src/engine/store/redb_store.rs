//! The store on disk: a handle to the writer's queue, and to the database that readers share with the writer.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use redb::ReadTransaction;
use tokio::sync::{Semaphore, oneshot};

use super::{
    BackupReport, BoxFuture, Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion,
    DueExecution, ExaminationProgress, ExaminedPortion, ListPage, ListQuery, LoadedExecution,
    PlacedEntry, Position, RefusedCall, Store, StoreSizes, SummaryPage, TelemetryQuery, backup,
    batch::{EncodedPastChange, OpenIndexChange, WriteRequest},
    examine, file,
    import::{EncodedImport, Import},
    index, list,
    lock::DirectoryLock,
    options::Options,
    paths, reader, record,
    shared::SharedStore,
    sizes, store_closed_error, sweep,
    writer::{QueuedRequest, Writer, WriterMessage},
};
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence,
    clock::Timestamp,
    error::{Error, Result},
    event::OwnerEpoch,
    limits,
};

/// Counters of a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Transactions made durable.
    pub commits: u64,
    /// Transitions stored by them.
    pub transitions: u64,
    /// Snapshots stored by them.
    pub snapshots: u64,
    /// How often the database had to be opened again after a failure.
    pub reopenings: u64,
}

/// A data directory that this process owns as long as this value lives. No other process can open its store meanwhile.
#[derive(Debug)]
pub struct OwnedDirectory {
    pub(super) directory: PathBuf,
    pub(super) lock: Arc<DirectoryLock>,
}

impl OwnedDirectory {
    /// Takes ownership of the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// `STORE_BUSY` where another process owns it, `FILE_UNUSABLE` where the system refuses.
    pub fn take_ownership(directory: &Path) -> Result<Self> {
        Ok(Self { lock: file::lock_directory(directory)?, directory: directory.to_path_buf() })
    }

    /// Whether the last owner of the directory had a data file that is missing now.
    pub fn has_lost_its_store(&self) -> bool {
        self.lock.had_data_file() && !self.directory.join(paths::FILE_NAME).exists()
    }
}

/// Executions in one redb file, owned by one process at a time.
#[derive(Debug)]
pub struct RedbStore {
    shared: Arc<SharedStore>,
    queue: Option<Sender<WriterMessage>>,
    /// Permits for the writer's queue. Closed with the store.
    queue_permits: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The next key of the sequence at the time of opening. An earlier opening has a smaller one, unless it stored
    /// nothing and so began no attempt.
    owner: OwnerEpoch,
}

impl RedbStore {
    /// Opens the store in `directory`, and creates both if they are missing. Blocks while it reads the file, which
    /// takes longest after a crash.
    ///
    /// # Errors
    /// `STORE_BUSY` where another process has it, `STORE_CORRUPT` where it is damaged, `STORE_TOO_NEW` where a later
    /// version wrote it, `STORE_FORMAT` where a build before the first release did, `FILE_UNUSABLE` where the system
    /// refuses. None of them changes the file, except that fresh snapshots stay if damage is found while they are
    /// written.
    pub fn open(directory: &Path, options: Options) -> Result<Self> {
        Self::open_owned(OwnedDirectory::take_ownership(directory)?, options)
    }

    /// Opens the store in a directory that this process owns already. If that fails, the directory is released.
    ///
    /// # Errors
    /// As [`RedbStore::open`], without `STORE_BUSY`.
    pub fn open_owned(owned: OwnedDirectory, options: Options) -> Result<Self> {
        let options = options.check_options()?;
        let (directory, lock) = (&owned.directory, owned.lock);
        let path = file::prepare_data_file(directory, &lock, &options)?;
        // Before the file is opened, which may need the room.
        paths::remove_crash_leftovers(&path);
        let (opened, state) = file::open(&path, &lock, &options)?;
        let owner = OwnerEpoch(state.next_key);
        let shared = Arc::new(SharedStore::new(path, options, opened, &state));
        let (queue, messages) = mpsc::channel();
        let writer = Writer::new(Arc::clone(&shared), lock, messages, state);
        let writer = thread::Builder::new()
            .name("midex-writer".into())
            .spawn(move || writer.run())
            .map_err(|error| {
                Error::internal("the store's writer cannot start").with_source(error)
            })?;
        Ok(Self {
            shared,
            queue: Some(queue),
            queue_permits: Arc::new(Semaphore::new(limits::WRITER_QUEUE_MAX)),
            writer: Mutex::new(Some(writer)),
            owner,
        })
    }

    /// The counters since the store was opened.
    pub fn counts(&self) -> StoreCounts {
        StoreCounts {
            commits: self.shared.commits.load(Ordering::Relaxed),
            transitions: self.shared.transitions.load(Ordering::Relaxed),
            snapshots: self.shared.snapshots.load(Ordering::Relaxed),
            reopenings: self.shared.reopenings.load(Ordering::Relaxed),
        }
    }

    async fn send_write(&self, request: WriteRequest) -> Result<Sequence> {
        let permit = Arc::clone(&self.queue_permits).acquire_owned().await;
        let permit = permit.map_err(|_| store_closed_error())?;
        let (answer, receiver) = oneshot::channel();
        self.send(WriterMessage::Request(QueuedRequest {
            write_request: request,
            reply: answer,
            permit,
        }))?;
        receiver.await.map_err(|_| store_closed_error())?
    }

    /// Reads at once, on the caller's thread.
    fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T>) -> Result<T> {
        self.report_failed_read(self.shared.read(read))
    }

    /// Passes a read's result on. If the read failed, tells the writer to reopen the database.
    fn report_failed_read<T>(&self, read: Result<T>) -> Result<T> {
        if read.is_err() && self.shared.must_report_failed_read() {
            // Fails only after the store was closed, when nothing more is read.
            let _ = self.send(WriterMessage::ReadFailed);
        }
        read
    }

    fn send(&self, message: WriterMessage) -> Result<()> {
        let queue = self.queue.as_ref().ok_or_else(store_closed_error)?;
        queue.send(message).map_err(|_| store_closed_error())
    }

    async fn read_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&SharedStore) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        let task = tokio::task::spawn_blocking(move || read(&shared));
        self.report_failed_read(
            task.await
                .map_err(|error| Error::internal("a read was not finished").with_source(error))?,
        )
    }

    fn take_writer_thread(&self) -> Option<JoinHandle<()>> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.take()
    }
}

impl Store for RedbStore {
    fn owner(&self, _: &ExecutionId) -> Result<OwnerEpoch> {
        Ok(self.owner)
    }

    fn commit(&self, mut commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(async move {
            let _caller = WaitingCaller::new(&self.shared.callers);
            let records = commit.encode_records(self.shared.options.snapshot_every)?;
            let past =
                commit.past.take().map(|past| EncodedPastChange::encode(*past)).transpose()?;
            let request = WriteRequest::Transition {
                past: past.map(Box::new),
                open_index_change: commit.open_index_change(),
                row: commit.row,
                row_bytes: records.row,
                snapshot: records.snapshot,
                contents: std::mem::take(&mut commit.contents),
            };
            let row = self.send_write(request).await?;
            Ok(CommitReceipt { row, position: records.position })
        })
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        Box::pin(async move {
            if position.snapshot_revision == execution.revision() {
                return Ok(position);
            }
            let snapshot = record::encode_snapshot(&execution, position.snapshot_bytes)?;
            let position = position.after_snapshot(execution.revision(), &snapshot);
            let request = WriteRequest::Checkpoint {
                id: execution.id().clone(),
                revision: execution.revision(),
                snapshot,
            };
            self.send_write(request).await?;
            Ok(position)
        })
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
        Box::pin(async move {
            let head = self.shared.uncovered_head(id);
            let loaded = self.read(|read| reader::load(read, id, head));
            loaded.map_err(|error| error.with_context("execution_id", id.as_str()))
        })
    }

    fn load_rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let head = self.shared.uncovered_head(id);
            self.read(|read| reader::read_rows(read, id, &revisions, head))
        })
    }

    fn load_history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>> {
        let id = id.clone();
        Box::pin(self.read_blocking(move |shared| {
            let head = shared.uncovered_head(&id);
            shared.read(|read| reader::read_history(read, &id, head))
        }))
    }

    fn load_forks<'a>(
        &'a self,
        source: &'a ExecutionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ExecutionId>>> {
        Box::pin(async move { self.read(|read| reader::read_forks(read, source, limit)) })
    }

    fn load_content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        Box::pin(async move { self.read(|read| reader::read_content(read, digest)) })
    }

    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>> {
        Box::pin(self.read_blocking(move |shared| reader::find_holders(shared, &contents)))
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.send_write(WriteRequest::Delete(deletion)).await.map(drop) })
    }

    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let encoded = EncodedImport::encode(import)?;
            self.send_write(WriteRequest::Import(encoded)).await.map(drop)
        })
    }

    fn load_tombstone<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> BoxFuture<'a, Result<Option<Timestamp>>> {
        Box::pin(async move { self.read(|read| reader::read_tombstone(read, id)) })
    }

    fn sweep(&self, sweep: ContentSweep) -> BoxFuture<'_, Result<ContentSweep>> {
        Box::pin(async move {
            if !sweep.is_search_complete {
                return self.read_blocking(|shared| sweep::search_slice(shared, sweep)).await;
            }
            let (sweep, request) = sweep::next_freeing(sweep);
            self.send_write(request).await?;
            Ok(sweep)
        })
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        if self.shared.queue_refusal(refusal) {
            // Fails only after the store was closed, when telemetry is no longer read.
            let _ = self.send(WriterMessage::RefusalsQueued);
        }
    }

    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            self.send(WriterMessage::FlushRefusals(sender))?;
            // The sender is only ever dropped. Refusals that could not be written are not shown, and the read below
            // reports the failure.
            let _ = receiver.await;
            let entries = self.read_blocking(move |shared| match &query.execution_id {
                Some(id) => {
                    let head = shared.uncovered_head(id);
                    shared.read(|read| reader::read_execution_telemetry(read, id, &query, head))
                }
                None => reader::read_telemetry(shared, &query),
            });
            entries.await
        })
    }

    fn list_summaries(&self, query: ListQuery) -> BoxFuture<'_, Result<SummaryPage>> {
        Box::pin(self.read_blocking(move |shared| list::list_summaries(shared, &query)))
    }

    fn sizes(&self) -> BoxFuture<'_, Result<StoreSizes>> {
        Box::pin(self.read_blocking(sizes::measure_store))
    }

    fn update_index(&self, rows_min: u64) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let plan = self.read_blocking(move |shared| index::plan_change(shared, rows_min));
            let Some(change) = plan.await? else {
                return Ok(false);
            };
            self.send_write(WriteRequest::Index(change)).await.map(|_| true)
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(self.read_blocking(move |shared| list::list_page(shared, &query)))
    }

    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>> {
        Box::pin(self.read_blocking(move |shared| list::read_due_executions(shared, before, limit)))
    }

    fn examine(&self, from: ExaminationProgress) -> BoxFuture<'_, Result<ExaminedPortion>> {
        Box::pin(self.read_blocking(move |shared| examine::examine_portion(shared, from)))
    }

    fn back_up(&self, target: PathBuf) -> BoxFuture<'_, Result<BackupReport>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(self.read_blocking(move |_| backup::back_up(&shared, target)))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.queue_permits.close();
            let Some(writer) = self.take_writer_thread() else {
                return Ok(());
            };
            let (answer, receiver) = oneshot::channel();
            self.send(WriterMessage::Close(answer))?;
            let result = receiver.await.map_err(|_| store_closed_error())?;
            let joined = tokio::task::spawn_blocking(move || writer.join()).await;
            joined
                .map_err(|error| Error::internal("the writer was not joined").with_source(error))?
                .map_err(|_| Error::internal("the store's writer panicked"))?;
            result
        })
    }
}

impl Drop for RedbStore {
    /// Waits until every accepted request has been stored. Afterwards another process can open the file.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.take_writer_thread()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

impl Commit {
    /// The index changes with the first and the last transition of an execution, and when its deadline changes.
    fn open_index_change(&self) -> OpenIndexChange {
        let is_first = self.row.revision == 1;
        match self.execution.is_over() {
            true if is_first => OpenIndexChange::Keep,
            true => OpenIndexChange::Remove,
            false if is_first || self.due != self.position.due => OpenIndexChange::Set(self.due),
            false => OpenIndexChange::Keep,
        }
    }
}

/// Counts a caller as long as it waits.
struct WaitingCaller<'a>(&'a AtomicUsize);

impl<'a> WaitingCaller<'a> {
    fn new(callers: &'a AtomicUsize) -> Self {
        callers.fetch_add(1, Ordering::Relaxed);
        Self(callers)
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use midex_domain::{Event, Payload, WorkflowName, event::ExecutionCreated};

    fn event_of_revision(revision: u64) -> Event {
        let digest = Digest::compute(&revision.to_le_bytes());
        if revision == 1 {
            return Event::Created(Box::new(ExecutionCreated {
                workflow: WorkflowName::parse("w").expect("a name"),
                definition: digest,
                complexity: None,
                project: None,
                inputs: None,
                call: digest,
                steps: Vec::new(),
                parent: None,
                lookup: None,
            }));
        }
        // The signals accumulate, so the snapshot grows nearly as fast as the rows do.
        Event::SignalKept {
            name: format!("{revision:0100}"),
            payload: Payload { digest, bytes: 1, inline: None },
        }
    }

    #[tokio::test]
    async fn an_oversized_snapshot_is_not_encoded_every_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = RedbStore::open(directory.path(), Options::default()).expect("a store");
        let (mut execution, mut position) = (None, Position::default());
        let mut oversized_snapshot_bytes = 0;
        for revision in 1..=400 {
            let row = Row {
                execution_id: ExecutionId::parse("long").expect("an id"),
                revision,
                at: Timestamp::from_milliseconds(0),
                events: vec![event_of_revision(revision)],
            };
            let next = Execution::apply_row(execution, &row).expect("an execution");
            let commit = Commit {
                execution: Arc::new(next.clone()),
                row: Arc::new(row),
                contents: Vec::new(),
                due: None,
                position,
                past: None,
            };
            let committed = store.commit(commit).await.expect("stored");
            let before = position.oversized_snapshot_bytes;
            position = committed.position;
            oversized_snapshot_bytes += u64::from(position.oversized_snapshot_bytes > before);
            execution = Some(next);
        }
        let snapshots = store.counts().snapshots;
        assert!(snapshots >= 10, "{snapshots}");
        assert!(oversized_snapshot_bytes <= 45, "{oversized_snapshot_bytes} of 400");
        store.close().await.expect("closed");
    }
}
