//! The draft: an answer that a person typed or a command printed, and that is not recorded yet.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::{
    submission::{StepReport, StepSubmission},
    words::skipped_step_error,
};
use crate::value::{escape_json_text, json_text, text_field};

/// An answer that is not recorded yet. When `midex run` ends, in any way, it prints the draft, so that no typed text is
/// lost.
#[derive(Debug, Default)]
pub(super) struct AnswerDraft {
    /// The values of fields by name.
    pub(super) values: Map<String, Value>,
    /// The field being typed, and its value so far.
    current_field: Option<(String, Value)>,
    /// The lines of an answer typed as text, or of JSON typed in place of fields.
    pub(super) text: String,
    /// Whether the text is the output itself, rather than the `summary` of an output object.
    pub(super) is_text: bool,
    /// The answer as it was last submitted, until the person begins to type it again.
    sent_text: Option<String>,
    /// Whether no reply to the submission has arrived.
    is_unanswered: bool,
}

impl AnswerDraft {
    /// Marks this submission as sent.
    pub(super) fn mark_submission_sent(&mut self, submission: &StepSubmission) {
        self.mark_sent(match &submission.report {
            StepReport::Output(output) => json_text(output, false),
            StepReport::Error(error) if *error == skipped_step_error() => "skip".to_owned(),
            StepReport::Error(error) => format!("failed: {}", text_field(error, "message")),
        });
    }

    /// Marks the typed inputs as sent with a start.
    pub(super) fn mark_inputs_sent(&mut self) {
        if let Some(text) = self.typed_text() {
            self.mark_sent(text);
        }
    }

    fn mark_sent(&mut self, text: String) {
        self.sent_text = Some(text);
        self.is_unanswered = true;
    }

    /// Records that the submission was refused: the draft keeps it, so that it can be corrected.
    pub(super) fn mark_refused(&mut self) {
        self.is_unanswered = false;
    }

    /// Clears the draft, because its content is recorded.
    pub(super) fn clear_recorded(&mut self) {
        *self = Self::default();
    }

    /// Begins a new version of the answer, based on the values in the draft.
    pub(super) fn begin_version(&mut self) {
        self.sent_text = None;
        self.is_unanswered = false;
    }

    /// Sets the field being typed, and its value so far.
    pub(super) fn open_field(&mut self, name: &str, value: Value) {
        self.current_field = Some((name.to_owned(), value));
    }

    /// Takes the value of the field being typed: it is complete, or was refused.
    pub(super) fn close_field(&mut self) -> Option<Value> {
        self.text.clear();
        self.current_field.take().map(|(_, value)| value)
    }

    /// Adds an item to the list being typed; opens the list for the field `name` if none is open.
    pub(super) fn push_item(&mut self, name: &str, item: Value) {
        match &mut self.current_field {
            Some((_, Value::Array(items))) => items.push(item),
            _ => self.open_field(name, json!([item])),
        }
    }

    /// The number of items in the list being typed.
    pub(super) fn item_count(&self) -> usize {
        let list = self.current_field.as_ref().and_then(|(_, list)| list.as_array());
        list.map_or(0, Vec::len)
    }

    /// Truncates the list being typed to `count` items; closes it if `count` is 0.
    pub(super) fn truncate_items(&mut self, count: usize) {
        match &mut self.current_field {
            Some((_, Value::Array(items))) if count > 0 => items.truncate(count),
            _ => self.current_field = None,
        }
    }

    /// Prints the content of the draft, which is not going to be recorded any more, and clears it.
    pub(super) fn print_unrecorded(&mut self) {
        if let Some(text) = self.unrecorded_text() {
            let _ = writeln!(anstream::stderr().lock(), "{text}");
        }
        self.clear_recorded();
    }

    fn unrecorded_text(&self) -> Option<String> {
        let label =
            if self.is_unanswered { "handed in, and nobody answered" } else { "not recorded" };
        let text = self.sent_text.clone().or_else(|| self.typed_text())?;
        let separator = if text.contains('\n') { '\n' } else { ' ' };
        Some(format!("{label}:{separator}{text}"))
    }

    fn typed_text(&self) -> Option<String> {
        let mut values = self.values.clone();
        values.extend(self.current_field.clone());
        let values = (!values.is_empty()).then(|| json_text(&Value::Object(values), false));
        let words = match self.text.as_str() {
            "" => return values,
            json if json.starts_with(['{', '[']) => escape_json_text(json),
            words if self.is_text => json_text(&json!(words), false),
            words => json_text(&json!({ "summary": words }), false),
        };
        let parts: Vec<_> = values.into_iter().chain([words]).collect();
        Some(parts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrecorded_draft_is_printed() {
        let mut draft = AnswerDraft::default();
        assert_eq!(draft.unrecorded_text(), None);
        draft.text = "one\ntwo".to_owned();
        let text = draft.unrecorded_text();
        assert_eq!(text.as_deref(), Some(r#"not recorded: {"summary":"one\ntwo"}"#));
        draft.text = "{\"a\":\n\"\u{200d}".to_owned();
        let text = draft.unrecorded_text();
        assert_eq!(text.as_deref(), Some("not recorded:\n{\"a\":\n\"\\u200d"));
        draft.is_text = true;
        draft.text = "one".to_owned();
        assert_eq!(draft.unrecorded_text().as_deref(), Some(r#"not recorded: "one""#));
        draft.clear_recorded();
        draft.push_item("tags", json!("a"));
        draft.push_item("tags", json!("b"));
        assert_eq!(draft.item_count(), 2);
        draft.mark_inputs_sent();
        let sent = r#"{"tags":["a","b"]}"#;
        let text = draft.unrecorded_text().expect("it is there");
        assert_eq!(text, format!("handed in, and nobody answered: {sent}"));
        draft.mark_refused();
        let text = draft.unrecorded_text().expect("it is there");
        assert_eq!(text, format!("not recorded: {sent}"));
    }
}
