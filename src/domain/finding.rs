//! Findings: the faults of definitions. A finding is for the author of a file: it names the thing and its place, and if it
//! can, what to write instead.

mod edit;
mod place;
mod rule;

use serde::Serialize;

use self::edit::{EditMode, PendingChange};
pub use self::place::first_line_end;
pub use self::{
    place::{LineTable, Place},
    rule::{Rule, Severity},
};
use super::nearest::find_nearest;
use crate::{
    error::{Edit, Suggestion, Violation},
    limits,
};

/// One fault of a definition file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "FindingPayload")]
pub struct Finding {
    /// The path in the document: `steps[2].agent`; empty for the file as a whole.
    pub path: String,
    /// The broken rule.
    pub rule: Rule,
    /// Whether the file can be used in spite of it: that of the rule, unless [`Finding::as_warning`] lowered it.
    pub severity: Severity,
    /// The message for the author.
    pub message: String,
    /// The line, from 1; 0 where the definition came as an object.
    pub line: usize,
    /// The column in characters, from 1; 0 as for the line.
    pub column: usize,
    /// The value that the rule asks for.
    pub expected: Option<String>,
    /// The actual value.
    pub actual: Option<String>,
    /// What to write instead.
    pub suggestion: Option<String>,
    /// The suggestion as edits that a program may make, which [`Finding::resolve_edits`] computes from the text.
    pub edits: Vec<Edit>,
    /// The first byte, for drawing.
    pub start: usize,
    /// The byte after the last, for drawing.
    pub end: usize,
    /// The file that it is about: see [`Place::origin`].
    pub origin: u8,
    /// The part of a value that the finding is about, before its place in the text is known.
    pending_span: Option<PendingChange>,
    /// The changes that become `edits`.
    changes: Vec<PendingChange>,
}

/// The JSON form of a finding.
#[derive(Serialize)]
struct FindingPayload {
    path: String,
    rule: Rule,
    severity: Severity,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<Suggestion>,
}

impl From<Finding> for FindingPayload {
    fn from(finding: Finding) -> Self {
        Self {
            suggestion: finding.to_suggestion(),
            path: finding.path,
            severity: finding.severity,
            rule: finding.rule,
            message: finding.message,
            line: known_position(finding.line),
            column: known_position(finding.column),
            expected: finding.expected,
            actual: finding.actual,
        }
    }
}

