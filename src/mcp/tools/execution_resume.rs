//! `execution.resume`: restores a client's position. With an id it also ends a pause, if it can; without one it changes
//! nothing.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{parse_execution_id, personas::KnownAgents, schemas::shallow_view_schema, view_answer};
use midex_domain::{
    error::Result,
    limits,
    view::{CurrentStep, Resumed},
};
use midex_server::app::{App, OpenWork};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: Option<String>,
    #[schemars(length(min = 1, max = limits::REASON_CHARS_MAX))]
    reason: Option<String>,
    /// Directory of another
    #[schemars(length(min = 1, max = limits::PROJECT_CHARS_MAX))]
    project: Option<String>,
    #[serde(flatten)]
    known: KnownAgents,
}

/// Fields that are documented by the `current_step` resource, and so not listed again here.
const DOCUMENTED_FIELDS: [&str; 12] = [
    "description",
    "item",
    "inputs_at_start",
    "inputs",
    "previous",
    "example",
    "input",
    "output_schema",
    "expires_at",
    "progress",
    "nextStepOptions",
    "optionsLeftOut",
];

/// The schema of both possible answers: the fields of both, none of them required except `success` and `message`.
pub(super) fn output_schema() -> Value {
    let (mut one, two) = (shallow_view_schema::<CurrentStep>(), shallow_view_schema::<Resumed>());
    if let Some(fields) = one["properties"].as_object_mut() {
        fields.retain(|name, _| !DOCUMENTED_FIELDS.contains(&name.as_str()));
    }
    if let (Some(ours), Some(theirs)) =
        (one["properties"].as_object_mut(), two["properties"].as_object())
    {
        ours.extend(theirs.clone());
    }
    one["properties"]["state"] = json!({ "type": "string" });
    one["required"] = json!(["success", "message"]);
    one
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let going = match arguments.execution_id {
        Some(id) => OpenWork::One(Box::new(
            app.resume_current_step(&parse_execution_id(&id)?, arguments.reason).await?,
        )),
        None => app.open_work(arguments.project).await?,
    };
    let mut answer = match going {
        OpenWork::One(mut step) => {
            step.leave_out_known(&arguments.known.known_agents.unwrap_or_default());
            current_step_answer(&step)?
        }
        OpenWork::Several(several) => view_answer(&several)?,
    };
    answer["success"] = json!(true);
    Ok(answer)
}

/// The current step of one execution. Adds `state` and `message`, as lifecycle tools return them.
fn current_step_answer(step: &CurrentStep) -> Result<Value> {
    let mut answer = view_answer(step)?;
    answer["state"] = json!(step.workflow_state);
    if step.message.is_none() {
        let open = step.ready_steps.iter().map(|open| match open.step.item {
            Some(item) => format!("'{}' (item {})", open.step_name, item + 1),
            None => format!("'{}'", open.step_name),
        });
        let open: Vec<_> = open.collect();
        let (id, state) = (&step.execution_id, &step.workflow_state);
        answer["message"] = json!(format!("Execution '{id}' is {state}, at {}", open.join(", ")));
    }
    Ok(answer)
}
