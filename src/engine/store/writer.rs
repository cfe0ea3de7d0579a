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
    batch::{self, BatchEffects, Ledger, WriteRequest},
    fault::{batch_failed, catch_redb_panic, redb_error, store_unavailable_error},
    file,
    lock::Lock,
    redo::{self, FollowingLog, RedoLog},
    shared::{DatabaseSlot, OpenDatabase, Shared},
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
    Request(Request),
    /// Refusals are queued, and are to be written.
    Refused,
    /// A reader needs the refusals noted so far. The writer drops the sender once they are written, or could not be.
    Reading(oneshot::Sender<()>),
    /// A read has failed, so the database must be reopened.
    ReadFailed,
    /// Store the requests accepted so far, close the database, and answer.
    Close(oneshot::Sender<Result<()>>),
}

/// A request to store something.
#[derive(Debug)]
pub(super) struct Request {
    /// What to store.
    pub(super) work: WriteRequest,
    /// Receives the answer.
    pub(super) answer: oneshot::Sender<Result<Sequence>>,
    /// The permit of the bounded queue, released once the writer has taken the request.
    pub(super) room: OwnedSemaphorePermit,
}

/// The write side of the store. It runs on the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Held while the database is open, and while it is shut by a failure, so that no other process takes the
    /// directory.
    lock: Arc<Lock>,
    queue: Receiver<WriterMessage>,
    ledger: Ledger,
    log: RedoLog,
    pace: CommitPace,
    closing: Option<oneshot::Sender<Result<()>>>,
    /// When the database was last reopened, or the attempt to reopen it last failed.
    reopened: Option<Instant>,
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
struct GatheredBatch {
    works: Vec<WriteRequest>,
    answers: Vec<oneshot::Sender<Result<Sequence>>>,
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
        shared: Arc<Shared>,
        lock: Arc<Lock>,
        queue: Receiver<WriterMessage>,
        ledger: Ledger,
    ) -> Self {
        Self {
            log: RedoLog::new(&shared.path, &shared.options, ledger.unfolded),
            shared,
            lock,
            queue,
            ledger,
            pace: CommitPace::default(),
            closing: None,
            reopened: None,
            indeterminate: None,
        }
    }

    /// Runs until it receives [`WriterMessage::Close`] or all senders are gone, and then closes the database.
    pub(super) fn run(mut self) {
        while let Some(first) = self.wait_for_message() {
            let mut gathered = GatheredBatch::default();
            self.take_message(first, &mut gathered);
            self.gather(&mut gathered);
            self.reopen_after_failure();
            self.store(gathered);
        }
        self.reopen_after_failure();
        self.store(GatheredBatch::default());
        self.close_database();
    }

    /// The next message. While it waits, it reopens a database that was shut by a failure, or folds an idle redo log
    /// into the data file.
    fn wait_for_message(&mut self) -> Option<WriterMessage> {
        if self.closing.is_some() {
            return self.queue.try_recv().ok();
        }
        loop {
            let is_shut = self.shared.slot().may_open();
            let patience = match is_shut {
                true => self.wait_before_reopening(),
                false if self.log.is_open() => self.shared.options.redo_idle,
                false => return self.queue.recv().ok(),
            };
            match self.queue.recv_timeout(patience) {
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
        if let Err(error) = self.make_room(0, 0) {
            tracing::debug!(%error, "the redo log stays");
            return;
        }
        let settled = catch_redb_panic(|| {
            let slot = self.shared.slot();
            let opened = slot.open_database()?;
            opened.disk.check_names_and_length(&self.shared.path)?;
            let transaction = opened.database.begin_write().map_err(redb_error)?;
            fold(transaction, &mut self.log, opened, None)
        });
        if let Err(error) = settled {
            let error = batch_failed(&self.shared.path, error);
            tracing::warn!(%error, "the redo log could not be put into the database");
            self.shut_database(error);
        }
    }

    fn take_message(&mut self, message: WriterMessage, gathered: &mut GatheredBatch) {
        match message {
            WriterMessage::Request(request) => {
                gathered.bytes += request.work.encoded_bytes();
                for (digest, content) in request.work.contents() {
                    if gathered.contents.insert(*digest, content.len()).is_none() {
                        gathered.bytes += content.len();
                    }
                }
                gathered.works.push(request.work);
                gathered.answers.push(request.answer);
                drop(request.room);
            }
            WriterMessage::Refused | WriterMessage::ReadFailed => {}
            WriterMessage::Reading(reader) => gathered.readers.push(reader),
            WriterMessage::Close(answer) => self.closing = Some(answer),
        }
    }

    /// Takes the queued messages. If commits are slow, also waits for callers that are expected to send soon.
    fn gather(&mut self, gathered: &mut GatheredBatch) {
        self.drain(gathered);
        let Some(patience) = self.pace.wait_for_callers().filter(|_| !gathered.works.is_empty())
        else {
            return;
        };
        let deadline = now() + patience;
        while gathered.works.len() < self.pace.callers && self.has_room(gathered) {
            let left = deadline.saturating_duration_since(now());
            match self.queue.recv_timeout(left) {
                Ok(message) => self.take_message(message, gathered),
                Err(_) => break,
            }
        }
        self.drain(gathered);
    }

    fn drain(&mut self, gathered: &mut GatheredBatch) {
        while self.has_room(gathered)
            && let Ok(message) = self.queue.try_recv()
        {
            self.take_message(message, gathered);
        }
    }

    fn has_room(&self, gathered: &GatheredBatch) -> bool {
        gathered.works.len() < self.shared.options.batch_max
            && gathered.bytes < limits::BATCH_BYTES_MAX
    }

    /// Stores the whole batch or nothing of it, and answers its callers.
    fn store(&mut self, mut gathered: GatheredBatch) {
        let refusals = self.shared.take_queued_refusals();
        if gathered.works.is_empty() && refusals.is_empty() {
            return;
        }
        let began = now();
        let stored = self.stored_bytes(&gathered.contents);
        let room = gathered.bytes.saturating_sub(stored) as u64 * ROOM_PER_BYTE;
        let done = self.write(&mut gathered.works, refusals, room);
        let callers = self.shared.callers.load(Ordering::Relaxed);
        self.pace.record_commit(now() - began, callers);
        match done {
            Ok(effects) => {
                for (to, answer) in gathered.answers.into_iter().zip(effects.answers) {
                    // Fails if the caller has gone away. It then needs no answer.
                    let _ = to.send(answer);
                }
            }
            Err(error) => {
                if error.code() == Code::StoreLost {
                    tracing::error!(%error, "nothing more is stored");
                } else {
                    tracing::warn!(%error, "a batch could not be stored");
                }
                for to in gathered.answers {
                    let _ = to.send(Err(error.clone()));
                }
            }
        }
    }

    fn write(
        &mut self,
        works: &mut [WriteRequest],
        refusals: Vec<RefusedCall>,
        room: u64,
    ) -> Result<BatchEffects> {
        let is_ample = match self.make_room(works.len() + refusals.len(), room) {
            Ok(is_ample) => is_ample,
            Err(error) => {
                self.shared.requeue_refusals(refusals);
                return Err(error);
            }
        };
        let next_key = self.ledger.next_key;
        let done = catch_redb_panic(|| self.transact(works, &refusals, is_ample));
        match done {
            Ok(effects) => {
                self.shared.publish_heads(&effects);
                Ok(effects)
            }
            Err(error) => {
                // The durable state is known only after the database has been reopened, provided that it is still the
                // same file.
                let error = batch_failed(&self.shared.path, error);
                self.indeterminate = Some(IndeterminateBatch { refusals, next_key });
                self.shut_database(error.clone());
                self.reopen_after_failure();
                Err(error)
            }
        }
    }

    /// How many bytes of `contents` are stored already and need not be written; 0 if that cannot be read.
    fn stored_bytes(&self, contents: &HashMap<Digest, usize>) -> usize {
        if contents.is_empty() {
            return 0;
        }
        let stored = self.shared.read(|read| batch::stored_bytes(read, contents));
        stored.unwrap_or_default()
    }

    /// Reserves disk space for the data file. Returns false if hardly any is left.
    fn make_room(&self, requests: usize, bytes: u64) -> Result<bool> {
        let slot = self.shared.slot();
        let pages = requests as u64 * ROOM_PER_REQUEST_BYTES + ROOM_PER_COMMIT_BYTES;
        slot.open_database()?
            .disk
            .reserve(bytes + pages + self.log.unfolded())
            .map_err(|error| store_unavailable_error(&self.shared.path, &error))
    }

    fn transact(
        &mut self,
        works: &mut [WriteRequest],
        refusals: &[RefusedCall],
        is_ample: bool,
    ) -> Result<BatchEffects> {
        let slot = self.shared.slot();
        let opened = slot.open_database()?;
        opened.disk.check_names_and_length(&self.shared.path)?;
        let mut transaction = opened.database.begin_write().map_err(redb_error)?;
        transaction.set_durability(Durability::Immediate).map_err(redb_error)?;
        let mut changes = self.log.changes();
        let works = works.iter_mut();
        let effects =
            batch::apply_writes(&transaction, &mut self.ledger, works, refusals, &mut changes)?;
        if effects.changed {
            // While disk space is scarce, the data file makes better use of it than a log.
            let logged = if is_ample { self.log.append(changes) } else { Ok(false) };
            if logged.map_err(|error| store_unavailable_error(&self.shared.path, &error))? {
                // The batch is durable in the log. The data file gets it at the next fold, with everything else in the
                // log.
                transaction.set_durability(Durability::None).map_err(redb_error)?;
                transaction.commit().map_err(redb_error)?;
            } else {
                let next = if is_ample { self.log.prepare_next_log() } else { None };
                fold(transaction, &mut self.log, opened, next)?;
            }
            // If the file was removed during the commit, the batch was not stored: check before the callers are
            // answered.
            opened.disk.check_names_and_length(&self.shared.path)?;
            self.shared.commits.fetch_add(1, Ordering::Relaxed);
        } else {
            transaction.abort().map_err(redb_error)?;
        }
        Ok(effects)
    }

    /// Reopens the database after a failure, unless that was tried just now.
    fn reopen_after_failure(&mut self) {
        if self.shared.read_failed() {
            let message = "a read failed, and the database has to be opened again";
            self.shut_database(Error::new(Code::StoreUnavailable, message));
        }
        if self.wait_before_reopening().is_zero() && self.shared.slot().may_open() {
            self.reopen();
        }
    }

    /// How long to wait until the database may be reopened. The rate is limited because reopening may read the whole
    /// file.
    fn wait_before_reopening(&self) -> Duration {
        self.reopened
            .map_or(Duration::ZERO, |at| limits::STORE_RETRY_EVERY.saturating_sub(now() - at))
    }

    /// Closes the database after a failed write or read, because redb refuses every further operation.
    fn shut_database(&self, error: Error) {
        let shut = self.shared.shut_database(error);
        // Closing a database that failed fails as well. The next opening repairs it.
        let _ = catch_redb_panic(|| {
            drop(shut);
            Ok(())
        });
    }

    fn reopen(&mut self) {
        match file::open(&self.shared.path, &self.lock, &self.shared.options) {
            Ok((opened, ledger)) => {
                self.shared.load_heads(&ledger);
                self.log = RedoLog::new(&self.shared.path, &self.shared.options, ledger.unfolded);
                self.ledger = ledger;
                if let Some(indeterminate) = self.indeterminate.take()
                    && indeterminate.next_key == self.ledger.next_key
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
        self.reopened = Some(now());
    }

    fn close_database(mut self) {
        let slot = std::mem::replace(
            &mut *self.shared.slot_mut(),
            DatabaseSlot::Shut(store_closed_error()),
        );
        let done = match slot {
            DatabaseSlot::Open(opened) => catch_redb_panic(|| {
                if let Err(error) = opened.disk.check_names_and_length(&self.shared.path) {
                    tracing::error!(%error, "the database is not where it was");
                    return Ok(());
                }
                if self.log.is_open() && opened.disk.reserve(self.log.unfolded()).is_ok() {
                    let transaction = opened.database.begin_write().map_err(redb_error)?;
                    fold(transaction, &mut self.log, &opened, None)?;
                }
                if let Err(error) = opened.disk.release_reserved_space() {
                    tracing::warn!(%error, "room behind the database was not given back");
                }
                opened.database.close().map_err(redb_error)
            }),
            DatabaseSlot::Shut(_) => Ok(()),
        };
        if let Err(error) = &done {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
        drop(self.lock);
        if let Some(answer) = self.closing {
            let _ = answer.send(done);
        }
    }
}

/// Commits to the data file, together with all earlier commits that are only in the log. `next` is the log that follows
/// this commit, if any.
fn fold(
    mut transaction: WriteTransaction,
    log: &mut RedoLog,
    opened: &OpenDatabase,
    next: Option<FollowingLog>,
) -> Result<()> {
    let bytes = opened.disk.file_length();
    let bytes = bytes.map_err(|error| redb_error(redb::StorageError::Io(error)))?;
    if log.is_open() || next.is_some() {
        redo::record_following_log(&transaction, next)?;
    }
    // With quick repair, the file opens at once after a crash. This pays off for a large file, and for one that stays
    // unchanged while a log grows.
    transaction.set_quick_repair(next.is_some() || bytes >= limits::QUICK_REPAIR_FILE_BYTES);
    transaction.commit().map_err(redb_error)?;
    log.finish_fold(next);
    Ok(())
}

/// The duration of commits and the number of callers. They decide how long to wait for further requests.
#[derive(Debug, Default)]
struct CommitPace {
    /// The duration of a commit, smoothed over about eight commits.
    commit: Duration,
    /// The callers that waited when the last commit ended. A caller that was answered often calls again soon.
    callers: usize,
}

impl CommitPace {
    /// How long to wait for further callers; `None` if commits are fast or there is only one caller.
    fn wait_for_callers(&self) -> Option<Duration> {
        let slow = self.commit >= limits::ADAPTIVE_WAIT_COMMIT_MIN && self.callers > 1;
        slow.then(|| (self.commit / 4).min(limits::ADAPTIVE_WAIT_MAX))
    }

    fn record_commit(&mut self, took: Duration, callers: usize) {
        self.commit = if self.commit.is_zero() { took } else { (self.commit * 7 + took) / 8 };
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
