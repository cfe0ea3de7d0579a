//! The tool that leads a model through a workflow, with one prompt for each turn, and its utility tools.

use std::sync::LazyLock;

use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    exposed_tool::{ArgumentsSchema, ExposedTool, ReportedError, build_report},
    schemas::with_error_shape,
    to_schema_object,
};
use crate::workflow_tool::WorkflowTool;
use midex_domain::{
    Definition, ExecutionId,
    definition::ExposedAction,
    document::to_plain_text,
    error::{Code, Error, Result, Violation},
    execution::Report,
    orchestrator::{
        PropertyRequest, RequestedProperties, USER_INPUT, WORKFLOW_STATE_DATA, WorkflowStateData,
    },
    view::build_utility_prompt,
};
use midex_server::app::{App, ExecutionTurn, LastTransition};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OrchestratorArguments {
    /// Any data: the user's request at the start, then the result of each step
    user_input: Option<Value>,
    /// Opaque. Leave it out to start; then send back what the last prompt gave, unchanged
    #[serde(default)]
    workflow_state_data: WorkflowStateData,
    /// No result: why
    error: Option<ReportedError>,
}

/// The arguments of both utility tools. Their schemas tell which ones a tool takes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UtilityArguments {
    workflow_state_data: WorkflowStateData,
    user_utterance: Option<Value>,
    #[serde(alias = "propertiesRequiringInput")]
    properties_to_extract: Vec<PropertyRequest>,
    result_schema: Option<Value>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is made of it")]
