//! What of a step is entered: its work, its hooks, or what takes its effect back.

use serde::{Deserialize, Serialize};

/// What of a step is entered.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// What the step is there for.
    #[default]
    Work,
    /// Its hook for a good end.
    OnSuccess,
    /// Its hook for a bad end.
    OnFailure,
    /// Its hook for either end.
    OnComplete,
    /// What takes back the effect of its work.
    #[serde(rename = "compensate")]
    Compensation,
}

impl BodyKind {
    /// The name in files and on the wire; of a compensation the key that declares it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::OnSuccess => "on_success",
            Self::OnFailure => "on_failure",
            Self::OnComplete => "on_complete",
            Self::Compensation => "compensate",
        }
    }

    /// The same, where it is not the work of the step.
    pub fn name_unless_work(self) -> Option<&'static str> {
        (self != Self::Work).then(|| self.as_str())
    }
}
