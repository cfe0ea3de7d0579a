//! The state that the writer shares with the readers.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use redb::{Database, ReadTransaction, ReadableDatabase};

use super::{
    RefusedCall,
    backend::DataFile,
    batch::{BatchEffects, WriterState},
    fault::{catch_redb_panic, redb_error},
    options::Options,
};
use midex_domain::{
    ExecutionId,
    error::{Code, Error, Result},
    limits,
};

/// The state that the writer shares with the readers.
#[derive(Debug)]
pub(super) struct SharedStore {
    pub(super) path: PathBuf,
    pub(super) options: Options,
    slot: RwLock<DatabaseSlot>,
    /// The last row of each execution that is ahead of its snapshot, as of the last commit.
    heads: Mutex<HashMap<ExecutionId, u64>>,
    refusals: Mutex<VecDeque<RefusedCall>>,
    /// Whether the writer has been notified of the queued refusals.
    is_writer_notified: AtomicBool,
    /// Whether a read of the open database has failed. redb refuses every operation from then on.
    has_read_failed: AtomicBool,
    /// Whether the writer has been notified of the failed read.
    is_failure_reported: AtomicBool,
    /// Callers whose transition is being encoded, is queued, or is being written.
    pub(super) callers: AtomicUsize,
    pub(super) commits: AtomicU64,
    pub(super) transitions: AtomicU64,
    pub(super) snapshots: AtomicU64,
    pub(super) reopenings: AtomicU64,
}

/// An open database and its file.
#[derive(Debug)]
pub(super) struct OpenDatabase {
    pub(super) database: Database,
    pub(super) data_file: Arc<DataFile>,
}

/// The database, or the error of every call while it is shut.
#[derive(Debug)]
pub(super) enum DatabaseSlot {
    /// The database is open.
    Open(OpenDatabase),
    /// The database was shut by a failure, or is closed for good.
    Shut(Error),
}

impl SharedStore {
    /// The shared state of a database that was just opened.
    pub(super) fn new(
        path: PathBuf,
        options: Options,
        opened: OpenDatabase,
        state: &WriterState,
    ) -> Self {
        let shared = Self {
            path,
            options,
            slot: RwLock::new(DatabaseSlot::Open(opened)),
            heads: Mutex::default(),
            refusals: Mutex::default(),
            is_writer_notified: AtomicBool::new(false),
            has_read_failed: AtomicBool::new(false),
            is_failure_reported: AtomicBool::new(false),
            callers: AtomicUsize::new(0),
            commits: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            reopenings: AtomicU64::new(0),
        };
        shared.load_heads(state);
        shared
    }

