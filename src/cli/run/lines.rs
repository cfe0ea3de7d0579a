//! Outputs as lines of JSON: of the next step, or of one that the line names.

use std::{collections::VecDeque, path::Path};

use serde_json::{Map, Value, json};

use super::input::{self, Input};
use crate::{
    cli::{link::Link, run::page::Page},
    domain::document::{inexact, inexact_words},
    error::{Code, Error, Result},
    limits,
};

/// What is handed in for a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Handed {
    /// The step that it is of; none for the next in order.
    pub(super) step: Option<String>,
    pub(super) report: Report,
    /// Where it was read.
    pub(super) place: String,
    /// Whether a person made it, who can be asked again.
    pub(super) by_person: bool,
    /// Whether it was handed in before, with a token that had expired.
    pub(super) again: bool,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    Output(Value),
    Error(Value),
}

/// Lines that were read, and where more of them come from.
pub(super) struct Lines {
    /// Those that name a step that was not open yet.
    named: Vec<Handed>,
    ordered: VecDeque<Handed>,
    input: Option<Input>,
}

impl Lines {
    /// The lines of a file, all of them checked.
    ///
    /// # Errors
    /// `FILE_UNUSABLE`; `USAGE_INVALID` with file and line.
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let text = input::read_file(path, limits::OUTPUTS_FILE_BYTES_MAX)?;
        let mut lines = Self {
            named: Vec::new(),
            ordered: VecDeque::new(),
            input: None,
        };
        for (line, number) in text.lines().zip(1_usize..) {
            if !line.trim().is_empty() {
                let handed = parse(line, format!("{shown}:{number}"));
                lines.keep(handed.map_err(|error| nothing_started(&error))?);
            }
        }
        Ok(lines)
    }

    /// Lines that are read from standard input when they are needed.
    pub(super) fn of_stdin() -> Self {
        Self {
            named: Vec::new(),
            ordered: VecDeque::new(),
            input: Some(Input::stdin()),
        }
    }

    fn keep(&mut self, handed: Handed) {
        match handed.step {
            Some(_) => self.named.push(handed),
            None => self.ordered.push_back(handed),
        }
    }

    /// What is for one of the open steps, and which one that is. None where there are no more lines.
    pub(super) async fn next(
        &mut self,
        open: &[Value],
        page: &mut Page<'_>,
        link: &mut Link<'_>,
    ) -> Result<Option<(usize, Handed)>> {
        loop {
            if let Some(found) = self.take(open) {
                return Ok(Some(found));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            // Whoever writes the lines may be waiting for what to do.
            page.step(&open[0])?;
            match input.line(link).await? {
                Some(text) if text.trim().is_empty() => {}
                Some(text) => {
                    let place = format!("standard input:{}", input.number());
                    let handed = parse(&text, place)?;
                    self.keep(handed);
                    self.check_waiting()?;
                }
                None => self.input = None,
            }
        }
    }

    /// Whoever writes the lines may never name a step that opens.
    fn check_waiting(&self) -> Result<()> {
        if self.named.len() <= limits::OUTPUTS_WAITING_MAX {
            return Ok(());
        }
        let limit = format!(
            "at most {} outputs ahead of their step",
            limits::OUTPUTS_WAITING_MAX
        );
        let message = format!("too many outputs wait for a step that is not open: {limit}");
        Err(Error::new(Code::LimitExceeded, message).with("limit", limit))
    }

    fn take(&mut self, open: &[Value]) -> Option<(usize, Handed)> {
        let place = |handed: &Handed| place_of(open, handed.step.as_deref()?);
        let mut named = self.named.iter().enumerate();
        let found = named.find_map(|(at, handed)| Some((at, place(handed)?)));
        match found {
            Some((at, place)) => Some((place, self.named.remove(at))),
            None => self.ordered.pop_front().map(|handed| (0, handed)),
        }
    }

    /// The lines that nothing was done with.
    pub(super) fn left_over(&self) -> impl Iterator<Item = &Handed> {
        self.named.iter().chain(&self.ordered)
    }
}

/// Which of the open steps has this name.
pub(super) fn place_of(open: &[Value], name: &str) -> Option<usize> {
    open.iter().position(|step| step["step_name"] == name)
}

fn nothing_started(error: &Error) -> Error {
    Error::new(Code::UsageInvalid, error.message())
        .with_action("Correct the line; nothing was started")
}

