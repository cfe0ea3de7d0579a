//! Group commit: one thread owns the write side. It takes all requests that have gathered, writes them in one
//! transaction, and then answers all of them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use redb::{Durability, WriteTransaction};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    RefusedCall,
    batch::{self, BatchEffects, WriteRequest, WriterState},
    fault::{batch_failed_error, catch_redb_panic, redb_error, store_unavailable_error},
    file,
    lock::DirectoryLock,
    redo::{self, FollowingLog, RedoLog},
    shared::{DatabaseSlot, OpenDatabase, SharedStore},
    store_closed_error,
};
use midex_domain::{
    Digest, Sequence,
    error::{Code, Error, Result},
    limits,
};

/// Disk space reserved for each byte: redb stores a large value in a run of pages whose number is a power of two, and
/// grows its file by two such runs.
const ROOM_PER_BYTE: u64 = 4;
/// Disk space reserved for each request: the pages that it changes, and their copies.
const ROOM_PER_REQUEST_BYTES: u64 = 16 << 10;
/// Disk space reserved for the pages that every commit writes.
const ROOM_PER_COMMIT_BYTES: u64 = 256 << 10;

/// A message to the writer.
#[derive(Debug)]
pub(super) enum WriterMessage {
    /// Store something, and answer.
    Request(QueuedRequest),
    /// Refusals are queued, and are to be written.
    RefusalsQueued,
    /// A reader needs the refusals noted so far. The writer drops the sender once they are written, or could not be.
    FlushRefusals(oneshot::Sender<()>),
    /// A read has failed, so the database must be reopened.
    ReadFailed,
    /// Store the requests accepted so far, close the database, and answer.
    Close(oneshot::Sender<Result<()>>),
}

/// A request to store something.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    /// What to store.
    pub(super) write_request: WriteRequest,
    /// Receives the answer.
    pub(super) reply: oneshot::Sender<Result<Sequence>>,
    /// The permit of the bounded queue, released once the writer has taken the request.
    pub(super) permit: OwnedSemaphorePermit,
}

/// The write side of the store. It runs on the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<SharedStore>,
    /// Held while the database is open, and while it is shut by a failure, so that no other process takes the
    /// directory.
    lock: Arc<DirectoryLock>,
    queue: Receiver<WriterMessage>,
    state: WriterState,
    log: RedoLog,
    commit_pace: CommitPace,
    close_reply: Option<oneshot::Sender<Result<()>>>,
    /// When the database was last reopened, or the attempt to reopen it last failed.
    last_reopen_at: Option<Instant>,
    /// Refusals of a batch of which it is unknown whether it was stored.
    indeterminate: Option<IndeterminateBatch>,
}

/// Refusals of a batch that failed. A batch is stored whole or not at all. Once the file has been read again, its next
/// key shows which.
#[derive(Debug)]
struct IndeterminateBatch {
    refusals: Vec<RefusedCall>,
    /// The next key before the batch.
    next_key: u64,
}

/// The messages of one batch.
#[derive(Debug, Default)]
struct RequestBatch {
    requests: Vec<WriteRequest>,
    reply_senders: Vec<oneshot::Sender<Result<Sequence>>>,
    /// Readers that wait until the refusals are written.
    readers: Vec<oneshot::Sender<()>>,
    /// The digests of the requests' content, each with its length.
    contents: HashMap<Digest, usize>,
    /// The total bytes of the requests, with each content counted once.
    bytes: usize,
}

impl Writer {
    /// A writer that takes requests from `queue`, and releases `lock` once it has closed the database.
    pub(super) fn new(
        shared: Arc<SharedStore>,
        lock: Arc<DirectoryLock>,
        queue: Receiver<WriterMessage>,
        state: WriterState,
    ) -> Self {
        Self {
            log: RedoLog::new(&shared.path, &shared.options, state.unfolded_log_bytes),
            shared,
            lock,
            queue,
            state,
            commit_pace: CommitPace::default(),
            close_reply: None,
            last_reopen_at: None,
            indeterminate: None,
        }
    }

    /// Runs until it receives [`WriterMessage::Close`] or all senders are gone, and then closes the database.
    pub(super) fn run(mut self) {
        while let Some(first) = self.wait_for_message() {
            let mut gathered = RequestBatch::default();
            self.take_message(first, &mut gathered);
            self.gather_messages(&mut gathered);
            self.reopen_after_failure();
            self.store_batch(gathered);
        }
        self.reopen_after_failure();
        self.store_batch(RequestBatch::default());
        self.close_database();
    }

