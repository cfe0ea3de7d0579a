//! The text of a task in parts. Each surface adds the call that returns the result, under its own name.

use std::borrow::Cow;

use serde_json::Value;

use crate::words::make_fence;

/// The part of the instructions that says where the persona is. [`super::omit_persona`] replaces it.
pub(in super::super) const PERSONA_LOCATION_TEXT: &str =
    "as agent_content says (else read agent_uri with workflow.read)";

/// The text of a task, without the call that returns the result.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskText {
    pub(in super::super) role: TaskRole,
    /// The lines of the task.
    pub(in super::super) lines: Vec<TaskLine>,
    /// The effect of an `error` on the execution.
    pub(in super::super) error_effect: String,
    /// The form of the result in words.
    pub(in super::super) output_format: String,
    /// Whether the description of the step says something that the lines do not.
    pub(in super::super) has_description: bool,
    /// True for a step whose expressions choose the inputs and outputs that it needs, and for a tool: its prompt lists no others.
    pub(in super::super) names_its_values: bool,
    /// Whether the step calls a tool that reports to an orchestrator, so that its input has `workflowStateData`.
    pub(in super::super) calls_reporting_tool: bool,
}

/// The role in which a model does a step.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum TaskRole {
    /// That of a persona. `agent` is its name with its file, `step` the sentence that names the step.
    Persona { agent: String, step: String },
    /// That of a model without a persona: a sentence that names the step.
    Step(String),
}

/// A line of a task, or several.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum TaskLine {
    /// The same text in every form.
    Text(String),
    /// Long values are left out of `brief`, which stands beside fields that have them, and are in `full`.
    Values { brief: String, full: String },
}

impl TaskLine {
    /// The text beside fields that have the long values.
    pub(in super::super) fn brief(&self) -> &str {
        match self {
            Self::Text(text) | Self::Values { brief: text, .. } => text,
        }
    }

    pub(in super::super) fn full(&self) -> &str {
        match self {
            Self::Text(text) | Self::Values { full: text, .. } => text,
        }
    }
}

impl From<String> for TaskLine {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for TaskLine {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The call that returns the result of a step, as one surface names it.
#[derive(Clone, Debug)]
pub struct ResultCall {
    /// The tool with the names of its arguments.
    call: Cow<'static, str>,
    /// What its arguments are.
    arguments: Cow<'static, str>,
    /// The argument that takes the result.
    result: &'static str,
    /// The arguments of a call that reports an error.
    error_form: &'static str,
}

impl ResultCall {
    /// `workflow.next_step`, which takes the token and the output.
    pub fn next_step() -> Self {
        Self {
            call: "workflow.next_step {token, output}".into(),
            arguments: TOKEN_AND_RESULT.into(),
            result: "output",
            error_form: "{token, error: {message}}",
        }
    }

    /// The tool that continues a session.
    pub fn continue_session(tool: &str) -> Self {
        Self {
            call: format!("{tool} {{sessionId, token, result}}").into(),
            arguments: TOKEN_AND_RESULT.into(),
            result: "result",
            error_form: "{sessionId, token, error: {message}}",
        }
    }

    /// An orchestrator tool, which takes this state.
    pub fn orchestrate(tool: &str, state: &Value) -> Self {
        Self {
            call: format!("`{tool}` {{userInput, workflowStateData}}").into(),
            arguments: format!(
                "userInput is the result in the form below; workflowStateData is {state}, unchanged"
            )
            .into(),
            result: "userInput",
            error_form: "{workflowStateData, error: {message}}",
        }
    }
}

const TOKEN_AND_RESULT: &str = "this step's token, unchanged, and the result in the form below";

impl TaskText {
    /// The instructions beside fields that have persona, input and schema.
    pub fn format_instructions(&self, next: &ResultCall) -> String {
        let lines = self.lines.iter().map(TaskLine::brief);
        let ResultCall { call, result, error_form, .. } = next;
        let Self { error_effect, output_format, .. } = self;
        match &self.role {
            TaskRole::Persona { agent, step } => {
                let act = format!("1. Act as {agent}, {PERSONA_LOCATION_TEXT}.");
                let step = format!("2. {step}");
                let next = format!(
                    "3. Call {call}; {result}: {output_format}. If it cannot be done: {error_form}; {error_effect}."
                );
                join_nonempty_lines([&*act, &*step].into_iter().chain(lines).chain([&*next]))
            }
            TaskRole::Step(role) => {
                let head = format!("# Role\n{role}\n\n# Task");
                let tail = format!(
                    "\n{}\n\n# Output format\n{output_format}",
                    self.format_next_call(next)
                );
                join_nonempty_lines([&*head].into_iter().chain(lines).chain([&*tail]))
            }
        }
    }

    pub(in super::super) fn format_next_call(&self, next: &ResultCall) -> String {
        let ResultCall { call, arguments, error_form, .. } = next;
        format!(
            "# Required next call\n{call}: {arguments}. \
             If it cannot be done: {error_form}; {}. Do not end your turn before this call.",
            self.error_effect
        )
    }
}

/// The prompt of a tool that reports to an orchestrator: its own text, the form of the result and the call that takes it.
pub fn format_tool_prompt(text: &str, result_schema: &str, next: &ResultCall) -> String {
    let ResultCall { call, arguments, .. } = next;
    let fence = make_fence(result_schema);
    format!(
        "{text}\n\n# Required next call\n{call}: {arguments}. Do not end your turn before this call.\n\n\
         # Output format\nA JSON value that satisfies this schema:\n{fence}json\n{result_schema}\n{fence}"
    )
}

/// Joins the lines of a text, without the empty ones.
pub(in super::super) fn join_nonempty_lines<'a>(
    lines: impl IntoIterator<Item = &'a str>,
) -> String {
    let lines = lines.into_iter().map(str::trim_end);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}