struct GetInputArguments {
    /// Opaque workflow state data
    workflow_state_data: WorkflowStateData,
    /// What to ask the user for
    properties_requiring_input: Vec<PropertyRequest>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema is made of it")]
struct ExtractionArguments {
    /// Opaque workflow state data
    workflow_state_data: WorkflowStateData,
    /// What the user said
    user_utterance: Value,
    /// What to look for in it
    properties_to_extract: Vec<PropertyRequest>,
    /// JSON Schema of the result, in place of the one made from the properties
    result_schema: Option<Value>,
}

static ORCHESTRATOR_SCHEMA: LazyLock<ArgumentsSchema> = LazyLock::new(|| {
    let mut schema = ArgumentsSchema::new::<OrchestratorArguments>();
    schema.json["properties"][WORKFLOW_STATE_DATA]["default"] = json!({ "thread_id": "" });
    schema
});
static GET_INPUT_SCHEMA: LazyLock<ArgumentsSchema> =
    LazyLock::new(ArgumentsSchema::new::<GetInputArguments>);
static EXTRACTION_SCHEMA: LazyLock<ArgumentsSchema> =
    LazyLock::new(ArgumentsSchema::new::<ExtractionArguments>);

/// The answer of an orchestrator.
#[derive(Debug, Serialize)]
pub(crate) struct OrchestratorReply {
    #[serde(rename = "orchestrationInstructionsPrompt")]
    prompt: String,
    #[serde(rename = "workflowStateData")]
    state: WorkflowStateData,
    /// The state of the thread.
    status: String,
    execution_id: String,
    /// The open step.
    step: Option<String>,
}

/// A call whose report was handed in. Its prompt is still to be built.
pub(crate) struct ThreadCall {
    pub(crate) thread: ExecutionId,
    /// The token of the call, which chooses the step that is shown.
    token: Option<String>,
    /// What to say before the prompt.
    note: Option<String>,
    /// The transition that the report made.
    pub(crate) last_transition: Option<LastTransition>,
}

impl ThreadCall {
    /// A call that only reads.
    pub(crate) const fn read(thread: ExecutionId) -> Self {
        Self { thread, token: None, note: None, last_transition: None }
    }
}

/// The thread that the arguments of a call name.
pub(super) fn find_thread(arguments: &Map<String, Value>) -> Option<ExecutionId> {
    let state = parse_state(arguments.get(WORKFLOW_STATE_DATA)?.clone()).ok()?;
    ExecutionId::parse(&state.thread_id).ok()
}

/// The orchestrator of a workflow and its utility tools, as they are listed.
pub(super) fn build_listed_tool(
    definition: &Definition,
    name: String,
    action: ExposedAction,
) -> Tool {
    let workflow = &definition.workflow;
    let orchestrator = workflow.orchestrator.as_ref();
    let text = |text: Option<&String>, other: &str| text.map_or(other, String::as_str).to_owned();
    let is_orchestrator = action == ExposedAction::Orchestrate;
    let workflow_title = text(workflow.title.as_ref(), workflow.name.as_str());
    let (title, description, schema) = match action {
        ExposedAction::GetInput => (
            format!("Get input for {workflow_title}"),
            "Answers with a prompt: ask the user for these properties.".to_owned(),
            &GET_INPUT_SCHEMA.json,
        ),
        ExposedAction::ExtractInput => (
            format!("Extract input for {workflow_title}"),
            "Answers with a prompt: extract these properties from what the user said.".to_owned(),
            &EXTRACTION_SCHEMA.json,
        ),
        _ => (
            text(orchestrator.and_then(|tool| tool.title.as_ref()), &workflow_title),
            text(orchestrator.and_then(|tool| tool.description.as_ref()), &workflow.description),
            &ORCHESTRATOR_SCHEMA.json,
        ),
    };
    let annotations = ToolAnnotations::new()
        .read_only(!is_orchestrator)
        .destructive(false)
        .idempotent(!is_orchestrator)
        .open_world(is_orchestrator);
    let tool = Tool::new(name, description, to_schema_object(schema))
        .with_title(title)
        .with_annotations(annotations);
    if !is_orchestrator {
        return tool;
    }
    let output_schema = with_error_shape(json!({
        "type": "object",
        "properties": {
            "orchestrationInstructionsPrompt": {
                "type": "string",
                "description": "The prompt describing the next workflow action for the LLM to execute"
            },
            "workflowStateData": { "type": "object" },
            "status": { "type": "string" },
            "execution_id": { "type": "string" },
            "step": { "type": ["string", "null"] }
        },
        "required": ["orchestrationInstructionsPrompt", "workflowStateData", "status", "execution_id"]
    }));
    tool.with_raw_output_schema(to_schema_object(&output_schema))
}

impl ExposedTool {
    /// Starts a thread, or hands in the result of a step. A refused result is no error: the prompt asks for another one.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if the state is damaged or of another tool; those of [`App::start_thread`] and
    /// [`App::submit_thread_report`], with a call of this tool as the next one.
    pub(crate) async fn advance_thread(
        &self,
        app: &App,
        mut arguments: Map<String, Value>,
    ) -> Result<ThreadCall> {
        normalize_arguments(&mut arguments).map_err(|error| self.suggest_start(error))?;
        let arguments: OrchestratorArguments = ORCHESTRATOR_SCHEMA.parse(self.name(), arguments)?;
        let WorkflowStateData { thread_id, token } = arguments.workflow_state_data;
        let report = build_report(USER_INPUT, arguments.user_input, arguments.error)
            .map_err(|error| error.with_action("Repeat the call with one of the two"))?;
        if thread_id.is_empty() {
            let user_input = match report {
                Some(Report::Output(value)) => Some(value),
                None => None,
                Some(_) => {
                    let message = "`error` reports on a step, and no thread is named";
                    return Err(self.suggest_start(Error::new(Code::ArgumentsInvalid, message)));
                }
            };
            let started = app.start_thread(self.definition.clone(), user_input).await;
            let thread = started.map_err(|error| self.suggest_corrected_start(error))?;
            return Ok(ThreadCall::read(thread));
        }
        let thread = ExecutionId::parse(&thread_id).map_err(|error| {
            let message = format!("workflowStateData is damaged: {}", error.message());
            self.suggest_start(Error::new(Code::ArgumentsInvalid, message))
        })?;
        let found = app.find_session(&thread, self.name()).await;
        found.map_err(|error| match error.code() {
            Code::ExecutionDeleted => error
                .with_context("orchestrator_tool", self.name())
                .with_action("Call {orchestrator_tool} without workflowStateData, which starts a new thread: this one is gone"),
            code if code.is_missing_execution() => self.suggest_start(error),
            _ => error,
        })?;
        let mut call = ThreadCall { token, ..ThreadCall::read(thread) };
        if let Some(report) = report {
            call.note = self.submit_report(app, &mut call, report).await?;
        }
        Ok(call)
    }

