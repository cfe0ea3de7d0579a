//! The request to start an execution.

use std::sync::Arc;

use serde_json::Value;

use midex_domain::{Definition, ExecutionId, WorkflowLookup, label::Labels};

/// The parameters of a start.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The definition that the execution will keep.
    pub definition: Arc<Definition>,
    /// The id of the execution. A new one is generated if `None`.
    pub execution_id: Option<ExecutionId>,
    /// The project it is started for.
    pub project: Option<String>,
    /// Its inputs: an object.
    pub inputs: Option<Value>,
    /// Where the execution looks up the workflows that its definition names: among the workflows of this process if
    /// `None`.
    pub lookup: Option<WorkflowLookup>,
    /// Whether the execution pauses, with the reason `pace`, between two steps of the server.
    pub is_paced: bool,
    /// Its labels, besides those of its workflow.
    pub labels: Labels,
}

impl StartRequest {
    /// A start without inputs, for no project, under a generated id.
    pub fn new(definition: Arc<Definition>) -> Self {
        Self {
            definition,
            execution_id: None,
            project: None,
            inputs: None,
            lookup: None,
            is_paced: false,
            labels: Labels::new(),
        }
    }
}
