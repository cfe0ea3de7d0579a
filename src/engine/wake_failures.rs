//! Executions whose actors keep dying before they publish a state.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use midex_domain::{ExecutionId, limits};

/// How often in a row the actor of an execution died while it was woken. From [`limits::WAKE_FAILURES_MAX`] on, the
/// execution counts as paused with the reason `engine_fault`, until a resume resets the count. A new process also
/// starts at zero.
#[derive(Default)]
pub(super) struct WakeFailures(Mutex<HashMap<ExecutionId, u32>>);

impl WakeFailures {
    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more failed wake.
    pub(super) fn count_failure(&self, id: &ExecutionId) {
        *self.lock().entry(id.clone()).or_default() += 1;
    }

    /// Whether the execution must not be woken again.
    pub(super) fn is_faulted(&self, id: &ExecutionId) -> bool {
        self.lock().get(id).is_some_and(|count| *count >= limits::WAKE_FAILURES_MAX)
    }

    /// The execution was woken: resets the count of its failures.
    pub(super) fn reset(&self, id: &ExecutionId) {
        self.lock().remove(id);
    }

    /// Resets the count of an execution that must not be woken. Returns whether it was one.
    pub(super) fn reset_if_faulted(&self, id: &ExecutionId) -> bool {
        let faulted = self.is_faulted(id);
        if faulted {
            self.reset(id);
        }
        faulted
    }
}
