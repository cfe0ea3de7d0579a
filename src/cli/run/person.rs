//! Asks a person at the terminal for the result of a step: property by property if the step declares them, else as
//! text.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    draft::Draft,
    field::{Field, fields_to_ask_again},
    form::{CONTINUATION_PROMPT, FieldForm, left_with},
    submission::{Report, RunDecision, of_person, parse_person_text, takes_any},
    words::{self, AnswerContext, LineMeaning, PersonAction},
};
use crate::{
    link::Link,
    message_with_violations,
    prompt::{Prompt, PromptInput},
    question,
    screen::{Screen, Style, one_line},
    steps::OpenStep,
};
use midex_domain::{
    error::{Error, Result},
    limits,
    view::InputView,
};

/// A person at the terminal.
#[derive(Default)]
pub(super) struct Person {
    prompt: Option<Prompt>,
    /// The kind of step for which the other answers were last explained.
    told: Option<AnswerContext>,
}

impl Person {
    pub(super) fn prompt(&mut self) -> &mut Prompt {
        self.prompt.get_or_insert_with(Prompt::stdin)
    }

    /// Asks until the person answers the first open step, or another one that they name.
    pub(super) async fn answer(
        &mut self,
        open: &[OpenStep],
        complaint: Option<Error>,
        draft: &mut Draft,
        link: &mut Link<'_>,
    ) -> Result<RunDecision> {
        let at = answer_context(&open[0]);
        if complaint.is_none() {
            draft.print_unrecorded();
        }
        self.print_other_answers(at)?;
        let fields = fields(&open[0]);
        let mut complaint = complaint;
        loop {
            let mut asking = self.asking(at, draft, link);
            let word = match &fields {
                Some(fields) => asking.fields(fields, complaint).await?,
                None => asking.ask_text_output(&open[0], complaint).await?,
            };
            if let Some(word) = word {
                return Ok(act_on_word(&open[0], word, draft));
            }
            let submission = if fields.is_some() {
                let report = Report::Output(Value::Object(draft.values.clone()));
                Ok(of_person(&open[0], report))
            } else {
                parse_person_text(&draft.words, open)
            };
            match submission {
                Ok(submission) => return Ok(RunDecision::Submit(submission)),
                Err(error) => complaint = Some(error),
            }
        }
    }

    pub(super) fn asking<'a, 'b>(
        &'a mut self,
        at: AnswerContext,
        draft: &'a mut Draft,
        link: &'a mut Link<'b>,
    ) -> FieldForm<'a, 'b> {
        FieldForm {
            prompt: self.prompt(),
            draft,
            link,
            screen: Screen::stdout(),
            at,
        }
    }

    /// Prints which other answers are possible, unless the last step was of the same kind.
    fn print_other_answers(&mut self, at: AnswerContext) -> Result<()> {
        if self.told.replace(at) == Some(at) {
            return Ok(());
        }
        question::prompt(&Screen::stdout().indent_block(Some(Style::Dim), "  ", at.others()))
    }
}

/// The fields to ask for a step; `None` if its output is asked as text.
fn fields(step: &OpenStep) -> Option<Vec<Field>> {
    let input = step.input().filter(|_| step.kind() == "input");
    match input.and_then(|input| AskedInputs::deserialize(input).ok()) {
        Some(asked) => Some(asked.properties.iter().map(Field::from_input).collect()),
        None => Field::from_schema(step.ready.output_schema.as_ref()?),
    }
}

/// What a step of kind `input` asks for.
#[derive(Deserialize)]
struct AskedInputs {
    properties: Vec<InputView>,
}

impl FieldForm<'_, '_> {
    /// Asks for the fields of an output. After a refusal, asks only for the fields that were refused.
    async fn fields(
        &mut self,
        fields: &[Field],
        complaint: Option<Error>,
    ) -> Result<Option<PersonAction>> {
        let Some(error) = complaint else {
            return self.ask_fields(fields).await;
        };
        self.print_error_complaint(&error)?;
        let again = fields_to_ask_again(fields, error.violations(), &self.draft.values);
        if again.len() == fields.len() {
            // Refused properties that are no field cannot be asked for: they are dropped after the complaint was
            // printed.
            let is_known = |name: &String| fields.iter().any(|field| field.name() == name);
            self.draft.values.retain(|name, _| is_known(name));
        }
        self.draft.begin();
        self.ask_fields(&again).await
    }

