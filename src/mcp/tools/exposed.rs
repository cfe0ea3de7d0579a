//! The tools that workflows expose. A client starts an execution with them, continues it and reads where it stands,
//! as a session.

use std::sync::LazyLock;

use rmcp::model::{Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    deserialize_present,
    exposed_tool::{ArgumentsSchema, ExposedTool, ReportedError, build_report},
    orchestrator, to_schema_object,
    workflow_run::run_failed_error,
};
use midex_domain::{
    Definition, ExecutionId, PauseReason,
    definition::ExposedAction,
    error::{Code, Error, Result},
    input::Inputs,
    offer::StepOption,
    state::State,
    view::{FailureView, ResultCall, StatusView, WaitView},
};
use midex_server::app::{App, ExecutionTurn, SessionAdvance, Turn, format_pace_token};

#[derive(Deserialize, JsonSchema)]
struct ContinueArguments {
    #[serde(rename = "sessionId")]
    session_id: String,
    /// That of the last answer. Without it the call only reads
    token: Option<String>,
    /// The result of the step
    #[serde(default, deserialize_with = "deserialize_present")]
    result: Option<Value>,
    /// Id of the option taken
    choice: Option<String>,
    /// No result: why
    error: Option<ReportedError>,
}

#[derive(Deserialize, JsonSchema)]
struct StatusArguments {
    #[serde(rename = "sessionId")]
    session_id: String,
}

static CONTINUE_SCHEMA: LazyLock<ArgumentsSchema> =
    LazyLock::new(ArgumentsSchema::new::<ContinueArguments>);
static STATUS_SCHEMA: LazyLock<ArgumentsSchema> =
    LazyLock::new(ArgumentsSchema::new::<StatusArguments>);

/// Where a session stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionReply {
    message: String,
    session_id: String,
    status: String,
    /// What `_continue` takes to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The output of the step that ended last.
    step_result: Option<Value>,
    /// The step that is open.
    next_activity: Option<String>,
    next_step_options: Vec<StepOption>,
    progress: SessionProgress,
    #[serde(rename = "agent_content", skip_serializing_if = "Option::is_none")]
    agent_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(rename = "output_schema", skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<WaitView>,
    /// The final output of a session that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
}

#[derive(Debug, Serialize)]
struct SessionProgress {
    current: usize,
    total: usize,
}

/// The tools of all workflows that have some, and the activities that are tools, as they are listed.
pub(crate) async fn list_exposed_tools(app: &App) -> Result<Vec<Tool>> {
    let workflows = app.list_exposed_workflows().await?;
    let tools = workflows.iter().flat_map(|definition| build_listed_tools(definition));
    let schemas = app.activities().input_schemas();
    let any_object = || json!({ "type": "object" });
    let activities = app.activities().tools().map(|(name, description)| {
        let input = schemas.get(name).cloned().unwrap_or_else(any_object);
        let tool = Tool::new(name.to_owned(), description.to_owned(), to_schema_object(&input));
        let output = app.activities().output_schema(name);
        // A tool of MCP answers with an object.
        match output.filter(|output| output["type"] == "object") {
            Some(output) => tool.with_raw_output_schema(to_schema_object(output)),
            None => tool,
        }
    });
    Ok(tools.chain(activities).collect())
}

/// The answer of an activity that was called as a tool: its output, which is in `result` unless it is an object.
///
/// # Errors
/// `RUN_FAILED` if it failed, or has not ended in time.
pub(crate) fn build_activity_answer(turn: ExecutionTurn) -> Result<Value> {
    let ExecutionTurn { status, .. } = turn;
    if status.state == State::Completed.as_str() {
        let output = status.final_output.unwrap_or_default();
        return Ok(if output.is_object() { output } else { json!({ "result": output }) });
    }
    Err(run_failed_error(&status))
}

