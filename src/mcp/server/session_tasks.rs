//! Tasks of protocol version 2025-11-25, over lines. Like those in `runs`, they are views of executions.

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, DetailedTask, Task,
        TaskPayload, TaskStatus,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};

use super::{Server, ToolCallOutcome, as_invalid_params};
use crate::{
    elicitation::InteractiveCall,
    tools::{self, ToolSpec, Toolsets},
};
use midex_domain::{
    ExecutionId,
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::ListRequest;

/// The metadata key that names the task to which a message belongs.
pub(super) const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";

impl Server {
    /// The result of a request that [`crate::frame::convert_task_request`] has marked.
    pub(super) async fn answer_session_task_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        if method == "tools/list" {
            return list_tools_with_task_support(self, params, context).await;
        }
        let answer = self.answer_task_method(&method, params.unwrap_or_default(), &context);
        let answer = self.answer_request("tasks", Box::pin(answer)).await;
        answer.map(CustomResult).map_err(as_invalid_params)
    }

    async fn answer_task_method(
        &self,
        method: &str,
        params: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        let malformed_params =
            || Error::new(Code::ParamsInvalid, format!("malformed params for {method}"));
        let id = || ExecutionId::parse(params["taskId"].as_str().ok_or_else(malformed_params)?);
        match method {
            "tools/call" => {
                let call = serde_json::from_value(params.clone());
                self.start_task(call.map_err(|_| malformed_params())?, context).await
            }
            "tasks/list" => match &params["cursor"] {
                Value::Null => self.list_tasks(None, context).await,
                Value::String(cursor) => self.list_tasks(Some(cursor.clone()), context).await,
                _ => Err(malformed_params()),
            },
            "tasks/result" => self.wait_for_result(&id()?, context).await,
            "tasks/cancel" => self.end_task(&id()?, context).await,
            "tasks/get" => {
                let task = self.read_session_task(&id()?, context).await?;
                if task.status() == TaskStatus::InputRequired {
                    // It may be from an earlier connection, or from the server before this one.
                    self.ensure_watch(&id()?, None, std::future::ready(()), context);
                }
                Ok(build_session_task(&task.task))
            }
            _ => Err(Error::new(Code::MethodNotFound, format!("unknown method {method}"))),
        }
    }

    /// Calls a tool as a task, and answers as soon as its execution is stored.
    ///
    /// # Errors
    /// `METHOD_NOT_FOUND` if the tool cannot be called as a task; the tool's own refusal, after which there is no task.
    async fn start_task(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        let tool = self.profile.find_tool(&request.name)?;
        if tool.task_support().is_none() {
            let message = format!("`{}` cannot be called as a task", tool.name());
            return Err(Error::new(Code::MethodNotFound, message)
                .with_action("Repeat the call without the parameter `task`"));
        }
        let call = InteractiveCall::new(&self.app, context, &request);
        let arguments = request.arguments.unwrap_or_default();
        let outcome = self.run_tool_with_trust(tool, arguments, call).await;
        let ToolCallOutcome::NeedsInput(response) =
            outcome.map_err(|error| error.with_tool(tool.name()))?
        else {
            return Err(Error::internal("a call made no task"));
        };
        let CallToolResponse::Task(created) = *response else {
            return Err(Error::internal("a call made no task"));
        };
        let id = ExecutionId::parse(&created.task.task_id)?;
        // rmcp cancels the token of a request when it sends the answer. Nothing is said of the task before.
        let answered = context.ct.clone().cancelled_owned();
        self.ensure_watch(&id, Some(TaskStatus::Working), answered, context);
        Ok(json!({ "task": build_session_task(&created.task), "_meta": created.meta }))
    }

    /// The task of an execution. One whose call would have returned an error has failed, as this version has it.
    pub(super) async fn read_session_task(
        &self,
        id: &ExecutionId,
        context: &RequestContext<RoleServer>,
    ) -> Result<DetailedTask> {
        let mut task = self.read_task_state(id, context).await?.into_task();
        // A final status must not change: a task whose model had a turn stays completed, even if the execution fails later.
        if let TaskPayload::Completed { result } = &task.payload
            && result.get("isError") == Some(&Value::Bool(true))
            && !self.app.was_model_asked(id).await?
        {
            task.task.status = TaskStatus::Failed;
            // Some hosts read nothing else of a task that has failed.
            let text = |name| result.get("structuredContent")?.get(name)?.as_str();
            let texts: Vec<_> = ["message", "suggested_action"].iter().filter_map(text).collect();
            task.task.status_message = Some(texts.join(". "));
        }
        Ok(task)
    }

    /// A page of the executions of the caller's project as tasks, the last changed first.
    async fn list_tasks(
        &self,
        cursor: Option<String>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        let page = self.app.list(ListRequest { cursor, ..ListRequest::default() }).await?;
        let mut tasks = Vec::new();
        for row in page.executions {
            match self.read_session_task(&ExecutionId::parse(&row.execution_id)?, context).await {
                Ok(task) => tasks.push(build_session_task(&task.task)),
                // It was removed meanwhile.
                Err(error) if error.code().is_missing_execution() => {}
                Err(error) => return Err(error),
            }
        }
        let mut answer = json!({ "tasks": tasks });
        if let Some(cursor) = page.next_cursor {
            answer["nextCursor"] = cursor.into();
        }
        Ok(answer)
    }

    /// Abandons the execution of a task. If its compensations take longer than [`limits::CANCEL_WAIT_MAX`], returns the
    /// task as it is then.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if the task has ended already, or meanwhile.
    async fn end_task(
        &self,
        id: &ExecutionId,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        let had_ended = self.read_task_state(id, context).await?.is_terminal();
        if !had_ended {
            self.cancel_task_of(id.as_str(), context).await?;
            self.app.turn(id, limits::CANCEL_WAIT_MAX).await?;
        }
        let task = self.read_session_task(id, context).await?;
        if had_ended || matches!(task.status(), TaskStatus::Completed | TaskStatus::Failed) {
            return Err(Error::new(Code::ArgumentsInvalid, "the task has ended already")
                .with_action("Call tasks/result, which returns its result"));
        }
        Ok(build_session_task(&task.task))
    }

    /// Waits until a task has ended, and returns what its call would have returned.
    ///
    /// # Errors
    /// `SERVER_STOPPING`, after which a relay repeats the request at the next server; `CANCELLED`.
    async fn wait_for_result(
        &self,
        id: &ExecutionId,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        self.ensure_watch(id, None, std::future::ready(()), context);
        let listener = self.app.change_notifier().new_listener();
        let mut task = loop {
            // Subscribe before reading, so that no change in between is missed.
            self.app.watch_turn(id, &listener).await?;
            let task = self.read_session_task(id, context).await?;
            if task.status().is_terminal() {
                break task;
            }
            tokio::select! {
                () = listener.wait_for_change() => while listener.take_marked_name().is_some() {},
                () = self.app.stop_token().cancelled() => {
                    return Err(Error::new(Code::ServerStopping, "the server is stopping"));
                }
                () = context.ct.cancelled() => {
                    return Err(Error::new(Code::Cancelled, "the call was withdrawn"));
                }
            }
        };
        if task.status() == TaskStatus::Cancelled {
            let turn = self.app.turn(id, Duration::ZERO).await?;
            task = self.build_completed_task(turn).await?.into_task();
        }
        let TaskPayload::Completed { mut result } = task.payload else {
            return Err(Error::internal("a task has ended without a result"));
        };
        let meta = result.entry("_meta").or_insert_with(|| Map::new().into());
        meta[RELATED_TASK_KEY] = json!({ "taskId": id.as_str() });
        result.remove("resultType");
        Ok(result.into())
    }
}

