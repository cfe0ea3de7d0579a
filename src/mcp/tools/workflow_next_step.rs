//! `workflow.next_step`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, Work, acts, arguments::token, personas::known_agents_schema, shape_of, text,
};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    execution::{Report, Submission},
    view::Advanced,
};
use midex_server::app::App;

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "token": { "type": "string", "minLength": 1, "description": "The step's, unchanged" },
        "output": {
            "description": "As output_schema says; without one {summary, artifacts?, findings?, \
                            next_step_recommendation?}. An artifact: id, path or {type: file|data|report|finding, \
                            name, content, content_type?, metadata?}"
        },
        "choice": { "type": "string", "description": "Id of the option taken" },
        "known_agents": known_agents_schema(),
        "error": {
            "type": "object",
            "description": "Instead of output: why it cannot be done",
            "properties": {
                "message": { "type": "string", "minLength": 1 },
                "code": { "type": "string" },
                "retryable": { "type": "boolean" }
            },
            "required": ["message"],
            "additionalProperties": false
        }
    });
    ToolSpec::doing(
        (
            "workflow.next_step",
            "Finish a step",
            "Hands in what came of a step and returns the next one with its persona and token, until workflow_state is \
             completed. Safe to repeat.",
        ),
        || acts(false, false, true),
        (properties, &["token"], shape_of::<Advanced>()),
        Work::Advance(|app, arguments| Box::pin(next_step(app, arguments))),
    )
}

async fn next_step(app: &App, mut arguments: Map<String, Value>) -> Result<Advanced> {
    let choice = text(&arguments, "choice").map(str::to_owned);
    let report = match (arguments.remove("output"), arguments.remove("error")) {
        (Some(output), None) => Some(Report::Output(output)),
        (None, Some(error)) => Some(failure(&error)),
        // The execution checks whether a choice alone is enough.
        (None, None) if choice.is_some() => None,
        (both, _) => return Err(not_one(both.is_some())),
    };
    let token = token(text(&arguments, "token").unwrap_or_default());
    app.next_step(token, Submission { report, choice }).await
}

/// Checked here instead of in the schema, since some hosts refuse a tool whose schema has `oneOf` at its top.
fn not_one(both: bool) -> Error {
    let message = if both {
        "`output` and `error` exclude each other: send what came of the step, or why it could not be done"
    } else {
        "either `output` or `error` is required: send what came of the step, or why it could not be done"
    };
    let violation =
        Violation::new("", "oneOf", message).expecting("exactly one of `output` and `error`");
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