/// Reads one line.
///
/// # Errors
/// `ARGUMENTS_INVALID` with the place.
pub(super) fn parse(line: &str, place: String) -> Result<Handed> {
    let bad = |what: &str| {
        let message = format!("{place}: {what}");
        Error::new(Code::ArgumentsInvalid, message)
            .with_action("Correct the line and go on from there")
    };
    if let Some(number) = inexact(line.as_bytes()) {
        return Err(bad(&inexact_words(number)));
    }
    let value: Value = serde_json::from_str(line).map_err(|error| bad(&not_json(&error)))?;
    let (step, report) = match value {
        Value::Object(map) if is_named(&map) => named(map).map_err(bad)?,
        output => (None, Report::Output(output)),
    };
    Ok(Handed {
        step,
        report,
        place,
        by_person: false,
        again: false,
    })
}

/// What is wrong with a line, without the place that the parser gives: it counts lines of its own.
fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text
        .rsplit_once(" at line ")
        .map_or(&*text, |(what, _)| what);
    format!("not JSON: {what} at column {}", error.column())
}

/// Whether these are the fields of a line that names its step, and no others.
fn is_named(map: &Map<String, Value>) -> bool {
    let ours = |key: &String| matches!(key.as_str(), "step_name" | "output" | "error");
    map.len() > 1 && map.get("step_name").is_some_and(Value::is_string) && map.keys().all(ours)
}

fn named(mut map: Map<String, Value>) -> Result<(Option<String>, Report), &'static str> {
    let step = map["step_name"].as_str().map(str::to_owned);
    match (map.remove("output"), map.remove("error")) {
        (Some(output), None) => Ok((step, Report::Output(output))),
        (None, Some(Value::String(message))) => {
            Ok((step, Report::Error(json!({ "message": message }))))
        }
        (None, Some(error)) if error["message"].is_string() => Ok((step, Report::Error(error))),
        (None, _) => Err("`error` must be a text, or an object with a `message`"),
        (Some(_), Some(_)) => Err("`output` and `error` exclude each other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (Option<String>, Report) {
        let handed = parse(line, "f:1".into()).expect("a line");
        (handed.step, handed.report)
    }

    #[test]
    fn a_line_is_an_output_or_names_its_step() {
        let named = |report| (Some("a".to_owned()), report);
        assert_eq!(parsed("3"), (None, Report::Output(json!(3))));
        assert_eq!(
            parsed(r#"{"step_name":"a","output":null}"#),
            named(Report::Output(Value::Null))
        );
        assert_eq!(
            parsed(r#"{"step_name":"a","error":"no"}"#),
            named(Report::Error(json!({ "message": "no" })))
        );
        // An output may have such fields of its own.
        for output in [
            r#"{"step_name":"a"}"#,
            r#"{"step_name":"a","output":1,"more":2}"#,
            r#"{"step_name":7,"output":1}"#,
            r#"{"output":1}"#,
        ] {
            assert_eq!(parsed(output).0, None, "{output}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (line, what) in [
            (
                "{",
                "f:1: not JSON: EOF while parsing an object at column 1",
            ),
            (r#"{"step_name":"a","error":1}"#, "f:1: `error` must be"),
            (
                r#"{"step_name":"a","output":1,"error":"x"}"#,
                "f:1: `output` and",
            ),
        ] {
            let error = parse(line, "f:1".into()).expect_err("no line");
            assert!(error.message().starts_with(what), "{}", error.message());
        }
    }

    #[test]
    fn named_lines_wait_for_their_step_and_the_others_keep_their_order() {
        let mut lines = Lines {
            named: Vec::new(),
            ordered: VecDeque::new(),
            input: None,
        };
        for line in [
            r#"{"step_name":"c","output":1}"#,
            "2",
            r#"{"step_name":"b","output":3}"#,
            "4",
        ] {
            lines.keep(parse(line, line.into()).expect("a line"));
        }
        let mut take = |names: &[&str]| {
            let open: Vec<_> = names
                .iter()
                .map(|name| json!({ "step_name": name }))
                .collect();
            let (at, handed) = lines.take(&open)?;
            Some((names[at].to_owned(), handed.report))
        };
        let output = |step: &str, value: u32| Some((step.to_owned(), Report::Output(json!(value))));
        assert_eq!(take(&["a"]), output("a", 2));
        assert_eq!(take(&["a", "b"]), output("b", 3));
        assert_eq!(take(&["a"]), output("a", 4));
        assert_eq!(take(&["a"]), None);
        assert_eq!(take(&["a", "c"]), output("c", 1));
    }
}
