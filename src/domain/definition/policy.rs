//! The policies of a step: retries, repetition, and attempts that were cut off.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::super::{limits, span::HumanDuration};

/// Retry policy with exponential backoff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The most attempts, the first one included.
    pub max_attempts: u32,
    /// The pause before the second attempt.
    pub backoff: HumanDuration,
    /// How many times as long as the pause before it each further pause is, from 1 to
    /// [`limits::RETRY_FACTOR_MAX`]; [`limits::RETRY_FACTOR_DEFAULT`] if it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<Number>,
    /// Upper limit of the pause.
    pub max_backoff: HumanDuration,
    /// Whether each pause is randomised to between half of its length and its full length.
    pub jitter: bool,
    /// The classes or codes of failures that are retried. If it is empty, every failure of a model is retried, and of
    /// the server's own work every failure that is marked as retryable.
    #[serde(default)]
    pub on: Vec<String>,
}

impl RetryPolicy {
    /// A policy with this number of attempts, the first one included, and otherwise the defaults of `retry` in a file.
    pub fn new(max_attempts: u32) -> Self {
        Self {
            max_attempts,
            backoff: HumanDuration::from_duration(limits::RETRY_BACKOFF_DEFAULT),
            max_backoff: HumanDuration::from_duration(limits::RETRY_BACKOFF_MAX_DEFAULT),
            factor: None,
            jitter: true,
            on: Vec::new(),
        }
    }

    /// The same policy with this pause before the second attempt. The upper limit of the pause is at least as long.
    #[must_use]
    pub fn with_backoff(self, backoff: Duration) -> Self {
        let backoff = HumanDuration::from_duration(backoff);
        Self { backoff, max_backoff: self.max_backoff.max(backoff), ..self }
    }
}

/// What happens to an attempt of the server that a crash cut off, so that its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptPolicy {
    /// The attempt is repeated. It does not count against `retry`.
    Again,
    /// The attempt fails with [`FailureCode::Interrupted`](crate::FailureCode::Interrupted); `retry` and `on_error`
    /// follow.
    Fail,
    /// The execution pauses until a person or a model says what the outcome was.
    Ask,
}

/// The number of a share such as `20%`, from 0 to 100; `None` if the text is none.
pub fn parse_share(text: &str) -> Option<u32> {
    let percent = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    (percent <= 100).then_some(percent)
}

/// Loop policy: the step runs again until a condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatPolicy {
    /// The exit condition. It sees the output of the latest attempt as the output of the step.
    pub until: String,
    /// The pause between two attempts.
    pub every: HumanDuration,
    /// Time limit for all attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
    /// The most attempts.
    pub max_attempts: u32,
}
