//! The task of a step that asks for inputs: the inputs with their types, the schema of an answer, and the faults of the
//! previous answer.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::inputs::{InputView, input_view};
use crate::{
    definition::{Definition, InputChannel, Step, StepKind},
    document::to_plain_text,
    execution::{Question, UTTERANCE_FIELD},
    input::Input,
    limits,
    orchestrator::RequestedProperties,
    words::make_fence,
};

/// The inputs that a step asks for in one turn.
pub(super) struct InputQuestions<'a> {
    question: Question,
    /// Every input that an answer may contain.
    inputs: Vec<&'a Input>,
    /// The text from which the values are to be extracted, if there is one.
    text: Option<String>,
    /// Whether the user may answer in free text.
    accepts_utterance: bool,
    via: InputChannel,
}

impl<'a> InputQuestions<'a> {
    /// The questions of a step with this rendered input; `None` if the step asks for no inputs.
    pub(super) fn from_step(
        definition: &'a Definition,
        step: &Step,
        input: &Value,
    ) -> Option<Self> {
        let names = step.kind.requested_inputs()?;
        let declared = definition.workflow.inputs.as_ref()?;
        let question = Question::from_visit_input(input);
        let names = if question.asked.is_empty() { names } else { &question.asked };
        let find = |name: &String| declared.iter().find(|input| input.key.as_str() == name);
        let inputs = names.iter().filter_map(find).collect();
        let (text, in_words) = match &step.kind {
            StepKind::Extract { .. } => (Some(to_plain_text(&input["from"])), false),
            StepKind::Input { reextract, .. } => (question.utterance.clone(), *reextract),
            _ => (None, false),
        };
        Some(Self {
            inputs,
            via: match &step.kind {
                StepKind::Input { via, .. } => *via,
                _ => InputChannel::Guidance,
            },
            accepts_utterance: in_words && text.is_none(),
            text,
            question,
        })
    }

    /// The questions of a call of a utility tool: for all properties, from the user or from `text`.
    pub(super) fn from_properties(
        properties: &'a RequestedProperties,
        text: Option<String>,
    ) -> Self {
        Self {
            question: Question::new(properties.names.clone(), properties.refused.clone()),
            inputs: properties.inputs.iter().collect(),
            accepts_utterance: text.is_none(),
            text,
            via: InputChannel::Guidance,
        }
    }

