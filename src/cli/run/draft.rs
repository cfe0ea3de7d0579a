//! What somebody typed, or a command answered, and nobody has recorded yet.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::submission::{Report, Submission};
use crate::cli::value::{escaped, json_text};

/// An answer until it is recorded. Wherever `midex run` ends it is printed, so that it is not lost.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// The values of fields by name; one of them may still be typed.
    pub(super) values: Map<String, Value>,
    /// The lines of an answer in words, or of JSON in its place.
    pub(super) words: String,
    /// The answer as it was handed in, until something is typed anew.
    sent: Option<Value>,
    /// Whether nobody has said what became of that.
    is_unanswered: bool,
}

impl Draft {
    /// It is handed in now.
    pub(super) fn hand_in(&mut self, submission: &Submission) {
        let (Report::Output(value) | Report::Error(value)) = &submission.report;
        self.sent = Some(value.clone());
        self.is_unanswered = true;
    }

    /// What was typed of the inputs is sent with a start now.
    pub(super) fn start(&mut self) {
        self.sent = Some(Value::Object(self.values.clone())).filter(|_| !self.values.is_empty());
        self.is_unanswered = true;
    }

    /// It was refused: it is here still, to be mended.
    pub(super) fn refused(&mut self) {
        self.is_unanswered = false;
    }

    /// It is recorded.
    pub(super) fn recorded(&mut self) {
        *self = Self::default();
    }

    /// It is typed anew, beginning with what is here.
    pub(super) fn begin(&mut self) {
        self.sent = None;
        self.is_unanswered = false;
    }

    /// Adds an item to the list `name`, which may be new.
    pub(super) fn push(&mut self, name: &str, item: Value) {
        let list = self.values.entry(name).or_insert_with(|| json!([]));
        match list {
            Value::Array(items) => items.push(item),
            other => *other = json!([item]),
        }
    }

    /// How many items the list `name` has.
    pub(super) fn count(&self, name: &str) -> usize {
        let list = self.values.get(name).and_then(Value::as_array);
        list.map_or(0, Vec::len)
    }

    /// Leaves the list `name` so many items; without any it is no more there.
    pub(super) fn cut(&mut self, name: &str, count: usize) {
        match self.values.get_mut(name) {
            Some(Value::Array(items)) if count > 0 => items.truncate(count),
            _ => drop(self.values.shift_remove(name)),
        }
    }

    /// Prints what is here, for nobody records it any more.
    pub(super) fn spill(&mut self) {
        if let Some(told) = self.told() {
            let _ = writeln!(anstream::stderr().lock(), "{told}");
        }
        self.recorded();
    }

    fn told(&self) -> Option<String> {
        let label = if self.is_unanswered {
            "handed in, and nobody answered"
        } else {
            "not recorded"
        };
        let typed = self.typed()?;
        let between = if typed.contains('\n') { '\n' } else { ' ' };
        Some(format!("{label}:{between}{typed}"))
    }

    fn typed(&self) -> Option<String> {
        if let Some(sent) = &self.sent {
            return Some(json_text(sent, false));
        }
        if !self.values.is_empty() {
            return Some(json_text(&Value::Object(self.values.clone()), false));
        }
        match self.words.as_str() {
            "" => None,
            json if json.starts_with(['{', '[']) => Some(escaped(json)),
            words => Some(json_text(&json!({ "summary": words }), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_recorded_is_told_as_it_was_typed_and_what_nobody_answered_as_that() {
        let mut draft = Draft::default();
        assert_eq!(draft.told(), None);
        draft.words = "one\ntwo".to_owned();
        let told = draft.told();
        assert_eq!(
            told.as_deref(),
            Some(r#"not recorded: {"summary":"one\ntwo"}"#)
        );
        draft.words = "{\"a\":\n\"\u{200d}".to_owned();
        let told = draft.told();
        assert_eq!(told.as_deref(), Some("not recorded:\n{\"a\":\n\"\\u200d"));
        draft.recorded();
        draft.push("tags", json!("a"));
        draft.push("tags", json!("b"));
        assert_eq!(draft.count("tags"), 2);
        draft.start();
        let sent = r#"{"tags":["a","b"]}"#;
        let told = draft.told().expect("it is there");
        assert_eq!(told, format!("handed in, and nobody answered: {sent}"));
        draft.refused();
        let told = draft.told().expect("it is there");
        assert_eq!(told, format!("not recorded: {sent}"));
    }
}
