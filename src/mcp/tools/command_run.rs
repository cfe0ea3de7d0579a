//! `command.run_safe`, `command.run` and `command.run_destructive`: one tool per class, so that a host can distinguish
//! destructive calls.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{ToolSpec, Work, acts, author::Class, catalog::answer, text, unfit};
use crate::asking::{Confirmation, Unasked};
use midex_domain::{
    State,
    error::{Code, Error, FailureCode, NextCall, Result, again},
    limits,
};
use midex_server::{
    app::{App, CommandCall, CommandMeant},
    config::parse_duration,
};

const SAFE: &str = "command.run_safe";
const STANDARD: &str = "command.run";
const DESTRUCTIVE: &str = "command.run_destructive";

pub(super) fn specs() -> [ToolSpec; 3] {
    let spec = |name, title, description, annotations: fn() -> _, work| {
        let mut properties = json!({
            "id": { "type": "string" },
            "with": { "type": "object" },
            "body": {},
            "timeout": { "type": "string", "description": "10s" },
            "paginate": { "type": "object", "properties": { "max_pages": { "type": "integer", "minimum": 1, "maximum": limits::CALL_PAGES_MAX } }, "additionalProperties": false }
        });
        if name == DESTRUCTIVE {
            properties["confirm"] = json!({ "type": "boolean", "default": false });
        }
        let mut output = answer(&["run_id", "execution_id", "id"]);
        output["properties"]["payload"] = json!({});
        output["properties"]["artifact"] = json!({
            "type": "object", "description": "In place of a payload that is bytes or long; workflow.read with its uri has it"
        });
        ToolSpec::doing(
            (name, title, description),
            annotations,
            (properties, &["id"], output),
            work,
        )
        .of(class_of(name))
        .lasting(|_| limits::WAIT_MAX)
    };
    [
        spec(
            SAFE,
            "Run a safe command",
            "Calls a command that reads.",
            || acts(true, false, true).open_world(true),
            Work::Answer(|app, arguments| Box::pin(run(app, arguments, SAFE))),
        ),
        spec(
            STANDARD,
            "Run a command",
            "Calls a command that changes something.",
            || acts(false, false, false).open_world(true),
            Work::Answer(|app, arguments| Box::pin(run(app, arguments, STANDARD))),
        ),
        spec(
            DESTRUCTIVE,
            "Run a destructive command",
            "Calls a command that takes something away, once the user agrees.",
            || acts(false, true, false).open_world(true),
            Work::Confirmed(
                |app, arguments| Box::pin(question(app, arguments)),
                |app, arguments| Box::pin(run(app, arguments, DESTRUCTIVE)),
            ),
        ),
    ]
}

fn class_of(tool: &str) -> Class {
    match tool {
        SAFE => Class::Safe,
        STANDARD => Class::Standard,
        _ => Class::Destructive,
    }
}

fn tool_of(class: Class) -> &'static str {
    match class {
        Class::Safe => SAFE,
        Class::Standard => STANDARD,
        Class::Destructive => DESTRUCTIVE,
    }
}

async fn question(app: &App, arguments: &Map<String, Value>) -> Result<Option<Confirmation>> {
    let id = text(arguments, "id").unwrap_or_default();
    if let CommandMeant::Operation(named) = meant(app, id, DESTRUCTIVE).await? {
        // Check first that the call can be sent, so that the user is not asked in vain.
        let call = call_of(arguments, DESTRUCTIVE)?;
        app.admit(id, &named, &call).await?;
    }
    if arguments.get("confirm") == Some(&json!(true)) {
        return Ok(None);
    }
    let with = arguments.get("with").cloned().unwrap_or(json!({}));
    let shown: String = with
        .to_string()
        .chars()
        .take(limits::QUESTION_SHOWN_CHARS)
        .collect();
    Ok(Some(Confirmation {
        key: format!("{DESTRUCTIVE}:{}", Value::Object(arguments.clone())),
        message: format!("Call `{id}`, which takes something away, with {shown}?"),
        about: vec![("id", id.to_owned())],
        unasked: Unasked::Refused,
        by: app.by(),
        confirmed: arguments.clone(),
    }))
}

