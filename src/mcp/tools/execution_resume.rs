//! `execution.resume`: restores a client's position. With an id it also ends a pause, if it can; without one it changes
//! nothing.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    parse_execution_id, personas::KnownAgents, schemas::shallow_view_schema, serialize_view,
};
use midex_domain::{
    error::Result,
    limits,
    view::{CurrentStep, ResumeReply},
};
use midex_server::app::{App, ListRequest, OpenWork};

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
    let (mut step_schema, list_schema) =
        (shallow_view_schema::<CurrentStep>(), shallow_view_schema::<ResumeReply>());
    if let Some(fields) = step_schema["properties"].as_object_mut() {
        fields.retain(|name, _| !DOCUMENTED_FIELDS.contains(&name.as_str()));
    }
    if let (Some(ours), Some(theirs)) =
        (step_schema["properties"].as_object_mut(), list_schema["properties"].as_object())
    {
        ours.extend(theirs.clone());
    }
    step_schema["properties"]["state"] = json!({ "type": "string" });
    step_schema["required"] = json!(["success", "message"]);
    step_schema
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let open_work = match arguments.execution_id {
        Some(id) => OpenWork::One(Box::new(
            app.resume_current_step(&parse_execution_id(&id)?, arguments.reason).await?,
        )),
        None => find_open_work(app, arguments.project).await?,
    };
    let mut answer = match open_work {
        OpenWork::One(mut step) => {
            step.omit_known_persona(&arguments.known.known_agents.unwrap_or_default());
            build_step_answer(&step)?
        }
        OpenWork::Several(several) => serialize_view(&several)?,
    };
    answer["success"] = json!(true);
    Ok(answer)
}

/// The open work of a project. If nothing is open, the message names the retry of the execution that failed last.
async fn find_open_work(app: &App, project: Option<String>) -> Result<OpenWork> {
    let mut open_work = app.open_work(project.clone()).await?;
    if let OpenWork::Several(several) = &mut open_work
        && several.open_executions.is_empty()
    {
        let request = ListRequest { project, limit: Some(1), ..ListRequest::default() };
        several.name_retry(app.list(request).await?.executions.first());
    }
    Ok(open_work)
}

/// The current step of one execution. Adds `state` and `message`, as lifecycle tools return them.
fn build_step_answer(step: &CurrentStep) -> Result<Value> {
    let mut answer = serialize_view(step)?;
    answer["state"] = json!(step.workflow_state);
    if step.message.is_none() {
        let ready_steps = step.ready_steps.iter().map(|open| match open.step.item {
            Some(item) => format!("'{}' (item {})", open.step_name, item + 1),
            None => format!("'{}'", open.step_name),
        });
        let ready_steps: Vec<_> = ready_steps.collect();
        let (id, state) = (&step.execution_id, &step.workflow_state);
        answer["message"] =
            json!(format!("Execution '{id}' is {state}, at {}", ready_steps.join(", ")));
    }
    Ok(answer)
}
