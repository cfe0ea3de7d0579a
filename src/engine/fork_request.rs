//! The request of a fork or a retry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use midex_domain::{Definition, Digest, ExecutionId, StepId, document::canonical_digest};

/// The parameters of a fork or a retry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForkRequest {
    /// The execution to fork.
    pub execution_id: ExecutionId,
    /// The step to do again. `None`: the step that failed, and those that were open.
    pub from_step: Option<StepId>,
    /// The revision to fork; the last one if `None`.
    pub revision: Option<u64>,
    /// Inputs to replace.
    pub inputs: Map<String, Value>,
    /// Values in memory to replace.
    pub memory: Map<String, Value>,
    /// The definition to follow; that of the source if `None`.
    #[serde(skip)]
    pub definition: Option<Arc<Definition>>,
    /// The id of the new execution. `None`: a new one, or for a retry the id of the source with the next free number.
    pub new_execution_id: Option<ExecutionId>,
    /// Whether work is done again although its outcome is unknown and it may not be repeated.
    pub repeats_unknown: bool,
    /// Whether this is a retry: only an execution that failed or was abandoned has one, and only one that is open.
    pub is_retry: bool,
}

impl ForkRequest {
    /// A fork of the latest state of an execution, which continues where the execution stopped.
    pub fn new(execution_id: ExecutionId) -> Self {
        Self {
            execution_id,
            from_step: None,
            revision: None,
            inputs: Map::new(),
            memory: Map::new(),
            definition: None,
            new_execution_id: None,
            repeats_unknown: false,
            is_retry: false,
        }
    }

    /// The digest by which a repeated call is recognised.
    pub(super) fn call_digest(&self, definition: &Definition) -> Digest {
        canonical_digest(&json!([
            if self.is_retry { "retry" } else { "fork" },
            self.execution_id,
            self.from_step,
            self.revision,
            self.inputs,
            self.memory,
            definition.digest().to_string(),
            self.repeats_unknown,
        ]))
    }
}
