//! What somebody typed, or a command answered, and nobody has recorded yet.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::{
    submission::{Report, Submission},
    words::skipped,
};
use crate::value::{escaped, field, json_text};

/// An answer until it is recorded. Wherever `midex run` ends it is printed, so that it is not lost.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// The values of fields by name.
    pub(super) values: Map<String, Value>,
    /// The field that is typed just now, and what there is of it.
    open: Option<(String, Value)>,
    /// The lines of an answer in words, or of JSON in its place.
    pub(super) words: String,
    /// Whether words are the answer themselves, and not its summary.
    pub(super) is_text: bool,
    /// The answer as it was handed in, until something is typed anew.
    sent: Option<String>,
    /// Whether nobody has said what became of that.
    is_unanswered: bool,
}

impl Draft {
    /// It is handed in now.
    pub(super) fn hand_in(&mut self, submission: &Submission) {
        self.send(match &submission.report {
            Report::Output(output) => json_text(output, false),
            Report::Error(error) if *error == skipped() => "skip".to_owned(),
            Report::Error(error) => format!("failed: {}", field(error, "message")),
        });
    }

    /// What was typed of the inputs is sent with a start now.
    pub(super) fn start(&mut self) {
        if let Some(typed) = self.typed() {
            self.send(typed);
        }
    }

    fn send(&mut self, what: String) {
        self.sent = Some(what);
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

    /// So much of the field `name` is typed.
    pub(super) fn open(&mut self, name: &str, value: Value) {
        self.open = Some((name.to_owned(), value));
    }

    /// What is open has become a value of its field, or was refused.
    pub(super) fn close(&mut self) -> Option<Value> {
        self.words.clear();
        self.open.take().map(|(_, value)| value)
    }

    /// Adds an item to the list that is open, or that this opens for the field `name`.
    pub(super) fn push(&mut self, name: &str, item: Value) {
        match &mut self.open {
            Some((_, Value::Array(items))) => items.push(item),
            _ => self.open(name, json!([item])),
        }
    }

    /// How many items the list that is open has.
    pub(super) fn count(&self) -> usize {
        let list = self.open.as_ref().and_then(|(_, list)| list.as_array());
        list.map_or(0, Vec::len)
    }

    /// Leaves the list that is open so many items; without any there is none.
    pub(super) fn cut(&mut self, count: usize) {
        match &mut self.open {
            Some((_, Value::Array(items))) if count > 0 => items.truncate(count),
            _ => self.open = None,
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
        let typed = self.sent.clone().or_else(|| self.typed())?;
        let between = if typed.contains('\n') { '\n' } else { ' ' };
        Some(format!("{label}:{between}{typed}"))
    }

    fn typed(&self) -> Option<String> {
        let mut values = self.values.clone();
        values.extend(self.open.clone());
        let values = (!values.is_empty()).then(|| json_text(&Value::Object(values), false));
        let words = match self.words.as_str() {
            "" => return values,
            json if json.starts_with(['{', '[']) => escaped(json),
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
        draft.is_text = true;
        draft.words = "one".to_owned();
        assert_eq!(draft.told().as_deref(), Some(r#"not recorded: "one""#));
        draft.recorded();
        draft.push("tags", json!("a"));
        draft.push("tags", json!("b"));
        assert_eq!(draft.count(), 2);
        draft.start();
        let sent = r#"{"tags":["a","b"]}"#;
        let told = draft.told().expect("it is there");
        assert_eq!(told, format!("handed in, and nobody answered: {sent}"));
        draft.refused();
        let told = draft.told().expect("it is there");
        assert_eq!(told, format!("not recorded: {sent}"));
    }
}