/// The target of the command, if `tool` is the right tool for its class.
async fn meant(app: &App, id: &str, tool: &'static str) -> Result<CommandMeant> {
    let (meant, class) = app.command_meant(id).await?;
    if class == class_of(tool) {
        return Ok(meant);
    }
    let message = format!(
        "`{id}` is of class {}: {} is the tool for it",
        class.as_str(),
        tool_of(class)
    );
    Err(Error::new(Code::CommandClassRefused, message)
        .with("tool", tool_of(class))
        .with("id", id))
}

async fn run(app: &App, arguments: Map<String, Value>, tool: &'static str) -> Result<Value> {
    let id = text(&arguments, "id")
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let call = call_of(&arguments, tool)?;
    match meant(app, &id, tool).await? {
        CommandMeant::Workflow(name) => started(app, &id, &name, call.with).await,
        CommandMeant::Operation(named) => {
            app.admit(&id, &named, &call).await?;
            called(app, &id, call).await
        }
    }
}

/// The call that the arguments of `tool` describe.
fn call_of(arguments: &Map<String, Value>, tool: &'static str) -> Result<CommandCall> {
    let timeout = text(arguments, "timeout").map(parse_duration).transpose();
    let with = arguments.get("with").and_then(Value::as_object);
    let body = arguments.get("body").filter(|body| !body.is_null());
    let pages = arguments.get("paginate").map(|paginate| {
        let pages = paginate.get("max_pages").and_then(Value::as_u64);
        let pages = pages.and_then(|pages| u32::try_from(pages).ok());
        pages.unwrap_or(limits::CALL_PAGES)
    });
    Ok(CommandCall {
        with: with.cloned().unwrap_or_default(),
        body: body.cloned(),
        timeout: timeout.map_err(|message| unfit(tool, "/timeout", "format", &message))?,
        pages,
    })
}

/// Running a workflow as a command starts an execution of it.
async fn started(app: &App, id: &str, name: &str, inputs: Map<String, Value>) -> Result<Value> {
    let inputs = (!inputs.is_empty()).then_some(Value::Object(inputs));
    let begun = app.start(name, None, inputs, None).await?;
    Ok(json!({
        "success": true, "run_id": begun.execution_id, "execution_id": begun.execution_id, "id": id,
        "status": begun.workflow_state,
    }))
}

async fn called(app: &App, id: &str, call: CommandCall) -> Result<Value> {
    let begun = app.now();
    let ran = app.call(id, call, WAITED).await?;
    let status = ran.status;
    let run = json!({ "run_id": status.execution_id, "execution_id": status.execution_id });
    if let Some(failure) = &status.error {
        let message = failure.message.clone();
        let error = Error::new(Code::CommandFailed, message)
            .with("command", id)
            .with("execution_id", status.execution_id.as_str())
            .with("failure_code", failure.code.as_str());
        let code = FailureCode::parse(&failure.code);
        let error = match code {
            _ if failure.is_retryable => error.with_retryable(true).with_action(LATER),
            Some(FailureCode::Http) if matches!(failure.status, Some(401 | 403)) => {
                app.asking_for_credentials(id, error).await
            }
            Some(FailureCode::Http) | None => error,
            // The call did not reach a service.
            Some(_) => error.with_next(UNSENT),
        };
        let error = match failure.status {
            Some(status) => error.with("status_code", status),
            None => error,
        };
        return Err(match &failure.response_payload {
            Some(payload) => error.with("response_payload", payload.clone()),
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
    answer["success"] = json!(true);
    answer["id"] = json!(id);
    answer["attempts"] = json!(app.attempts(&status.execution_id).await?);
    answer["duration_ms"] = json!(app.now().since(begun).as_millis());
    Ok(answer)
}

/// The advice if the call itself is correct. The service may have done it before the failure.
const LATER: &str = "Call {tool} again: a little later, where a second call does no harm; else look first whether the first was done";

/// The advice if the message says why the call cannot be sent.
const UNSENT: NextCall = again("once what the message says is mended");

/// How long to wait for a call. After that it continues, and `execution.wait` waits for its end.
const WAITED: Duration = limits::WAIT_MAX;