    /// Hands in a report, and returns what to say of it. The call keeps its token only if the step has to be done again.
    async fn submit_report(
        &self,
        app: &App,
        call: &mut ThreadCall,
        report: Report,
    ) -> Result<Option<String>> {
        let thread = &call.thread;
        let token = call.token.take();
        let submitted = match &token {
            Some(token) => app.submit_thread_report(thread, token, report).await,
            None => Err(Error::new(
                Code::ArgumentsInvalid,
                "a result needs the `token` in workflowStateData",
            )),
        };
        let error = match submitted {
            Ok((was_extracted, last_transition)) => {
                call.last_transition = last_transition;
                let note =
                    "The result was taken out of the text around it. Send the JSON value alone.";
                return Ok(was_extracted.then(|| note.to_owned()));
            }
            Err(error) => error,
        };
        match error.code() {
            Code::StepOutputInvalid => {
                call.token = token;
                return Ok(Some(describe_refusal(&error)));
            }
            // The form, or the text of the prompt, asks the user.
            Code::UserAlone => return Ok(None),
            // The waiting prompt names the call that resumes the execution.
            Code::ExecutionPaused => {
                call.token = token;
                return Ok(Some(format!("The result was not taken: {}.", error.message())));
            }
            // The prompt says that the thread has ended.
            _ if app.status(thread).await.is_ok_and(|status| status.completed_at.is_some()) => {
                return Ok(None);
            }
            code if code.retryable() => return Err(error),
            _ => {}
        }
        Err(error
            .with_context("orchestrator_tool", self.name())
            .with_context("thread_id", thread.as_str())
            .with_action(
                "Call {orchestrator_tool} with thread_id '{thread_id}' alone in workflowStateData, and without userInput: it answers with the open step",
            ))
    }

    /// The next call after a state that names no thread of this tool.
    fn suggest_start(&self, error: Error) -> Error {
        error.with_context("orchestrator_tool", self.name()).with_action(
            "Call {orchestrator_tool} with workflowStateData exactly as the last prompt gave it; without it, a new thread starts",
        )
    }

    /// The next call after inputs that the workflow refuses.
    fn suggest_corrected_start(&self, error: Error) -> Error {
        if error.code() != Code::InputsInvalid {
            return error;
        }
        error.with_context("orchestrator_tool", self.name()).with_action(
            "Call {orchestrator_tool} again without workflowStateData, with userInput as the violations say",
        )
    }

    /// The prompt of a thread where it stands now.
    ///
    /// # Errors
    /// Those of [`App::build_thread_prompt`].
    pub(crate) async fn build_thread_reply(
        &self,
        app: &App,
        call: &ThreadCall,
        turn: &ExecutionTurn,
        unanswered_notice: Option<&str>,
    ) -> Result<OrchestratorReply> {
        let prompt = app.build_thread_prompt(turn, self.name(), call.token.as_deref()).await?;
        let notes = call.note.as_deref().into_iter().chain(unanswered_notice);
        let text = notes.fold(String::new(), |text, note| text + note + "\n\n") + &prompt.text;
        Ok(OrchestratorReply {
            prompt: text,
            state: prompt.state,
            status: turn.status.state.clone(),
            execution_id: turn.status.execution_id.clone(),
            step: prompt.step,
        })
    }