    /// The inputs asked for in this turn: all of them for an extraction, else those that are missing or were refused.
    fn inputs_to_ask(&self) -> impl Iterator<Item = &'a Input> {
        let is_asked = |input: &&Input| {
            let name = input.key.as_str();
            let is_missing = self.question.missing.iter().any(|missing| missing == name);
            let mut refused = self.question.refused.iter();
            self.text.is_some() || is_missing || refused.any(|refused| refused.property == name)
        };
        self.inputs.iter().copied().filter(is_asked)
    }

    /// Whether the values are extracted from an utterance of the user. The author's text is about asking, so it is left
    /// out then.
    pub(super) fn is_extraction(&self) -> bool {
        self.question.utterance.is_some()
    }

    /// The questions as the structured `input` of the turn.
    pub(super) fn structured_input(&self) -> Value {
        let views: Vec<InputView> = self.inputs_to_ask().map(input_view).collect();
        let mut input = json!({ "properties": views });
        if self.text.is_none() {
            input["via"] = json!(self.via);
        }
        if let Some(text) = &self.text {
            input["from"] = json!(text);
        }
        if !self.question.refused.is_empty() {
            input["refused"] = json!(self.question.refused);
        }
        input
    }

    /// The JSON Schema of the values that an answer may have, without descriptions: the instructions describe them.
    pub(super) fn values_schema(&self, required: &[String]) -> Value {
        let property = |input: &Input| match &self.text {
            // The text may not contain the value, so null is allowed.
            Some(_) => json!({ "anyOf": [input.constraints(), { "type": "null" }] }),
            None => Value::Object(input.constraints()),
        };
        let properties =
            self.inputs.iter().map(|input| (input.key.as_str().to_owned(), property(input)));
        let properties: Map<_, _> = properties.collect();
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        })
    }

    /// The JSON Schema of an answer.
    pub(super) fn answer_schema(&self) -> Value {
        let missing = &self.question.missing;
        let answers = self.values_schema(if self.text.is_some() { &[] } else { missing });
        if !self.accepts_utterance || !answers["properties"][UTTERANCE_FIELD].is_null() {
            return answers;
        }
        let utterance = json!({
            "type": "string", "description": "What the user said, in the user's own words: the values are then taken out of that"
        });
        let utterance_schema = json!({
            "type": "object", "properties": { (UTTERANCE_FIELD): utterance }, "required": [UTTERANCE_FIELD], "additionalProperties": false
        });
        json!({ "anyOf": [answers, utterance_schema] })
    }

    /// Whether only the user may answer, in a form that the client shows.
    fn is_for_user_alone(&self) -> bool {
        self.via == InputChannel::Elicitation && self.text.is_none()
    }

    /// The task text.
    pub(super) fn task_text(&self) -> String {
        const ASK_USER_TEXT: &str = "Ask the user for the values below, and wait for the answer. The values are the user's: nothing is guessed, and nothing is answered in the user's place.";
        match (&self.text, self.accepts_utterance) {
            (Some(_), _) => "Take the values below out of the text below. Give null for what the text does not say: nothing is guessed, and nothing is made up.".to_owned(),
            (None, _) if self.is_for_user_alone() => "The user alone answers this step, in a form that your client shows: the call below has it shown. Do not ask for the values yourself, and do not send any.".to_owned(),
            (None, false) => ASK_USER_TEXT.to_owned(),
            (None, true) => format!("{ASK_USER_TEXT} Where the user answers in words of their own, hand in those words as userUtterance."),
        }
    }

    /// The list of requested values, the refusals of the previous answer, and the text to extract from.
    pub(super) fn values_text(&self, form: ValueText) -> String {
        let mut text = String::from(match form {
            ValueText::Brief => "Values (input.properties says more of each):\n",
            ValueText::Full => "Values:\n",
        });
        for input in self.inputs_to_ask() {
            append_input_line(&mut text, input, form);
        }
        if !self.question.refused.is_empty() {
            text.push_str("The answer before was refused:\n");
        }
        for refused in &self.question.refused {
            let message = Some(&*refused.message).filter(|message| form.contains(message));
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "- {}", message.unwrap_or("see input.refused"));
        }
        match &self.text {
            Some(words) if form.contains(words) => {
                let fence = make_fence(words);
                let _ = write!(text, "Text:\n{fence}\n{}\n{fence}", words.trim_end());
            }
            Some(_) => text.push_str("The text stands in input.from."),
            None => {}
        }
        text
    }

    /// The output format, with an example if every requested input has a sample value.
    pub(super) fn output_format_text(&self) -> String {
        if self.is_for_user_alone() {
            return "An empty object, {}: the user's answer takes its place.".to_owned();
        }
        let example: Map<String, Value> = self
            .inputs_to_ask()
            .filter_map(|input| Some((input.key.as_str().to_owned(), find_example(input)?)))
            .collect();
        let form = "A JSON object that satisfies output_schema.";
        if example.len() < self.inputs_to_ask().count() {
            return form.to_owned();
        }
        let example = Value::Object(example);
        format!(
            "{form}\nFor example, with values of your user's in place of these:\n```json\n{example:#}\n```"
        )
    }
}

/// A valid value for the input, if the definition contains one: its example, else its first `enum` value.
fn find_example(input: &Input) -> Option<Value> {
    input.example.clone().or_else(|| input.one_of.first().cloned())
}

/// How much a list of values contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueText {
    /// Short texts: the structured input has the long ones.
    Brief,
    /// Everything.
    Full,
}

impl ValueText {
    /// Whether this text appears in the list.
    const fn contains(self, text: &str) -> bool {
        matches!(self, Self::Full) || text.len() <= limits::REPEATED_BYTES_MAX
    }
}

/// Appends one line on the input. Parts that are too long are only in `input.properties`.
fn append_input_line(text: &mut String, input: &Input, form: ValueText) {
    let _ = write!(text, "- `{}`", input.key);
    if let Some(label) = &input.label {
        let _ = write!(text, " ({label})");
    }
    let kind = input.effective_type().map(|kind| format!("type {}", kind.as_str()));
    let hint = input.hint.as_ref().map(|hint| format!("hint: {hint}"));
    let example = input.example.as_ref().map(|example| format!("for example {example}"));
    let provider = input.provider.as_ref();
    let provider =
        provider.map(|name| format!("workflow.resolve_inputs lists the choices of `{name}`"));
    let details = [input.description.clone(), kind].into_iter().flatten();
    let details = details.chain(input.rule_texts()).chain(provider).chain(hint).chain(example);
    let details: Vec<_> = details.filter(|words| form.contains(words)).collect();
    if !details.is_empty() {
        let _ = write!(text, ": {}", details.join("; "));
    }
    text.push('\n');
}
