//! `execution.resolve`: records the outcome of work that was interrupted.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    deserialize_present, execution_approve::parse_step_name, lifecycle::StateChangeAnswer,
    parse_execution_id,
};
use midex_domain::{
    error::{Error, Result},
    execution::{Resolution, Verdict},
    limits,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    /// As waits has it
    #[schemars(length(min = 1, max = limits::STEP_ID_BYTES_MAX))]
    step_name: String,
    #[schemars(range(min = 1, max = u32::MAX))]
    visit: Option<u32>,
    /// With visit: of this attempt alone
    #[schemars(range(min = 1, max = u32::MAX))]
    attempt: Option<u32>,
    #[schemars(range(max = u32::MAX))]
    item: Option<u32>,
    /// retry: it took no effect; output: it did; failed: for message
    verdict: VerdictName,
    #[serde(default, deserialize_with = "deserialize_present")]
    output: Option<Value>,
    #[schemars(length(min = 1, max = limits::COMMENT_BYTES_MAX))]
    message: Option<String>,
}

/// The name of a verdict; its output or message is in other arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum VerdictName {
    Retry,
    Output,
    Failed,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<StateChangeAnswer> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let verdict = match (arguments.verdict, arguments.output) {
        (VerdictName::Retry, None) => Verdict::Retry,
        (VerdictName::Output, Some(output)) => Verdict::Output(Arc::new(output)),
        (VerdictName::Failed, None) => {
            Verdict::Failed(arguments.message.unwrap_or_else(|| "it failed".to_owned()))
        }
        (VerdictName::Output, None) => {
            return Err(verdict_output_error("the verdict `output` needs output"));
        }
        _ => {
            return Err(verdict_output_error("output belongs to the verdict `output` alone"));
        }
    };
    let resolution = Resolution {
        step: parse_step_name(&arguments.step_name)?,
        item: arguments.item,
        attempt: arguments.visit.zip(arguments.attempt),
        verdict,
    };
    let status = app.command(&id, resolution).await?;
    let message = format!("Execution '{id}' is {}", status.state);
    Ok(StateChangeAnswer::from_status(status, message))
}

fn verdict_output_error(message: &str) -> Error {
    Error::argument_rule("/output", "dependentRequired", message)
}
