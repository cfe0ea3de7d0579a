//! Reads outputs as lines of JSON: each line is for the next open step, or for the step that it names.

use std::{collections::VecDeque, path::Path};

use super::{
    input::{self, StdinLines},
    submission::{StepSubmission, parse_submission_line},
};
use crate::{link::ServerLink, run::page::RunPage, steps::OpenStep};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The lines that were read and not used yet, and the input that supplies more.
pub(super) struct SubmissionLines {
    /// Lines that name a step that is not open yet.
    step_lines: Vec<StepSubmission>,
    ordered_lines: VecDeque<StepSubmission>,
    input: Option<StdinLines>,
}

impl SubmissionLines {
    /// Reads and checks all lines of a file.
    ///
    /// # Errors
    /// `FILE_UNUSABLE`; `USAGE_INVALID` with file and line.
    pub(super) fn from_file(path: &Path) -> Result<Self> {
        let path_text = path.display().to_string();
        let text = input::read_file(path, limits::OUTPUTS_FILE_BYTES_MAX)?;
        let mut lines =
            Self { step_lines: Vec::new(), ordered_lines: VecDeque::new(), input: None };
        for (line, number) in text.lines().zip(1_usize..) {
            if !line.trim().is_empty() {
                let submission = parse_submission_line(line, format!("{path_text}:{number}"));
                lines.keep_submission(submission.map_err(|error| nothing_started_error(&error))?);
            }
        }
        Ok(lines)
    }

    /// Reads lines from standard input when they are needed.
    pub(super) fn from_stdin() -> Self {
        Self {
            step_lines: Vec::new(),
            ordered_lines: VecDeque::new(),
            input: Some(StdinLines::stdin()),
        }
    }

    fn keep_submission(&mut self, submission: StepSubmission) {
        match submission.step {
            Some(_) => self.step_lines.push(submission),
            None => self.ordered_lines.push_back(submission),
        }
    }

    /// The next submission for one of the open steps; `None` if there are no more lines.
    pub(super) async fn next_submission(
        &mut self,
        open_steps: &[OpenStep],
        page: &mut RunPage<'_>,
        link: &mut ServerLink<'_>,
    ) -> Result<Option<StepSubmission>> {
        loop {
            if let Some(submission) = self.take_for_open_step(open_steps) {
                return Ok(Some(submission));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            // The program that writes the lines may wait for the printed step.
            page.print_step(&open_steps[0])?;
            match input.next_line(link).await? {
                Some(text) if text.trim().is_empty() => {}
                Some(text) => {
                    let place = format!("standard input:{}", input.line_number());
                    let submission = parse_submission_line(&text, place)?;
                    self.keep_submission(submission);
                    self.check_waiting_limit()?;
                }
                None => self.input = None,
            }
        }
    }

    /// Limits the number of lines that wait for their step: they may name steps that never open.
    fn check_waiting_limit(&self) -> Result<()> {
        if self.step_lines.len() <= limits::OUTPUTS_WAITING_MAX {
            return Ok(());
        }
        let limit = format!("at most {} outputs ahead of their step", limits::OUTPUTS_WAITING_MAX);
        let message = format!("too many outputs wait for a step that is not open: {limit}");
        Err(Error::new(Code::LimitExceeded, message).with_context("limit", limit))
    }

    fn take_for_open_step(&mut self, open_steps: &[OpenStep]) -> Option<StepSubmission> {
        let mut submissions = self.step_lines.iter();
        match submissions.position(|submission| submission.find_step(open_steps).is_some()) {
            Some(index) => Some(self.step_lines.remove(index)),
            None => self.ordered_lines.pop_front(),
        }
    }

    /// The lines that were not used.
    pub(super) fn unused_submissions(&self) -> impl Iterator<Item = &StepSubmission> {
        self.step_lines.iter().chain(&self.ordered_lines)
    }
}

fn nothing_started_error(error: &Error) -> Error {
    Error::new(Code::UsageInvalid, error.message())
        .with_action("Correct the line; nothing was started")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::submission::StepReport, *};

    #[test]
    fn named_lines_wait_for_their_step() {
        let mut lines =
            SubmissionLines { step_lines: Vec::new(), ordered_lines: VecDeque::new(), input: None };
        for line in [r#"{"step_name":"c","output":1}"#, "2", r#"{"step_name":"b","output":3}"#, "4"]
        {
            lines.keep_submission(parse_submission_line(line, line.into()).expect("a line"));
        }
        let mut take = |names: &[&str]| {
            let open: Vec<_> = names
                .iter()
                .map(|name| OpenStep::from_fields(&json!({ "step_name": name })))
                .collect();
            let submission = lines.take_for_open_step(&open)?;
            let step = submission.find_step(&open)?.name().to_owned();
            Some((step, submission.report))
        };
        let output =
            |step: &str, value: u32| Some((step.to_owned(), StepReport::Output(json!(value))));
        assert_eq!(take(&["a"]), output("a", 2));
        assert_eq!(take(&["a", "b"]), output("b", 3));
        assert_eq!(take(&["a"]), output("a", 4));
        assert_eq!(take(&["a"]), None);
        assert_eq!(take(&["a", "c"]), output("c", 1));
    }
}
