//! `execution.resume`: restores a client's position. With an id it also ends a pause, if it can; without one it changes
//! nothing.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts, execution, execution_id_schema,
    lifecycle::reason_schema,
    personas::{known_agents, known_agents_schema},
    project_schema, shape_of, text, view,
};
use midex_domain::{
    error::Result,
    view::{CurrentStep, Resumed},
};
use midex_server::app::{App, OpenWork};

const NAME: &str = "execution.resume";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "execution_id": execution_id_schema(),
        "reason": reason_schema(),
        "project": project_schema(),
        "known_agents": known_agents_schema()
    });
    ToolSpec::new(
        (
            NAME,
            "What was I doing? / Resume an execution",
            "Call it when you lost your place. Without arguments: the task of the only open execution here, or all \
             that are open. With execution_id: its task, persona and tokens; a paused one goes on.",
        ),
        || acts(false, false, false),
        (properties, &[], output()),
        |app, arguments| Box::pin(run(app, arguments)),
    )
}

/// Fields that are documented by the `current_step` resource, and so not listed again here.
const EXPLAINED: [&str; 12] = [
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
fn output() -> Value {
    let (mut one, two) = (shape_of::<CurrentStep>(), shape_of::<Resumed>());
    if let Some(fields) = one["properties"].as_object_mut() {
        fields.retain(|name, _| !EXPLAINED.contains(&name.as_str()));
    }
    if let (Some(ours), Some(theirs)) = (
        one["properties"].as_object_mut(),
        two["properties"].as_object(),
    ) {
        ours.extend(theirs.clone());
    }
    one["properties"]["state"] = json!({ "type": "string" });
    one["required"] = json!(["success", "message"]);
    one
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let owned = |name| text(&arguments, name).map(str::to_owned);
    let going = if arguments.contains_key("execution_id") {
        let id = execution(&arguments, NAME)?;
        OpenWork::One(Box::new(app.go_on(&id, owned("reason")).await?))
    } else {
        app.resumed(owned("project")).await?
    };
    let mut answer = match going {
        OpenWork::One(mut step) => {
            step.leave_out_known(&known_agents(&arguments));
            one(&step)?
        }
        OpenWork::Several(several) => view(&several)?,
    };
    answer["success"] = json!(true);
    Ok(answer)
}

/// The current step of one execution. Adds `state` and `message`, as lifecycle tools return them.
fn one(step: &CurrentStep) -> Result<Value> {
    let mut answer = view(step)?;
    answer["state"] = json!(step.workflow_state);
    if step.message.is_none() {
        let open = step.ready_steps.iter().map(|open| match open.step.item {
            Some(item) => format!("'{}' (item {})", open.step_name, item + 1),
            None => format!("'{}'", open.step_name),
        });
        let open: Vec<_> = open.collect();
        let (id, state) = (&step.execution_id, &step.workflow_state);
        answer["message"] = json!(format!(
            "Execution '{id}' is {state}, at {}",
            open.join(", ")
        ));
    }
    Ok(answer)
}
