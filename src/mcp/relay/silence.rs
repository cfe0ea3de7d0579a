//! Whether an owner that says nothing still lives. A call may take minutes, so its silence alone tells nothing: the owner is
//! asked, and what does not answer that is stopped.

use tokio::time::Instant;

use midex_domain::limits;

/// How long an owner that is waited for has been silent.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    is_asked: bool,
}

impl Silence {
    /// The owner said something, or nothing is waited for.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Something is waited for, from `now` on at the latest.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// When the silence has lasted too long.
    pub(super) fn due(&self) -> Option<Instant> {
        let asked = self.is_asked.then_some(limits::OWNER_ALIVE_MAX);
        Some(self.since? + limits::OWNER_SILENT_MAX + asked.unwrap_or_default())
    }

    /// Once it is due: true where the owner was asked before, and so counts as stopped.
    pub(super) fn ask_or_end(&mut self) -> bool {
        let is_stopped = std::mem::replace(&mut self.is_asked, true);
        if is_stopped {
            self.end();
        }
        is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "no time of an execution")]
    async fn an_owner_is_asked_before_it_counts_as_stopped_and_any_line_of_it_begins_anew() {
        let mut silence = Silence::default();
        let now = Instant::now();
        silence.begin(now);
        silence.begin(now + limits::OWNER_SILENT_MAX);
        assert_eq!(silence.due(), Some(now + limits::OWNER_SILENT_MAX));
        assert!(!silence.ask_or_end());
        let end = now + limits::OWNER_SILENT_MAX + limits::OWNER_ALIVE_MAX;
        assert_eq!(silence.due(), Some(end));
        silence.end();
        silence.begin(end);
        assert!(!silence.ask_or_end() && silence.ask_or_end());
        assert_eq!(silence.due(), None);
    }
}
