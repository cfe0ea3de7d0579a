//! `workflow.start` (S0).

use rmcp::model::ToolAnnotations;
use serde_json::{Map, Value, json};

use super::{Running, ToolSpec, schema_of, text, view};
use crate::{
    app::App,
    domain::{ExecutionId, view::Advanced},
    error::{Result, Violation},
    limits,
};

pub(super) fn spec() -> ToolSpec {
    let input = json!({
        "type": "object",
        "properties": {
            "workflow_name": {
                "type": "string", "minLength": 1, "maxLength": limits::WORKFLOW_NAME_BYTES_MAX,
                "description": "Name of the workflow to start, as midex://workflow/available_workflows lists it"
            },
            "execution_id": {
                "type": "string", "minLength": 1, "maxLength": limits::EXECUTION_ID_BYTES_MAX,
                "description": "An id of your own for the execution, so that this call may be repeated if its reply is lost; one is made where it is left out"
            },
            "inputs": {
                "type": "object",
                "description": "What the workflow is to work on; kept with the execution and shown in current_step"
            }
        },
        "required": ["workflow_name"],
        "additionalProperties": false
    });
    ToolSpec::new(
        (
            "workflow.start",
            "Start a workflow",
            "Starts a workflow execution and returns its first step: whose persona to take (agent_content), what to do, \
             and the token that workflow.next_step needs. Where several steps are ready at once, new_tokens lists all \
             of them, each with its own token. The execution survives restarts: its id is enough to go on.",
        ),
        || {
            ToolAnnotations::new()
                .read_only(false)
                .destructive(false)
                .idempotent(false)
                .open_world(false)
        },
        (input, schema_of::<Advanced>()),
        run,
    )
}

fn run(app: &App, arguments: Map<String, Value>) -> Running<'_> {
    Box::pin(start(app, arguments))
}

/// An id that the schema lets pass may still hold what no id may.
fn execution_id(text: &str) -> Result<ExecutionId> {
    ExecutionId::parse(text).map_err(|error| {
        let violation = Violation {
            path: "/execution_id".into(),
            rule: "format".into(),
            message: error.message().to_owned(),
            expected: Some("printable text that neither starts nor ends with white space".into()),
            actual: None,
        };
        error
            .with("tool", "workflow.start")
            .with_violations(vec![violation])
    })
}

async fn start(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let inputs = arguments.remove("inputs");
    let name = text(&arguments, "workflow_name").unwrap_or_default();
    let id = text(&arguments, "execution_id")
        .map(execution_id)
        .transpose()?;
    let advanced = app.start(name, id, inputs).await?;
    view(&advanced)
}