impl Finding {
    /// A finding about the text at `place`.
    pub fn new(
        rule: Rule,
        path: impl Into<String>,
        place: Place,
        message: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            rule,
            severity: rule.severity(),
            message: message.into(),
            line: place.line,
            column: place.column,
            expected: None,
            actual: None,
            suggestion: None,
            edits: Vec::new(),
            start: place.start,
            end: place.end,
            origin: place.origin,
            pending_span: None,
            changes: Vec::new(),
        }
    }

    /// Whether the definition can be used in spite of the finding.
    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// The same as a warning: for a file whose other parts hold.
    #[must_use]
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// A finding about the file as a whole.
    pub fn new_for_file(rule: Rule, message: impl Into<String>) -> Self {
        Self::new(rule, "", Place::START, message)
    }

    /// Adds what the rule asks for and the actual value.
    #[must_use]
    pub fn with_expected(mut self, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self.actual = Some(actual.into());
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<Option<String>>) -> Self {
        self.suggestion = suggestion.into();
        self
    }

    /// Suggests the one of `known` that is similar to `wrong`, the word at `place`, if there is one.
    #[must_use]
    pub fn did_you_mean<'a>(
        self,
        place: Place,
        wrong: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        match find_nearest(wrong, known) {
            Some(near) => self.suggest_replacement(place, wrong, near),
            None => self,
        }
    }

    /// Suggests `replacement` for the word `wrong` at `place`, with an edit.
    #[must_use]
    pub fn suggest_replacement(self, place: Place, wrong: &str, replacement: &str) -> Self {
        self.suggest(format!("did you mean `{replacement}`?")).edit_replace(
            place,
            wrong,
            Some(replacement),
        )
    }

    /// Offers an edit that puts `value`, which is written at `place`, between two texts; `None` for a list.
    #[must_use]
    pub fn edit_wrap(self, place: Place, value: Option<String>, before: &str, after: &str) -> Self {
        self.push_change(PendingChange::Wrap {
            place,
            value,
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }

    /// Offers an edit that removes the entry whose key is at `entry`: up to the next entry's key, or with its line up to `end`.
    #[must_use]
    pub fn edit_remove_entry(self, entry: Place, next: Option<Place>, end: Place) -> Self {
        self.push_change(PendingChange::Remove {
            entry,
            next: next.map(|next| next.start),
            end: end.end,
        })
    }

    /// Offers an edit that replaces `old` at the byte `start`, if the text has it there. Without `start` no edit is offered.
    #[must_use]
    pub fn edit_replace_bytes(self, start: Option<usize>, old: String, new: String) -> Self {
        let change = start.map(|start| PendingChange::ReplaceBytes { start, old, new });
        self.push_change(change.unwrap_or(PendingChange::Manual))
    }

    /// Offers no edit, in spite of all other changes.
    #[must_use]
    pub fn without_edit(self) -> Self {
        self.push_change(PendingChange::Manual)
    }

    /// Offers an edit that replaces the value or key `old` at `place`, if there is a `new` one.
    #[must_use]
    pub fn edit_replace(self, place: Place, old: &str, new: Option<&str>) -> Self {
        match new {
            Some(new) => self.push_change(PendingChange::replace_value(
                place,
                old,
                new,
                EditMode::SameNotation,
            )),
            None => self,
        }
    }

    /// Offers an edit that replaces the value `old` at `place`, which has no quotes, with `new_source` as it is.
    #[must_use]
    pub fn edit_rewrite_unquoted(self, place: Place, old: &str, new_source: &str) -> Self {
        self.push_change(PendingChange::replace_value(
            place,
            old,
            new_source,
            EditMode::VerbatimPlain,
        ))
    }

    /// Offers an edit that replaces the text `old` at `place`, with its quotes, by `new_source` as it is.
    #[must_use]
    pub fn edit_rewrite_quoted(self, place: Place, old: &str, new_source: &str) -> Self {
        self.push_change(PendingChange::replace_value(
            place,
            old,
            new_source,
            EditMode::VerbatimWithQuotes,
        ))
    }

    /// Narrows the finding to `length` bytes of the text `value` at `place`.
    #[must_use]
    pub fn narrow_to_part(
        mut self,
        place: Place,
        value: &str,
        offset: usize,
        length: usize,
    ) -> Self {
        self.pending_span = Some(PendingChange::replace_part(place, value, (offset, length), ""));
        self
    }

    /// Offers an edit that replaces `length` bytes of the text `value` at `place`.
    #[must_use]
    pub fn edit_replace_part(
        self,
        place: Place,
        value: &str,
        (offset, length): (usize, usize),
        new: &str,
    ) -> Self {
        self.push_change(PendingChange::replace_part(place, value, (offset, length), new))
    }

    /// Offers an edit that adds `key` with this value to the step whose id `id` is at `place`.
    #[must_use]
    pub fn insert_key(self, place: Place, id: &str, key: &str, value: &str) -> Self {
        self.push_change(PendingChange::replace_value(
            place,
            id,
            value,
            EditMode::InsertKey(key.to_owned()),
        ))
    }

    /// Offers an edit that inserts `item` into the list before the item at `place`.
    #[must_use]
    pub fn insert_before(self, place: Place, item: &str) -> Self {
        self.push_change(PendingChange::replace_value(place, "", item, EditMode::InsertItem))
    }

    fn push_change(mut self, change: PendingChange) -> Self {
        // The edits of a finding are those of one text.
        let is_in_other_file = change.place().is_some_and(|at| at.origin != self.origin);
        let change = if is_in_other_file { PendingChange::Manual } else { change };
        self.changes.push(change);
        self
    }

    /// The same about the text at another place, for which there are no edits.
    #[must_use]
    pub fn with_place(self, path: impl Into<String>, place: Place) -> Self {
        let moved = Self::new(self.rule, path, place, self.message);
        Self {
            severity: self.severity,
            expected: self.expected,
            actual: self.actual,
            suggestion: self.suggestion,
            ..moved
        }
    }

    /// Computes the exact place and the edits from the text of the file. There are no edits if the text is not written as
    /// expected: an edit never guesses.
    pub fn resolve_edits(&mut self, lines: &LineTable<'_>) {
        if let Some(part) = self.pending_span.take()
            && let Some((start, end)) = part.span(lines.text())
        {
            let place = lines.place_of_bytes(start, end);
            (self.line, self.column) = (place.line, place.column);
            (self.start, self.end) = (place.start, place.end);
        }
        let mut changes = std::mem::take(&mut self.changes);
        if changes.len() > limits::FINDING_EDITS_MAX {
            changes = vec![PendingChange::Manual];
        }
        let edits: Option<Vec<_>> = changes.iter().map(|change| change.edits(lines)).collect();
        self.edits.extend(edits.unwrap_or_default().into_iter().flatten());
    }

    fn to_suggestion(&self) -> Option<Suggestion> {
        self.suggestion
            .as_ref()
            .map(|text| Suggestion { text: text.clone(), edits: self.edits.clone() })
    }

    /// Removes the position and the edits, for a finding about something that has no source text.
    pub fn clear_location(&mut self) {
        (self.line, self.column) = (0, 0);
        self.edits.clear();
    }

    /// The finding as a violation of an error's wire form.
    pub fn to_violation(&self) -> Violation {
        Violation {
            path: self.path.clone(),
            rule: self.rule.as_str().to_owned(),
            message: self.message.clone(),
            line: known_position(self.line),
            column: known_position(self.column),
            expected: self.expected.clone(),
            actual: self.actual.clone(),
            suggestion: self.to_suggestion(),
        }
    }
}

/// A line or a column; none in an object.
fn known_position(number: usize) -> Option<usize> {
    (number > 0).then_some(number)
}

/// The findings that are errors.
pub fn filter_errors(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| !finding.is_warning())
}

