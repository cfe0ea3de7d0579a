//! Imported executions: their rows come from a bundle, and nothing moves them. They go on only as forks.

use super::{Command, Event, Execution};
use crate::{
    clock::Timestamp,
    error::{EXECUTION_ID_ARGUMENT, Error, NextCall, Result, call_tool},
    event::Row,
};

const FORK_NEXT_CALL: NextCall = call_tool(
    "execution.fork",
    EXECUTION_ID_ARGUMENT,
    "it continues in a new execution, which carries no approval, token or running work",
);

impl Execution {
    /// When it was imported, if it was.
    pub fn imported_at(&self) -> Option<Timestamp> {
        self.imported_at
    }

    /// Whether it was imported: it then keeps the state that it had in the bundle.
    pub fn is_imported(&self) -> bool {
        self.imported_at.is_some()
    }

    /// Whether no call, deadline or outcome can move it: it is in a final state, or was imported. A final execution may still
    /// have orders for its children ([`Execution::is_over`]).
    pub fn has_ended(&self) -> bool {
        self.state.is_final() || self.is_imported()
    }

    /// The row that records the import of this execution into a project.
    pub fn import_row(&self, now: Timestamp, project: &str) -> Row {
        Row {
            execution_id: self.id.clone(),
            revision: self.revision + 1,
            at: self.compute_transition_time(now),
            events: vec![Event::Imported { project: project.to_owned() }],
        }
    }

    /// The refusal of a call that would move this imported execution.
    pub fn imported_error(&self) -> Error {
        let message = format!("execution '{}' was imported and is read-only", self.id);
        self.state_refusal(message, FORK_NEXT_CALL).with_context("imported", self.id.as_str())
    }

    /// Refuses a command that somebody gives to an imported execution. Returns whether the command is one of the engine's
    /// own, which does nothing to it.
    pub(super) fn ignores_command(&self, command: &Command) -> Result<bool> {
        if !self.is_imported() {
            return Ok(false);
        }
        match command {
            Command::Rewind(_)
            | Command::Advance { .. }
            | Command::ChangeState(_)
            | Command::ReceiveSignal(_)
            | Command::AnswerGate(_)
            | Command::ResolveAttempt(_) => Err(self.imported_error()),
            _ => Ok(true),
        }
    }
}
