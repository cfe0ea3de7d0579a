//! `execution.signal`: reports an external event that a step waits for.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{lifecycle::StateChangeAnswer, parse_execution_id};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    execution::{SignalContent, SignalRequest},
    limits,
    view::SignalView,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    #[schemars(length(min = 1, max = limits::SIGNAL_NAME_BYTES_MAX))]
    signal: String,
    /// The step's output
    payload: Option<Value>,
    /// {code, message}
    #[schemars(with = "Option<Map<String, Value>>")]
    error: Option<SignalError>,
    alive: Option<bool>,
}

/// A failure that a signal reports.
#[derive(Deserialize)]
pub(super) struct SignalError {
    code: Option<String>,
    message: String,
}

impl Arguments {
    /// The signal.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if it has more than one of `payload`, `error` and `alive`.
    fn build_request(self) -> Result<SignalRequest> {
        match (self.payload, self.error, self.alive == Some(true)) {
            (payload, None, false) => {
                Ok(SignalRequest::new(self.signal, payload.unwrap_or_default()))
            }
            (None, Some(error), false) => {
                Ok(SignalRequest::failure(self.signal, error.code, error.message))
            }
            (None, None, true) => Ok(SignalRequest::alive(self.signal)),
            _ => {
                let message = "a signal has one of `payload`, `error` and `alive: true`";
                Err(Error::new(Code::ArgumentsInvalid, message)
                    .with_violations(vec![Violation::new("", "oneOf", message)]))
            }
        }
    }
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<StateChangeAnswer> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let name = arguments.signal.clone();
    let signal = arguments.build_request()?;
    let is_alive = signal.content == SignalContent::Alive;
    let status = app.command(&id, signal).await?;
    if is_alive {
        let mut waits = status.waits.iter();
        let waiting = waits.find(|wait| wait.signal.as_ref() == Some(&name) && wait.due.is_some());
        let message = match waiting.and_then(|wait| wait.due.as_ref()) {
            Some(due) => format!("Execution '{id}' waits for the signal '{name}' until {due}"),
            None => format!(
                "No step of execution '{id}' waits for signs of life of '{name}': nothing has changed"
            ),
        };
        return Ok(StateChangeAnswer::from_status(status, message));
    }
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
