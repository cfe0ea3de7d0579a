//! Asks a person at the terminal for the result of a step: property by property if the step declares them, else as
//! text.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    draft::AnswerDraft,
    field::{InputField, select_violated_fields},
    form::{CONTINUATION_PROMPT, ChoiceSource, FieldForm, exit_command},
    submission::{
        RunDecision, StepReport, accepts_any_output, build_person_submission, parse_person_text,
    },
    words::{self, AnswerContext, LineMeaning, PersonAction},
};
use crate::{
    link::ServerLink,
    message_with_violations,
    prompt::{Prompt, PromptInput},
    question,
    screen::{Screen, TextStyle, one_line},
    steps::OpenStep,
    value::text_field,
};
use midex_domain::{
    error::{Error, Result},
    limits,
    truncate::truncate_to_chars,
    view::{InputView, StepView},
};

/// A person at the terminal.
#[derive(Default)]
pub(super) struct Person {
    prompt: Option<Prompt>,
    /// The kind of step for which the other answers were last explained.
    last_context: Option<AnswerContext>,
}

impl Person {
    pub(super) fn open_prompt(&mut self) -> &mut Prompt {
        self.prompt.get_or_insert_with(Prompt::stdin)
    }

    /// Asks until the person answers the first open step, or another one that they name. `confirms_errors`: whether an
    /// error that ends the execution is sent only after the person has confirmed it.
    pub(super) async fn ask_step_answer(
        &mut self,
        open_steps: &[OpenStep],
        complaint: Option<Error>,
        draft: &mut AnswerDraft,
        confirms_errors: bool,
        link: &mut ServerLink<'_>,
    ) -> Result<RunDecision> {
        let context = answer_context(&open_steps[0]);
        if complaint.is_none() {
            draft.print_unrecorded();
        }
        self.print_other_answers(context)?;
        let mut fields = output_fields(&open_steps[0]);
        let mut complaint = complaint;
        loop {
            let mut form = self.step_form(context, draft, link);
            form.choice_source = step_choice_source(&open_steps[0]);
            let word = match &fields {
                Some(fields) => form.ask_output_fields(fields, complaint).await?,
                None => form.ask_text_output(&open_steps[0], complaint).await?,
            };
            let is_word = word.is_some();
            let decision = if let Some(word) = word {
                act_on_command(&open_steps[0], word)
            } else if fields.is_some() {
                let report = StepReport::Output(Value::Object(draft.values.clone()));
                RunDecision::Submit(build_person_submission(&open_steps[0], report))
            } else {
                match parse_person_text(&draft.text, open_steps) {
                    Ok(submission) => RunDecision::Submit(submission),
                    Err(error) => {
                        complaint = Some(error);
                        continue;
                    }
                }
            };
            let decision = if confirms_errors {
                self.confirm_error(decision, open_steps, link).await?
            } else {
                Some(decision)
            };
            if let Some(decision) = decision {
                if is_word && matches!(decision, RunDecision::Submit(_)) {
                    // The failure or skip replaces the values that were typed.
                    draft.print_unrecorded();
                }
                return Ok(decision);
            }
            complaint = None;
            fields = fields.map(|fields| select_violated_fields(&fields, &[], &draft.values));
        }
    }

