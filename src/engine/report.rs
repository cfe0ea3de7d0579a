//! Reports to executions, for example of an attempt's outcome, with retries.

use std::sync::Arc;

use super::{Shared, message::MessageOrigin};
use midex_domain::{
    Command, ExecutionId,
    error::{Code, Error},
    execution::OperationFailure,
    limits,
    span::compute_backoff,
};

/// Sends `command` until the execution has accepted it, so that no outcome is lost while the process lives. Returns
/// false if the execution does not exist.
pub(super) async fn report_until_accepted(
    shared: &Shared,
    id: &ExecutionId,
    mut command: Command,
) -> bool {
    let (mut failures, mut faults) = (0, 0);
    loop {
        let Err(error) = shared.send(id, MessageOrigin::Runner, command.clone()).await else {
            return true;
        };
        if error.code().is_missing_execution() {
            return false;
        }
        tracing::warn!(execution = %id, code = error.code().as_str(), "what came of an operation cannot be recorded now; it is tried again");
        failures += 1;
        faults += u32::from(error.code() == Code::Internal);
        if faults >= limits::OUTCOME_FAULTS_MAX {
            command = replace_repeated_failure(command, &error);
        }
        let pause = compute_backoff(failures, limits::OUTCOME_RETRY_MIN, limits::OUTCOME_RETRY_MAX);
        tokio::time::sleep(pause).await;
    }
}

/// Replaces an outcome that the execution repeatedly fails to accept by a failure of the attempt.
fn replace_repeated_failure(command: Command, error: &Error) -> Command {
    match command {
        Command::RecordOutcome { attempt_id, outcome, .. } if outcome.is_ok() => {
            let message = format!("what it brought could not be taken in: {}", error.message());
            let failure = OperationFailure::new("internal", message);
            let (outcome, notes) = (Arc::new(Err(failure)), Arc::default());
            Command::RecordOutcome { attempt_id, outcome, notes }
        }
        command => command,
    }
}
