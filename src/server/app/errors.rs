//! Errors that several use cases return or recognise.

use midex_domain::error::{Code, Error};

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

/// Whether the error means that the execution's state does not allow the command.
pub(super) fn is_state_error(code: Code) -> bool {
    matches!(code, Code::ExecutionPaused | Code::StateTransitionRefused)
}
