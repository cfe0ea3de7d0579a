//! The seven states and the changes between them (S0).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// Where an execution stands (S0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Created, not started; lives only within the commit of a start.
    Idle,
    /// Steps are open.
    Running,
    /// Waits for a person.
    Paused,
    /// Every step is done.
    Completed,
    /// A required step failed.
    Failed,
    /// Somebody gave it up.
    Abandoned,
    /// The work took another path.
    Diverged,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Abandoned,
        Self::Diverged,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::Diverged => "diverged",
        }
    }

    /// The name that S2 has for it, of runs.
    pub const fn as_run_status(self) -> &'static str {
        match self {
            Self::Idle => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "succeeded",
            Self::Failed => "failed",
            Self::Abandoned | Self::Diverged => "canceled",
        }
    }

    /// Whether nothing can follow.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Abandoned | Self::Diverged
        )
    }

    /// The changes S0 allows.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Idle => matches!(next, Self::Running),
            Self::Running => next.is_final() || matches!(next, Self::Paused),
            Self::Paused => matches!(next, Self::Running | Self::Abandoned),
            Self::Completed | Self::Failed | Self::Abandoned | Self::Diverged => false,
        }
    }

    /// Refuses a change that S0 does not allow, naming both states.
    pub fn check(self, next: Self) -> Result<()> {
        if self.may_become(next) {
            return Ok(());
        }
        let message = format!("a `{self}` execution cannot become `{next}`");
        Err(Error::new(Code::StateTransitionRefused, message).with("workflow_state", self.as_str()))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{State::*, *};

    #[test]
    fn exactly_the_changes_of_s0_are_allowed() {
        let allowed = [
            (Idle, Running),
            (Running, Completed),
            (Running, Failed),
            (Running, Paused),
            (Running, Abandoned),
            (Running, Diverged),
            (Paused, Running),
            (Paused, Abandoned),
        ];
        for from in State::ALL {
            for to in State::ALL {
                assert_eq!(
                    from.check(to).is_ok(),
                    allowed.contains(&(from, to)),
                    "{from} -> {to}"
                );
            }
        }
    }
}
