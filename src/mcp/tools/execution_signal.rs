//! `execution.signal`: reports an external event that a step waits for.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts, execution, execution_id_schema, lifecycle::Changed, shape_of, text, view,
};
use midex_domain::{error::Result, execution::SignalRequest, limits, view::SignalView};
use midex_server::app::App;

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "execution_id": execution_id_schema(),
        "signal": {
            "type": "string", "minLength": 1, "maxLength": limits::SIGNAL_NAME_BYTES_MAX
        },
        "payload": { "description": "The step's output" }
    });
    ToolSpec::new(
        (
            "execution.signal",
            "Signal an execution",
            "Brings a signal that a step waits for, or will. Each call is one.",
        ),
        || acts(false, false, false),
        (
            properties,
            &["execution_id", "signal"],
            shape_of::<Changed>(),
        ),
        |app, arguments| Box::pin(signal(app, arguments)),
    )
}

async fn signal(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = execution(&arguments, "execution.signal")?;
    let name = text(&arguments, "signal").unwrap_or_default().to_owned();
    let payload = arguments.get("payload").cloned().unwrap_or_default();
    let signal = SignalRequest::new(name.as_str(), payload);
    let status = app.command(&id, signal).await?;
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
