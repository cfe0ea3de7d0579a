//! The answer to a call of any tool.

use std::time::Duration;

use rmcp::{ErrorData, RoleServer, model::CallToolResponse, service::RequestContext};

use super::{Server, ToolCallOutcome};
use crate::{
    answer,
    guard::catch_panic_as_error,
    metadata::{has_modern_metadata, with_metadata},
    progress,
};
use midex_domain::error::{Code, Error, Result};

/// What is known of a call before the tool runs.
pub(super) struct ToolCallInfo<'a> {
    pub(super) tool: &'a str,
    /// The execution that the arguments name. An error names it too.
    pub(super) execution_id: Option<String>,
    /// The longest time that the call can take, if it is known.
    pub(super) max_duration: Option<Duration>,
    /// Whether the call changes nothing, so that it ends once the client cancels it.
    pub(super) is_read_only: bool,
}

impl Server {
    /// Does the work of a call, with progress notifications for a client that wants them, and answers with its outcome. A
    /// panic becomes an error.
    pub(super) async fn answer_tool_call(
        &self,
        info: ToolCallInfo<'_>,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<ToolCallOutcome>>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ToolCallInfo { tool, execution_id, max_duration, is_read_only } = info;
        let work = catch_panic_as_error(work);
        let outcome = tokio::select! {
            biased;
            done = progress::run_with_progress(context, tool, max_duration, work) => done,
            // A read that was cancelled is not finished.
            () = self.wait_for_cancellation(context), if is_read_only => {
                Err(Error::new(Code::Cancelled, "the call was withdrawn before it was done"))
            }
        };
        let ids = self.app.ids();
        let answer = match outcome {
            Ok(ToolCallOutcome::Answered(result)) => *result,
            Ok(ToolCallOutcome::NeedsInput(needs)) => return Ok(*needs),
            // Clients of this protocol version look for what they have to support in a protocol error.
            Err(error)
                if error.code() == Code::TaskCapabilityRequired && has_modern_metadata(context) =>
            {
                return Err(answer::build_error_data(&error, tool, ids));
            }
            Err(error) => {
                let error = self.app.explain_error(error.with_tool(tool)).await;
                answer::build_error_result(&error, execution_id, tool, ids)
            }
        };
        Ok(with_metadata(answer, context).into())
    }
}
