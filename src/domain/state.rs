//! The seven states of an execution and the changes between them, the statuses of steps, and the words for both in
//! other vocabularies. No other file contains those words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// The state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Created, not started. Exists only inside the transition that starts an execution.
    Idle,
    /// In progress.
    Running,
    /// Waits until its pause reasons are lifted, usually by a person.
    Paused,
    /// Every step is done.
    Completed,
    /// A required step failed.
    Failed,
    /// Given up on request.
    Abandoned,
    /// The work continues outside of the workflow.
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
        self.word(Vocabulary::Midex)
    }

    /// The word for the state in a vocabulary.
    pub const fn word(self, vocabulary: Vocabulary) -> &'static str {
        STATE_WORDS[self as usize].1[vocabulary as usize]
    }

    /// The states that `vocabulary` calls `word`. Callers that need a single state take the first one.
    pub fn find_by_word(word: &str, vocabulary: Vocabulary) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |state| state.word(vocabulary) == word)
    }

    /// The state of this name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        Self::find_by_word(name, Vocabulary::Midex).next()
    }

    /// Whether the state is final: an execution never leaves it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Abandoned | Self::Diverged)
    }

    /// Whether a retry may continue an execution that ended like this: one that did not complete.
    pub const fn can_be_retried(self) -> bool {
        matches!(self, Self::Failed | Self::Abandoned | Self::Diverged)
    }

    /// Whether the state machine allows the change to `next`. A final state never changes.
    pub const fn can_become(self, next: Self) -> bool {
        match self {
            Self::Idle => matches!(next, Self::Running),
            Self::Running => next.is_final() || matches!(next, Self::Paused),
            Self::Paused => matches!(next, Self::Running | Self::Abandoned),
            Self::Completed | Self::Failed | Self::Abandoned | Self::Diverged => false,
        }
    }

    /// Refuses a change that the state machine does not allow, naming both states.
    pub fn check_transition(self, next: Self) -> Result<()> {
        if self.can_become(next) {
            return Ok(());
        }
        let article = if self.as_str().starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let message = format!("{article} `{self}` execution cannot become `{next}`");
        Err(Error::new(Code::StateTransitionRefused, message)
            .with_context("workflow_state", self.as_str()))
    }
}

/// The status of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not entered yet.
    Pending,
    /// Entered; its latest visit is open.
    Running,
    /// Done, with an output.
    Completed,
    /// Ended without an output.
    Failed,
    /// Skipped, or voided while it was open.
    Skipped,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Skipped];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        STEP_STATUS_WORDS[self as usize].1
    }

    /// The word for it in the progress of a run ([`Vocabulary::Run`]).
    pub const fn run_word(self) -> &'static str {
        STEP_STATUS_WORDS[self as usize].2
    }

    /// The `success` of the step in the history of a session; `None` for steps that such a history leaves out.
    pub const fn session_success(self) -> Option<bool> {
        STEP_STATUS_WORDS[self as usize].3
    }
}

/// The set of words in which states are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// The words of every tool, resource and command.
    Midex,
    /// The words for the progress of a run.
    Run,
    /// The words for the status of a session.
    Session,
}

impl Vocabulary {
    /// Every vocabulary.
    pub const ALL: [Self; 3] = [Self::Midex, Self::Run, Self::Session];
}

/// The word for each state in each vocabulary. Runs have no word for a pause: a paused run is `running`. Neither runs
/// nor sessions distinguish abandoned from diverged.
const STATE_WORDS: [(State, [&str; 3]); 7] = [
    (State::Idle, ["idle", "pending", "pending"]),
    (State::Running, ["running", "running", "running"]),
    (State::Paused, ["paused", "running", "paused"]),
    (State::Completed, ["completed", "succeeded", "completed"]),
    (State::Failed, ["failed", "failed", "failed"]),
    (State::Abandoned, ["abandoned", "canceled", "cancelled"]),
    (State::Diverged, ["diverged", "canceled", "cancelled"]),
];

/// The word for each status of a step, the word in the progress of a run, and the `success` in a session. A step that was
/// skipped is `canceled` in a run.
const STEP_STATUS_WORDS: [(StepStatus, &str, &str, Option<bool>); 5] = [
    (StepStatus::Pending, "pending", "pending", None),
    (StepStatus::Running, "running", "running", None),
    (StepStatus::Completed, "completed", "succeeded", Some(true)),
    (StepStatus::Failed, "failed", "failed", Some(false)),
    (StepStatus::Skipped, "skipped", "canceled", None),
];

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{State::*, *};

    /// Each vocabulary has exactly these words, and each word maps to exactly these states, in order.
    #[test]
    fn every_state_has_one_word_in_each_document_and_every_word_leads_back() {
        for (at, state) in State::ALL.into_iter().enumerate() {
            assert_eq!((state as usize, STATE_WORDS[at].0), (at, state));
            for vocabulary in Vocabulary::ALL {
                let mut meant = State::find_by_word(state.word(vocabulary), vocabulary);
                assert!(meant.any(|one| one == state), "{state}");
            }
            assert_eq!(State::parse(state.as_str()), Some(state));
            // The stored name and the displayed name are the same.
            assert_eq!(serde_json::json!(state), state.as_str());
        }
        let meant = |word, vocabulary| State::find_by_word(word, vocabulary).collect::<Vec<_>>();
        for (word, states) in [
            ("pending", vec![Idle]),
            ("running", vec![Running, Paused]),
            ("succeeded", vec![Completed]),
            ("failed", vec![Failed]),
            ("canceled", vec![Abandoned, Diverged]),
            ("cancelled", vec![]),
            ("paused", vec![]),
        ] {
            assert_eq!(meant(word, Vocabulary::Run), states, "run: {word}");
        }
        for (word, states) in [
            ("pending", vec![Idle]),
            ("running", vec![Running]),
            ("paused", vec![Paused]),
            ("completed", vec![Completed]),
            ("failed", vec![Failed]),
            ("cancelled", vec![Abandoned, Diverged]),
            ("canceled", vec![]),
        ] {
            assert_eq!(meant(word, Vocabulary::Session), states, "session: {word}");
        }
        assert_eq!(State::parse("canceled"), None);
    }

    #[test]
    fn every_status_of_a_step_has_its_words() {
        for (at, status) in StepStatus::ALL.into_iter().enumerate() {
            assert_eq!((status as usize, STEP_STATUS_WORDS[at].0), (at, status));
            assert_eq!(serde_json::json!(status), status.as_str());
        }
        let of_runs = StepStatus::ALL.map(StepStatus::run_word);
        assert_eq!(of_runs, ["pending", "running", "succeeded", "failed", "canceled"]);
        let successes = StepStatus::ALL.map(StepStatus::session_success);
        assert_eq!(successes, [None, None, Some(true), Some(false), None]);
    }

    #[test]
    fn only_documented_transitions_are_allowed() {
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
                    from.check_transition(to).is_ok(),
                    allowed.contains(&(from, to)),
                    "{from} -> {to}"
                );
            }
        }
    }
}
