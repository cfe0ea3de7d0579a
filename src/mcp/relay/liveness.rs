//! Detects an owner that no longer responds. A call may take minutes, so silence alone proves nothing: the owner is
//! pinged, and counts as suspended if it does not answer.

use tokio::time::Instant;

use midex_domain::limits;

/// How long an owner with pending calls has been silent.
#[derive(Debug, Default)]
pub(super) struct SilenceTimer {
    started_at: Option<Instant>,
    has_pinged: bool,
}

impl SilenceTimer {
    /// Stops the timer: the owner sent something, or no call is pending.
    pub(super) fn stop_timer(&mut self) {
        *self = Self::default();
    }

    /// Starts the timer at `now`, unless it is running.
    pub(super) fn start_timer(&mut self, now: Instant) {
        self.started_at.get_or_insert(now);
    }

    /// The time at which the silence is too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ping_timeout = self.has_pinged.then_some(limits::OWNER_ALIVE_MAX);
        Some(self.started_at? + limits::OWNER_SILENT_MAX + ping_timeout.unwrap_or_default())
    }

    /// Called when the silence is too long. Returns false for the first time, after which the owner is pinged. Returns
    /// true if the owner did not answer the ping, so that it counts as suspended.
    pub(super) fn advance_stage(&mut self) -> bool {
        let had_pinged = std::mem::replace(&mut self.has_pinged, true);
        if had_pinged {
            self.stop_timer();
        }
        had_pinged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "no time of an execution")]
    async fn silent_owner_is_pinged_first() {
        let mut silence = SilenceTimer::default();
        let now = Instant::now();
        silence.start_timer(now);
        silence.start_timer(now + limits::OWNER_SILENT_MAX);
        assert_eq!(silence.deadline(), Some(now + limits::OWNER_SILENT_MAX));
        assert!(!silence.advance_stage());
        let end = now + limits::OWNER_SILENT_MAX + limits::OWNER_ALIVE_MAX;
        assert_eq!(silence.deadline(), Some(end));
        silence.stop_timer();
        silence.start_timer(end);
        assert!(!silence.advance_stage() && silence.advance_stage());
        assert_eq!(silence.deadline(), None);
    }
}
