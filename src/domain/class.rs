//! How much a call may change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a call may change, the least first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum OperationClass {
    /// It reads.
    Safe,
    /// It changes what can be changed back.
    Standard,
    /// It takes away.
    Destructive,
}

impl OperationClass {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Standard => "standard",
            Self::Destructive => "destructive",
        }
    }
}
