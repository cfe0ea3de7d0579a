//! `execution.signal`: reports an external event that a step waits for.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{lifecycle::StateChangeAnswer, parse_execution_id};
use midex_domain::{error::Result, execution::SignalRequest, limits, view::SignalView};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    #[schemars(length(min = 1, max = limits::SIGNAL_NAME_BYTES_MAX))]
    signal: String,
    /// The step's output
    payload: Option<Value>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<StateChangeAnswer> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let name = arguments.signal;
    let payload = arguments.payload.unwrap_or_default();
    let signal = SignalRequest::new(name.as_str(), payload);
    let status = app.command(&id, signal).await?;
    let stored_signal = status.signals_kept.iter().rfind(|kept| kept.name == name);
    let effect = match stored_signal {
        None => "has taken it".to_owned(),
        Some(SignalView { unknown: Some(why), .. }) => format!("keeps it, but {why}"),
        Some(_) => "keeps it until a step waits for it".to_owned(),
    };
    let message = format!(
        "Execution '{id}' has the signal '{name}': it {effect}. The execution is {}",
        status.state
    );
    Ok(StateChangeAnswer::from_status(status, message))
}
