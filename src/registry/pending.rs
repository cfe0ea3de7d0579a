//! Counts changes to files that were noticed and not loaded yet, and waits until no more come.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::limits;

/// A counter of noticed changes. Counting is cheap, so that a flood of changes costs little.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    noticed: u64,
    loaded: u64,
    closed: bool,
}

impl State {
    fn is_pending(&self) -> bool {
        self.noticed != self.loaded
    }
}

impl PendingChanges {
    /// Counts a change.
    pub(super) fn add(&self) {
        let mut state = self.lock();
        // A thread that waits for quiet polls the counter; only one that waits for the first notice is woken.
        if !state.is_pending() {
            self.changed.notify_all();
        }
        state.noticed += 1;
    }

    /// Whether there are changes that were not loaded yet.
    pub(super) fn is_pending(&self) -> bool {
        self.lock().is_pending()
    }

    /// How many changes there have been.
    pub(super) fn count(&self) -> u64 {
        self.lock().noticed
    }

    /// Marks as loaded all changes up to `noticed`, which is [`PendingChanges::count`] from before the load began.
    pub(super) fn mark_loaded(&self, noticed: u64) {
        self.lock().loaded = noticed;
    }

    /// Ends all waits.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits for a change, then until none has come for [`limits::RELOAD_QUIET`], at most [`limits::RELOAD_WAIT_MAX`].
    /// After `idle_max` without a change one is assumed. Returns `false` after [`PendingChanges::close`].
    pub(super) fn wait(&self, idle_max: Option<Duration>) -> bool {
        let mut state = self.first(idle_max);
        let slices = limits::RELOAD_WAIT_MAX.as_millis() / limits::RELOAD_QUIET.as_millis();
        for _ in 0..slices {
            let noticed = state.noticed;
            let waited = (self.changed)
                .wait_timeout_while(state, limits::RELOAD_QUIET, |state| !state.closed);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.closed || state.noticed == noticed {
                break;
            }
        }
        !state.closed
    }

    fn first(&self, idle_max: Option<Duration>) -> MutexGuard<'_, State> {
        let idle = |state: &mut State| !state.closed && !state.is_pending();
        let Some(idle_max) = idle_max else {
            let state = self.changed.wait_while(self.lock(), idle);
            return state.unwrap_or_else(PoisonError::into_inner);
        };
        let waited = (self.changed).wait_timeout_while(self.lock(), idle_max, idle);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        state.noticed += u64::from(timeout.timed_out());
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        thread,
        time::Instant,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// How long one wait took and what it answered.
    fn waited(
        pending: &Arc<PendingChanges>,
        idle_max: Option<Duration>,
    ) -> mpsc::Receiver<(Duration, bool)> {
        let (send, receive) = mpsc::channel();
        let pending = pending.clone();
        thread::spawn(move || {
            #[expect(clippy::disallowed_methods, reason = "measures a real wait")]
            let start = Instant::now();
            let goes_on = pending.wait(idle_max);
            let _ = send.send((start.elapsed(), goes_on));
        });
        receive
    }

    #[test]
    fn a_notice_is_pending_until_it_is_read() {
        let pending = PendingChanges::default();
        assert!(!pending.is_pending());
        pending.add();
        pending.add();
        let noticed = pending.count();
        assert!(pending.is_pending(), "reading has begun, no more");
        pending.mark_loaded(noticed);
        assert!(!pending.is_pending());
        let noticed = pending.count();
        pending.add();
        pending.mark_loaded(noticed);
        assert!(pending.is_pending(), "noticed while it was being read");
    }

    #[test]
    fn a_wait_ends_after_a_quiet_time_and_not_before() {
        let pending = Arc::new(PendingChanges::default());
        let wait = waited(&pending, None);
        assert!(
            wait.recv_timeout(limits::RELOAD_QUIET).is_err(),
            "nothing was noticed"
        );
        pending.add();
        assert!(wait.recv_timeout(PATIENCE).unwrap().1);
        assert!(pending.is_pending());
        let (took, _) = waited(&pending, None).recv_timeout(PATIENCE).unwrap();
        assert!(took >= limits::RELOAD_QUIET, "{took:?}");
    }

    #[test]
    fn a_flood_of_notices_does_not_starve_who_waits() {
        let pending = Arc::new(PendingChanges::default());
        let over = Arc::new(AtomicBool::new(false));
        let flood = thread::spawn({
            let (pending, over) = (pending.clone(), over.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    pending.add();
                }
            }
        });
        let wait = waited(&pending, None).recv_timeout(PATIENCE);
        over.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        assert!(wait.unwrap().1);
    }

    #[test]
    fn without_a_notice_a_wait_may_end_by_itself() {
        let pending = Arc::new(PendingChanges::default());
        let wait = waited(&pending, Some(Duration::from_millis(1)));
        assert!(wait.recv_timeout(PATIENCE).unwrap().1);
        assert!(pending.is_pending(), "then something counts as changed");
    }

    #[test]
    fn closing_ends_every_wait() {
        let pending = Arc::new(PendingChanges::default());
        let idle = waited(&pending, None);
        let noticed = Arc::new(PendingChanges::default());
        noticed.add();
        let quiet = waited(&noticed, None);
        pending.close();
        noticed.close();
        assert!(!idle.recv_timeout(PATIENCE).unwrap().1);
        assert!(!quiet.recv_timeout(PATIENCE).unwrap().1);
    }
}
