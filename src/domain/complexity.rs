//! How much care a workflow asks for.

use serde::{Deserialize, Serialize};

/// How much care a workflow asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Complexity {
    /// One or two steps, little risk.
    Simple,
    /// Several steps.
    Moderate,
    /// Many steps, or steps with much at stake.
    High,
}
