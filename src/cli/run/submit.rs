//! Submits the result of a step, and decides what follows if it is refused.

use serde_json::json;

use super::{
    WorkflowRunner,
    submission::{StepReport, StepSubmission},
};
use crate::{link::may_have_taken_effect, print_warning, steps::OpenStep};
use midex_domain::{
    error::{Code, Error, Result},
    view::AdvanceReply,
};

impl WorkflowRunner<'_> {
    /// Submits an output or an error of a step. Returns the refusal if the person can be asked again.
    pub(super) async fn submit_result(
        &mut self,
        step: &OpenStep,
        submission: StepSubmission,
    ) -> Result<Option<Error>> {
        self.page.print_submission(&submission)?;
        // Connect before the draft is marked as sent: if this fails, nothing was submitted.
        self.link.open().await?;
        let (name, value) = match &submission.report {
            StepReport::Output(output) => ("output", output),
            StepReport::Error(error) => ("error", error),
        };
        let arguments = json!({ "token": step.ready.continuation_token, (name): value });
        // An output that a person typed here counts as the user's own answer.
        let is_elicitation = step.input().is_some_and(|it| it["via"] == "elicitation");
        let is_user_answer = submission.is_by_person && name == "output" && is_elicitation;
        let tool = if is_user_answer { "execution.answer" } else { "workflow.next_step" };
        self.source.draft.mark_submission_sent(&submission);
        match self.link.advance(tool, arguments).await {
            Ok((reply, AdvanceReply { execution_id, workflow_state, .. })) => {
                self.source.draft.clear_recorded();
                let page = &mut self.page;
                page.print_reply(&reply, &execution_id, &workflow_state, "")?;
                Ok(None)
            }
            Err(error) if may_have_taken_effect(&error) => Err(error),
            Err(error) => {
                self.source.draft.mark_refused();
                self.handle_refusal(error, submission)
            }
        }
    }

    fn handle_refusal(
        &mut self,
        error: Error,
        submission: StepSubmission,
    ) -> Result<Option<Error>> {
        match error.code() {
            // A person may take longer over a step than its token lives; the next read renews it.
            _ if is_token_expired(&error) && !submission.is_retry => {
                self.source.retry_later(submission);
                Ok(None)
            }
            Code::StepOutputInvalid | Code::ArgumentsInvalid if submission.is_by_person => {
                Ok(Some(error))
            }
            // The execution was paused in the meantime: the next read reports why.
            Code::ExecutionPaused => {
                self.source.draft.print_unrecorded();
                Ok(None)
            }
            // Another client submitted first: the next read reports which steps are open now.
            Code::TokenAlreadyUsed | Code::TokenSuperseded | Code::ExecutionFinished
                if submission.is_by_person =>
            {
                print_warning("somebody else was faster: this step was handed in meanwhile");
                self.source.draft.print_unrecorded();
                Ok(None)
            }
            _ if submission.is_by_person => Err(error),
            _ => {
                // The source of these lines still holds them, so there is no need to print them as a draft.
                self.source.draft.clear_recorded();
                Err(match error.code() {
                    // Only an output typed at a terminal counts as the user's own answer, not one from a pipe.
                    Code::UserAlone => error
                        .with_context("execution_id", self.id.as_str())
                        .with_action(TERMINAL_ONLY_ADVICE),
                    _ => error,
                })
            }
        }
    }
}

/// Whether the next read of the step renews its token.
fn is_token_expired(error: &Error) -> bool {
    matches!(error.code(), Code::TokenExpired | Code::TokenSuperseded)
}

/// The suggested action if only the user may answer.
const TERMINAL_ONLY_ADVICE: &str = "Run `midex run {workflow} --id {execution_id}[ --data-dir '{data_dir}']` in a terminal with nothing piped in, and type the answer there";
