//! Asks a person for values one by one, each described by its schema, and again if it is refused. The [`AnswerDraft`] holds
//! everything that was typed, from the first line on.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    draft::AnswerDraft,
    field::{InputField, strip_json_quotes},
    submission::is_incomplete_json,
    words::{self, AnswerContext, LineMeaning, PersonAction},
};
use crate::{
    link::ServerLink,
    prompt::{Prompt, PromptInput},
    question,
    screen::{Screen, TextStyle},
    value::list_items,
};
use midex_domain::{
    error::{Error, Result},
    input::Choices,
};

/// The result of asking for a field. A typed value is in the draft.
enum FieldAnswer {
    Value,
    /// The names of all fields that a JSON object gave at once.
    RemainingFields(Vec<String>),
    /// A command word instead of a value.
    Command(PersonAction),
}

/// How a line, with the lines that continue it, reads for a field.
enum ParsedLine {
    Value(Value),
    /// It is not valid, for this reason.
    Invalid(String),
    RemainingFields(Map<String, Value>),
    Command(PersonAction),
}

/// The prompt of a question, and where the answers go.
pub(super) struct FieldForm<'a, 'b> {
    pub(super) prompt: &'a mut Prompt,
    /// Everything that was typed so far.
    pub(super) draft: &'a mut AnswerDraft,
    pub(super) link: &'a mut ServerLink<'b>,
    pub(super) screen: Screen,
    pub(super) context: AnswerContext,
    /// Who lists the choices of fields, if the fields are inputs of a workflow.
    pub(super) choice_source: Option<ChoiceSource>,
}

/// A workflow whose providers list the choices of its inputs.
pub(super) struct ChoiceSource {
    pub(super) workflow: String,
    /// The inputs that are known beside those in the draft.
    pub(super) inputs: Map<String, Value>,
}

/// The prompt for a continuation line.
pub(super) const CONTINUATION_PROMPT: &str = "...> ";

impl FieldForm<'_, '_> {
    /// Asks for each of the fields and puts the values into the draft, which keeps values of other fields. Returns the
    /// command word if the person types one instead of a value.
    pub(super) async fn ask_fields(
        &mut self,
        fields: &[InputField],
    ) -> Result<Option<PersonAction>> {
        let mut remaining: VecDeque<_> = fields.iter().collect();
        let mut given_names: Option<Vec<String>> = None;
        while let Some(field) = remaining.pop_front() {
            if let Some(names) = &given_names {
                if names.iter().any(|name| name == field.name()) || field.has_kept_value() {
                    continue;
                }
                // The person gave the rest of the answer as JSON, which lacks this field.
                self.draft.values.shift_remove(field.name());
                if !field.is_required() {
                    continue;
                }
            }
            let field_with_choices = self.add_choices(field).await?;
            match self.ask_field(&field_with_choices).await? {
                FieldAnswer::Value => {}
                FieldAnswer::RemainingFields(names) => {
                    given_names.get_or_insert_default().extend(names);
                    remaining.push_front(field);
                }
                FieldAnswer::Command(word) => return Ok(Some(word)),
            }
        }
        Ok(None)
    }

    /// The field with the choices that its provider lists for the inputs so far. If there are none, the person reads why,
    /// and types a value.
    async fn add_choices(&mut self, field: &InputField) -> Result<InputField> {
        let Some(source) = self.choice_source.as_ref().filter(|_| field.has_provider) else {
            return Ok(field.clone());
        };
        let mut inputs = source.inputs.clone();
        inputs.extend(self.draft.values.clone());
        inputs.shift_remove(field.name());
        let arguments = json!({ "workflow_id": source.workflow, "inputs": inputs });
        let resolved = match self.link.call("workflow.resolve_inputs", arguments).await {
            Ok(resolved) => resolved,
            Err(error) => {
                self.print_explanation(error.message())?;
                return Ok(field.clone());
            }
        };
        let mut resolutions = list_items(&resolved["provider_resolutions"]).iter();
        let is_listing =
            |one: &&Value| one["input"] == field.name() && one.get("argument").is_none();
        let listing = resolutions.find(is_listing).cloned().unwrap_or_default();
        let outcome = &listing["outcome"];
        if let Ok(choices) = Choices::deserialize(&listing)
            && !choices.choices.is_empty()
        {
            return Ok(field.clone().with_choices(choices));
        }
        let why = outcome["message"].as_str().or(outcome["reason"].as_str());
        self.print_explanation(why.unwrap_or_default())?;
        Ok(field.clone())
    }

