//! Limits on what all HTTP clients together may use: calls, event streams, and bytes of requests and replies in
//! memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Notify, futures::Notified};

use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The current use of each limit.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    calls: AtomicUsize,
    streams: AtomicUsize,
    bytes: AtomicUsize,
    share_released: Notify,
}

/// The limit that a share counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetKind {
    /// Calls in progress, at most [`limits::HTTP_CALLS_MAX`].
    Calls,
    /// Open event streams, at most [`limits::HTTP_STREAMS_MAX`].
    Streams,
    /// Bytes of requests and replies in memory, at most the number given to [`Budget::new`].
    Bytes,
}

impl BudgetKind {
    fn describe_use(self) -> &'static str {
        match self {
            Self::Calls => "calls are in work",
            Self::Streams => "streams are open",
            Self::Bytes => "bytes of calls and replies are under way",
        }
    }
}

/// A share of a limit. Dropping it releases the share.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<Budget>,
    kind: BudgetKind,
    amount: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(limits::HTTP_BYTES_MAX)
    }
}

impl Budget {
    /// A budget of `bytes_max` bytes. The other limits are constants.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            calls: AtomicUsize::default(),
            streams: AtomicUsize::default(),
            bytes: AtomicUsize::default(),
            share_released: Notify::default(),
        }
    }

    fn limit_of_kind(&self, kind: BudgetKind) -> usize {
        match kind {
            BudgetKind::Calls => limits::HTTP_CALLS_MAX,
            BudgetKind::Streams => limits::HTTP_STREAMS_MAX,
            BudgetKind::Bytes => self.bytes_max,
        }
    }

    fn usage_counter(&self, kind: BudgetKind) -> &AtomicUsize {
        match kind {
            BudgetKind::Calls => &self.calls,
            BudgetKind::Streams => &self.streams,
            BudgetKind::Bytes => &self.bytes,
        }
    }

    /// Acquires a share.
    ///
    /// # Errors
    /// `SERVER_BUSY` if less than `amount` is left.
    pub fn acquire_share(self: &Arc<Self>, kind: BudgetKind, amount: usize) -> Result<BudgetShare> {
        let max = self.limit_of_kind(kind);
        let fits = |taken: usize| taken.checked_add(amount).filter(|sum| *sum <= max);
        let used = self.usage_counter(kind).fetch_update(Ordering::AcqRel, Ordering::Acquire, fits);
        if used.is_err() {
            let message = format!("{max} {} already, which is the limit", kind.describe_use());
            return Err(Error::new(Code::ServerBusy, message));
        }
        Ok(BudgetShare { budget: self.clone(), kind, amount })
    }

    /// Counts an amount that is in use already, even if that exceeds the limit.
    pub(crate) fn count_share(self: &Arc<Self>, kind: BudgetKind, amount: usize) -> BudgetShare {
        self.usage_counter(kind).fetch_add(amount, Ordering::AcqRel);
        BudgetShare { budget: self.clone(), kind, amount }
    }

    /// Waits until no call is in progress.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let released = self.share_released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if self.calls.load(Ordering::Acquire) == 0 {
                return;
            }
            released.await;
        }
    }

    /// A future that completes when a share is released after the future was enabled.
    pub(crate) fn release_notification(&self) -> Notified<'_> {
        self.share_released.notified()
    }

    /// The current use of a limit.
    pub(crate) fn used_amount(&self, kind: BudgetKind) -> usize {
        self.usage_counter(kind).load(Ordering::Acquire)
    }

    /// Whether the use of a limit exceeds it.
    pub(crate) fn is_exceeded(&self, kind: BudgetKind) -> bool {
        self.used_amount(kind) > self.limit_of_kind(kind)
    }
}

impl BudgetShare {
    /// Enlarges the share by `amount`.
    ///
    /// # Errors
    /// As [`Budget::acquire_share`].
    pub(crate) fn grow_share(&mut self, amount: usize) -> Result<()> {
        let mut added_share = self.budget.acquire_share(self.kind, amount)?;
        self.amount += std::mem::take(&mut added_share.amount);
        Ok(())
    }

    /// Releases the whole share.
    pub(crate) fn release_share(&mut self) {
        let amount = std::mem::take(&mut self.amount);
        self.budget.usage_counter(self.kind).fetch_sub(amount, Ordering::AcqRel);
        self.budget.share_released.notify_waiters();
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.release_share();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_past_the_limit_is_refused() {
        let budget = Arc::new(Budget::default());
        let mut most =
            budget.acquire_share(BudgetKind::Bytes, limits::HTTP_BYTES_MAX - 1).expect("room");
        most.grow_share(1).expect("the last byte");
        assert_eq!(most.grow_share(1).expect_err("the limit").code(), Code::ServerBusy);
        assert!(budget.acquire_share(BudgetKind::Calls, 1).is_ok(), "another limit");
        drop(most);
        assert_eq!(budget.used_amount(BudgetKind::Bytes), 0);
        let mut counted = budget.count_share(BudgetKind::Bytes, limits::HTTP_BYTES_MAX + 1);
        assert!(budget.is_exceeded(BudgetKind::Bytes));
        assert!(budget.acquire_share(BudgetKind::Bytes, 1).is_err());
        counted.release_share();
        drop(counted);
        assert_eq!(budget.used_amount(BudgetKind::Bytes), 0, "given back once");
        assert!(budget.acquire_share(BudgetKind::Bytes, 1).is_ok());
    }

    #[tokio::test]
    async fn budget_is_idle_after_the_last_call() {
        let budget = Arc::new(Budget::default());
        let call = budget.acquire_share(BudgetKind::Calls, 1).expect("room");
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.wait_until_idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(call);
        waiting.await.expect("no panic");
    }
}
