//! `workflow.next_step` (S0).

use rmcp::model::ToolAnnotations;
use serde_json::{Map, Value, json};

use super::{Running, ToolSpec, schema_of, text, view};
use crate::{
    app::App,
    domain::{execution::Report, view::Advanced},
    error::Result,
};

pub(super) fn spec() -> ToolSpec {
    let input = json!({
        "type": "object",
        "properties": {
            "token": {
                "type": "string", "minLength": 1,
                "description": "The step's token, unchanged: new_token of the last reply, or continuation_token of \
                                midex://workflow/current_step/{execution_id}"
            },
            "output": {
                "description": "What came of the step. Unless the step shows another output_schema: an object with \
                                summary (string, required), artifacts, findings (arrays of strings) and \
                                next_step_recommendation (string)"
            },
            "error": {
                "type": "object",
                "description": "Instead of output, where the step could not be done",
                "properties": {
                    "message": { "type": "string", "minLength": 1, "description": "What stood in the way" },
                    "code": { "type": "string", "description": "A stable name for it" },
                    "retryable": { "type": "boolean", "description": "Whether another attempt may succeed" }
                },
                "required": ["message"],
                "additionalProperties": false
            }
        },
        "required": ["token"],
        "oneOf": [{ "required": ["output"] }, { "required": ["error"] }],
        "additionalProperties": false
    });
    ToolSpec::new(
        (
            "workflow.next_step",
            "Finish a step",
            "Hands in the output of a step (or the error that stood in its way) and returns the next step with its \
             persona and a new token, until workflow_state is completed. Safe to repeat: the same token with the same \
             output returns the same answer again.",
        ),
        || ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false),
        (input, schema_of::<Advanced>()),
        run,
    )
}

fn run(app: &App, arguments: Map<String, Value>) -> Running<'_> {
    Box::pin(next_step(app, arguments))
}

async fn next_step(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let report = match arguments.remove("output") {
        Some(output) => Report::Output(output),
        None => failure(arguments.remove("error").unwrap_or_default()),
    };
    let token = text(&arguments, "token").unwrap_or_default();
    view(&app.next_step(token, report).await?)
}

fn failure(error: Value) -> Report {
    Report::Error {
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        code: error["code"].as_str().map(str::to_owned),
        retryable: error["retryable"].as_bool(),
    }
}