/// A task in the shape of protocol version 2025-11-25.
pub(super) fn build_session_task(task: &Task) -> Value {
    let mut shown = json!({
        "taskId": task.task_id, "status": task.status, "statusMessage": task.status_message,
        "createdAt": task.created_at, "lastUpdatedAt": task.last_updated_at, "ttl": task.ttl_ms
    });
    if let Some(interval) = task.poll_interval_ms {
        shown["pollInterval"] = interval.into();
    }
    shown
}

/// The result of `tools/list` of a server, with whether tools of midex can be called as tasks.
pub(super) async fn list_tools_with_task_support(
    server: &impl ServerHandler,
    params: Option<Value>,
    context: RequestContext<RoleServer>,
) -> Result<CustomResult, ErrorData> {
    let page = serde_json::from_value(params.unwrap_or_default()).ok();
    let listed = json!(server.list_tools(page, context).await?);
    Ok(CustomResult(with_task_support(listed)))
}

/// The list of tools, each with whether it can be called as a task.
fn with_task_support(mut listed: Value) -> Value {
    for tool in listed["tools"].as_array_mut().into_iter().flatten() {
        let spec = tools::find_tool(Toolsets::ALL, tool["name"].as_str().unwrap_or_default());
        if let Some(support) = spec.ok().and_then(ToolSpec::task_support) {
            tool["execution"] = json!({ "taskSupport": support });
        }
    }
    if let Some(fields) = listed.as_object_mut() {
        fields.remove("resultType");
    }
    listed
}
