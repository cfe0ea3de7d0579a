//! The source of outputs: lines of a file or of standard input, an editor, a command, or a person at the terminal.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use super::{
    OutputSourceArgs,
    agent::AgentCommand,
    draft::AnswerDraft,
    editor::Editor,
    form::FieldForm,
    input,
    lines::SubmissionLines,
    page::RunPage,
    person::Person,
    submission::{RunDecision, StepSubmission, parse_person_text},
    words::AnswerContext,
};
use crate::{link::ServerLink, prompt::Prompt, question, steps::OpenStep};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The source of the outputs of a run.
pub(super) struct OutputSource {
    /// A submission to repeat with a new token.
    retry_submission: Option<StepSubmission>,
    /// The answer that is not recorded yet.
    pub(super) draft: AnswerDraft,
    /// The text of `--output`, until it is used.
    whole_output: Option<String>,
    lines: Option<SubmissionLines>,
    answerer: Option<Answerer>,
    /// The person at the terminal. Steps of kind `input`, which only the user may answer, are asked here even with
    /// `--agent`.
    person: Option<Person>,
    /// Why the run stops when there are no more outputs.
    end_reason: &'static str,
}

/// A source that can be asked again if an output is refused.
enum Answerer {
    Person,
    Editor(Editor),
    Agent(AgentCommand),
}

impl OutputSource {
    /// The source that the flags name; without any, standard input.
    ///
    /// # Errors
    /// `USAGE_INVALID`, `FILE_UNUSABLE` or `LIMIT_EXCEEDED` if a file or the editor cannot be used.
    pub(super) fn from_flags(args: &OutputSourceArgs) -> Result<Self> {
        let mut lines = args.outputs.as_deref().map(SubmissionLines::from_file).transpose()?;
        let whole_output = args.output.as_deref().map(read_whole_input).transpose()?;
        let takes_stdin = args.output.as_deref() == Some(Path::new("-"));
        let is_terminal = io::stdin().is_terminal() && !takes_stdin;
        let should_ask = is_terminal && lines.is_none();
        let answerer = if args.editor {
            Some(Answerer::Editor(Editor::from_environment()?))
        } else if let Some(agent) = AgentCommand::from_args(&args.agent) {
            Some(Answerer::Agent(agent))
        } else if should_ask {
            Some(Answerer::Person)
        } else {
            if lines.is_none() && whole_output.is_none() {
                lines = Some(SubmissionLines::from_stdin());
            }
            None
        };
        let end_reason = match (&lines, &whole_output, &answerer) {
            (_, _, Some(_)) => "stopped",
            (_, Some(_), _) => "the output is handed in",
            _ if args.outputs.is_some() => "the file has no output for what is open now",
            _ => "standard input has ended",
        };
        Ok(Self {
            retry_submission: None,
            draft: AnswerDraft::default(),
            whole_output,
            lines,
            answerer,
            person: is_terminal.then(Person::default),
            end_reason,
        })
    }

    /// Returns the next submission with the position of its open step, or another decision of the person.
    pub(super) async fn next_decision(
        &mut self,
        open_steps: &[OpenStep],
        complaint: Option<Error>,
        page: &mut RunPage<'_>,
        link: &mut ServerLink<'_>,
    ) -> Result<RunDecision> {
        if let Some(submission) = self.take_retry(open_steps) {
            return Ok(RunDecision::Submit(submission));
        }
        if let Some(text) = self.whole_output.take() {
            page.print_step(&open_steps[0])?;
            return Ok(RunDecision::Submit(StepSubmission {
                is_by_person: false,
                ..parse_person_text(text.trim(), open_steps)?
            }));
        }
        if let Some(lines) = &mut self.lines
            && let Some(mut submission) = lines.next_submission(open_steps, page, link).await?
        {
            let step = submission.find_step(open_steps).unwrap_or(&open_steps[0]);
            page.print_step(step)?;
            submission.step = Some(step.name().to_owned());
            return Ok(RunDecision::Submit(submission));
        }
        self.ask_answerer(open_steps, complaint, page, link).await
    }

