//! `workflow.next_step`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{arguments::trim_token, deserialize_present, personas::KnownAgents};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    execution::{Report, Submission},
    view::AdvanceReply,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// The step's, unchanged
    #[schemars(length(min = 1))]
    token: String,
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(
        description = "As output_schema says; without one {summary, artifacts?, findings?, next_step_recommendation?}. An \
                       artifact: id, path or {type: file|data|report|finding, name, content, content_type?, metadata?}"
    )]
    output: Option<Value>,
    /// Id of the option taken
    choice: Option<String>,
    #[serde(flatten)]
    _known: KnownAgents,
    /// No output: why. May end the execution
    error: Option<ErrorArgument>,
}

#[derive(Deserialize, JsonSchema)]
struct ErrorArgument {
    #[schemars(length(min = 1))]
    message: String,
    code: Option<String>,
    retryable: Option<bool>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<AdvanceReply> {
    let choice = arguments.choice;
    let report = match (arguments.output, arguments.error) {
        (Some(output), None) => Some(Report::Output(output)),
        (None, Some(failure)) => Some(Report::Error {
            message: failure.message,
            code: failure.code,
            retryable: failure.retryable,
        }),
        // The execution checks whether a choice alone is enough.
        (None, None) if choice.is_some() => None,
        (both, _) => return Err(output_or_error_required(both.is_some())),
    };
    let token = trim_token(&arguments.token);
    app.next_step(token, Submission { report, choice }).await
}

/// Checked here instead of in the schema, since some hosts refuse a tool whose schema has `oneOf` at its top.
fn output_or_error_required(has_both: bool) -> Error {
    let message = if has_both {
        "`output` and `error` exclude each other: send what came of the step, or why it could not be done, which may end the execution"
    } else {
        "either `output` or `error` is required: send what came of the step, or why it could not be done, which may end the execution"
    };
    let violation =
        Violation::new("", "oneOf", message).with_expected("exactly one of `output` and `error`");
    Error::new(Code::ArgumentsInvalid, message)
        .with_context("tool", "workflow.next_step")
        .with_violations(vec![violation])
}
