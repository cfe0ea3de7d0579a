//! The prompts of an orchestrator and of its utility tools. A model needs nothing but the prompt.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    PreviousOutput, ReadyStep, ResultCall, StatusView,
    previous::deciding_predecessors,
    question::{InputQuestions, ValueText},
    task::text::{TaskLine, TaskRole, join_nonempty_lines},
};
use crate::{
    definition::{Definition, ExposedAction, Step},
    limits,
    orchestrator::{
        EXTRACTED_PROPERTIES, RequestedProperties, USER_UTTERANCE, WORKFLOW_STATE_DATA,
        WorkflowStateData,
    },
    state::State,
    uri::encode_segment,
    words::make_fence,
};

/// What a prompt for an open step shows besides the step itself.
#[derive(Clone, Copy, Debug)]
pub struct StepPrompt<'a> {
    /// The orchestrator tool that takes the result.
    pub tool: &'a str,
    /// The state that comes back with the result.
    pub state: &'a WorkflowStateData,
    /// The persona of the step.
    pub persona: Option<&'a str>,
    /// The inputs of the execution.
    pub inputs: Option<&'a Value>,
    /// The address of the inputs, if they are shortened.
    pub inputs_uri: Option<&'a str>,
    /// The outputs of the steps that it depends on.
    pub previous: &'a [PreviousOutput],
}

impl StepPrompt<'_> {
    /// The whole task of an open step as one prompt; `None` for a step without a task.
    pub fn format(&self, ready: &ReadyStep) -> Option<String> {
        let step = &ready.step;
        let text = step.text.as_ref()?;
        let state = json!(self.state);
        let mut prompt = "# Role\n".to_owned();
        match &text.role {
            TaskRole::Persona { agent, step } => {
                let _ = write!(prompt, "Act as {agent}, as agent_content says. {step}");
            }
            TaskRole::Step(role) => prompt.push_str(role),
        }
        if let Some(persona) = self.persona {
            append_block(&mut prompt, "agent_content", persona, "");
        }
        let lines = text.lines.iter().map(TaskLine::full);
        let _ = write!(prompt, "\n\n# Task\n{}", join_nonempty_lines(lines));
        if text.has_description {
            append_block(&mut prompt, "description", &ready.description, "");
        }
        append_json(&mut prompt, "input_schema", step.input_schema.as_ref());
        // The text of a question has everything that its input has.
        let is_question = ["input", "extract"].contains(&&*step.kind);
        let mut input = step.input.clone().filter(|_| !is_question);
        if text.calls_reporting_tool {
            input.get_or_insert_with(|| json!({}))[WORKFLOW_STATE_DATA] = state.clone();
        }
        // A tool is called with exactly this.
        if step.kind != "tool" {
            input = input.map(|input| omit_repeated_texts(&input, &prompt));
        }
        append_json(&mut prompt, "input", input.as_ref());
        if let Some(inputs) = self.inputs.filter(|_| !text.names_its_values)
            && *inputs != json!({})
        {
            let inputs = omit_repeated_texts(inputs, &prompt);
            append_json(&mut prompt, "inputs", Some(&inputs));
            if let Some(uri) = self.inputs_uri {
                let _ = write!(
                    prompt,
                    "\nThey are shortened: workflow.read {{uri: {uri}}} has them whole."
                );
            }
        }
        // Personas are written for tasks that list the outputs before them.
        if !self.previous.is_empty() && (!text.names_its_values || ready.agent_name.is_some()) {
            let previous = omit_repeated_texts(&json!(self.previous), &prompt);
            append_json(&mut prompt, "previous", Some(&previous));
        }
        let mut format = text.output_format.clone();
        // The instructions of a persona continue a sentence with it.
        if let Some(first) = format.get(..1) {
            format.replace_range(..1, &first.to_uppercase());
        }
        let next = text.format_next_call(&ResultCall::orchestrate(self.tool, &state));
        let _ = write!(prompt, "\n\n{next}\n\n# Output format\n{format}");
        append_json(&mut prompt, "output_schema", ready.output_schema.as_ref());
        let needs_example = step.kind != "tool" && !is_question && ready.output_schema.is_none();
        let default_example = needs_example.then(|| json!({ "summary": "What was done" }));
        let example = step.example.as_ref().or(default_example.as_ref());
        append_json(&mut prompt, "example", example);
        Some(prompt)
    }
}

