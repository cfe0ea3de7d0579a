//! `execution.signal`: something happened elsewhere that a step waits for.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts, execution, execution_id_schema, lifecycle::Changed, shape_of, text, view,
};
use crate::{app::App, domain::view::SignalView, error::Result, limits};

pub(super) fn spec() -> ToolSpec {
    let input = json!({
        "type": "object",
        "properties": {
            "execution_id": execution_id_schema(),
            "signal": {
                "type": "string", "minLength": 1, "maxLength": limits::SIGNAL_NAME_BYTES_MAX,
                "description": "The name that the step waits for"
            },
            "payload": {
                "description": "Any JSON value; it becomes the output of the step that waits. null where left out"
            }
        },
        "required": ["execution_id", "signal"],
        "additionalProperties": false
    });
    ToolSpec::new(
        (
            "execution.signal",
            "Signal an execution",
            "Says that something happened that a step with `wait: { signal }` waits for. Where none waits for it yet it is kept until one does; \
             each call is one signal.",
        ),
        || acts(false, false, false),
        (input, shape_of::<Changed>()),
        |app, arguments| Box::pin(signal(app, arguments)),
    )
}

async fn signal(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = execution(&arguments, "execution.signal")?;
    let name = text(&arguments, "signal").unwrap_or_default().to_owned();
    let payload = arguments.get("payload").cloned().unwrap_or_default();
    let status = app.signal(&id, name.clone(), payload).await?;
    let kept = status.signals_kept.iter().rfind(|kept| kept.name == name);
    let became = match kept {
        None => "has taken it".to_owned(),
        Some(SignalView {
            unknown: Some(why), ..
        }) => format!("keeps it, but {why}"),
        Some(_) => "keeps it until a step waits for it".to_owned(),
    };
    let message = format!(
        "Execution '{id}' has the signal '{name}': it {became}. The execution is {}",
        status.state
    );
    view(&Changed::of(status, message))
}
