//! Errors that several use cases return or recognise.

use serde_json::Value;

use super::{App, ListRequest, list::OPEN_STATES_FILTER};
use midex_domain::{
    error::{Code, Error, NextCall, address, read_resource},
    limits,
    nearest::find_nearest,
};

/// Suggests reading the open execution whose id is nearest to an unknown id.
const NEAREST_EXECUTION_CALL: NextCall = read_resource(
    address!("current_step/{nearest}"),
    "if that is the one meant; execution.list shows all",
);

/// The error for starting an execution in a project whose environment belongs to another client. That environment must
/// not leak to this caller.
pub(super) fn foreign_environment_error(project: &str) -> Error {
    let message = format!(
        "another client of this midex has the project `{project}`, with an environment of its own"
    );
    Error::new(Code::ArgumentsInvalid, message).with_action(
        "Call {tool} again: leave `project` out, and the execution is started for your own",
    )
}

/// The error for starting an execution in a project that is no directory.
pub(super) fn unknown_project_error(directory: &str) -> Error {
    let message = format!("`{directory}` is not the absolute path of a directory");
    Error::argument_rule("/project", "directory", &message).with_action(
        "Call {tool} again: leave `project` out, and the execution is started for your own",
    )
}

/// Whether the error means that the execution's state does not allow the command.
pub(super) fn is_state_error(code: Code) -> bool {
    matches!(code, Code::ExecutionPaused | Code::StateTransitionRefused)
}

impl App {
    /// Adds what only the app knows to an error: the nearest execution id for an unknown one, and the `--data-dir`
    /// value for command lines that the error suggests.
    pub async fn explain_error(&self, error: Error) -> Error {
        match error.code() {
            Code::ExecutionNotFound => self.add_nearest_execution(error).await,
            code if is_state_error(code) || code == Code::UserAlone => {
                match self.config().data_dir_flag_value() {
                    Some(data_dir) => error.with_context("data_dir", data_dir),
                    None => error,
                }
            }
            _ => error,
        }
    }

    /// Adds the open execution of the caller's project whose id is nearest to the requested one.
    async fn add_nearest_execution(&self, error: Error) -> Error {
        let request = ListRequest {
            state: Some(OPEN_STATES_FILTER.into()),
            should_include_children: true,
            limit: Some(limits::LIST_LIMIT_MAX),
            ..ListRequest::default()
        };
        let listed = self.list(request).await.map(|open| open.executions);
        let open_executions = listed.unwrap_or_default();
        let ids = open_executions.iter().map(|execution| execution.execution_id.as_str());
        let requested_id = error.context("asked").and_then(Value::as_str);
        match requested_id.and_then(|asked| find_nearest(asked, ids)) {
            Some(near) => {
                let message = format!("{}; did you mean '{near}'?", error.message());
                let error = error.with_context("nearest", near).with_next(NEAREST_EXECUTION_CALL);
                error.with_message(message)
            }
            None => error,
        }
    }
}