    /// The next message. While it waits, it reopens a database that was shut by a failure, or folds an idle redo log
    /// into the data file.
    fn wait_for_message(&mut self) -> Option<WriterMessage> {
        if self.close_reply.is_some() {
            return self.queue.try_recv().ok();
        }
        loop {
            let is_shut = self.shared.slot().can_reopen();
            let timeout = match is_shut {
                true => self.compute_reopen_delay(),
                false if self.log.is_open() => self.shared.options.redo_idle,
                false => return self.queue.recv().ok(),
            };
            match self.queue.recv_timeout(timeout) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if is_shut => self.reopen(),
                Err(RecvTimeoutError::Timeout) => self.fold_idle_log(),
            }
        }
    }

    /// Folds the redo log into the data file, which is then complete without the log. This also frees the memory that
    /// redb needed for the unfolded commits.
    fn fold_idle_log(&mut self) {
        if let Err(error) = self.reserve_space(0, 0) {
            tracing::debug!(%error, "the redo log stays");
            return;
        }
        let result = catch_redb_panic(|| {
            let slot = self.shared.slot();
            let opened = slot.open_database()?;
            opened.data_file.check_names_and_length(&self.shared.path)?;
            let transaction = opened.database.begin_write().map_err(redb_error)?;
            checkpoint_log(transaction, &mut self.log, opened, None)
        });
        if let Err(error) = result {
            let error = batch_failed_error(&self.shared.path, error);
            tracing::warn!(%error, "the redo log could not be put into the database");
            self.shut_database(error);
        }
    }

    fn take_message(&mut self, message: WriterMessage, gathered: &mut RequestBatch) {
        match message {
            WriterMessage::Request(request) => {
                gathered.bytes += request.write_request.encoded_bytes();
                for (digest, content) in request.write_request.contents() {
                    if gathered.contents.insert(*digest, content.len()).is_none() {
                        gathered.bytes += content.len();
                    }
                }
                gathered.requests.push(request.write_request);
                gathered.reply_senders.push(request.reply);
                drop(request.permit);
            }
            WriterMessage::RefusalsQueued | WriterMessage::ReadFailed => {}
            WriterMessage::FlushRefusals(reader) => gathered.readers.push(reader),
            WriterMessage::Close(answer) => self.close_reply = Some(answer),
        }
    }

    /// Takes the queued messages. If commits are slow, also waits for callers that are expected to send soon.
    fn gather_messages(&mut self, gathered: &mut RequestBatch) {
        self.drain_queue(gathered);
        let Some(wait) =
            self.commit_pace.compute_caller_wait().filter(|_| !gathered.requests.is_empty())
        else {
            return;
        };
        let deadline = now() + wait;
        while gathered.requests.len() < self.commit_pace.callers && self.has_room(gathered) {
            let left = deadline.saturating_duration_since(now());
            match self.queue.recv_timeout(left) {
                Ok(message) => self.take_message(message, gathered),
                Err(_) => break,
            }
        }
        self.drain_queue(gathered);
    }

    fn drain_queue(&mut self, gathered: &mut RequestBatch) {
        while self.has_room(gathered)
            && let Ok(message) = self.queue.try_recv()
        {
            self.take_message(message, gathered);
        }
    }

    fn has_room(&self, gathered: &RequestBatch) -> bool {
        gathered.requests.len() < self.shared.options.batch_max
            && gathered.bytes < limits::BATCH_BYTES_MAX
    }

    /// Stores the whole batch or nothing of it, and answers its callers.
    fn store_batch(&mut self, mut gathered: RequestBatch) {
        let refusals = self.shared.take_queued_refusals();
        if gathered.requests.is_empty() && refusals.is_empty() {
            return;
        }
        let started_at = now();
        let stored_bytes = self.count_stored_bytes(&gathered.contents);
        let space = gathered.bytes.saturating_sub(stored_bytes) as u64 * ROOM_PER_BYTE;
        let result = self.write_batch(&mut gathered.requests, refusals, space);
        let callers = self.shared.callers.load(Ordering::Relaxed);
        self.commit_pace.record_commit(now() - started_at, callers);
        match result {
            Ok(effects) => {
                for (sender, answer) in gathered.reply_senders.into_iter().zip(effects.answers) {
                    // Fails if the caller has gone away. It then needs no answer.
                    let _ = sender.send(answer);
                }
            }
            Err(error) => {
                if error.code() == Code::StoreLost {
                    tracing::error!(%error, "nothing more is stored");
                } else {
                    tracing::warn!(%error, "a batch could not be stored");
                }
                for sender in gathered.reply_senders {
                    let _ = sender.send(Err(error.clone()));
                }
            }
        }
    }

    fn write_batch(
        &mut self,
        requests: &mut [WriteRequest],
        refusals: Vec<RefusedCall>,
        space: u64,
    ) -> Result<BatchEffects> {
        let has_ample_space = match self.reserve_space(requests.len() + refusals.len(), space) {
            Ok(has_ample_space) => has_ample_space,
            Err(error) => {
                self.shared.requeue_refusals(refusals);
                return Err(error);
            }
        };
        let next_key = self.state.next_key;
        let result =
            catch_redb_panic(|| self.run_transaction(requests, &refusals, has_ample_space));
        match result {
            Ok(effects) => {
                self.shared.publish_heads(&effects);
                Ok(effects)
            }
            Err(error) => {
                // The durable state is known only after the database has been reopened, provided that it is still the
                // same file.
                let error = batch_failed_error(&self.shared.path, error);
                self.indeterminate = Some(IndeterminateBatch { refusals, next_key });
                self.shut_database(error.clone());
                self.reopen_after_failure();
                Err(error)
            }
        }
    }

    /// How many bytes of `contents` are stored already and need not be written; 0 if that cannot be read.
    fn count_stored_bytes(&self, contents: &HashMap<Digest, usize>) -> usize {
        if contents.is_empty() {
            return 0;
        }
        let bytes = self.shared.read(|read| batch::count_stored_bytes(read, contents));
        bytes.unwrap_or_default()
    }

    /// Reserves disk space for the data file. Returns false if hardly any is left.
    fn reserve_space(&self, requests: usize, bytes: u64) -> Result<bool> {
        let slot = self.shared.slot();
        let pages = requests as u64 * ROOM_PER_REQUEST_BYTES + ROOM_PER_COMMIT_BYTES;
        slot.open_database()?
            .data_file
            .reserve(bytes + pages + self.log.unfolded_bytes())
            .map_err(|error| store_unavailable_error(&self.shared.path, &error))
    }

    fn run_transaction(
        &mut self,
        requests: &mut [WriteRequest],
        refusals: &[RefusedCall],
        has_ample_space: bool,
    ) -> Result<BatchEffects> {
        let slot = self.shared.slot();
        let opened = slot.open_database()?;
        opened.data_file.check_names_and_length(&self.shared.path)?;
        let mut transaction = opened.database.begin_write().map_err(redb_error)?;
        transaction.set_durability(Durability::Immediate).map_err(redb_error)?;
        let mut changes = self.log.new_change_buffer();
        // A purge is committed to the data file, and the log, which may hold what was purged, is removed. So is an import.
        let may_use_log = has_ample_space && !requests.iter().any(WriteRequest::bypasses_log);
        let requests = requests.iter_mut();
        let effects =
            batch::apply_writes(&transaction, &mut self.state, requests, refusals, &mut changes)?;
        if effects.has_changes {
            // While disk space is scarce, the data file makes better use of it than a log.
            let is_logged = if may_use_log { self.log.append(changes) } else { Ok(false) };
            if is_logged.map_err(|error| store_unavailable_error(&self.shared.path, &error))? {
                // The batch is durable in the log. The data file gets it at the next fold, with everything else in the
                // log.
                transaction.set_durability(Durability::None).map_err(redb_error)?;
                transaction.commit().map_err(redb_error)?;
            } else {
                let next_log = if may_use_log { self.log.prepare_next_log() } else { None };
                checkpoint_log(transaction, &mut self.log, opened, next_log)?;
            }
            // If the file was removed during the commit, the batch was not stored: check before the callers are
            // answered.
            opened.data_file.check_names_and_length(&self.shared.path)?;
            self.shared.commits.fetch_add(1, Ordering::Relaxed);
        } else {
            transaction.abort().map_err(redb_error)?;
        }
        Ok(effects)
    }

    /// Reopens the database after a failure, unless that was tried just now.
    fn reopen_after_failure(&mut self) {
        if self.shared.has_read_failed() {
            let message = "a read failed, and the database has to be opened again";
            self.shut_database(Error::new(Code::StoreUnavailable, message));
        }
        if self.compute_reopen_delay().is_zero() && self.shared.slot().can_reopen() {
            self.reopen();
        }
    }

    /// How long to wait until the database may be reopened. The rate is limited because reopening may read the whole
    /// file.
    fn compute_reopen_delay(&self) -> Duration {
        self.last_reopen_at
            .map_or(Duration::ZERO, |at| limits::STORE_RETRY_EVERY.saturating_sub(now() - at))
    }

    /// Closes the database after a failed write or read, because redb refuses every further operation.
    fn shut_database(&self, error: Error) {
        let slot = self.shared.shut_database(error);
        // Closing a database that failed fails as well. The next opening repairs it.
        let _ = catch_redb_panic(|| {
            drop(slot);
            Ok(())
        });
    }

    fn reopen(&mut self) {
        match file::open(&self.shared.path, &self.lock, &self.shared.options) {
            Ok((opened, state)) => {
                self.shared.load_heads(&state);
                self.log =
                    RedoLog::new(&self.shared.path, &self.shared.options, state.unfolded_log_bytes);
                self.state = state;
                if let Some(indeterminate) = self.indeterminate.take()
                    && indeterminate.next_key == self.state.next_key
                {
                    self.shared.requeue_refusals(indeterminate.refusals);
                }
                *self.shared.slot_mut() = DatabaseSlot::Open(opened);
                self.shared.reopenings.fetch_add(1, Ordering::Relaxed);
                tracing::info!("the database is open again");
            }
            Err(error) => {
                tracing::warn!(%error, "the database cannot be opened again yet");
                *self.shared.slot_mut() = DatabaseSlot::Shut(error);
            }
        }
        self.last_reopen_at = Some(now());
    }

    fn close_database(mut self) {
        let slot = std::mem::replace(
            &mut *self.shared.slot_mut(),
            DatabaseSlot::Shut(store_closed_error()),
        );
        let result = match slot {
            DatabaseSlot::Open(opened) => catch_redb_panic(|| {
                if let Err(error) = opened.data_file.check_names_and_length(&self.shared.path) {
                    tracing::error!(%error, "the database is not where it was");
                    return Ok(());
                }
                if self.log.is_open() && opened.data_file.reserve(self.log.unfolded_bytes()).is_ok()
                {
                    let transaction = opened.database.begin_write().map_err(redb_error)?;
                    checkpoint_log(transaction, &mut self.log, &opened, None)?;
                }
                if let Err(error) = opened.data_file.release_reserved_space() {
                    tracing::warn!(%error, "room behind the database was not given back");
                }
                opened.database.close().map_err(redb_error)
            }),
            DatabaseSlot::Shut(_) => Ok(()),
        };
        if let Err(error) = &result {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
        drop(self.lock);
        if let Some(answer) = self.close_reply {
            let _ = answer.send(result);
        }
    }
}