    async fn ask_field(&mut self, field: &InputField) -> Result<FieldAnswer> {
        question::write_prompt(&self.screen.indent_block(
            Some(TextStyle::Dim),
            "  ",
            &field.describe_in_line(),
        ))?;
        question::write_prompt(&self.screen.indent_block(None, "    ", &field.listed_lines()))?;
        loop {
            let line = match self.ask_for_line(&field.prompt_text(), &field.typed_choices()).await?
            {
                PromptInput::Line(line) => line.trim().to_owned(),
                input => return Ok(FieldAnswer::Command(exit_command(&input))),
            };
            if line.is_empty() && field.has_kept_value() {
                return Ok(FieldAnswer::Value);
            }
            if line.is_empty() && field.is_required() {
                self.print_complaint(&format!(
                    "it is needed; {}",
                    self.context.describe_stopping()
                ))?;
                continue;
            }
            if line.is_empty() || field.is_clearing_line(&line) {
                self.draft.values.shift_remove(field.name());
                return Ok(FieldAnswer::Value);
            }
            if !has_several_lines(&line) {
                match self.classify_line(&line, &field.describe_in_line()).await? {
                    LineMeaning::Value => {}
                    LineMeaning::Command(word) => return Ok(FieldAnswer::Command(word)),
                    LineMeaning::Help(_) => continue,
                }
            }
            if let Some(answer) = self.read_answer(field, line).await? {
                return Ok(answer);
            }
        }
    }

    /// Reads a line, with its continuation lines, as the answer to a field. `None` if it was refused, which is
    /// explained to the person.
    async fn read_answer(
        &mut self,
        field: &InputField,
        line: String,
    ) -> Result<Option<FieldAnswer>> {
        let parsed = self.parse_line(field, line).await?;
        Ok(Some(match parsed {
            ParsedLine::Command(word) => FieldAnswer::Command(word),
            ParsedLine::Value(value) => {
                self.draft.close_field();
                self.draft.values.insert(field.name().to_owned(), value);
                FieldAnswer::Value
            }
            ParsedLine::RemainingFields(values) => {
                self.draft.close_field();
                let names = values.keys().cloned().collect();
                self.draft.values.extend(values);
                FieldAnswer::RemainingFields(names)
            }
            ParsedLine::Invalid(reason) => {
                self.draft.close_field();
                self.print_complaint(&reason)?;
                return Ok(None);
            }
        }))
    }

    async fn parse_line(&mut self, field: &InputField, line: String) -> Result<ParsedLine> {
        let mut line = line;
        if let Some(item) = field.item_field() {
            if line.starts_with('[') {
                line = match self.read_json_value(field, line).await? {
                    Ok(text) => text,
                    Err(word) => return Ok(ParsedLine::Command(word)),
                };
            }
            if !field.is_whole_list_json(&item, &line) {
                return self.read_list_items(field, &item, line).await;
            }
        }
        let is_json_object = line.starts_with('{') && !field.is_json_start(&line);
        if !is_json_object && !field.is_json_start(&line) {
            return Ok(parsed_line_from_result(field.parse_typed_value(&line)));
        }
        let text = if is_json_object {
            let update_draft =
                |draft: &mut AnswerDraft, text: &str| text.clone_into(&mut draft.text);
            self.read_json_lines(line, update_draft).await?
        } else {
            self.read_json_value(field, line).await?
        };
        let text = match text {
            Ok(text) => text,
            Err(word) => return Ok(ParsedLine::Command(word)),
        };
        Ok(match serde_json::from_str(&text) {
            Ok(Value::Object(values)) if is_json_object => ParsedLine::RemainingFields(values),
            parsed => parsed_line_from_result(field.check_json_value(&text, parsed)),
        })
    }

    /// Reads the JSON value of a field that begins with this line.
    async fn read_json_value(
        &mut self,
        field: &InputField,
        line: String,
    ) -> Result<Result<String, PersonAction>> {
        let update_draft =
            |draft: &mut AnswerDraft, text: &str| draft.open_field(field.name(), text.into());
        self.read_json_lines(line, update_draft).await
    }

