//! Back-pressure for one client. It may have a limited number of calls in progress or with unread replies, and a
//! limited number of bytes in them. Beyond that, its next call is not read. Calls are never refused for this, and other
//! clients are not slowed down.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::RequestId;
use tokio::sync::Notify;

use midex_domain::limits;

/// The outstanding calls and replies of one client.
#[derive(Debug, Default)]
pub(super) struct CallLimiter {
    state: Mutex<CallLimiterState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct CallLimiterState {
    /// Calls without an answer. Their ids are in use.
    calls: HashMap<RequestId, OutstandingCall>,
    /// The number of queued lines that the client has not read.
    unsent_lines: usize,
    /// The bytes of the outstanding calls and of the queued lines together.
    bytes: usize,
    /// The number of writes so far, to detect whether a client at its limit still reads.
    writes: u64,
}

/// A call that is not answered yet.
#[derive(Debug)]
struct OutstandingCall {
    bytes: usize,
    /// The call has no end of its own: it is answered only when the client cancels it or the process shuts down.
    is_open_ended: bool,
    is_cancelled: bool,
    is_finished: bool,
}

/// Travels with a call into its handler. When the last copy is dropped, the handler has finished.
#[derive(Clone, Debug)]
pub(super) struct HandlerGuard {
    _last: Arc<FinishCallOnDrop>,
}

#[derive(Debug)]
struct FinishCallOnDrop {
    gate: Arc<CallLimiter>,
    id: RequestId,
}

impl Drop for FinishCallOnDrop {
    fn drop(&mut self) {
        self.gate.finish_call(&self.id);
    }
}

impl CallLimiterState {
    fn forget_call(&mut self, id: &RequestId) {
        if let Some(call) = self.calls.remove(id) {
            self.bytes -= call.bytes;
        }
    }
}

impl CallLimiter {
    fn lock_state(&self) -> MutexGuard<'_, CallLimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_state<T>(&self, change: impl FnOnce(&mut CallLimiterState) -> T) -> T {
        let result = change(&mut self.lock_state());
        self.changed.notify_waiters();
        result
    }

    /// Registers a call of `bytes` bytes. Checks no limit: the reader waits for [`Self::wait_until_readable`] before it
    /// reads the next call. Returns a guard that is held while the call is handled, or `None` if a call
    /// with this id is outstanding. A call that `is_open_ended` is not waited for at the end of input.
    pub(super) fn register_call(
        self: &Arc<Self>,
        id: RequestId,
        bytes: usize,
        is_open_ended: bool,
    ) -> Option<HandlerGuard> {
        let mut state = self.lock_state();
        if state.calls.contains_key(&id) {
            return None;
        }
        state.bytes += bytes;
        let call =
            OutstandingCall { bytes, is_open_ended, is_cancelled: false, is_finished: false };
        state.calls.insert(id.clone(), call);
        let gate = self.clone();
        Some(HandlerGuard { _last: Arc::new(FinishCallOnDrop { gate, id }) })
    }

    fn finish_call(&self, id: &RequestId) {
        self.update_state(|inner| match inner.calls.get_mut(id) {
            Some(call) if call.is_cancelled => inner.forget_call(id),
            Some(call) => call.is_finished = true,
            None => {}
        });
    }

    /// The client cancelled the call, so there will be no answer. The call counts until its handler has finished.
    pub(super) fn cancel_call(&self, id: &RequestId) {
        self.update_state(|inner| match inner.calls.get_mut(id) {
            Some(call) if !call.is_finished => call.is_cancelled = true,
            Some(_) => inner.forget_call(id),
            None => {}
        });
    }

    /// Registers a queued line of `bytes` bytes. If it answers a call, the id of that call is free from here on, since
    /// the client may use it again as soon as it has the answer.
    pub(super) fn record_queued_line(&self, bytes: usize, answered_call: Option<&RequestId>) {
        let mut state = self.lock_state();
        state.bytes += bytes;
        state.unsent_lines += 1;
        if let Some(id) = answered_call {
            state.forget_call(id);
        }
    }

    /// Registers that `lines` lines with `bytes` bytes were written.
    pub(super) fn count_written_lines(&self, bytes: usize, lines: usize) {
        self.update_state(|inner| {
            inner.bytes -= bytes;
            inner.unsent_lines -= lines;
            inner.writes += 1;
        });
    }