    async fn ask_answerer(
        &mut self,
        open_steps: &[OpenStep],
        complaint: Option<Error>,
        page: &mut RunPage<'_>,
        link: &mut ServerLink<'_>,
    ) -> Result<RunDecision> {
        let Some(answerer) = &mut self.answerer else {
            return Ok(RunDecision::Stop(self.end_reason.to_owned()));
        };
        page.print_step(&open_steps[0])?;
        // An `input` step is for the user alone: the command of `--agent` does not answer it.
        let is_user_input = open_steps[0].kind() == "input";
        let confirms_errors = !page.is_json() && question::can_ask_person();
        match (answerer, &mut self.person) {
            (Answerer::Editor(editor), person) => {
                let (mut complaint, draft) = (complaint, &mut self.draft);
                loop {
                    // Editing may take long: release the store so that other processes can open it.
                    link.release_store().await?;
                    let submission =
                        editor.ask_for_output(open_steps, complaint.take(), draft).await?;
                    let Some(submission) = submission else {
                        return Ok(RunDecision::Stop(self.end_reason.to_owned()));
                    };
                    let decision = RunDecision::Submit(submission);
                    let Some(person) = person.as_mut().filter(|_| confirms_errors) else {
                        return Ok(decision);
                    };
                    if let Some(decision) = person.confirm_error(decision, open_steps, link).await?
                    {
                        return Ok(decision);
                    }
                    draft.print_unrecorded();
                }
            }
            (Answerer::Agent(agent), person) if !is_user_input || person.is_none() => {
                let submission = agent.run_for_step(&open_steps[0], complaint, link).await?;
                Ok(RunDecision::Submit(submission))
            }
            (_, Some(person)) => {
                let draft = &mut self.draft;
                person.ask_step_answer(open_steps, complaint, draft, confirms_errors, link).await
            }
            (_, None) => Ok(RunDecision::Stop(self.end_reason.to_owned())),
        }
    }

    /// The prompt, if both standard input and stderr are terminals.
    pub(super) fn open_terminal_prompt(&mut self) -> Option<&mut Prompt> {
        // Questions are written to stderr: if it is redirected, the person would not see them.
        let is_possible = io::stderr().is_terminal();
        let person = self.person.as_mut().filter(|_| is_possible);
        person.map(Person::open_prompt)
    }

    /// Asks the person at the terminal for the inputs of a start.
    pub(super) fn inputs_form<'a, 'b>(
        &'a mut self,
        link: &'a mut ServerLink<'b>,
    ) -> Option<FieldForm<'a, 'b>> {
        let person = self.person.as_mut()?;
        Some(person.step_form(AnswerContext::Start, &mut self.draft, link))
    }

    /// Restores the terminal.
    pub(super) fn restore_terminal(&mut self) {
        self.person = None;
    }

    /// Takes the submission whose token had expired, if its step is still open. Otherwise prints it as not recorded.
    fn take_retry(&mut self, open_steps: &[OpenStep]) -> Option<StepSubmission> {
        let submission = self.retry_submission.take()?;
        if submission.find_step(open_steps).is_none() {
            self.draft.print_unrecorded();
            return None;
        }
        Some(submission)
    }

    /// Keeps a submission, to submit it again with a renewed token.
    pub(super) fn retry_later(&mut self, submission: StepSubmission) {
        self.retry_submission = Some(StepSubmission { is_retry: true, ..submission });
    }

    /// The first step name in the lines that is not in `known_names`, and its place.
    pub(super) fn find_unknown_name(&self, known_names: &[&str]) -> Option<(&str, &str)> {
        let lines = self.lines.as_ref()?;
        lines.unused_submissions().find_map(|submission| {
            let name = submission.step.as_deref()?;
            (!known_names.contains(&name)).then_some((name, submission.place.as_str()))
        })
    }

    /// The places of the lines that were not used.
    pub(super) fn unused_line_places(&self) -> Vec<String> {
        let lines = self.lines.iter().flat_map(SubmissionLines::unused_submissions);
        let lines = lines.map(|submission| submission.place.clone());
        let whole_output = self.whole_output.iter().map(|_| "--output".to_owned());
        lines.chain(whole_output).collect()
    }
}

/// The text of a file, or of standard input for `-`.
fn read_whole_input(path: &Path) -> Result<String> {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let text = input::read_file(path, limits::OUTPUTS_FILE_BYTES_MAX)?;
    if text.trim().is_empty() {
        // The command that should have written it has probably failed.
        return Err(Error::new(Code::UsageInvalid, format!("`{}` is empty", path.display()))
            .with_action("Give an output: a text, or JSON such as {\"summary\": \"done\"}"));
    }
    Ok(text)
}
