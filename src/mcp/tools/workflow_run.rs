//! `workflow.run`: starts an execution, and waits while the server can advance it, up to a time limit.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{author::DefinitionSelection, duration, schemas::output_of};
use midex_domain::{
    State,
    error::{Code, NextCall, Result, again},
    limits,
    state::Vocabulary,
};
use midex_server::app::{App, RunOutcome};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[serde(flatten)]
    selection: DefinitionSelection,
    inputs: Option<Map<String, Value>>,
    #[schemars(
        range(min = 0, max = limits::WAIT_MAX.as_secs()),
        extend("default" = limits::WAIT_MAX.as_secs())
    )]
    wait_s: Option<f64>,
}

/// The next call if inputs are invalid.
const INPUTS_SHOWN: NextCall = again(
    "correct every violation; workflow.resolve_inputs with the same arguments says when they are ready",
);

pub(super) fn output() -> Value {
    let text = json!({ "type": "string" });
    let list = json!({ "type": "array", "items": { "type": "object" } });
    let required = json!({
        "run_id": text, "execution_id": text, "workflow_id": text, "status": text, "state": text,
        "revision": { "type": "integer" }, "waits": list
    });
    let optional = json!({
        "awaiting": { "type": "object" }, "final_output": {}, "final_output_error": list,
        "failure_summary": { "type": "object" }
    });
    output_of(required, optional)
}

/// The time limit of a call with these arguments, which need not be checked yet.
pub(super) fn longest(arguments: &Map<String, Value>) -> Duration {
    duration(arguments.get("wait_s").and_then(Value::as_f64))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let subject = arguments.selection.subject("workflow.run")?;
    let definition = app.sound(subject).await?;
    let (inputs, wait) = (
        arguments.inputs.map(Value::Object),
        duration(arguments.wait_s),
    );
    let warning = app.hiding(&definition).await;
    let ran = app.run(definition, inputs, wait).await;
    let RunOutcome { step, status } = ran.map_err(|error| match error.code() {
        // A manifest that is not saved has no details resource to suggest.
        Code::InputsInvalid => error.with_next(INPUTS_SHOWN),
        _ => error,
    })?;
    let is_awaiting = step.current_step.is_some();
    let state = State::parse(&status.state).unwrap_or(State::Running);
    let mut answer = json!({
        "success": true,
        "run_id": status.execution_id,
        "execution_id": status.execution_id,
        "workflow_id": status.workflow_name,
        "status": state.word(Vocabulary::Run),
        "state": status.state,
        "revision": status.revision,
        "waits": status.waits,
    });
    if let Some(output) = &status.final_output {
        answer["final_output"] = output.clone();
    }
    if !status.final_output_error.is_empty() {
        answer["final_output_error"] = json!(status.final_output_error);
    }
    if let Some(failure) = &status.error {
        answer["failure_summary"] = json!(failure);
    }
    if let Some(warning) = warning {
        answer["warnings"] = json!([warning]);
    }
    if is_awaiting {
        answer["awaiting"] = json!(step);
    }
    Ok(answer)
}