    /// Calls `read` with a read transaction, which ends when `read` returns.
    pub(super) fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T>) -> Result<T> {
        let slot = self.slot();
        let opened = slot.open_database()?;
        let result = catch_redb_panic(|| read(&opened.database.begin_read().map_err(redb_error)?));
        result.map_err(|error| match error.code() {
            Code::StoreCorrupt | Code::StoreTooNew | Code::StoreFormat => {
                error.with_context("path", self.path.display().to_string())
            }
            Code::StoreUnavailable => {
                self.has_read_failed.store(true, Ordering::Release);
                error
            }
            _ => error,
        })
    }

    /// A read transaction of the open database that the caller keeps. It ends with an error at its next read if the database
    /// is shut meanwhile, so it does not delay that.
    pub(super) fn begin_kept_read(&self) -> Result<ReadTransaction> {
        self.slot().open_database()?.database.begin_read().map_err(redb_error)
    }

    /// Whether the database is open, and was not opened again since there were this many `reopenings`.
    pub(super) fn is_open_since(&self, reopenings: u64) -> bool {
        matches!(*self.slot(), DatabaseSlot::Open(_))
            && self.reopenings.load(Ordering::Relaxed) == reopenings
    }

    /// Whether a read has failed and the caller must notify the writer. True once, however many reads fail.
    pub(super) fn must_report_failed_read(&self) -> bool {
        self.has_read_failed.load(Ordering::Acquire)
            && !self.is_failure_reported.swap(true, Ordering::AcqRel)
    }

    /// Shuts the database, which must then be reopened, and returns the previous slot. No read is running at that
    /// moment.
    pub(super) fn shut_database(&self, error: Error) -> DatabaseSlot {
        let mut slot = self.slot_mut();
        self.has_read_failed.store(false, Ordering::Release);
        self.is_failure_reported.store(false, Ordering::Release);
        std::mem::replace(&mut *slot, DatabaseSlot::Shut(error))
    }

    /// Whether a read of the open database has failed, so that it is of no further use.
    pub(super) fn has_read_failed(&self) -> bool {
        self.has_read_failed.load(Ordering::Acquire)
    }

    /// The last row of an execution that is ahead of its snapshot. Must be called before a read transaction begins: a
    /// transaction that begins later sees at least this row.
    pub(super) fn uncovered_head(&self, id: &ExecutionId) -> Option<u64> {
        self.lock_heads().get(id).copied()
    }

    /// The heads of several executions, in their order and all as of one moment.
    pub(super) fn uncovered_heads<'a>(
        &self,
        ids: impl Iterator<Item = &'a ExecutionId>,
    ) -> Vec<Option<u64>> {
        let heads = self.lock_heads();
        ids.map(|id| heads.get(id).copied()).collect()
    }

    /// Queues a refusal, if there is room. Returns whether the writer must be notified.
    pub(super) fn queue_refusal(&self, refusal: RefusedCall) -> bool {
        let mut refusals = self.lock_refusals();
        if refusals.len() < limits::REFUSALS_QUEUED_MAX {
            refusals.push_back(refusal);
        }
        !self.is_writer_notified.swap(true, Ordering::AcqRel)
    }

    pub(super) fn take_queued_refusals(&self) -> Vec<RefusedCall> {
        let mut refusals = self.lock_refusals();
        self.is_writer_notified.store(false, Ordering::Release);
        refusals.drain(..).collect()
    }

    /// Updates the heads after a commit. Runs before the callers get their answers, so readers see the new rows by
    /// then.
    pub(super) fn publish_heads(&self, effects: &BatchEffects) {
        let mut heads = self.lock_heads();
        for (id, head) in &effects.heads {
            match head {
                Some(last) => heads.insert(id.clone(), *last),
                None => heads.remove(id),
            };
        }
        self.transitions.fetch_add(effects.transitions, Ordering::Relaxed);
        self.snapshots.fetch_add(effects.snapshots, Ordering::Relaxed);
    }

    /// Queues the refusals of a batch that was not stored again, for the next batch.
    pub(super) fn requeue_refusals(&self, refusals: Vec<RefusedCall>) {
        let mut queue = self.lock_refusals();
        for refusal in refusals.into_iter().rev() {
            if queue.len() < limits::REFUSALS_QUEUED_MAX {
                queue.push_front(refusal);
            }
        }
    }

    pub(super) fn load_heads(&self, state: &WriterState) {
        let heads = state.heads.iter();
        *self.lock_heads() = heads.map(|(id, head)| (id.clone(), head.last_key)).collect();
    }

    pub(super) fn slot(&self) -> RwLockReadGuard<'_, DatabaseSlot> {
        self.slot.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slot_mut(&self) -> RwLockWriteGuard<'_, DatabaseSlot> {
        self.slot.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_heads(&self) -> MutexGuard<'_, HashMap<ExecutionId, u64>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_refusals(&self) -> MutexGuard<'_, VecDeque<RefusedCall>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DatabaseSlot {
    /// Whether the database is shut and reopening may help. Reopening does not help against damage, another format, or
    /// a lost file.
    pub(super) fn can_reopen(&self) -> bool {
        match self {
            Self::Open(_) => false,
            Self::Shut(error) => !matches!(
                error.code(),
                Code::StoreCorrupt | Code::StoreTooNew | Code::StoreFormat | Code::StoreLost
            ),
        }
    }

    pub(super) fn open_database(&self) -> Result<&OpenDatabase> {
        match self {
            Self::Open(opened) => Ok(opened),
            Self::Shut(error) => Err(error.clone()),
        }
    }
}
