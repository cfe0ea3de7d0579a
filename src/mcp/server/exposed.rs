//! Calls of the tools that workflows expose.

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use serde_json::{Map, Value};

use super::{InteractiveCall, Server, ToolCallOutcome, build_call_result};
use crate::{
    answer,
    elicitation::{QuestionsOutcome, ask_open_questions},
    guard::catch_panic_as_error,
    metadata::with_metadata,
    progress,
    splice::build_spliced_result,
    tools::{self, ExposedTool, Toolset},
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

impl Server {
    /// Calls a tool that is none of midex's own; `unknown` is the refusal if no workflow offers it.
    pub(super) async fn call_exposed_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        unknown: Error,
    ) -> Result<CallToolResponse, ErrorData> {
        let (ids, name) = (self.app.ids(), request.name.clone());
        let call = InteractiveCall::new(&self.app, &context, &request);
        let arguments = request.arguments.unwrap_or_default();
        let may_be_exposed =
            unknown.code() == Code::ToolNotFound && self.profile.toolsets.contains(Toolset::Run);
        if may_be_exposed && self.app.activities().tools().any(|(tool, _)| tool == name) {
            return Ok(self.call_activity_tool(&name, arguments, &context).await);
        }
        let refuse = |error: &Error| answer::build_error_data(error, "tools/call", ids);
        let found = if may_be_exposed {
            tools::find_exposed_tool(&self.app, &name, &arguments).await
        } else {
            Ok(None)
        };
        let Some(tool) = found.map_err(|error| refuse(&error))? else {
            return Err(refuse(&tools::add_exposed_tool_hint(unknown, &name)));
        };
        let work = catch_panic_as_error(Box::pin(self.run_exposed_tool(&tool, arguments, call)));
        let longest = Some(limits::WAIT_MAX);
        let outcome = tokio::select! {
            biased;
            done = progress::run_with_progress(&context, tool.name(), longest, work) => done,
            // A read that was cancelled is not finished.
            () = self.wait_for_cancellation(&context), if tool.is_read_only() => {
                Err(Error::new(Code::Cancelled, "the call was withdrawn before it was done"))
            }
        };
        let answer = match outcome {
            Ok(ToolCallOutcome::Answered(result)) => *result,
            Ok(ToolCallOutcome::NeedsInput(needs)) => return Ok(*needs),
            Err(error) => {
                let error = self.app.explain_error(error.with_tool(tool.name())).await;
                answer::build_error_result(&error, None, tool.name(), ids)
            }
        };
        Ok(with_metadata(answer, &context).into())
    }

    /// Calls an activity of the program.
    async fn call_activity_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let work = catch_panic_as_error(Box::pin(async {
            let turn = self.app.call_activity(name, Value::Object(arguments)).await?;
            build_spliced_result(&tools::build_activity_answer(turn)?, context)
        }));
        let longest = Some(limits::SESSION_WAIT);
        let outcome = progress::run_with_progress(context, name, longest, work).await;
        let answer = outcome.unwrap_or_else(|error| {
            let error = error.with_tool(name);
            answer::build_error_result(&error, None, name, self.app.ids())
        });
        with_metadata(answer, context).into()
    }

    /// Starts or continues a session, asks the user what it waits for, and answers where it stands.
    async fn run_exposed_tool(
        &self,
        tool: &ExposedTool,
        arguments: Map<String, Value>,
        mut call: InteractiveCall<'_>,
    ) -> Result<ToolCallOutcome> {
        let context = call.context;
        let id = match call.find_started_execution()? {
            Some(id) => id,
            None => tool.advance(&self.app, arguments).await?,
        };
        let turn = if tool.is_read_only() {
            self.app.turn(&id, std::time::Duration::ZERO).await?
        } else {
            match ask_open_questions(&mut call, &id, None, limits::SESSION_WAIT).await? {
                QuestionsOutcome::Pending(needs) => return Ok(ToolCallOutcome::NeedsInput(needs)),
                QuestionsOutcome::Done(done) => done.turn,
            }
        };
        let reply = tool.build_reply(&self.app, turn).await?;
        let outcome = build_call_result(&reply, reply.suggested_tool(), context)?;
        Ok(match outcome {
            ToolCallOutcome::Answered(mut result) if reply.has_failed() && !tool.is_read_only() => {
                result.is_error = Some(true);
                ToolCallOutcome::Answered(result)
            }
            outcome => outcome,
        })
    }
}
