//! Parses a submission: a line of JSON, or the text that a person wrote.

use serde_json::{Map, Value, json};

use crate::{steps::OpenStep, value::describe_json_error, visible::replace_hidden_chars};
use midex_domain::{
    document::oversized_integer_message,
    error::{Code, Error, Result},
    limits,
};

/// An output or an error to submit for a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepSubmission {
    /// The step; `None` for the next in order.
    pub(super) step: Option<String>,
    pub(super) report: StepReport,
    /// The place where it was read, for messages.
    pub(super) place: String,
    /// Whether a person wrote it, who can be asked again.
    pub(super) is_by_person: bool,
    /// Whether it was submitted before, with a token that had expired.
    pub(super) is_retry: bool,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StepReport {
    Output(Value),
    Error(Value),
}

/// What `midex run` does next.
pub(super) enum RunDecision {
    /// An output or an error.
    Submit(StepSubmission),
    /// Pause the execution, for this reason.
    Pause(Option<String>),
    /// End the command, for this reason.
    Stop(String),
}

/// The place of a person's submission in messages.
const PERSON_OUTPUT_PLACE: &str = "your output";

/// A person's submission for an open step.
pub(super) fn build_person_submission(step: &OpenStep, report: StepReport) -> StepSubmission {
    StepSubmission {
        step: Some(step.name().to_owned()),
        report,
        place: PERSON_OUTPUT_PLACE.to_owned(),
        is_by_person: true,
        is_retry: false,
    }
}

/// Parses a line: an output, or an object that names its step.
///
/// # Errors
/// `ARGUMENTS_INVALID` with the place.
pub(super) fn parse_submission_line(line: &str, place: String) -> Result<StepSubmission> {
    let line_error = |problem: &str| {
        let message = format!("{place}: {problem}");
        Error::new(Code::ArgumentsInvalid, message)
            .with_action("Correct the line and go on from there")
    };
    if let Some(fault) = oversized_integer_message(line.as_bytes()) {
        return Err(line_error(&fault));
    }
    let value: Value =
        serde_json::from_str(line).map_err(|error| line_error(&describe_json_error(&error)))?;
    let (step, report) = match value {
        Value::Object(map) if is_step_line_object(&map) => {
            parse_step_line(map).map_err(line_error)?
        }
        output => (None, StepReport::Output(output)),
    };
    Ok(StepSubmission { step, report, place, is_by_person: false, is_retry: false })
}

/// Whether the object has exactly the keys of a line that names its step.
fn is_step_line_object(map: &Map<String, Value>) -> bool {
    let is_step_key = |key: &String| matches!(key.as_str(), "step_name" | "output" | "error");
    map.len() > 1
        && map.get("step_name").is_some_and(Value::is_string)
        && map.keys().all(is_step_key)
}

fn parse_step_line(
    mut map: Map<String, Value>,
) -> Result<(Option<String>, StepReport), &'static str> {
    let step = map["step_name"].as_str().map(str::to_owned);
    match (map.remove("output"), map.remove("error")) {
        (Some(output), None) => Ok((step, StepReport::Output(output))),
        (None, Some(Value::String(message))) => {
            Ok((step, StepReport::Error(json!({ "message": message }))))
        }
        (None, Some(error)) if error["message"].is_string() => Ok((step, StepReport::Error(error))),
        (None, _) => Err("`error` must be a text, or an object with a `message`"),
        (Some(_), Some(_)) => Err("`output` and `error` exclude each other"),
    }
}

/// Whether the output of a step may be any value, not only an object with a summary.
pub(super) fn accepts_any_output(step: &OpenStep) -> bool {
    step.ready.output_schema.is_some() || step.kind() == "tool"
}

impl StepSubmission {
    /// The open step that it is for; the first one if it names none. `None` if the named one is not open.
    pub(super) fn find_step<'a>(&self, open_steps: &'a [OpenStep]) -> Option<&'a OpenStep> {
        let step_name = self.step.as_deref();
        let mut open_steps = open_steps.iter();
        open_steps.find(|step| step_name.is_none_or(|name| step.name() == name))
    }
}

/// Parses a person's text: JSON if it begins with a brace, else a summary, unless the step declares its output.
///
/// # Errors
/// `ARGUMENTS_INVALID` if it is no JSON, or names a step that is not open.
pub(super) fn parse_person_text(text: &str, open_steps: &[OpenStep]) -> Result<StepSubmission> {
    if !text.starts_with('{') {
        let output = if accepts_any_output(&open_steps[0]) {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        } else {
            json!({ "summary": text })
        };
        return Ok(build_person_submission(&open_steps[0], StepReport::Output(output)));
    }
    let submission = parse_submission_line(text, PERSON_OUTPUT_PLACE.to_owned())?;
    let step = submission.find_step(open_steps).ok_or_else(|| {
        let name = submission.step.as_deref().unwrap_or_default();
        let message = format!("step '{}' is not open", replace_hidden_chars(name));
        Error::new(Code::ArgumentsInvalid, message).with_action("Name a step that is open")
    })?;
    Ok(build_person_submission(step, submission.report))
}

/// Whether a text is incomplete JSON, to be continued on further lines.
pub(super) fn is_incomplete_json(text: &str) -> bool {
    text.starts_with(['{', '['])
        && text.len() < limits::FRAME_BYTES_MAX
        && serde_json::from_str::<Value>(text).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> (Option<String>, StepReport) {
        let submission = parse_submission_line(line, "f:1".into()).expect("a line");
        (submission.step, submission.report)
    }

    #[test]
    fn a_line_is_an_output_or_names_its_step() {
        let named = |report| (Some("a".to_owned()), report);
        assert_eq!(parse_line("3"), (None, StepReport::Output(json!(3))));
        assert_eq!(
            parse_line(r#"{"step_name":"a","output":null}"#),
            named(StepReport::Output(Value::Null))
        );
        assert_eq!(
            parse_line(r#"{"step_name":"a","error":"no"}"#),
            named(StepReport::Error(json!({ "message": "no" })))
        );
        // An output may happen to have the same keys.
        for output in [
            r#"{"step_name":"a"}"#,
            r#"{"step_name":"a","output":1,"more":2}"#,
            r#"{"step_name":7,"output":1}"#,
            r#"{"output":1}"#,
        ] {
            assert_eq!(parse_line(output).0, None, "{output}");
        }
    }

    #[test]
    fn error_names_its_place() {
        for (line, expected) in [
            ("{", "f:1: not JSON: it ends too early"),
            (r#"{"step_name":"a","error":1}"#, "f:1: `error` must be"),
            (r#"{"step_name":"a","output":1,"error":"x"}"#, "f:1: `output` and"),
        ] {
            let error = parse_submission_line(line, "f:1".into()).expect_err("no line");
            assert!(error.message().starts_with(expected), "{}", error.message());
        }
    }
}
