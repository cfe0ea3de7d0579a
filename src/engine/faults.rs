//! Executions whose actors keep dying before they have a state.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use midex_domain::{ExecutionId, limits};

/// How often the actors of an execution died in a row. Past [`limits::WAKE_FAILURES_MAX`] it counts as paused, with
/// the reason `engine_fault`, until a resume forgives it; so it does again in a new process.
#[derive(Default)]
pub(super) struct Faults(Mutex<HashMap<ExecutionId, u32>>);

impl Faults {
    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub(super) fn add(&self, id: &ExecutionId) {
        *self.lock().entry(id.clone()).or_default() += 1;
    }

    /// Whether it is not to be woken again.
    pub(super) fn is_faulted(&self, id: &ExecutionId) -> bool {
        self.lock()
            .get(id)
            .is_some_and(|count| *count >= limits::WAKE_FAILURES_MAX)
    }

    /// It was woken: what was before does not count.
    pub(super) fn forget(&self, id: &ExecutionId) {
        self.lock().remove(id);
    }

    /// Whether it was faulted; it is no longer.
    pub(super) fn forgive(&self, id: &ExecutionId) -> bool {
        let faulted = self.is_faulted(id);
        if faulted {
            self.forget(id);
        }
        faulted
    }
}