/// Commits to the data file, together with all earlier commits that are only in the log. `next_log` is the log that follows
/// this commit, if any.
fn checkpoint_log(
    mut transaction: WriteTransaction,
    log: &mut RedoLog,
    opened: &OpenDatabase,
    next_log: Option<FollowingLog>,
) -> Result<()> {
    let bytes = opened.data_file.file_length();
    let bytes = bytes.map_err(|error| redb_error(redb::StorageError::Io(error)))?;
    if log.is_open() || next_log.is_some() {
        redo::record_following_log(&transaction, next_log)?;
    }
    // With quick repair, the file opens at once after a crash. This pays off for a large file, and for one that stays
    // unchanged while a log grows.
    transaction.set_quick_repair(next_log.is_some() || bytes >= limits::QUICK_REPAIR_FILE_BYTES);
    transaction.commit().map_err(redb_error)?;
    log.finish_fold(next_log);
    Ok(())
}

/// The duration of commits and the number of callers. They decide how long to wait for further requests.
#[derive(Debug, Default)]
struct CommitPace {
    /// The duration of a commit, smoothed over about eight commits.
    commit_duration: Duration,
    /// The callers that waited when the last commit ended. A caller that was answered often calls again soon.
    callers: usize,
}

impl CommitPace {
    /// How long to wait for further callers; `None` if commits are fast or there is only one caller.
    fn compute_caller_wait(&self) -> Option<Duration> {
        let is_slow = self.commit_duration >= limits::ADAPTIVE_WAIT_COMMIT_MIN && self.callers > 1;
        is_slow.then(|| (self.commit_duration / 4).min(limits::ADAPTIVE_WAIT_MAX))
    }

    fn record_commit(&mut self, duration: Duration, callers: usize) {
        self.commit_duration = if self.commit_duration.is_zero() {
            duration
        } else {
            (self.commit_duration * 7 + duration) / 8
        };
        self.callers = callers;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the writer times its own commits; nothing that is stored depends on it"
)]
fn now() -> Instant {
    Instant::now()
}