    /// Classifies a typed line. For `failed` without a reason it asks for the reason. A request for help is answered
    /// here, after `description`, and the question is to be asked again.
    pub(super) async fn classify_line(
        &mut self,
        line: &str,
        description: &str,
    ) -> Result<LineMeaning> {
        let meaning = self.context.classify_line(line);
        match &meaning {
            LineMeaning::Help(words) => {
                self.print_explanation(format!("{description}\n{words}").trim_start())?;
            }
            LineMeaning::Command(PersonAction::Failed(reason)) if reason.is_empty() => {
                return self.ask_failure_reason().await;
            }
            _ => {}
        }
        Ok(meaning)
    }

    /// Asks for the reason of a failure. Command words apply here too, because the person may not want to submit
    /// anything.
    async fn ask_failure_reason(&mut self) -> Result<LineMeaning> {
        loop {
            let line = match self.ask_for_line("why> ", &[]).await? {
                PromptInput::Line(line) => line.trim().to_owned(),
                input => return Ok(LineMeaning::Command(exit_command(&input))),
            };
            if line.is_empty() {
                self.print_explanation(NO_REASON_MESSAGE)?;
                return Ok(LineMeaning::Help(NO_REASON_MESSAGE.to_owned()));
            }
            match self.context.classify_line(&line) {
                LineMeaning::Value => {
                    return Ok(LineMeaning::Command(PersonAction::Failed(strip_json_quotes(
                        &line,
                    ))));
                }
                LineMeaning::Command(PersonAction::Failed(reason)) if reason.is_empty() => {
                    self.print_explanation(FAILURE_REASON_PROMPT)?;
                }
                LineMeaning::Help(words) => {
                    self.print_explanation(&format!("{FAILURE_REASON_PROMPT}\n{words}"))?;
                }
                word @ LineMeaning::Command(_) => return Ok(word),
            }
        }
    }

    /// Reads a list item by item into the draft, and asks on while the list is too short.
    async fn read_list_items(
        &mut self,
        field: &InputField,
        item: &InputField,
        first_line: String,
    ) -> Result<ParsedLine> {
        let name = field.name();
        self.draft.truncate_items(0);
        let mut line = first_line;
        loop {
            for line in split_pasted_items(item, line) {
                match self.read_list_item(name, item, line).await? {
                    ParsedLine::Value(value) => self.draft.push_item(name, value),
                    ParsedLine::Invalid(reason) => self.print_complaint(&reason)?,
                    parsed => return Ok(parsed),
                }
            }
            line = match self.read_next_list_line(field).await? {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(word) => return Ok(ParsedLine::Command(word)),
            };
        }
        Ok(match self.draft.close_field() {
            Some(list) => {
                parsed_line_from_result(field.check_json_value(&list.to_string(), Ok(list.clone())))
            }
            None => ParsedLine::Invalid(NO_ITEM_MESSAGE.to_owned()),
        })
    }

    async fn read_list_item(
        &mut self,
        name: &str,
        item: &InputField,
        line: String,
    ) -> Result<ParsedLine> {
        if !item.is_json_start(&line) {
            return Ok(parsed_line_from_result(item.parse_typed_value(&line)));
        }
        let count = self.draft.item_count();
        let update_draft = |draft: &mut AnswerDraft, text: &str| {
            draft.truncate_items(count);
            draft.push_item(name, text.into());
        };
        let text = match self.read_json_lines(line, update_draft).await? {
            Ok(text) => text,
            Err(word) => return Ok(ParsedLine::Command(word)),
        };
        self.draft.truncate_items(count);
        Ok(parsed_line_from_result(item.check_json_value(&text, serde_json::from_str(&text))))
    }

    /// Reads the next line of a list; `None` at its end.
    async fn read_next_list_line(
        &mut self,
        field: &InputField,
    ) -> Result<Result<Option<String>, PersonAction>> {
        loop {
            let count = self.draft.item_count();
            let too_short_message = field.too_few_items_message(count).filter(|_| count > 0);
            let line =
                match (self.ask_for_line(CONTINUATION_PROMPT, &[]).await?, &too_short_message) {
                    (PromptInput::Line(line), _) => line.trim().to_owned(),
                    (PromptInput::End, None) => return Ok(Ok(None)),
                    (input, _) => return Ok(Err(exit_command(&input))),
                };
            if line.is_empty() {
                let Some(reason) = too_short_message else {
                    return Ok(Ok(None));
                };
                self.print_complaint(&format!("{reason}; {}", self.context.describe_stopping()))?;
                continue;
            }
            if is_value_continuation(&line) {
                return Ok(Ok(Some(line)));
            }
            match self.classify_line(&line, &field.describe_in_line()).await? {
                LineMeaning::Value => return Ok(Ok(Some(line))),
                LineMeaning::Command(word) => return Ok(Err(word)),
                LineMeaning::Help(_) => {}
            }
        }
    }

