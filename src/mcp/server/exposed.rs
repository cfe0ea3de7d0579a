//! Calls of the tools that workflows expose.

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use serde_json::{Map, Value};

use super::{InteractiveCall, Server, ToolCallInfo, ToolCallOutcome, build_call_result};
use crate::{
    answer,
    elicitation::{QuestionsOutcome, ask_open_questions},
    splice::build_spliced_result,
    tools::{self, ExposedTool, ThreadCall, Toolset},
};
use midex_domain::{
    definition::ExposedAction,
    error::{Error, Result},
    limits,
};

impl Server {
    /// Calls a tool that is none of midex's own.
    pub(super) async fn call_exposed_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (ids, name) = (self.app.ids(), request.name.clone());
        let call = InteractiveCall::new(&self.app, &context, &request);
        let arguments = request.arguments.unwrap_or_default();
        let may_be_exposed = self.profile.toolsets.contains(Toolset::Run);
        if may_be_exposed && self.app.activities().tools().any(|(tool, _)| tool == name) {
            return self.call_activity_tool(&name, arguments, &context).await;
        }
        let refuse = |error: &Error| answer::build_error_data(error, "tools/call", ids);
        let found = if may_be_exposed {
            tools::find_exposed_tool(&self.app, &name, &arguments).await
        } else {
            Ok(None)
        };
        let Some(tool) = found.map_err(|error| refuse(&error))? else {
            let unknown = tools::unknown_tool_error(&name, self.profile.toolsets);
            return Err(refuse(&tools::add_exposed_tool_hint(unknown, &name)));
        };
        let info = ToolCallInfo {
            tool: tool.name(),
            execution_id: None,
            max_duration: Some(limits::WAIT_MAX),
            is_read_only: tool.is_read_only(),
        };
        let work = Box::pin(async {
            match tool.action {
                ExposedAction::GetInput | ExposedAction::ExtractInput => {
                    let result = tool.answer_utility_call(arguments)?;
                    Ok(ToolCallOutcome::Answered(Box::new(result)))
                }
                ExposedAction::Orchestrate => self.run_orchestrator(&tool, arguments, call).await,
                _ => self.run_exposed_tool(&tool, arguments, call).await,
            }
        });
        self.answer_tool_call(info, &context, work).await
    }

    /// Calls an activity of the program.
    async fn call_activity_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let info = ToolCallInfo {
            tool: name,
            execution_id: None,
            max_duration: Some(limits::SESSION_WAIT),
            is_read_only: false,
        };
        let work = Box::pin(async {
            let turn = self.app.call_activity(name, Value::Object(arguments)).await?;
            let result = build_spliced_result(&tools::build_activity_answer(turn)?, context)?;
            Ok(ToolCallOutcome::Answered(Box::new(result)))
        });
        self.answer_tool_call(info, context, work).await
    }

    /// Starts or continues a thread, and answers with its prompt. If it waits for the user, asks them first.
    async fn run_orchestrator(
        &self,
        tool: &ExposedTool,
        arguments: Map<String, Value>,
        mut call: InteractiveCall<'_>,
    ) -> Result<ToolCallOutcome> {
        let context = call.context;
        let thread_call = match call.find_started_execution()? {
            Some(thread) => ThreadCall::read(thread),
            None => tool.advance_thread(&self.app, arguments).await?,
        };
        call.last_transition = thread_call.last_transition.clone();
        let asked =
            ask_open_questions(&mut call, &thread_call.thread, None, limits::SESSION_WAIT).await?;
        let done = match asked {
            QuestionsOutcome::Pending(needs) => return Ok(ToolCallOutcome::NeedsInput(needs)),
            QuestionsOutcome::Done(done) => done,
        };
        let reply = tool
            .build_thread_reply(&self.app, &thread_call, &done.turn, done.unanswered_notice)
            .await?;
        build_call_result(&reply, None, context)
    }

    /// Starts, continues or reads a session. If it waits for the user, asks them first.
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
