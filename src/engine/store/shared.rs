//! What the writer and its readers share.

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
    Refusal,
    backend::Disk,
    batch::{Effects, Ledger},
    fault::{fault, guarded},
    options::Options,
};
use midex_domain::{
    ExecutionId,
    error::{Code, Error, Result},
    limits,
};

/// What the writer and its readers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) options: Options,
    slot: RwLock<Slot>,
    /// The last row of each execution that is ahead of its snapshot, as of the last commit.
    heads: Mutex<HashMap<ExecutionId, u64>>,
    refusals: Mutex<VecDeque<Refusal>>,
    /// Whether the writer has been told of them.
    told: AtomicBool,
    /// Whether a read of the open database has failed. redb refuses everything from then on.
    read_failed: AtomicBool,
    /// Whether the writer has been told of it.
    read_told: AtomicBool,
    /// Callers whose transition is being encoded, waits or is being written.
    pub(super) callers: AtomicUsize,
    pub(super) commits: AtomicU64,
    pub(super) transitions: AtomicU64,
    pub(super) snapshots: AtomicU64,
    pub(super) reopenings: AtomicU64,
}

/// An open database and its file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) disk: Arc<Disk>,
}

/// The database, while it is open.
#[derive(Debug)]
pub(super) enum Slot {
    /// Open.
    Open(Opened),
    /// Closed by a failure, or for good.
    Shut(Error),
}

impl Shared {
    /// What there is to share once the file is open.
    pub(super) fn new(path: PathBuf, options: Options, opened: Opened, ledger: &Ledger) -> Self {
        let shared = Self {
            path,
            options,
            slot: RwLock::new(Slot::Open(opened)),
            heads: Mutex::default(),
            refusals: Mutex::default(),
            told: AtomicBool::new(false),
            read_failed: AtomicBool::new(false),
            read_told: AtomicBool::new(false),
            callers: AtomicUsize::new(0),
            commits: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            reopenings: AtomicU64::new(0),
        };
        shared.take_heads(ledger);
        shared
    }

    /// Reads in one transaction, which ends with `read`.
    pub(super) fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T>) -> Result<T> {
        let slot = self.slot();
        let opened = slot.opened()?;
        let done = guarded(|| read(&opened.database.begin_read().map_err(fault)?));
        done.map_err(|error| match error.code() {
            Code::StoreCorrupt | Code::StoreTooNew | Code::StoreFormat => self.place(error),
            Code::StoreUnavailable => {
                self.read_failed.store(true, Ordering::Release);
                error
            }
            _ => error,
        })
    }

    /// Whether a read has failed and the writer is still to be told: once, however many fail.
    pub(super) fn must_tell_of_read(&self) -> bool {
        self.read_failed.load(Ordering::Acquire) && !self.read_told.swap(true, Ordering::AcqRel)
    }

    /// Shuts the database, which must be opened again; what it was is returned. No read is under way then.
    pub(super) fn shut(&self, error: Error) -> Slot {
        let mut slot = self.slot_mut();
        self.read_failed.store(false, Ordering::Release);
        self.read_told.store(false, Ordering::Release);
        std::mem::replace(&mut *slot, Slot::Shut(error))
    }

    /// Whether the database is open, and of no use any more.
    pub(super) fn read_failed(&self) -> bool {
        self.read_failed.load(Ordering::Acquire)
    }

    /// The last row of an execution that is ahead of its snapshot. Ask before a read begins: a
    /// transaction that begins later shows at least this row.
    pub(super) fn head(&self, id: &ExecutionId) -> Option<u64> {
        self.heads().get(id).copied()
    }

    /// The same for several executions, in their order, all as of one moment.
    pub(super) fn heads_of<'a>(
        &self,
        ids: impl Iterator<Item = &'a ExecutionId>,
    ) -> Vec<Option<u64>> {
        let heads = self.heads();
        ids.map(|id| heads.get(id).copied()).collect()
    }

    /// Takes a refusal in, where there is room; answers whether the writer must be told.
    pub(super) fn note(&self, refusal: Refusal) -> bool {
        let mut refusals = self.refusals();
        if refusals.len() < limits::REFUSALS_QUEUED_MAX {
            refusals.push_back(refusal);
        }
        !self.told.swap(true, Ordering::AcqRel)
    }

    pub(super) fn take_refusals(&self) -> Vec<Refusal> {
        let mut refusals = self.refusals();
        self.told.store(false, Ordering::Release);
        refusals.drain(..).collect()
    }

    fn place(&self, error: Error) -> Error {
        error.with("path", self.path.display().to_string())
    }

    /// Readers see the new heads before any caller has its answer.
    pub(super) fn publish(&self, effects: &Effects) {
        let mut heads = self.heads();
        for (id, head) in &effects.heads {
            match head {
                Some(last) => heads.insert(id.clone(), *last),
                None => heads.remove(id),
            };
        }
        self.transitions
            .fetch_add(effects.transitions, Ordering::Relaxed);
        self.snapshots
            .fetch_add(effects.snapshots, Ordering::Relaxed);
    }

    /// Refusals whose batch was not stored wait for the next.
    pub(super) fn put_back(&self, refusals: Vec<Refusal>) {
        let mut waiting = self.refusals();
        for refusal in refusals.into_iter().rev() {
            if waiting.len() < limits::REFUSALS_QUEUED_MAX {
                waiting.push_front(refusal);
            }
        }
    }

    pub(super) fn take_heads(&self, ledger: &Ledger) {
        let heads = ledger.heads.iter();
        *self.heads() = heads.map(|(id, head)| (id.clone(), head.last)).collect();
    }

    pub(super) fn slot(&self) -> RwLockReadGuard<'_, Slot> {
        self.slot.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slot_mut(&self) -> RwLockWriteGuard<'_, Slot> {
        self.slot.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn heads(&self) -> MutexGuard<'_, HashMap<ExecutionId, u64>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refusals(&self) -> MutexGuard<'_, VecDeque<Refusal>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Whether it is shut, and trying again may help: damage does not go away.
    pub(super) fn may_open(&self) -> bool {
        match self {
            Self::Open(_) => false,
            Self::Shut(error) => !matches!(
                error.code(),
                Code::StoreCorrupt | Code::StoreTooNew | Code::StoreFormat | Code::StoreLost
            ),
        }
    }

    pub(super) fn opened(&self) -> Result<&Opened> {
        match self {
            Self::Open(opened) => Ok(opened),
            Self::Shut(error) => Err(error.clone()),
        }
    }
}