fn build_listed_tools(definition: &Definition) -> Vec<Tool> {
    let workflow = &definition.workflow;
    let build = |(tool_name, action): (String, ExposedAction)| {
        let (title, description, schema) = match action {
            ExposedAction::Start => {
                let purpose = workflow.description.trim_end_matches('.');
                let description = format!(
                    "{purpose}. Answers with sessionId, and with token and instructions while a step is yours."
                );
                ("Start", description, inputs_schema(definition))
            }
            ExposedAction::Continue => {
                let description = "Continues a session with the token of the last answer, unchanged, and the result of \
                                   its step. Safe to repeat. Without token: reads.";
                ("Continue", description.to_owned(), CONTINUE_SCHEMA.json.clone())
            }
            ExposedAction::Status => {
                ("Status of", "Reads a session.".to_owned(), STATUS_SCHEMA.json.clone())
            }
            ExposedAction::Orchestrate | ExposedAction::GetInput | ExposedAction::ExtractInput => {
                return orchestrator::build_listed_tool(definition, tool_name, action);
            }
        };
        let is_read = action == ExposedAction::Status;
        let annotations = ToolAnnotations::new()
            .read_only(is_read)
            .destructive(false)
            .idempotent(action != ExposedAction::Start)
            .open_world(!is_read);
        let name = workflow.title.as_deref().unwrap_or(workflow.name.as_str());
        Tool::new(tool_name, description, to_schema_object(&schema))
            .with_title(format!("{title} {name}"))
            .with_annotations(annotations)
    };
    workflow.list_exposed_tools().into_iter().map(build).collect()
}

/// The schema of the inputs of a workflow. One that declares none takes any object.
fn inputs_schema(definition: &Definition) -> Value {
    let inputs = definition.workflow.inputs.as_ref();
    inputs.map_or_else(|| json!({ "type": "object" }), Inputs::schema)
}

/// The tool of this name; `None` if no workflow offers one. A session and a thread keep the tools of their definition, also when
/// the file is gone. Only a call that names neither has to read the definitions of the project.
///
/// # Errors
/// Those of reading the definitions.
pub(crate) async fn find_exposed_tool(
    app: &App,
    name: &str,
    arguments: &Map<String, Value>,
) -> Result<Option<ExposedTool>> {
    let tool = |(definition, action)| ExposedTool { name: name.to_owned(), definition, action };
    let session = arguments.get("sessionId").and_then(Value::as_str);
    let session = session.and_then(|id| ExecutionId::parse(id).ok());
    if let Some(id) = session.or_else(|| orchestrator::find_thread(arguments))
        && let Ok(definition) = app.find_session(&id, name).await
        && let Some(action) = definition.workflow.find_exposed_action(name)
    {
        return Ok(Some(tool((definition, action))));
    }
    Ok(app.find_exposed_tool(name).await?.map(tool))
}

impl ExposedTool {
    /// Starts or continues a session, and returns its id.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID`, and those of [`App::start_session`] and [`App::advance_session`].
    pub(crate) async fn advance(
        &self,
        app: &App,
        arguments: Map<String, Value>,
    ) -> Result<ExecutionId> {
        match self.action {
            ExposedAction::Start => {
                app.start_session(self.definition.clone(), Value::Object(arguments)).await
            }
            ExposedAction::Continue => {
                let arguments: ContinueArguments = CONTINUE_SCHEMA.parse(&self.name, arguments)?;
                let id = ExecutionId::parse(&arguments.session_id)?;
                app.find_session(&id, &self.name).await?;
                let report = build_report("result", arguments.result, arguments.error)?;
                let (token, choice) = (arguments.token, arguments.choice);
                let token = token.map(|token| token.trim().to_owned());
                app.advance_session(&id, SessionAdvance { token, report, choice }).await?;
                Ok(id)
            }
            _ => {
                let arguments: StatusArguments = STATUS_SCHEMA.parse(&self.name, arguments)?;
                let id = ExecutionId::parse(&arguments.session_id)?;
                app.find_session(&id, &self.name).await?;
                Ok(id)
            }
        }
    }

