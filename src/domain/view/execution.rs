//! Everything that `midex show` prints of an execution.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ArtifactView, CurrentStep, GraphView, HistoryRow, StatusView, same_keys::deserialize_if_known,
};

/// An execution at one revision, as `midex show` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecutionView {
    /// The final output in full, where the status has it shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Its state, and what it waits for.
    pub status: StatusView,
    /// What a fork of it would do outside of midex, in words, if it was imported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
    /// Every visit of every step.
    pub history: Vec<HistoryRow>,
    /// Its artifacts, without their content.
    pub artifacts: Vec<ArtifactView>,
    /// Its open steps, worded for a person.
    pub current_step: CurrentStep,
    /// Its steps with their states; `None` if a newer server sent a graph that this version does not know.
    #[serde(deserialize_with = "deserialize_if_known")]
    pub graph: Option<GraphView>,
}