    /// Reads lines until the JSON that `first_text` starts is complete, or an empty line ends it. `update_draft` puts the incomplete
    /// text into the draft.
    pub(super) async fn read_json_lines(
        &mut self,
        first_text: String,
        update_draft: impl Fn(&mut AnswerDraft, &str),
    ) -> Result<Result<String, PersonAction>> {
        let mut text = first_text;
        while is_incomplete_json(&text) {
            update_draft(self.draft, &text);
            match self.ask_for_line(CONTINUATION_PROMPT, &[]).await? {
                PromptInput::Line(line) if line.trim().is_empty() => break,
                PromptInput::Line(line) if is_value_continuation(&line) => {
                    text.extend(["\n", &line]);
                }
                // A command word is never a line of JSON.
                PromptInput::Line(line) => match self.classify_line(&line, "").await? {
                    LineMeaning::Value => text.extend(["\n", &line]),
                    LineMeaning::Command(word) => return Ok(Err(word)),
                    LineMeaning::Help(_) => {}
                },
                input => return Ok(Err(exit_command(&input))),
            }
        }
        Ok(Ok(text))
    }

    pub(super) async fn ask_for_line(
        &mut self,
        question: &str,
        choices: &[String],
    ) -> Result<PromptInput> {
        self.prompt.read_line(question, choices, self.link).await
    }

    fn print_explanation(&self, words: &str) -> Result<()> {
        question::write_prompt(&self.screen.indent_block(None, "  ", words))
    }

    fn print_complaint(&self, reason: &str) -> Result<()> {
        question::write_prompt(&self.screen.indent_block(Some(TextStyle::Bad), "  ", reason))
    }

    /// Prints the message of each violation, or of the error if it has none.
    pub(super) fn print_error_complaint(&self, error: &Error) -> Result<()> {
        if error.violations().is_empty() {
            return self.print_complaint(error.message());
        }
        for violation in error.violations() {
            let (path, message) = (&violation.path, &violation.message);
            if path.starts_with('/') && !message.contains(path) {
                self.print_complaint(&format!("{path}: {message}"))?;
            } else {
                self.print_complaint(message)?;
            }
        }
        Ok(())
    }
}

/// Splits text that was pasted at once into items: one per line, or one per JSON value.
fn split_pasted_items(item: &InputField, text: String) -> Vec<String> {
    if item.is_json_start(&text) {
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        match values.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(values) => return values.iter().map(Value::to_string).collect(),
            Err(error) if error.is_eof() => return vec![text],
            Err(_) => {}
        }
    }
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Whether the typed text has several lines. Only a paste has, and it is never a command word.
fn has_several_lines(text: &str) -> bool {
    text.contains('\n')
}

/// Whether a continuation line is part of the value rather than a command word. Pasted lines are, and so are lines that
/// begin with `failed:`, because items often describe failures.
fn is_value_continuation(line: &str) -> bool {
    has_several_lines(line) || words::is_failure_line(line)
}

/// Wraps the result of reading a single field.
fn parsed_line_from_result(result: std::result::Result<Value, String>) -> ParsedLine {
    result.map_or_else(ParsedLine::Invalid, ParsedLine::Value)
}

const NO_REASON_MESSAGE: &str = "nothing was handed in: a failure needs a reason";
const NO_ITEM_MESSAGE: &str = "no item could be taken";
const FAILURE_REASON_PROMPT: &str =
    "Why it could not be done, in a line, is handed in. An empty line takes it back.";

/// The command word for leaving a question with Ctrl-C or Ctrl-D.
pub(super) fn exit_command(input: &PromptInput) -> PersonAction {
    match input {
        PromptInput::Interrupt => PersonAction::Interrupted,
        _ => PersonAction::Leave,
    }
}