    /// Answers a call of a utility tool, which changes nothing.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID`.
    pub(crate) fn answer_utility_call(
        &self,
        mut arguments: Map<String, Value>,
    ) -> Result<CallToolResult> {
        normalize_arguments(&mut arguments)?;
        let (schema, list) = match self.action {
            ExposedAction::GetInput => (&GET_INPUT_SCHEMA, "propertiesRequiringInput"),
            _ => (&EXTRACTION_SCHEMA, "propertiesToExtract"),
        };
        let arguments: UtilityArguments = schema.parse(self.name(), arguments)?;
        if arguments.workflow_state_data.thread_id.is_empty() {
            // The prompt would lead to a new thread.
            let message = "workflowStateData names no thread";
            let error = Error::new(Code::ArgumentsInvalid, message);
            return Err(error.with_action(
                "Repeat the call with workflowStateData exactly as the orchestrator gave it",
            ));
        }
        let text = arguments.user_utterance.as_ref().map(to_plain_text);
        let properties = arguments.properties_to_extract;
        let properties = RequestedProperties::new(properties).map_err(|violations| {
            let in_list = |violation: Violation| Violation {
                path: format!("/{list}{}", violation.path),
                ..violation
            };
            Error::invalid_arguments(self.name(), violations.into_iter().map(in_list).collect())
        })?;
        let (prompt, result_schema) = build_utility_prompt(self.action, &properties, text);
        let orchestrator = self.definition.workflow.orchestrator.as_ref();
        let tool_id = orchestrator.map_or("", |orchestrator| &orchestrator.tool_id);
        let tool = WorkflowTool::new(tool_id, result_schema);
        let state = &arguments.workflow_state_data;
        let own_schema = arguments.result_schema.as_ref();
        Ok(tool.finalize_workflow_tool_output(&prompt, state, own_schema))
    }
}

/// The violations of a refused result.
fn describe_refusal(error: &Error) -> String {
    let violations = error.violations().iter().map(|violation| {
        let expected = violation.expected.as_ref();
        let expected =
            expected.map_or_else(String::new, |expected| format!("; expected {expected}"));
        let place = if violation.path.is_empty() { "the result" } else { &violation.path };
        format!("\n- {place}: {}{expected}", violation.message)
    });
    let violations: String = violations.collect();
    format!("# The last result was refused\n{}{violations}", error.message())
}

/// Leaves out arguments that are null, and replaces the state by its two fields.
///
/// # Errors
/// `ARGUMENTS_INVALID` if it is damaged.
fn normalize_arguments(arguments: &mut Map<String, Value>) -> Result<()> {
    arguments.retain(|_, value| !value.is_null());
    if let Some(state) = arguments.get_mut(WORKFLOW_STATE_DATA) {
        *state = json!(parse_state(state.take())?);
    }
    Ok(())
}

/// The state of a call. Some models send it as JSON in a text, or with further keys.
///
/// # Errors
/// `ARGUMENTS_INVALID` if it is damaged.
fn parse_state(value: Value) -> Result<WorkflowStateData> {
    let value = match value {
        Value::String(text) if text.trim().is_empty() => Value::Null,
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        value => value,
    };
    if value.is_null() {
        return Ok(WorkflowStateData::default());
    }
    let state: Option<WorkflowStateData> = serde_json::from_value(value).ok();
    let trim = |text: String| text.trim().to_owned();
    let state = state.map(|state| WorkflowStateData {
        thread_id: trim(state.thread_id),
        token: state.token.map(trim).filter(|token| !token.is_empty()),
    });
    // A token without its thread is a state of which a part is missing.
    state.filter(|state| state.token.is_none() || !state.thread_id.is_empty()).ok_or_else(|| {
        let message = "workflowStateData is damaged: it has thread_id and token, both texts";
        Error::new(Code::ArgumentsInvalid, message)
    })
}