/// Whether a search for the intended word is worth its cost: a file lists only its first findings.
pub fn has_room_for_suggestions(findings: &[Finding]) -> bool {
    findings.len() < limits::FINDINGS_WORDED_MAX
}

/// Whether a definition with these findings cannot be used.
pub fn has_errors(findings: &[Finding]) -> bool {
    filter_errors(findings).next().is_some()
}

/// Where a finding stands among those of its file; that more are not listed is said last.
pub fn sort_position(finding: &Finding) -> (bool, usize, usize) {
    let is_overflow_notice = finding.rule == Rule::TooManyFindings;
    (is_overflow_notice, finding.line, finding.column)
}

/// Puts findings in the order of the file and lists at most [`limits::FINDINGS_MAX`] of them, warnings only where errors
/// leave room; the last one then says how many more there are.
pub fn sort_and_limit(mut findings: Vec<Finding>) -> Vec<Finding> {
    let omitted_count = findings.len().saturating_sub(limits::FINDINGS_MAX);
    findings.sort_by_key(|finding| {
        (omitted_count > 0 && finding.is_warning(), finding.line, finding.column)
    });
    findings.truncate(limits::FINDINGS_MAX);
    findings.sort_by_key(|finding| (finding.line, finding.column));
    if omitted_count > 0 {
        findings.push(Finding::new_for_file(
            Rule::TooManyFindings,
            format!("{omitted_count} more findings are not listed"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_offers_no_edit_of_another_file() {
        let place = |origin| Place { origin, end: 3, ..Place::START };
        for (of, at, edits) in [(0, 0, 1), (0, 1, 0), (1, 0, 0)] {
            let finding = Finding::new(Rule::UnknownKey, "", place(of), "x");
            let mut finding = finding.edit_replace(place(at), "old", Some("new"));
            finding.resolve_edits(&LineTable::new("old"));
            assert_eq!(finding.edits.len(), edits, "{of} {at}");
        }
    }

    #[test]
    fn findings_are_sorted_and_the_rest_is_counted() {
        let findings = (0..limits::FINDINGS_MAX + 3)
            .rev()
            .map(|line| {
                let place = Place { line: line + 1, ..Place::START };
                Finding::new(Rule::UnknownKey, "", place, "x")
            })
            .collect();
        let arranged = sort_and_limit(findings);
        assert_eq!(arranged.len(), limits::FINDINGS_MAX + 1);
        assert_eq!(arranged[0].line, 1);
        assert_eq!(arranged.last().unwrap().message, "3 more findings are not listed");
    }
}
