//! `execution.resume`: lets a paused execution go on; without arguments, tells what was going on.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts, execution_id_schema,
    lifecycle::{Changed, changed, reason_schema},
    project_schema, shape_of, text, view,
};
use crate::{
    app::App,
    domain::{Lifecycle, view::Resumed},
    error::Result,
};

const NAME: &str = "execution.resume";

pub(super) fn spec() -> ToolSpec {
    let input = json!({
        "type": "object",
        "properties": {
            "execution_id": execution_id_schema(),
            "reason": reason_schema(),
            "project": project_schema()
        },
        "required": [],
        "additionalProperties": false
    });
    ToolSpec::new(
        (
            NAME,
            "What was I doing? / Resume an execution",
            "Call it when you lost your place. Without arguments: the open executions of this project, what was decided, and live \
             tokens. With execution_id: lets a paused execution go on.",
        ),
        || acts(false, false, false),
        (input, output()),
        |app, arguments| Box::pin(run(app, arguments)),
    )
}

/// Either of two answers: the fields of both, none of them required.
fn output() -> Value {
    let (mut one, two) = (shape_of::<Changed>(), shape_of::<Resumed>());
    if let (Some(ours), Some(theirs)) = (
        one["properties"].as_object_mut(),
        two["properties"].as_object(),
    ) {
        ours.extend(theirs.clone());
    }
    one["required"] = json!(["success", "message"]);
    one
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    if arguments.contains_key("execution_id") {
        return view(&changed(app, &arguments, NAME, Lifecycle::Resume).await?);
    }
    let project = text(&arguments, "project").map(str::to_owned);
    let mut answer = view(&app.resumed(project).await?)?;
    answer["success"] = json!(true);
    Ok(answer)
}