    /// Waits until the next call may be read. False if the client has read nothing for too long.
    pub(super) async fn wait_until_readable(&self) -> bool {
        let can_read = |inner: &CallLimiterState| {
            inner.calls.len() + inner.unsent_lines < limits::CLIENT_CALLS_MAX
                && inner.bytes < limits::CLIENT_UNSENT_BYTES_MAX
        };
        loop {
            let writes = self.lock_state().writes;
            if tokio::time::timeout(limits::CLIENT_STALL_MAX, self.wait_until(can_read))
                .await
                .is_ok()
            {
                return true;
            }
            if self.lock_state().writes == writes {
                return false;
            }
        }
    }

    /// Waits until all calls that end have been answered and the answers are written.
    pub(super) async fn wait_until_idle(&self) {
        let is_settled = |call: &OutstandingCall| call.is_finished || !call.is_open_ended;
        self.wait_until(|inner| inner.unsent_lines == 0 && !inner.calls.values().any(is_settled))
            .await;
    }

    async fn wait_until(&self, condition: impl Fn(&CallLimiterState) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register before checking the condition, so that no change in between is missed.
            changed.as_mut().enable();
            if condition(&self.lock_state()) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    fn outstanding_calls_and_lines(gate: &CallLimiter) -> (usize, usize) {
        let inner = gate.lock_state();
        (inner.calls.len() + inner.unsent_lines, inner.bytes)
    }

    #[test]
    fn cancelled_call_still_counts() {
        let gate = Arc::new(CallLimiter::default());
        let working = gate.register_call(request_id(1), 10, false).expect("a new id");
        assert!(gate.register_call(request_id(1), 10, false).is_none(), "an id that is in use");
        gate.cancel_call(&request_id(1));
        let copy = working.clone();
        drop(working);
        assert_eq!(outstanding_calls_and_lines(&gate), (1, 10));
        drop(copy);
        assert_eq!(outstanding_calls_and_lines(&gate), (0, 0));
    }

    #[test]
    fn late_cancel_frees_the_call() {
        let gate = Arc::new(CallLimiter::default());
        drop(gate.register_call(request_id(1), 10, false));
        assert_eq!(outstanding_calls_and_lines(&gate), (1, 10), "its answer is not there yet");
        gate.cancel_call(&request_id(1));
        assert_eq!(outstanding_calls_and_lines(&gate), (0, 0));
    }

    #[test]
    fn id_is_free_once_answer_is_queued() {
        let gate = Arc::new(CallLimiter::default());
        drop(gate.register_call(request_id(1), 10, false));
        gate.record_queued_line(30, Some(&request_id(1)));
        assert_eq!(
            outstanding_calls_and_lines(&gate),
            (1, 30),
            "the answer counts until it is sent"
        );
        let again = gate.register_call(request_id(1), 5, false).expect("the id is free");
        gate.count_written_lines(30, 1);
        assert_eq!(outstanding_calls_and_lines(&gate), (1, 5));
        drop(again);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_ignores_endless_calls() {
        let gate = Arc::new(CallLimiter::default());
        let idle = || tokio::time::timeout(limits::EOF_GRACE, gate.wait_until_idle());
        let endless = gate.register_call(request_id(1), 10, true).expect("a new id");
        assert!(idle().await.is_ok());
        let _other = gate.register_call(request_id(2), 10, false).expect("a new id");
        assert!(idle().await.is_err());
        gate.record_queued_line(0, Some(&request_id(2)));
        gate.count_written_lines(0, 1);
        assert!(idle().await.is_ok());
        gate.record_queued_line(1, None);
        assert!(idle().await.is_err(), "something is not sent yet");
        gate.count_written_lines(1, 1);
        drop(endless);
        assert!(idle().await.is_err(), "its last answer is on the way");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_pauses_at_the_limits() {
        let gate = Arc::new(CallLimiter::default());
        drop(gate.register_call(request_id(1), limits::CLIENT_UNSENT_BYTES_MAX - 1, false));
        assert!(gate.wait_until_readable().await);
        gate.record_queued_line(1, None);
        assert!(
            !gate.wait_until_readable().await,
            "a client that takes nothing is given up in the end"
        );
        gate.count_written_lines(1, 1);
        gate.record_queued_line(0, Some(&request_id(1)));
        gate.count_written_lines(0, 1);
        assert!(gate.wait_until_readable().await);
        for call in (0..).take(limits::CLIENT_CALLS_MAX) {
            assert!(gate.register_call(request_id(call), 0, false).is_some());
        }
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.wait_until_readable().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gate.record_queued_line(0, Some(&request_id(7)));
        gate.count_written_lines(0, 1);
        assert!(waiting.await.expect("no panic"));
    }
}