    /// Asks for an output in words, which may take several lines.
    async fn ask_text_output(
        &mut self,
        step: &OpenStep,
        complaint: Option<Error>,
    ) -> Result<Option<PersonAction>> {
        if let Some(error) = complaint {
            question::prompt(&format!("{}\n", message_with_violations(&error)))?;
        }
        if self.draft.words.contains('\n') {
            self.draft.begin();
            self.draft.print_unrecorded();
        }
        let what = if takes_any(step) {
            "text or JSON"
        } else {
            "what came of it"
        };
        let what = format!("{what}, ended by an empty line");
        question::prompt(&self.screen.indent_block(Some(Style::Dim), "  ", &what))?;
        // The step may have scrolled off the screen, so the prompt repeats its name.
        let asked = format!("{}> ", one_line(step.name()));
        let first = match self.first_line(&asked).await? {
            Ok(first) => first,
            Err(word) => return Ok(Some(word)),
        };
        self.draft.clear_recorded();
        self.draft.is_text = takes_any(step);
        if first.starts_with(['{', '[']) {
            let keep = |draft: &mut Draft, text: &str| text.clone_into(&mut draft.words);
            let read = self.json(first, keep).await?;
            return Ok(read.map(|text| self.draft.words = text).err());
        }
        self.draft.words = first;
        self.more_lines().await
    }

    /// Reads the first line of a text answer, or a command word.
    async fn first_line(
        &mut self,
        asked: &str,
    ) -> Result<std::result::Result<String, PersonAction>> {
        loop {
            let line = match self.line(asked, &[]).await? {
                PromptInput::Line(line) => line.trim_end().to_owned(),
                left => return Ok(Err(left_with(&left))),
            };
            if line.is_empty() {
                return Ok(Err(PersonAction::Later));
            }
            match self.classify_line(&line, "").await? {
                LineMeaning::Value => return Ok(Ok(line)),
                LineMeaning::Word(word) => return Ok(Err(word)),
                LineMeaning::Explained(_) => {}
            }
        }
    }

    /// Reads further lines until an empty one.
    async fn more_lines(&mut self) -> Result<Option<PersonAction>> {
        while self.draft.words.len() <= limits::FRAME_BYTES_MAX {
            match self.line(CONTINUATION_PROMPT, &[]).await? {
                PromptInput::Line(line) if line.trim_end().is_empty() => break,
                PromptInput::Line(line) => self.draft.words.extend(["\n", line.trim_end()]),
                PromptInput::End => break,
                left @ PromptInput::Interrupt => return Ok(Some(left_with(&left))),
            }
        }
        Ok(None)
    }
}

/// What `midex run` does next after a command word.
fn act_on_word(step: &OpenStep, word: PersonAction, draft: &mut Draft) -> RunDecision {
    let error = |error: Value| RunDecision::Submit(of_person(step, Report::Error(error)));
    if matches!(word, PersonAction::Skip | PersonAction::Failed(_)) {
        // The failure or skip replaces the values that were typed.
        draft.print_unrecorded();
    }
    match word {
        PersonAction::Skip => error(words::skipped()),
        PersonAction::Failed(why) => error(json!({ "message": why })),
        PersonAction::Pause => RunDecision::Pause,
        PersonAction::Later => RunDecision::Stop("stopped".to_owned()),
        PersonAction::Interrupted => RunDecision::Stop("interrupted".to_owned()),
    }
}

/// The context for command words at this step: an optional step can be skipped.
fn answer_context(step: &OpenStep) -> AnswerContext {
    AnswerContext::Step {
        is_optional: step.ready.step.optional,
    }
}
