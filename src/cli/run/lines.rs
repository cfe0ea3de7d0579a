//! Reads outputs as lines of JSON: each line is for the next open step, or for the step that it names.

use std::{collections::VecDeque, path::Path};

use super::{
    input::{self, StdinLines},
    submission::{Submission, parse_submission_line},
};
use crate::{link::ServerLink, run::page::RunPage, steps::OpenStep};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The lines that were read and not used yet, and the input that supplies more.
pub(super) struct SubmissionLines {
    /// Lines that name a step that is not open yet.
    named: Vec<Submission>,
    ordered: VecDeque<Submission>,
    input: Option<StdinLines>,
}

impl SubmissionLines {
    /// Reads and checks all lines of a file.
    ///
    /// # Errors
    /// `FILE_UNUSABLE`; `USAGE_INVALID` with file and line.
    pub(super) fn from_file(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let text = input::read_file(path, limits::OUTPUTS_FILE_BYTES_MAX)?;
        let mut lines = Self { named: Vec::new(), ordered: VecDeque::new(), input: None };
        for (line, number) in text.lines().zip(1_usize..) {
            if !line.trim().is_empty() {
                let submission = parse_submission_line(line, format!("{shown}:{number}"));
                lines.keep_submission(submission.map_err(|error| nothing_started_error(&error))?);
            }
        }
        Ok(lines)
    }

    /// Reads lines from standard input when they are needed.
    pub(super) fn from_stdin() -> Self {
        Self { named: Vec::new(), ordered: VecDeque::new(), input: Some(StdinLines::stdin()) }
    }

    fn keep_submission(&mut self, submission: Submission) {
        match submission.step {
            Some(_) => self.named.push(submission),
            None => self.ordered.push_back(submission),
        }
    }

    /// The next submission for one of the open steps; `None` if there are no more lines.
    pub(super) async fn next_submission(
        &mut self,
        open: &[OpenStep],
        page: &mut RunPage<'_>,
        link: &mut ServerLink<'_>,
    ) -> Result<Option<Submission>> {
        loop {
            if let Some(found) = self.take_for_open_step(open) {
                return Ok(Some(found));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            // The program that writes the lines may wait for the printed step.
            page.print_step(&open[0])?;
            match input.next_line(link).await? {
                Some(text) if text.trim().is_empty() => {}
                Some(text) => {
                    let place = format!("standard input:{}", input.line_number());
                    let submission = parse_submission_line(&text, place)?;
                    self.keep_submission(submission);
                    self.check_waiting()?;
                }
                None => self.input = None,
            }
        }
    }

    /// Limits the number of lines that wait for their step: they may name steps that never open.
    fn check_waiting(&self) -> Result<()> {
        if self.named.len() <= limits::OUTPUTS_WAITING_MAX {
            return Ok(());
        }
        let limit = format!("at most {} outputs ahead of their step", limits::OUTPUTS_WAITING_MAX);
        let message = format!("too many outputs wait for a step that is not open: {limit}");
        Err(Error::new(Code::LimitExceeded, message).with_context("limit", limit))
    }

    fn take_for_open_step(&mut self, open: &[OpenStep]) -> Option<Submission> {
        let mut named = self.named.iter();
        match named.position(|submission| submission.step_in(open).is_some()) {
            Some(at) => Some(self.named.remove(at)),
            None => self.ordered.pop_front(),
        }
    }

    /// The lines that were not used.
    pub(super) fn unused_submissions(&self) -> impl Iterator<Item = &Submission> {
        self.named.iter().chain(&self.ordered)
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
            SubmissionLines { named: Vec::new(), ordered: VecDeque::new(), input: None };
        for line in [r#"{"step_name":"c","output":1}"#, "2", r#"{"step_name":"b","output":3}"#, "4"]
        {
            lines.keep_submission(parse_submission_line(line, line.into()).expect("a line"));
        }
        let mut take = |names: &[&str]| {
            let open: Vec<_> =
                names.iter().map(|name| OpenStep::with(&json!({ "step_name": name }))).collect();
            let submission = lines.take_for_open_step(&open)?;
            let step = submission.step_in(&open)?.name().to_owned();
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
