//! `workflow.next_step` (S0).

use serde_json::{Map, Value, json};

use super::{
    Running, ToolSpec, acts,
    arguments::token,
    personas::{known_agents_schema, leave_out, take_known_agents},
    schema_of, text, view,
};
use crate::{
    app::App,
    domain::{execution::Report, view::Advanced},
    error::{Code, Error, Result, Violation},
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
                "type": "object",
                "description": "What came of the step. Unless the step shows another output_schema: an object with \
                                summary (string, required), artifacts (each an id or path as text, or an object with \
                                type (file, data, report or finding), name, content, and if you like content_type and \
                                metadata), findings (texts) and next_step_recommendation (text)"
            },
            "known_agents": known_agents_schema(),
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
        || acts(false, false, true),
        (input, schema_of::<Advanced>()),
        run,
    )
}

fn run(app: &App, arguments: Map<String, Value>) -> Running<'_> {
    Box::pin(next_step(app, arguments))
}

async fn next_step(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let known = take_known_agents(&mut arguments);
    let report = match (arguments.remove("output"), arguments.remove("error")) {
        (Some(output), None) => Report::Output(output),
        (None, Some(error)) => failure(&error),
        (both, _) => return Err(not_one(both.is_some())),
    };
    let token = token(text(&arguments, "token").unwrap_or_default());
    let mut reply = view(&app.next_step(token, report).await?)?;
    leave_out(&mut reply, &known);
    Ok(reply)
}

/// Said here and not in the schema: some hosts refuse a tool whose schema has `oneOf` at its top.
fn not_one(both: bool) -> Error {
    let message = if both {
        "`output` and `error` exclude each other: send what came of the step, or why it could not be done"
    } else {
        "either `output` or `error` is required: send what came of the step, or why it could not be done"
    };
    let violation = Violation {
        path: String::new(),
        rule: "oneOf".into(),
        message: message.into(),
        expected: Some("exactly one of `output` and `error`".into()),
        actual: None,
        suggestion: None,
    };
    Error::new(Code::ArgumentsInvalid, message)
        .with("tool", "workflow.next_step")
        .with_violations(vec![violation])
}

fn failure(error: &Value) -> Report {
    Report::Error {
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        code: error["code"].as_str().map(str::to_owned),
        retryable: error["retryable"].as_bool(),
    }
}
