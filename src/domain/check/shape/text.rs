//! Validates texts: names, words, durations, instants, choices.

use super::super::super::{
    definition::JoinRule,
    finding::{Finding, Place, Rule},
    grammar::{IdKind, foreign},
    node::DocumentNode,
    span::HumanDuration,
};

/// A text with its place.
#[derive(Clone, Copy)]
pub(super) struct TextNode<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a str,
    pub(super) place: Place,
}

impl<'a> TextNode<'a> {
    pub(super) fn new(text: &'a str, node: &DocumentNode, path: &'a str) -> Self {
        let place = node.place;
        Self { text, path, place }
    }

    pub(super) fn finding(self, rule: Rule, message: String) -> Finding {
        Finding::new(rule, self.path, self.place, message)
    }

    pub(super) fn last_key(self) -> String {
        format!("`{}`", last_path_key(self.path))
    }

    pub(super) fn check_length(self, max: usize) -> Option<Finding> {
        let bytes = self.text.len();
        let message = || format!("{} has {bytes} bytes, the limit is {max}", self.last_key());
        (bytes > max).then(|| {
            self.finding(Rule::LimitExceeded, message())
                .with_expected(format!("at most {max} bytes"), format!("{bytes} bytes"))
        })
    }

    pub(super) fn check_id(self, id: IdKind) -> Option<Finding> {
        let error = id.parse(self.text).err()?;
        Some(self.finding(Rule::IllFormedName, error.message().to_owned()))
    }

    pub(super) fn check_name(self) -> Option<Finding> {
        let is_ill_formed = self.text.contains(char::is_control) || self.text.trim() != self.text;
        is_ill_formed.then(|| {
            let message = format!(
                "{} may hold no control characters, and no white space around it",
                self.last_key()
            );
            self.finding(Rule::IllFormedName, message).edit_replace(
                self.place,
                self.text,
                Some(self.text.trim()),
            )
        })
    }

    pub(super) fn check_word(self) -> Option<Finding> {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_valid =
            self.text.chars().all(letter) && !self.text.starts_with(|c: char| c.is_ascii_digit());
        (!is_valid).then(|| {
            let message = format!("`{}` is no word that an expression can use", self.text);
            self.finding(Rule::IllFormedName, message)
                .suggest("use letters, digits and `_`, beginning with no digit".to_owned())
        })
    }

    pub(super) fn check_operation(self) -> Option<Finding> {
        let words = self.text.split_whitespace().count();
        let is_unprintable = |c: char| c.is_control() && !c.is_whitespace();
        (words < 2 || self.text.contains(is_unprintable)).then(|| {
            let message = format!("`{}` does not name a catalog and an operation", self.text);
            self.finding(Rule::IllFormedName, message).suggest(
                "write the catalog, a space and the operation, such as `render services:list`"
                    .to_owned(),
            )
        })
    }

    pub(super) fn check_duration(self) -> Option<Finding> {
        match self.text.parse::<HumanDuration>() {
            Ok(span) if span.duration().is_zero() => {
                let message = format!("{} must be longer than nothing", self.last_key());
                Some(self.finding(Rule::OutOfRange, message))
            }
            Ok(_) => None,
            Err(fault) => {
                let finding = self.finding(Rule::IllFormedDuration, fault);
                Some(match HumanDuration::guess_duration(self.text) {
                    Some(span) => finding.suggest(format!("write {span}")).edit_replace(
                        self.place,
                        self.text,
                        Some(&span.to_string()),
                    ),
                    None => finding,
                })
            }
        }
    }

    pub(super) fn check_timestamp(self) -> Option<Finding> {
        let fault = self.text.parse::<jiff::Timestamp>().err()?;
        let message = format!("`{}` is not an instant: {fault}", self.text);
        Some(
            self.finding(Rule::IllFormedInstant, message).suggest(
                "write date, time and offset, such as \"2030-01-31T09:00:00Z\"".to_owned(),
            ),
        )
    }

    pub(super) fn check_choice(self, words: &[&'static str]) -> Option<Finding> {
        if words.contains(&self.text) {
            return None;
        }
        let message = format!("`{}` is not one of {}", self.text, words.join(", "));
        let finding =
            self.finding(Rule::UnknownValue, message).with_expected(words.join(", "), self.text);
        Some(suggest_word(finding, self.path, self.place, self.text, words.iter().copied()))
    }

    pub(super) fn check_join(self) -> Option<Finding> {
        if JoinRule::parse(self.text).is_some() {
            return None;
        }
        let message = format!("`{}` is not one of all, any, quorum(N)", self.text);
        let finding = self
            .finding(Rule::UnknownValue, message)
            .with_expected("all, any, or quorum(N) with the number of steps", self.text);
        Some(suggest_word(finding, self.path, self.place, self.text, ["all", "any"]))
    }

    /// A word, or a well-formed id; `flow` checks that there is such a step.
    pub(super) fn check_jump_target(self, words: &[&'static str]) -> Option<Finding> {
        if words.contains(&self.text) {
            return None;
        }
        let finding = self.check_id(IdKind::Step)?;
        Some(finding.did_you_mean(self.place, self.text, words.iter().copied()))
    }
}

/// Suggests the equivalent of the foreign word `text` for the last key of `path`, else the nearest of `known`.
pub(in super::super) fn suggest_word<'a>(
    finding: Finding,
    path: &str,
    place: Place,
    text: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Finding {
    match foreign::find_value_counterpart(last_path_key(path), text) {
        Some(counterpart) => finding.suggest_replacement(place, text, counterpart),
        None => finding.did_you_mean(place, text, known),
    }
}

/// The last key of a path.
pub(super) fn last_path_key(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
