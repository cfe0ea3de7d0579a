//! The source of outputs: a file, an editor, a terminal, or lines of standard input.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

use serde_json::Value;

use super::{
    editor::Editor,
    input::Input,
    lines::Lines,
    page::Page,
    submission::{Submission, place_of, takes_any, written},
};
use crate::{
    cli::{link::Link, value::field, wrong},
    error::{Error, Result},
    limits,
};

/// The source of the outputs of a run.
pub(super) struct OutputSource {
    /// A submission to repeat with a new token.
    pending: Option<Submission>,
    lines: Option<Lines>,
    interactive: Option<Interactive>,
    /// Whether the lines are of a file.
    from_file: bool,
}

/// A way to ask a person, who can be asked again.
enum Interactive {
    Prompt(Input),
    Editor(Editor),
}

impl OutputSource {
    /// The file `outputs` first, then the editor; without either, standard input.
    ///
    /// # Errors
    /// `USAGE_INVALID`, `FILE_UNUSABLE` or `LIMIT_EXCEEDED` if the file or the editor cannot be used.
    pub(super) fn of(outputs: Option<&Path>, editor: bool) -> Result<Self> {
        let mut lines = outputs.map(Lines::of_file).transpose()?;
        let mut interactive = None;
        if editor {
            interactive = Some(Interactive::Editor(Editor::of_environment()?));
        } else if outputs.is_none() && io::stdin().is_terminal() {
            interactive = Some(Interactive::Prompt(Input::stdin()));
        } else if outputs.is_none() {
            lines = Some(Lines::of_stdin());
        }
        Ok(Self {
            pending: None,
            lines,
            interactive,
            from_file: outputs.is_some(),
        })
    }

    /// The next submission, and the position of its step among the open ones. `None` if the source has ended.
    pub(super) async fn next(
        &mut self,
        open: &[Value],
        complaint: Option<Error>,
        page: &mut Page<'_>,
        link: &mut Link<'_>,
    ) -> Result<Option<(usize, Submission)>> {
        if let Some(found) = self.retry(open) {
            return Ok(Some(found));
        }
        if let Some(lines) = &mut self.lines
            && let Some((at, mut submission)) = lines.next(open, page, link).await?
        {
            submission.step = open[at]["step_name"].as_str().map(str::to_owned);
            page.step(&open[at])?;
            return Ok(Some((at, submission)));
        }
        let Some(interactive) = &mut self.interactive else {
            return Ok(None);
        };
        page.step(&open[0])?;
        match interactive {
            Interactive::Prompt(input) => prompt(input, open, complaint, link).await,
            Interactive::Editor(editor) => {
                // The user takes their time: meanwhile another process may open the store.
                link.release().await?;
                editor.ask(open, complaint).await
            }
        }
    }

    /// Standard input, if it and stderr are terminals, so that a person can be asked.
    pub(super) fn at_prompt(&mut self) -> Option<&mut Input> {
        match &mut self.interactive {
            // Questions go to stderr: if that is redirected, nobody would see them.
            Some(Interactive::Prompt(input)) if io::stderr().is_terminal() => Some(input),
            _ => None,
        }
    }

    /// Takes back the submission whose token had expired, if its step is still open.
    fn retry(&mut self, open: &[Value]) -> Option<(usize, Submission)> {
        let step = self.pending.as_ref()?.step.as_deref()?;
        let at = place_of(open, step);
        let submission = self.take_pending()?;
        if at.is_none() {
            Page::not_recorded(&submission);
        }
        at.map(|at| (at, submission))
    }

    /// Takes the submission that was to be repeated and was not.
    pub(super) fn take_pending(&mut self) -> Option<Submission> {
        self.pending.take()
    }

    /// Keeps a submission to repeat it with a new token.
    pub(super) fn retry_later(&mut self, submission: Submission) {
        self.pending = Some(Submission {
            is_retry: true,
            ..submission
        });
    }

    /// The first name of a step in the lines that is none of `known`, and its place.
    pub(super) fn unknown_name(&self, known: &[&str]) -> Option<(&str, &str)> {
        let lines = self.lines.as_ref()?;
        lines.left_over().find_map(|submission| {
            let name = submission.step.as_deref()?;
            (!known.contains(&name)).then_some((name, submission.place.as_str()))
        })
    }

    /// The places of the lines that were not used.
    pub(super) fn left_over(&self) -> Vec<String> {
        let lines = self.lines.iter().flat_map(Lines::left_over);
        lines.map(|submission| submission.place.clone()).collect()
    }

    /// Why there is no next submission.
    pub(super) fn why_none(&self) -> String {
        match (&self.interactive, self.from_file) {
            (Some(_), _) => "stopped".into(),
            (None, true) => "the file has no output for what is open now".into(),
            (None, false) => "standard input has ended".into(),
        }
    }
}

/// Asks at the terminal until there is an answer that can be submitted; `None` for an empty line.
async fn prompt(
    input: &mut Input,
    open: &[Value],
    complaint: Option<Error>,
    link: &mut Link<'_>,
) -> Result<Option<(usize, Submission)>> {
    if let Some(error) = complaint {
        ask(&format!("{}\n", wrong(&error)));
    }
    // The step may have scrolled off the screen.
    let step = format!(
        "[{}] {}",
        field(&open[0], "progress"),
        field(&open[0], "step_name")
    );
    loop {
        let what = if takes_any(&open[0]) {
            "text or JSON"
        } else {
            "summary or {JSON}"
        };
        ask(&format!("{step}: {what}, empty to stop> "));
        let Some(mut text) = answer(input, link).await? else {
            return Ok(None);
        };
        // A pasted JSON value may go on in further lines.
        while is_begun(&text) {
            ask("...> ");
            match answer(input, link).await? {
                Some(more) => text = format!("{text}\n{more}"),
                None => break,
            }
        }
        match written(&text, open) {
            Ok(found) => return Ok(Some(found)),
            Err(error) => ask(&format!("{}\n", wrong(&error))),
        }
    }
}

async fn answer(input: &mut Input, link: &mut Link<'_>) -> Result<Option<String>> {
    let text = input.line(link).await?;
    let text = text.map(|text| text.trim().to_owned());
    Ok(text.filter(|text| !text.is_empty()))
}

fn is_begun(text: &str) -> bool {
    text.starts_with('{')
        && text.len() < limits::FRAME_BYTES_MAX
        && serde_json::from_str::<Value>(text).is_err_and(|error| error.is_eof())
}

/// Prints a question to stderr: stdout is for data.
fn ask(question: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{question}");
    let _ = stderr.flush();
}
