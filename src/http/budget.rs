//! Limits on what all HTTP clients together may use: calls, event streams, and bytes of requests and replies in
//! memory.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// A share of a limit. Dropping it releases the share.
pub type BudgetShare = OwnedSemaphorePermit;

/// The remaining capacity of each limit.
#[derive(Clone, Debug)]
pub struct Budget {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

impl Budget {
    /// A budget of `bytes_max` bytes. The other limits are constants.
    pub fn new(bytes_max: usize) -> Self {
        let semaphore = |max| Arc::new(Semaphore::new(max));
        Self {
            calls: semaphore(limits::HTTP_CALLS_MAX),
            streams: semaphore(limits::HTTP_STREAMS_MAX),
            bytes: semaphore(bytes_max),
        }
    }

    /// Admits one of [`limits::HTTP_CALLS_MAX`] calls.
    ///
    /// # Errors
    /// `SERVER_BUSY` if as many are in progress.
    pub fn admit_call(&self) -> Result<BudgetShare> {
        let share = self.calls.clone().try_acquire_owned();
        share.map_err(|_| busy_error(&format!("{} calls are in work", limits::HTTP_CALLS_MAX)))
    }

    /// Admits one of [`limits::HTTP_STREAMS_MAX`] event streams.
    ///
    /// # Errors
    /// `SERVER_BUSY` if as many are open.
    pub fn admit_stream(&self) -> Result<BudgetShare> {
        let share = self.streams.clone().try_acquire_owned();
        share.map_err(|_| busy_error(&format!("{} streams are open", limits::HTTP_STREAMS_MAX)))
    }

    /// Takes room for `amount` bytes. If there is none, waits for it up to [`limits::HTTP_ROOM_MAX`].
    ///
    /// # Errors
    /// `SERVER_BUSY` if no room was released in time.
    pub(crate) async fn take_bytes(&self, amount: usize) -> Result<BudgetShare> {
        let no_room =
            || busy_error("the bytes of calls and unread replies fill the memory for them");
        let amount = u32::try_from(amount).map_err(|_| no_room())?;
        let share = self.bytes.clone().acquire_many_owned(amount);
        let share = tokio::time::timeout(limits::HTTP_ROOM_MAX, share).await;
        share.ok().and_then(Result::ok).ok_or_else(no_room)
    }

    /// Waits until no call is in progress.
    pub async fn wait_until_idle(&self) {
        let all_calls = u32::try_from(limits::HTTP_CALLS_MAX).unwrap_or(u32::MAX);
        let _ = self.calls.acquire_many(all_calls).await;
    }
}

fn busy_error(state: &str) -> Error {
    Error::new(Code::ServerBusy, format!("{state} already, which is the limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn share_past_the_limit_is_refused_until_another_is_released() {
        let budget = Budget::new(10);
        let first = budget.take_bytes(10).await.expect("room");
        let refused = budget.take_bytes(1).await.expect_err("the limit");
        assert_eq!(refused.code(), Code::ServerBusy);
        assert!(budget.admit_call().is_ok() && budget.admit_stream().is_ok(), "other limits");
        let release = async {
            tokio::time::sleep(limits::HTTP_ROOM_MAX / 2).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(budget.take_bytes(1), release);
        assert!(second.is_ok());
        assert!(budget.take_bytes(11).await.is_err(), "more than there is");
        let calls: Vec<_> = (0..limits::HTTP_CALLS_MAX).map(|_| budget.admit_call()).collect();
        assert!(calls.iter().all(Result::is_ok) && budget.admit_call().is_err());
        drop(calls);
        assert!(budget.admit_call().is_ok());
    }

    #[tokio::test]
    async fn budget_is_idle_after_the_last_call() {
        let budget = Budget::new(1);
        let call = budget.admit_call().expect("room");
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