/// The outputs before the step at `position` of a list of open steps, which shows each output only once.
pub fn collect_previous(
    definition: &Definition,
    steps: &[ReadyStep],
    position: usize,
) -> Vec<PreviousOutput> {
    let defined = &definition.workflow.steps;
    let is_shown = |step: &Step| step.id.as_str() == steps[position].step_name;
    let Some(at) = defined.iter().position(is_shown) else {
        return Vec::new();
    };
    let deciders = deciding_predecessors(definition, at);
    let is_decider = |output: &&PreviousOutput| {
        deciders.iter().any(|at| defined[*at].id.as_str() == output.step_name)
    };
    let outputs = steps.iter().flat_map(|step| &step.previous);
    outputs.filter(is_decider).cloned().collect()
}

/// The prompt while the thread waits for `wait`, to be told again later.
pub fn format_waiting_prompt(wait: &str, tool: &str, state: &WorkflowStateData) -> String {
    let state = json!(state);
    format!(
        "# Task\n{wait}\n\n# Required next call\n`{tool}` {{workflowStateData}}: workflowStateData is {state}, unchanged. It \
         answers with what is next. Do not send userInput with it."
    )
}

/// The prompt of a thread that has ended.
pub fn format_concluded_prompt(status: &StatusView) -> String {
    let mut prompt =
        "The workflow has concluded. No further workflow actions are forthcoming.".to_owned();
    // Writing to a `String` cannot fail.
    if let Some(error) = &status.error {
        let step = error.step_id.as_ref().map(|step| format!(" at step '{step}'"));
        let step = step.unwrap_or_default();
        let _ = write!(prompt, "\n\nIt failed{step}: {}", error.message);
    } else if status.state != State::Completed.as_str() {
        let _ = write!(prompt, "\n\nIt is {}.", status.state);
    }
    if let Some(output) = status.final_output.as_ref().filter(|output| !output.is_null()) {
        let _ = write!(prompt, "\n\nIts result:\n```json\n{output}\n```");
        if status.final_output_truncated {
            let id = encode_segment(&status.execution_id);
            let uri = format!("midex://workflow/step_history/{id}");
            let _ = write!(prompt, "\nIt is shortened: workflow.read {{uri: {uri}}} has it whole.");
        }
    }
    prompt
}

/// The prompt of a utility tool, and the JSON Schema of its result.
pub fn build_utility_prompt(
    action: ExposedAction,
    properties: &RequestedProperties,
    text: Option<String>,
) -> (String, Value) {
    let questions = InputQuestions::from_properties(properties, text);
    let answers = questions.values_schema(&[]);
    let (field, schema) = if action == ExposedAction::ExtractInput {
        (EXTRACTED_PROPERTIES, answers)
    } else {
        let words = json!({ "type": "string", "description": "What the user said" });
        (USER_UTTERANCE, json!({ "anyOf": [answers, words] }))
    };
    let schema = json!({ "type": "object", "properties": { field: schema }, "required": [field] });
    let text =
        format!("# Task\n{}\n{}", questions.task_text(), questions.values_text(ValueText::Full));
    (text.trim_end().to_owned(), schema)
}

/// Appends a named value in a fence.
fn append_block(prompt: &mut String, name: &str, text: &str, language: &str) {
    let fence = make_fence(text);
    // Writing to a `String` cannot fail.
    let _ = write!(prompt, "\n\n{name}:\n{fence}{language}\n{}\n{fence}", text.trim_end());
}

fn append_json(prompt: &mut String, name: &str, value: Option<&Value>) {
    if let Some(value) = value {
        append_block(prompt, name, &value.to_string(), "json");
    }
}

/// The value without the long texts that the prompt contains already.
fn omit_repeated_texts(value: &Value, prompt: &str) -> Value {
    match value {
        Value::String(text) if text.len() > limits::REPEATED_BYTES_MAX => {
            let escaped = value.to_string();
            let is_repeated = prompt.contains(text.trim()) || prompt.contains(&escaped);
            if is_repeated { "(it stands above)".into() } else { value.clone() }
        }
        Value::Array(items) => items.iter().map(|item| omit_repeated_texts(item, prompt)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(name, field)| (name.clone(), omit_repeated_texts(field, prompt))).collect()
        }
        _ => value.clone(),
    }
}
