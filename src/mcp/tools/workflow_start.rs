//! `workflow.start` (S0).

use serde_json::{Map, Value, json};

use super::{
    Running, ToolSpec, acts, execution,
    personas::{known_agents_schema, leave_out, take_known_agents},
    project_schema, schema_of, text, view,
};
use crate::{
    app::{App, StartArguments},
    domain::view::Advanced,
    error::Result,
    limits,
};

const NAME: &str = "workflow.start";

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
                "description": "What the workflow is to work on, as its inputs in midex://workflow/workflow_details/{workflow_name} say; any object where it declares none. Kept with the execution, with defaults filled in, and shown in current_step"
            },
            "project": project_schema(),
            "known_agents": known_agents_schema()
        },
        "required": ["workflow_name"],
        "additionalProperties": false
    });
    ToolSpec::new(
        (
            NAME,
            "Start a workflow",
            "Starts a workflow execution and returns its first step: whose persona to take (agent_content), what to do, \
             and the token that workflow.next_step needs. Where several steps are ready at once, new_tokens lists all \
             of them, each with its own token. The execution survives restarts: its id is enough to go on.",
        ),
        || acts(false, false, false),
        (input, schema_of::<Advanced>()),
        run,
    )
}

fn run(app: &App, arguments: Map<String, Value>) -> Running<'_> {
    Box::pin(start(app, arguments))
}

async fn start(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let known = take_known_agents(&mut arguments);
    let id = arguments
        .contains_key("execution_id")
        .then(|| execution(&arguments, NAME));
    let owned = |name: &str| text(&arguments, name).map(str::to_owned);
    let request = StartArguments {
        workflow_name: owned("workflow_name").unwrap_or_default(),
        execution_id: id.transpose()?,
        project: owned("project"),
        inputs: arguments.get("inputs").cloned(),
    };
    let mut reply = view(&app.start(request).await?)?;
    leave_out(&mut reply, &known);
    Ok(reply)
}