    /// What a session answers where it stands now.
    ///
    /// # Errors
    /// Those of reading the history of the session.
    pub(crate) async fn build_reply(&self, app: &App, turn: ExecutionTurn) -> Result<SessionReply> {
        let ExecutionTurn { status, turn } = turn;
        let id = ExecutionId::parse(&status.execution_id)?;
        let ended = app.last_ended_attempt(&id).await?;
        let tools = self.definition.workflow.exposed_tools.as_ref();
        let continue_tool = tools.map(|tools| tools.tool_name(ExposedAction::Continue));
        let continue_tool = continue_tool.unwrap_or_default();
        let is_paced = status.pause_reasons == [PauseReason::Pace];
        let step = match turn {
            Turn::Model(step) | Turn::Person { step, .. } | Turn::Outside(step) => Some(*step),
            Turn::Ended | Turn::Server => None,
        };
        let mut reply = SessionReply {
            message: String::new(),
            token: is_paced.then(|| format_pace_token(status.revision)),
            step_result: ended.as_ref().and_then(|attempt| attempt.output.clone()),
            next_activity: status.current_step.clone(),
            next_step_options: Vec::new(),
            progress: SessionProgress {
                current: status.steps.total - status.steps.pending - status.steps.running,
                total: status.steps.total,
            },
            agent_content: None,
            instructions: None,
            input: None,
            output_schema: None,
            waits: status.waits.clone(),
            results: status.final_output.clone(),
            error: status.error.clone(),
            session_id: status.execution_id.clone(),
            status: session_status(&status.state).to_owned(),
        };
        if let Some(step) = step.filter(|step| step.continuation_token.is_some()) {
            reply.token = step.continuation_token;
            reply.next_activity = step.current_step;
            reply.next_step_options = step.next_step_options;
            reply.agent_content = step.agent_content;
            let text = step.step.as_ref().and_then(|step| step.text.as_ref());
            let next_call = ResultCall::continue_session(&continue_tool);
            reply.instructions = text.map(|text| text.format_instructions(&next_call));
            reply.input = step.step.and_then(|step| step.input);
            reply.output_schema = step.output_schema;
        }
        let failed = ended.and_then(|attempt| Some((attempt.step_name, attempt.error?)));
        let failed = failed.filter(|_| status.error.is_none()).map(|(step, error)| {
            format!("Step '{step}' failed: {}. ", error.message.trim_end_matches('.'))
        });
        let next = describe_session(&status, &reply, &continue_tool);
        reply.message = failed.unwrap_or_default() + &next;
        Ok(reply)
    }
}

impl SessionReply {
    /// Whether the session has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.status == State::Failed.as_str()
    }

    /// The tool of the first option, if there is one.
    pub(crate) fn suggested_tool(&self) -> Option<&str> {
        self.next_step_options.first().map(|option| option.tool_name.as_str())
    }
}

/// The status of a session, in the words of session tools: an abandoned execution is cancelled.
fn session_status(state: &str) -> &str {
    if state == State::Abandoned.as_str() { "cancelled" } else { state }
}

/// Where a session stands, and the one next call.
fn describe_session(status: &StatusView, reply: &SessionReply, continue_tool: &str) -> String {
    let id = &reply.session_id;
    if let Some(error) = &reply.error {
        let step = error.step_id.as_ref().map(|step| format!(" at step '{step}'"));
        return format!("Workflow failed{}: {}", step.unwrap_or_default(), error.message);
    }
    match (&reply.next_activity, &reply.token) {
        _ if status.completed_at.is_some() => format!("Workflow {}", reply.status),
        (Some(step), Some(_)) if reply.instructions.is_some() => {
            format!(
                "Do step '{step}' as instructions say, then call {continue_tool} with sessionId '{id}', token and result"
            )
        }
        (Some(step), Some(_)) => {
            format!("Step '{step}' is next: call {continue_tool} with sessionId '{id}' and token")
        }
        (step, _) => {
            let step = step.as_ref().map(|step| format!(" at step '{step}'"));
            format!(
                "The session waits{}: call {continue_tool} with sessionId '{id}' alone to see whether it goes on",
                step.unwrap_or_default()
            )
        }
    }
}

/// The refusal of a call to a tool that no workflow offers any more.
pub(crate) fn add_exposed_tool_hint(error: Error, name: &str) -> Error {
    let mut suffixes = ExposedAction::SESSION.iter().map(|action| action.suffix());
    let is_exposed_name = suffixes.any(|suffix| name.ends_with(suffix));
    if error.code() != Code::ToolNotFound || !is_exposed_name {
        return error;
    }
    let message = format!(
        "{}. If a workflow had it: the workflow was removed or renamed, has findings, or its project is not trusted",
        error.message()
    );
    error.with_message(message)
}
