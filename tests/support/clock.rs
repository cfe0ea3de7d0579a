//! A clock for tests under paused time.

use midex_domain::clock::{Clock, Timestamp};

/// A clock that follows tokio's, so that a test under paused time passes hours in an instant.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Must be made inside a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "tokio's clock is what this clock follows")]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch.plus(self.start.elapsed())
    }
}

#[tokio::test(start_paused = true)]
async fn the_tokio_clock_follows_paused_time() {
    let clock = TokioClock::starting_at(Timestamp::from_milliseconds(1_000));
    let day = std::time::Duration::from_secs(25 * 3600);
    tokio::time::advance(day).await;
    assert_eq!(clock.now().since(Timestamp::from_milliseconds(1_000)), day);
}