    /// Asks the person to confirm an error that ends the execution, or to pause it instead. Returns the decision after
    /// that; `None` if the person goes back to the step.
    pub(super) async fn confirm_error(
        &mut self,
        decision: RunDecision,
        open_steps: &[OpenStep],
        link: &mut ServerLink<'_>,
    ) -> Result<Option<RunDecision>> {
        let Some((step, reason)) = find_ending_error(&decision, open_steps) else {
            return Ok(Some(decision));
        };
        let print_lines =
            |lines: &str| question::write_prompt(&Screen::stdout().indent_block(None, "  ", lines));
        print_lines(&format!(
            "This ends the execution as failed: '{}' has no retry left, and no `on_error`.",
            one_line(step.name())
        ))?;
        loop {
            let question = "End it? [y]es, [p]ause instead, anything else goes back: ";
            let answer = match self.open_prompt().read_line(question, &[], link).await? {
                PromptInput::Line(line) => line.trim().to_lowercase(),
                input => {
                    let _ = question::write_prompt(&format!("not recorded: failed: {reason}\n"));
                    return Ok(Some(act_on_command(step, exit_command(&input))));
                }
            };
            return Ok(match answer.as_str() {
                answer if question::asks_for_help(answer) => {
                    print_lines(END_QUESTION_HELP)?;
                    continue;
                }
                "y" | "yes" => Some(decision),
                "p" | "pause" => {
                    let reason = truncate_to_chars(&reason, limits::REASON_CHARS_MAX).into_owned();
                    Some(RunDecision::Pause(Some(reason).filter(|reason| !reason.is_empty())))
                }
                _ => None,
            });
        }
    }

    pub(super) fn step_form<'a, 'b>(
        &'a mut self,
        context: AnswerContext,
        draft: &'a mut AnswerDraft,
        link: &'a mut ServerLink<'b>,
    ) -> FieldForm<'a, 'b> {
        FieldForm {
            prompt: self.open_prompt(),
            draft,
            link,
            screen: Screen::stdout(),
            context,
            choice_source: None,
        }
    }

    /// Prints which other answers are possible, unless the last step was of the same kind.
    fn print_other_answers(&mut self, context: AnswerContext) -> Result<()> {
        if self.last_context.replace(context) == Some(context) {
            return Ok(());
        }
        question::write_prompt(&Screen::stdout().indent_block(
            Some(TextStyle::Dim),
            "  ",
            context.describe_other_answers(),
        ))
    }
}

const END_QUESTION_HELP: &str =
    "- yes: ends the execution; `midex retry` can go on from this step later, in a new execution
- pause: keeps the step open, and stores what you said as the reason of the pause
- anything else: hands nothing in, and asks for the step again";

/// The step that a submitted error is about and the message of the error, if it ends the execution.
fn find_ending_error<'a>(
    decision: &RunDecision,
    open_steps: &'a [OpenStep],
) -> Option<(&'a OpenStep, String)> {
    let RunDecision::Submit(submission) = decision else {
        return None;
    };
    let StepReport::Error(error) = &submission.report else {
        return None;
    };
    let step = submission.find_step(open_steps)?;
    step.ready.step.ends_on_error.then(|| (step, text_field(error, "message")))
}

/// The fields to ask for a step; `None` if its output is asked as text.
fn output_fields(step: &OpenStep) -> Option<Vec<InputField>> {
    let input = step.input().filter(|_| step.kind() == "input");
    match input.and_then(|input| AskedInputs::deserialize(input).ok()) {
        Some(inputs) => Some(inputs.properties.iter().map(InputField::from_input).collect()),
        None => InputField::from_schema(step.ready.output_schema.as_ref()?),
    }
}

/// The workflow that lists the choices of what a step of kind `input` asks for, with the inputs that it has.
fn step_choice_source(step: &OpenStep) -> Option<ChoiceSource> {
    let workflow = step.workflow_name.clone().filter(|_| step.kind() == "input")?;
    let inputs = step.inputs.as_ref().and_then(Value::as_object).cloned();
    Some(ChoiceSource { workflow, inputs: inputs.unwrap_or_default() })
}

/// What a step of kind `input` asks for.
#[derive(Deserialize)]
struct AskedInputs {
    properties: Vec<InputView>,
}

impl FieldForm<'_, '_> {
    /// Asks for the fields of an output. After a refusal, asks only for the fields that were refused.
    async fn ask_output_fields(
        &mut self,
        fields: &[InputField],
        complaint: Option<Error>,
    ) -> Result<Option<PersonAction>> {
        let Some(error) = complaint else {
            return self.ask_fields(fields).await;
        };
        self.print_error_complaint(&error)?;
        let refused_fields = select_violated_fields(fields, error.violations(), &self.draft.values);
        if refused_fields.len() == fields.len() {
            // Refused properties that are no field cannot be asked for: they are dropped after the complaint was
            // printed.
            let is_known = |name: &String| fields.iter().any(|field| field.name() == name);
            self.draft.values.retain(|name, _| is_known(name));
        }
        self.draft.begin_version();
        self.ask_fields(&refused_fields).await
    }

