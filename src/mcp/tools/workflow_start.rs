//! `workflow.start`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{parse_execution_id, personas::KnownAgents};
use midex_domain::{error::Result, label::Labels, limits, view::AdvanceReply};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// As workflow.list has it
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_name: String,
    /// Your own id: then the call can be repeated
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: Option<String>,
    #[schemars(description = "As workflow_details says")]
    inputs: Option<Map<String, Value>>,
    labels: Option<Labels>,
    /// Directory of another
    #[schemars(length(min = 1, max = limits::PROJECT_CHARS_MAX))]
    project: Option<String>,
    #[serde(flatten)]
    _known: KnownAgents,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<AdvanceReply> {
    let id = arguments.execution_id.as_deref().map(parse_execution_id);
    let inputs = arguments.inputs.map(Value::Object);
    let labels = arguments.labels.unwrap_or_default();
    let (name, project) = (&arguments.workflow_name, arguments.project);
    app.start_with_labels(name, id.transpose()?, inputs, project, labels).await
}
