//! Asks a person for values one by one, each described by its schema, and again if it is refused. The [`AnswerDraft`] holds
//! everything that was typed, from the first line on.

use std::collections::VecDeque;

use serde_json::{Map, Value};

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
};
use midex_domain::error::{Error, Result};

/// The result of asking for a field. A typed value is in the draft.
enum FieldAnswer {
    Value,
    /// The names of all fields that a JSON object gave at once.
    Rest(Vec<String>),
    /// A command word instead of a value.
    Word(PersonAction),
}

/// How a line, with the lines that continue it, reads for a field.
enum ParsedLine {
    Value(Value),
    /// It is not valid, for this reason.
    Refused(String),
    Rest(Map<String, Value>),
    Word(PersonAction),
}

/// The prompt of a question, and where the answers go.
pub(super) struct FieldForm<'a, 'b> {
    pub(super) prompt: &'a mut Prompt,
    /// Everything that was typed so far.
    pub(super) draft: &'a mut AnswerDraft,
    pub(super) link: &'a mut ServerLink<'b>,
    pub(super) screen: Screen,
    pub(super) at: AnswerContext,
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
        let mut left: VecDeque<_> = fields.iter().collect();
        let mut rest: Option<Vec<String>> = None;
        while let Some(one) = left.pop_front() {
            if let Some(named) = &rest {
                if named.iter().any(|name| name == one.name()) || one.has_kept_value() {
                    continue;
                }
                // The person gave the rest of the answer as JSON, which lacks this field.
                self.draft.values.shift_remove(one.name());
                if !one.is_required() {
                    continue;
                }
            }
            match self.ask_field(one).await? {
                FieldAnswer::Value => {}
                FieldAnswer::Rest(names) => {
                    rest.get_or_insert_default().extend(names);
                    left.push_front(one);
                }
                FieldAnswer::Word(word) => return Ok(Some(word)),
            }
        }
        Ok(None)
    }

    async fn ask_field(&mut self, asked: &InputField) -> Result<FieldAnswer> {
        question::write_prompt(&self.screen.indent_block(
            Some(TextStyle::Dim),
            "  ",
            &asked.describe_in_line(),
        ))?;
        loop {
            let line = match self.prompt_line(&asked.prompt_text(), &asked.typed_choices()).await? {
                PromptInput::Line(line) => line.trim().to_owned(),
                left => return Ok(FieldAnswer::Word(word_for_leaving(&left))),
            };
            if line.is_empty() && asked.has_kept_value() {
                return Ok(FieldAnswer::Value);
            }
            if line.is_empty() && asked.is_required() {
                self.print_complaint(&format!("it is needed; {}", self.at.describe_stopping()))?;
                continue;
            }
            if line.is_empty() || asked.is_clearing_line(&line) {
                self.draft.values.shift_remove(asked.name());
                return Ok(FieldAnswer::Value);
            }
            if !has_several_lines(&line) {
                match self.classify_line(&line, &asked.describe_in_line()).await? {
                    LineMeaning::Value => {}
                    LineMeaning::Word(word) => return Ok(FieldAnswer::Word(word)),
                    LineMeaning::Explained(_) => continue,
                }
            }
            if let Some(given) = self.read_answer(asked, line).await? {
                return Ok(given);
            }
        }
    }

    /// Reads a line, with its continuation lines, as the answer to a field. `None` if it was refused, which is
    /// explained to the person.
    async fn read_answer(
        &mut self,
        asked: &InputField,
        line: String,
    ) -> Result<Option<FieldAnswer>> {
        let read = self.parse_line(asked, line).await?;
        Ok(Some(match read {
            ParsedLine::Word(word) => FieldAnswer::Word(word),
            ParsedLine::Value(value) => {
                self.draft.close_field();
                self.draft.values.insert(asked.name().to_owned(), value);
                FieldAnswer::Value
            }
            ParsedLine::Rest(rest) => {
                self.draft.close_field();
                let names = rest.keys().cloned().collect();
                self.draft.values.extend(rest);
                FieldAnswer::Rest(names)
            }
            ParsedLine::Refused(why) => {
                self.draft.close_field();
                self.print_complaint(&why)?;
                return Ok(None);
            }
        }))
    }

    async fn parse_line(&mut self, asked: &InputField, line: String) -> Result<ParsedLine> {
        let mut line = line;
        if let Some(item) = asked.item_field() {
            if line.starts_with('[') {
                line = match self.read_json_value(asked, line).await? {
                    Ok(text) => text,
                    Err(word) => return Ok(ParsedLine::Word(word)),
                };
            }
            if !asked.is_whole_list_json(&item, &line) {
                return self.read_list_items(asked, &item, line).await;
            }
        }
        let is_rest = line.starts_with('{') && !asked.is_json_start(&line);
        if !is_rest && !asked.is_json_start(&line) {
            return Ok(parsed_line_from_result(asked.parse_typed_value(&line)));
        }
        let text = if is_rest {
            let keep = |draft: &mut AnswerDraft, text: &str| text.clone_into(&mut draft.words);
            self.read_json_lines(line, keep).await?
        } else {
            self.read_json_value(asked, line).await?
        };
        let text = match text {
            Ok(text) => text,
            Err(word) => return Ok(ParsedLine::Word(word)),
        };
        Ok(match serde_json::from_str(&text) {
            Ok(Value::Object(rest)) if is_rest => ParsedLine::Rest(rest),
            read => parsed_line_from_result(asked.check_json_value(&text, read)),
        })
    }

    /// Reads the JSON value of a field that begins with this line.
    async fn read_json_value(
        &mut self,
        asked: &InputField,
        line: String,
    ) -> Result<Result<String, PersonAction>> {
        let keep =
            |draft: &mut AnswerDraft, text: &str| draft.open_field(asked.name(), text.into());
        self.read_json_lines(line, keep).await
    }

    /// Classifies a typed line. For `failed` without a reason it asks for the reason. A request for help is answered
    /// here, after `about`, and the question is to be asked again.
    pub(super) async fn classify_line(&mut self, line: &str, about: &str) -> Result<LineMeaning> {
        let said = self.at.classify_line(line);
        match &said {
            LineMeaning::Explained(words) => {
                self.print_explanation(format!("{about}\n{words}").trim_start())?;
            }
            LineMeaning::Word(PersonAction::Failed(why)) if why.is_empty() => {
                return self.ask_failure_reason().await;
            }
            _ => {}
        }
        Ok(said)
    }

    /// Asks for the reason of a failure. Command words apply here too, because the person may not want to submit
    /// anything.
    async fn ask_failure_reason(&mut self) -> Result<LineMeaning> {
        loop {
            let line = match self.prompt_line("why> ", &[]).await? {
                PromptInput::Line(line) => line.trim().to_owned(),
                left => return Ok(LineMeaning::Word(word_for_leaving(&left))),
            };
            if line.is_empty() {
                self.print_explanation(NO_REASON_MESSAGE)?;
                return Ok(LineMeaning::Explained(NO_REASON_MESSAGE.to_owned()));
            }
            match self.at.classify_line(&line) {
                LineMeaning::Value => {
                    return Ok(LineMeaning::Word(PersonAction::Failed(strip_json_quotes(&line))));
                }
                LineMeaning::Word(PersonAction::Failed(why)) if why.is_empty() => {
                    self.print_explanation(FAILURE_REASON_PROMPT)?;
                }
                LineMeaning::Explained(words) => {
                    self.print_explanation(&format!("{FAILURE_REASON_PROMPT}\n{words}"))?;
                }
                word @ LineMeaning::Word(_) => return Ok(word),
            }
        }
    }

    /// Reads a list item by item into the draft, and asks on while the list is too short.
    async fn read_list_items(
        &mut self,
        asked: &InputField,
        item: &InputField,
        first: String,
    ) -> Result<ParsedLine> {
        let name = asked.name();
        self.draft.truncate_items(0);
        let mut line = first;
        loop {
            for line in split_pasted_items(item, line) {
                match self.read_list_item(name, item, line).await? {
                    ParsedLine::Value(value) => self.draft.push_item(name, value),
                    ParsedLine::Refused(why) => self.print_complaint(&why)?,
                    other => return Ok(other),
                }
            }
            line = match self.read_next_list_line(asked).await? {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(word) => return Ok(ParsedLine::Word(word)),
            };
        }
        Ok(match self.draft.close_field() {
            Some(list) => {
                parsed_line_from_result(asked.check_json_value(&list.to_string(), Ok(list.clone())))
            }
            None => ParsedLine::Refused(NO_ITEM_MESSAGE.to_owned()),
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
        let keep = |draft: &mut AnswerDraft, text: &str| {
            draft.truncate_items(count);
            draft.push_item(name, text.into());
        };
        let text = match self.read_json_lines(line, keep).await? {
            Ok(text) => text,
            Err(word) => return Ok(ParsedLine::Word(word)),
        };
        self.draft.truncate_items(count);
        Ok(parsed_line_from_result(item.check_json_value(&text, serde_json::from_str(&text))))
    }

    /// Reads the next line of a list; `None` at its end.
    async fn read_next_list_line(
        &mut self,
        asked: &InputField,
    ) -> Result<Result<Option<String>, PersonAction>> {
        loop {
            let count = self.draft.item_count();
            let too_short = asked.too_few_items_message(count).filter(|_| count > 0);
            let line = match (self.prompt_line(CONTINUATION_PROMPT, &[]).await?, &too_short) {
                (PromptInput::Line(line), _) => line.trim().to_owned(),
                (PromptInput::End, None) => return Ok(Ok(None)),
                (left, _) => return Ok(Err(word_for_leaving(&left))),
            };
            if line.is_empty() {
                let Some(why) = too_short else {
                    return Ok(Ok(None));
                };
                self.print_complaint(&format!("{why}; {}", self.at.describe_stopping()))?;
                continue;
            }
            if is_value_continuation(&line) {
                return Ok(Ok(Some(line)));
            }
            match self.classify_line(&line, &asked.describe_in_line()).await? {
                LineMeaning::Value => return Ok(Ok(Some(line))),
                LineMeaning::Word(word) => return Ok(Err(word)),
                LineMeaning::Explained(_) => {}
            }
        }
    }

    /// Reads lines until the JSON that `begun` starts is complete, or an empty line ends it. `keep` puts the incomplete
    /// text into the draft.
    pub(super) async fn read_json_lines(
        &mut self,
        begun: String,
        keep: impl Fn(&mut AnswerDraft, &str),
    ) -> Result<Result<String, PersonAction>> {
        let mut text = begun;
        while is_incomplete_json(&text) {
            keep(self.draft, &text);
            match self.prompt_line(CONTINUATION_PROMPT, &[]).await? {
                PromptInput::Line(more) if more.trim().is_empty() => break,
                PromptInput::Line(more) if is_value_continuation(&more) => {
                    text.extend(["\n", &more]);
                }
                // A command word is never a line of JSON.
                PromptInput::Line(more) => match self.classify_line(&more, "").await? {
                    LineMeaning::Value => text.extend(["\n", &more]),
                    LineMeaning::Word(word) => return Ok(Err(word)),
                    LineMeaning::Explained(_) => {}
                },
                left => return Ok(Err(word_for_leaving(&left))),
            }
        }
        Ok(Ok(text))
    }

    pub(super) async fn prompt_line(
        &mut self,
        asked: &str,
        choices: &[String],
    ) -> Result<PromptInput> {
        self.prompt.read_line(asked, choices, self.link).await
    }

    fn print_explanation(&self, words: &str) -> Result<()> {
        question::write_prompt(&self.screen.indent_block(None, "  ", words))
    }

    fn print_complaint(&self, why: &str) -> Result<()> {
        question::write_prompt(&self.screen.indent_block(Some(TextStyle::Bad), "  ", why))
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
fn split_pasted_items(item: &InputField, typed: String) -> Vec<String> {
    if item.is_json_start(&typed) {
        let values = serde_json::Deserializer::from_str(&typed).into_iter::<Value>();
        match values.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(values) => return values.iter().map(Value::to_string).collect(),
            Err(error) if error.is_eof() => return vec![typed],
            Err(_) => {}
        }
    }
    let lines = typed.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Whether the typed text has several lines. Only a paste has, and it is never a command word.
fn has_several_lines(typed: &str) -> bool {
    typed.contains('\n')
}

/// Whether a continuation line is part of the value rather than a command word. Pasted lines are, and so are lines that
/// begin with `failed:`, because items often describe failures.
fn is_value_continuation(line: &str) -> bool {
    has_several_lines(line) || words::is_failure_line(line)
}

/// Wraps the result of reading a single field.
fn parsed_line_from_result(read: std::result::Result<Value, String>) -> ParsedLine {
    read.map_or_else(ParsedLine::Refused, ParsedLine::Value)
}

const NO_REASON_MESSAGE: &str = "nothing was handed in: a failure needs a reason";
const NO_ITEM_MESSAGE: &str = "no item could be taken";
const FAILURE_REASON_PROMPT: &str =
    "Why it could not be done, in a line, is handed in. An empty line takes it back.";

/// The command word for leaving a question with Ctrl-C or Ctrl-D.
pub(super) fn word_for_leaving(left: &PromptInput) -> PersonAction {
    match left {
        PromptInput::Interrupt => PersonAction::Interrupted,
        _ => PersonAction::Later,
    }
}