    /// Asks for an output in words, which may take several lines.
    async fn ask_text_output(
        &mut self,
        step: &OpenStep,
        complaint: Option<Error>,
    ) -> Result<Option<PersonAction>> {
        if let Some(error) = complaint {
            question::write_prompt(&format!("{}\n", message_with_violations(&error)))?;
        }
        if self.draft.text.contains('\n') {
            self.draft.begin_version();
            self.draft.print_unrecorded();
        }
        let hint = if accepts_any_output(step) { "text or JSON" } else { "what came of it" };
        let hint = format!("{hint}, ended by an empty line");
        question::write_prompt(&self.screen.indent_block(Some(TextStyle::Dim), "  ", &hint))?;
        // The step may have scrolled off the screen, so the prompt repeats its name.
        let prompt_text = format!("{}> ", one_line(step.name()));
        let first_line = match self.read_first_line(&prompt_text).await? {
            Ok(first) => first,
            Err(word) => return Ok(Some(word)),
        };
        self.draft.clear_recorded();
        self.draft.is_text = accepts_any_output(step);
        if first_line.starts_with(['{', '[']) {
            let update_draft =
                |draft: &mut AnswerDraft, text: &str| text.clone_into(&mut draft.text);
            let result = self.read_json_lines(first_line, update_draft).await?;
            return Ok(result.map(|text| self.draft.text = text).err());
        }
        self.draft.text = first_line;
        self.read_more_lines().await
    }

    /// Reads the first line of a text answer, or a command word.
    async fn read_first_line(
        &mut self,
        prompt_text: &str,
    ) -> Result<std::result::Result<String, PersonAction>> {
        loop {
            let line = match self.ask_for_line(prompt_text, &[]).await? {
                PromptInput::Line(line) => line.trim_end().to_owned(),
                input => return Ok(Err(exit_command(&input))),
            };
            if line.is_empty() {
                return Ok(Err(PersonAction::Leave));
            }
            match self.classify_line(&line, "").await? {
                LineMeaning::Value => return Ok(Ok(line)),
                LineMeaning::Command(word) => return Ok(Err(word)),
                LineMeaning::Help(_) => {}
            }
        }
    }

    /// Reads further lines until an empty one.
    async fn read_more_lines(&mut self) -> Result<Option<PersonAction>> {
        while self.draft.text.len() <= limits::FRAME_BYTES_MAX {
            match self.ask_for_line(CONTINUATION_PROMPT, &[]).await? {
                PromptInput::Line(line) if line.trim_end().is_empty() => break,
                PromptInput::Line(line) => self.draft.text.extend(["\n", line.trim_end()]),
                PromptInput::End => break,
                input @ PromptInput::Interrupt => return Ok(Some(exit_command(&input))),
            }
        }
        Ok(None)
    }
}

/// What `midex run` does next after a command word.
fn act_on_command(step: &OpenStep, action: PersonAction) -> RunDecision {
    let submit_error =
        |error: Value| RunDecision::Submit(build_person_submission(step, StepReport::Error(error)));
    match action {
        PersonAction::Skip => submit_error(words::skipped_step_error()),
        PersonAction::Failed(reason) => submit_error(json!({ "message": reason })),
        PersonAction::Pause(reason) => RunDecision::Pause(reason),
        PersonAction::Leave => RunDecision::Stop("stopped".to_owned()),
        PersonAction::Interrupted => RunDecision::Stop("interrupted".to_owned()),
    }
}

/// The context for command words at this step.
fn answer_context(step: &OpenStep) -> AnswerContext {
    let StepView { optional, ends_on_error, .. } = step.ready.step;
    AnswerContext::Step { is_optional: optional, ends_on_error }
}
