//! `workflow.start`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, Work, acts, execution, personas::known_agents_schema, project_schema, shape_of, text,
};
use midex_domain::{error::Result, limits, view::Advanced};
use midex_server::app::App;

const NAME: &str = "workflow.start";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "workflow_name": {
            "type": "string", "minLength": 1, "maxLength": limits::WORKFLOW_NAME_BYTES_MAX,
            "description": "As workflow.list has it"
        },
        "execution_id": {
            "type": "string", "minLength": 1, "maxLength": limits::EXECUTION_ID_BYTES_MAX,
            "description": "Your own id: then the call can be repeated"
        },
        "inputs": {
            "type": "object",
            "description": "As workflow_details says"
        },
        "project": project_schema(),
        "known_agents": known_agents_schema()
    });
    ToolSpec::doing(
        (
            NAME,
            "Start a workflow",
            "Starts a workflow and returns its first step: the persona to take (agent_content), what to do (instructions) \
             and new_token for workflow.next_step. new_tokens lists all steps that are ready.",
        ),
        || acts(false, false, false),
        (properties, &["workflow_name"], shape_of::<Advanced>()),
        Work::Advance(|app, arguments| Box::pin(start(app, arguments))),
    )
}

async fn start(app: &App, arguments: Map<String, Value>) -> Result<Advanced> {
    let id = arguments
        .contains_key("execution_id")
        .then(|| execution(&arguments, NAME));
    let workflow = text(&arguments, "workflow_name").unwrap_or_default();
    let inputs = arguments.get("inputs").cloned();
    let project = text(&arguments, "project").map(str::to_owned);
    app.start(workflow, id.transpose()?, inputs, project).await
}
