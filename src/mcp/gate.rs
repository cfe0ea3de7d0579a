//! Back-pressure for one client: it may have so many calls in work or unanswered, and so many bytes in
//! them and in replies it has not taken; past that, its next call is not read. Nobody is refused, nobody
//! else is slowed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::RequestId;
use tokio::sync::Notify;

use midex_domain::limits;

/// What one client has outstanding.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Calls without an answer: their ids are in use.
    calls: HashMap<RequestId, Call>,
    /// Answers, and what else was queued, that were not taken.
    untaken: usize,
    bytes: usize,
    /// Replies taken so far: whether a client that owes much still takes any.
    taken: u64,
}

/// A call that has not been answered.
#[derive(Debug)]
struct Call {
    bytes: usize,
    /// It is answered only when the client or the process has enough of it.
    is_endless: bool,
    cancelled: bool,
    finished: bool,
}

/// Travels with a call into its handler: when the last copy is gone, nobody works on the call any more.
#[derive(Clone, Debug)]
pub(super) struct Working {
    _last: Arc<Finish>,
}

#[derive(Debug)]
struct Finish {
    gate: Arc<Gate>,
    id: RequestId,
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.gate.finish(&self.id);
    }
}

impl Inner {
    fn forget(&mut self, id: &RequestId) {
        if let Some(call) = self.calls.remove(id) {
            self.bytes -= call.bytes;
        }
    }
}

impl Gate {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let changed = change(&mut self.inner());
        self.changed.notify_waiters();
        changed
    }

    /// A call of so many bytes was read. `None` where one with this id is still outstanding; else what
    /// goes with the call for as long as somebody works on it. At the end of input nobody waits for one that
    /// `is_endless`.
    pub(super) fn admit(
        self: &Arc<Self>,
        id: RequestId,
        bytes: usize,
        is_endless: bool,
    ) -> Option<Working> {
        let mut inner = self.inner();
        if inner.calls.contains_key(&id) {
            return None;
        }
        inner.bytes += bytes;
        let call = Call {
            bytes,
            is_endless,
            cancelled: false,
            finished: false,
        };
        inner.calls.insert(id.clone(), call);
        let gate = self.clone();
        Some(Working {
            _last: Arc::new(Finish { gate, id }),
        })
    }

    fn finish(&self, id: &RequestId) {
        self.change(|inner| match inner.calls.get_mut(id) {
            Some(call) if call.cancelled => inner.forget(id),
            Some(call) => call.finished = true,
            None => {}
        });
    }

    /// The client cancelled the call: there will be no answer. It counts as long as somebody works on it.
    pub(super) fn cancel(&self, id: &RequestId) {
        self.change(|inner| match inner.calls.get_mut(id) {
            Some(call) if !call.finished => call.cancelled = true,
            Some(_) => inner.forget(id),
            None => {}
        });
    }

    /// A line of so many bytes waits to be taken. The id of the call that it answers is free from here on: a client
    /// may use it again as soon as it has the answer.
    pub(super) fn queue(&self, bytes: usize, answers: Option<&RequestId>) {
        let mut inner = self.inner();
        inner.bytes += bytes;
        inner.untaken += 1;
        if let Some(id) = answers {
            inner.forget(id);
        }
    }

    /// So many lines were taken, with so many bytes.
    pub(super) fn sent(&self, bytes: usize, lines: usize) {
        self.change(|inner| {
            inner.bytes -= bytes;
            inner.untaken -= lines;
            inner.taken += 1;
        });
    }

    /// Waits until the next call may be read; false where the client has taken nothing for too long.
    pub(super) async fn open(&self) -> bool {
        let may_read = |inner: &Inner| {
            inner.calls.len() + inner.untaken < limits::CLIENT_CALLS_MAX
                && inner.bytes < limits::CLIENT_UNSENT_BYTES_MAX
        };
        loop {
            let taken = self.inner().taken;
            if tokio::time::timeout(limits::CLIENT_STALL_MAX, self.wait(may_read))
                .await
                .is_ok()
            {
                return true;
            }
            if self.inner().taken == taken {
                return false;
            }
        }
    }

    /// Waits until everything that will be answered is answered and taken.
    pub(super) async fn idle(&self) {
        let will_be = |call: &Call| call.finished || !call.is_endless;
        self.wait(|inner| inner.untaken == 0 && !inner.calls.values().any(will_be))
            .await;
    }

    async fn wait(&self, done: impl Fn(&Inner) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that no change between is missed.
            changed.as_mut().enable();
            if done(&self.inner()) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    fn outstanding(gate: &Gate) -> (usize, usize) {
        let inner = gate.inner();
        (inner.calls.len() + inner.untaken, inner.bytes)
    }

    #[test]
    fn a_cancelled_call_counts_until_its_handler_is_done() {
        let gate = Arc::new(Gate::default());
        let working = gate.admit(id(1), 10, false).expect("a new id");
        assert!(
            gate.admit(id(1), 10, false).is_none(),
            "an id that is in use"
        );
        gate.cancel(&id(1));
        let copy = working.clone();
        drop(working);
        assert_eq!(outstanding(&gate), (1, 10));
        drop(copy);
        assert_eq!(outstanding(&gate), (0, 0));
    }

    #[test]
    fn a_call_cancelled_after_its_end_counts_no_more() {
        let gate = Arc::new(Gate::default());
        drop(gate.admit(id(1), 10, false));
        assert_eq!(outstanding(&gate), (1, 10), "its answer is not there yet");
        gate.cancel(&id(1));
        assert_eq!(outstanding(&gate), (0, 0));
    }

    #[test]
    fn an_id_is_free_once_its_answer_is_on_its_way() {
        let gate = Arc::new(Gate::default());
        drop(gate.admit(id(1), 10, false));
        gate.queue(30, Some(&id(1)));
        assert_eq!(
            outstanding(&gate),
            (1, 30),
            "the answer counts until it is taken"
        );
        let again = gate.admit(id(1), 5, false).expect("the id is free");
        gate.sent(30, 1);
        assert_eq!(outstanding(&gate), (1, 5));
        drop(again);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_call_without_an_end() {
        let gate = Arc::new(Gate::default());
        let idle = || tokio::time::timeout(limits::EOF_GRACE, gate.idle());
        let endless = gate.admit(id(1), 10, true).expect("a new id");
        assert!(idle().await.is_ok());
        let _other = gate.admit(id(2), 10, false).expect("a new id");
        assert!(idle().await.is_err());
        gate.queue(0, Some(&id(2)));
        gate.sent(0, 1);
        assert!(idle().await.is_ok());
        gate.queue(1, None);
        assert!(idle().await.is_err(), "something is not taken yet");
        gate.sent(1, 1);
        drop(endless);
        assert!(idle().await.is_err(), "its last answer is on the way");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_stops_at_the_limits_and_goes_on_once_something_is_taken() {
        let gate = Arc::new(Gate::default());
        drop(gate.admit(id(1), limits::CLIENT_UNSENT_BYTES_MAX - 1, false));
        assert!(gate.open().await);
        gate.queue(1, None);
        assert!(
            !gate.open().await,
            "a client that takes nothing is given up in the end"
        );
        gate.sent(1, 1);
        gate.queue(0, Some(&id(1)));
        gate.sent(0, 1);
        assert!(gate.open().await);
        for call in (0..).take(limits::CLIENT_CALLS_MAX) {
            assert!(gate.admit(id(call), 0, false).is_some());
        }
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.open().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gate.queue(0, Some(&id(7)));
        gate.sent(0, 1);
        assert!(waiting.await.expect("no panic"));
    }
}
