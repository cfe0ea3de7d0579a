//! `workflow.run`: starts an execution, and waits while the server can advance it, up to a time limit.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts,
    author::{Class, subject, with_subject},
};
use midex_domain::{
    State,
    error::{Code, NextCall, Result, again},
    limits,
    state::Vocabulary,
};
use midex_server::app::{App, RunOutcome};

const NAME: &str = "workflow.run";

/// The next call if inputs are invalid.
const INPUTS_SHOWN: NextCall = again(
    "correct every violation; workflow.resolve_inputs with the same arguments says when they are ready",
);

pub(super) fn spec() -> ToolSpec {
    let longest = limits::WAIT_MAX.as_secs();
    let properties = with_subject(json!({
        "inputs": { "type": "object" },
        "wait_s": { "type": "number", "minimum": 0, "maximum": longest, "default": longest }
    }));
    let text = json!({ "type": "string" });
    let output = json!({
        "type": "object",
        "properties": {
            "run_id": text, "execution_id": text, "workflow_id": text, "status": text, "state": text,
            "revision": { "type": "integer" }, "awaiting": { "type": "object" },
            "waits": { "type": "array", "items": { "type": "object" } }, "final_output": {},
            "final_output_error": { "type": "array", "items": { "type": "object" } },
            "failure_summary": { "type": "object" }
        },
        "required": ["success", "run_id", "execution_id", "workflow_id", "status", "state", "revision", "waits"]
    });
    ToolSpec::new(
        (
            NAME,
            "Run a workflow",
            "Starts a workflow, or an unsaved manifest, and answers when it ended, waits for somebody (awaiting has the token \
             for workflow.next_step) or after wait_s.",
        ),
        || acts(false, false, false),
        (properties, &[], output),
        |app, arguments| Box::pin(run(app, arguments)),
    )
    .of(Class::Standard)
    .lasting(longest_wait)
}

/// The time limit of the call. Must accept arguments that are not checked yet.
fn longest_wait(arguments: &Map<String, Value>) -> Duration {
    let seconds = arguments.get("wait_s").and_then(Value::as_f64);
    let asked = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    asked.map_or(limits::WAIT_MAX, |asked| asked.min(limits::WAIT_MAX))
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let definition = app.sound(subject(&arguments, NAME)?).await?;
    let inputs = arguments.get("inputs").cloned();
    let warning = app.hiding(&definition).await;
    let ran = app.run(definition, inputs, longest_wait(&arguments)).await;
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
