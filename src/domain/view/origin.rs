//! What a fork shows of the execution that it continues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution::Execution;

/// The execution that a fork continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkOriginView {
    /// Its id.
    pub execution_id: String,
    /// The revision that was forked.
    pub revision: u64,
}

impl ForkOriginView {
    /// The origin of an execution, if it is a fork.
    pub fn from_execution(execution: &Execution) -> Option<Self> {
        let origin = execution.origin()?;
        let (execution_id, revision) = (origin.execution_id.to_string(), origin.revision);
        Some(Self { execution_id, revision })
    }
}
