//! Tools that take part in a workflow: their answers lead the model back to the orchestrator.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use midex_domain::{
    orchestrator::{WORKFLOW_STATE_DATA, WorkflowStateData},
    view::{ResultCall, format_tool_prompt},
};

/// A tool of a program that takes part in a workflow. A step names it with `tool`, and its input schema declares
/// `workflowStateData`, with which the orchestrator calls it.
#[derive(Clone, Debug)]
pub struct WorkflowTool {
    orchestrator_tool_id: String,
    result_schema: Value,
}

impl WorkflowTool {
    /// A tool that reports to this orchestrator, with the JSON Schema of its results.
    pub fn new(orchestrator_tool_id: impl Into<String>, result_schema: Value) -> Self {
        Self { orchestrator_tool_id: orchestrator_tool_id.into(), result_schema }
    }

    /// The answer of the tool: `prompt`, followed by the form of the result and by the call that hands it to the orchestrator.
    /// `result_schema` replaces that of the tool.
    pub fn finalize_workflow_tool_output(
        &self,
        prompt: &str,
        state: &WorkflowStateData,
        result_schema: Option<&Value>,
    ) -> CallToolResult {
        let schema = match result_schema.unwrap_or(&self.result_schema) {
            Value::String(text) => text.clone(),
            schema => schema.to_string(),
        };
        let next = ResultCall::orchestrate(&self.orchestrator_tool_id, &json!(state));
        CallToolResult::structured(json!({
            "promptForLLM": format_tool_prompt(prompt, &schema, &next),
            "resultSchema": schema,
            WORKFLOW_STATE_DATA: state,
        }))
    }
}
