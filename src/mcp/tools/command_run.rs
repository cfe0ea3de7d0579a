//! `command.run_safe`, `command.run` and `command.run_destructive`: one tool per class, so that a host can distinguish
//! destructive calls.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::schemas::fields_schema;
use crate::elicitation::{Confirmation, ConfirmationFallback};
use midex_domain::{
    OperationClass, State,
    error::{Code, Error, FailureCode, NextCall, Result, repeat_call},
    limits,
};
use midex_server::{
    app::{App, CommandCall, CommandMeant},
    config::parse_duration,
};

#[derive(Deserialize, Serialize, JsonSchema)]
pub(super) struct Arguments {
    id: String,
    #[serde(default)]
    with: Map<String, Value>,
    body: Option<Value>,
    /// 10s
    timeout: Option<String>,
    paginate: Option<PaginateArguments>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct PaginateArguments {
    #[schemars(range(min = 1, max = limits::CALL_PAGES_MAX))]
    max_pages: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DestructiveArguments {
    #[serde(flatten)]
    call: Arguments,
    #[serde(default)]
    confirm: bool,
}

pub(super) fn output_schema() -> Value {
    let mut reply = fields_schema(&["run_id", "execution_id", "id"]);
    reply["properties"]["payload"] = json!({});
    reply["properties"]["artifact"] = json!({
        "type": "object", "description": "In place of a payload that is bytes or long; workflow.read with its uri has it"
    });
    reply
}

pub(super) async fn run_safe(app: &App, arguments: Arguments) -> Result<Value> {
    run_command(app, arguments, OperationClass::Safe).await
}

pub(super) async fn run_standard(app: &App, arguments: Arguments) -> Result<Value> {
    run_command(app, arguments, OperationClass::Standard).await
}

pub(super) async fn run_destructive(app: &App, arguments: DestructiveArguments) -> Result<Value> {
    run_command(app, arguments.call, OperationClass::Destructive).await
}

fn find_class_tool(class: OperationClass) -> &'static str {
    match class {
        OperationClass::Safe => "command.run_safe",
        OperationClass::Standard => "command.run",
        OperationClass::Destructive => "command.run_destructive",
    }
}

pub(super) async fn confirm_destructive(
    app: &App,
    arguments: DestructiveArguments,
) -> Result<Option<Confirmation>> {
    let DestructiveArguments { call, confirm } = arguments;
    let key = format!("command.run_destructive:{}", json!(call));
    let (id, with) = (call.id.clone(), json!(call.with));
    if let CommandMeant::Operation(operation) =
        find_command(app, &id, OperationClass::Destructive).await?
    {
        // Check first that the call can be sent, so that the user is not asked in vain.
        app.check_operation_call(&id, &operation, &call.into_command_call()?).await?;
    }
    if confirm {
        return Ok(None);
    }
    let shown_arguments: String =
        with.to_string().chars().take(limits::QUESTION_SHOWN_CHARS).collect();
    Ok(Some(Confirmation {
        key,
        message: format!("Call `{id}`, which takes something away, with {shown_arguments}?"),
        error_context: vec![("id", id)],
        fallback: ConfirmationFallback::Refuse,
        requester: app.requester(),
        version: None,
    }))
}

/// The target of the command, if it is of the class of the tool that was called.
async fn find_command(app: &App, id: &str, tool_class: OperationClass) -> Result<CommandMeant> {
    let (target, class) = app.resolve_command(id).await?;
    if class == tool_class {
        return Ok(target);
    }
    let message = format!(
        "`{id}` is of class {}: {} is the tool for it",
        class.as_str(),
        find_class_tool(class)
    );
    Err(Error::new(Code::CommandClassRefused, message)
        .with_context("tool", find_class_tool(class))
        .with_context("id", id))
}

async fn run_command(app: &App, arguments: Arguments, class: OperationClass) -> Result<Value> {
    let id = arguments.id.split_whitespace().collect::<Vec<_>>();
    let id = id.join(" ");
    let call = arguments.into_command_call()?;
    match find_command(app, &id, class).await? {
        CommandMeant::Workflow(name) => start_workflow_command(app, &id, &name, call.with).await,
        CommandMeant::Operation(named) => {
            app.check_operation_call(&id, &named, &call).await?;
            call_operation(app, &id, call).await
        }
    }
}

impl Arguments {
    /// The call that the arguments describe.
    fn into_command_call(self) -> Result<CommandCall> {
        let timeout = self.timeout.as_deref().map(parse_duration).transpose();
        let pages = |paginate: PaginateArguments| paginate.max_pages.unwrap_or(limits::CALL_PAGES);
        Ok(CommandCall {
            with: self.with,
            body: self.body,
            timeout: timeout
                .map_err(|message| Error::argument_rule("/timeout", "format", &message))?,
            pages: self.paginate.map(pages),
        })
    }
}

/// Running a workflow as a command starts an execution of it.
async fn start_workflow_command(
    app: &App,
    id: &str,
    name: &str,
    inputs: Map<String, Value>,
) -> Result<Value> {
    let inputs = (!inputs.is_empty()).then_some(Value::Object(inputs));
    let started = app.start(name, None, inputs, None).await?;
    Ok(json!({
        "run_id": started.execution_id, "execution_id": started.execution_id, "id": id, "status": started.workflow_state,
    }))
}

async fn call_operation(app: &App, id: &str, call: CommandCall) -> Result<Value> {
    let started_at = app.now();
    let status = app.call_operation(id, call, CALL_WAIT).await?.status;
    let run = json!({ "run_id": status.execution_id, "execution_id": status.execution_id });
    if let Some(failure) = &status.error {
        let message = failure.message.clone();
        let error = Error::new(Code::CommandFailed, message)
            .with_context("command", id)
            .with_context("execution_id", status.execution_id.as_str())
            .with_context("failure_code", failure.code.as_str());
        let code = FailureCode::parse(&failure.code);
        let error = match code {
            _ if failure.is_retryable => error.with_retryable(true).with_action(RETRY_ADVICE),
            Some(FailureCode::Http) if matches!(failure.status, Some(401 | 403)) => {
                app.add_credential_hint(id, error).await
            }
            Some(FailureCode::Http) | None => error,
            Some(
                FailureCode::StepTimedOut
                | FailureCode::Network
                | FailureCode::Interrupted
                | FailureCode::LimitExceeded
                | FailureCode::RedirectRefused,
            ) => error.with_action(SENT_CALL_ADVICE),
            // The call did not reach a service.
            Some(_) => error.with_next(UNSENT_CALL_ADVICE),
        };
        let error = match failure.status {
            Some(status) => error.with_context("status_code", status),
            None => error,
        };
        return Err(match &failure.response_payload {
            Some(payload) => error.with_context("response_payload", payload.clone()),
            None => error,
        });
    }
    let mut answer = match &status.final_output {
        Some(whole) if status.state == State::Completed.as_str() => whole.clone(),
        _ => json!({ "status": status.state, "waits": status.waits }),
    };
    if let (Some(answer), Some(run)) = (answer.as_object_mut(), run.as_object()) {
        answer.extend(run.clone());
    }
    answer["id"] = json!(id);
    answer["attempts"] = json!(app.count_attempts(&status.execution_id).await?);
    answer["duration_ms"] = json!(app.now().since(started_at).as_millis());
    Ok(answer)
}

/// The advice if the call itself is correct. The service may have done it before the failure.
const RETRY_ADVICE: &str = "Call {tool} again: a little later, where a second call does no harm; else look first whether the first was done";

/// The advice for a call that must not be done twice and may have been done.
const SENT_CALL_ADVICE: &str = "Call {tool} again only if the first call was not done: the service may have done it, so find out first";

/// The advice if the message says why the call cannot be sent.
const UNSENT_CALL_ADVICE: NextCall = repeat_call("once what the message says is mended");

/// How long to wait for a call. After that it continues, and `execution.wait` waits for its end.
const CALL_WAIT: Duration = limits::WAIT_MAX;
