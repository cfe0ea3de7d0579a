//! Findings: the faults of definitions. A finding is for the author of a file: it names the thing and its place, and if it
//! can, what to write instead.

mod edit;
mod place;

use std::fmt;

use serde::{Serialize, Serializer};

use self::edit::{Change, Manner};
pub use self::place::Place;
pub(crate) use self::place::first_line_end;
use super::nearest::{is_sure, nearest};
use crate::{
    error::{Edit, Suggestion, Violation},
    limits,
};

/// Whether a definition can be used in spite of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The definition cannot be used.
    Error,
    /// The definition is loaded and may be started, but probably does not do what its author means.
    Warning,
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal, $severity:ident;)*) => {
        /// The rule that a file breaks, as a stable name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[doc = $doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable name.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// Whether a definition that breaks the rule can still be used.
            pub const fn severity(self) -> Severity { match self { $(Self::$name => Severity::$severity,)* } }
        }
    };
}

rules! {
    /// The text is not YAML or JSON; of a configuration file, not TOML.
    Syntax = "syntax", Error;
    /// The Markdown file does not begin with front matter.
    MissingFrontMatter = "missing_front_matter", Error;
    /// The front matter has no closing `---`.
    UnclosedFrontMatter = "unclosed_front_matter", Error;
    /// A key that must be there is not.
    MissingKey = "missing_key", Error;
    /// A workflow does not say what it is for.
    MissingDescription = "missing_description", Warning;
    /// A key that midex does not know.
    UnknownKey = "unknown_key", Error;
    /// A key that this version does not act on yet.
    NotSupportedYet = "not_supported_yet", Error;
    /// A key stands twice in one mapping.
    DuplicateKey = "duplicate_key", Error;
    /// The value has another type than the key asks for.
    WrongType = "wrong_type", Error;
    /// The value is empty where something must stand.
    EmptyValue = "empty_value", Error;
    /// The value is longer, or there are more of them, than the limit allows.
    LimitExceeded = "limit_exceeded", Error;
    /// The name or id breaks the rules of names.
    IllFormedName = "ill_formed_name", Error;
    /// The pattern of a branch could never match an output.
    IllFormedPattern = "ill_formed_pattern", Error;
    /// The value is not one of those the key allows.
    UnknownValue = "unknown_value", Error;
    /// Two steps have one id.
    DuplicateStep = "duplicate_step", Error;
    /// The step has no kind key.
    MissingKind = "missing_kind", Error;
    /// The step has more than one kind key.
    SeveralKinds = "several_kinds", Error;
    /// The workflow has no steps.
    NoSteps = "no_steps", Error;
    /// A dependency names no step.
    UnknownDependency = "unknown_dependency", Error;
    /// A step depends on itself.
    SelfDependency = "self_dependency", Error;
    /// A step names one dependency twice.
    DuplicateDependency = "duplicate_dependency", Error;
    /// Steps wait for each other.
    CyclicDependency = "cyclic_dependency", Error;
    /// No agent has the name that a step gives.
    MissingPersona = "missing_persona", Error;
    /// The agent's own file has findings.
    InvalidPersona = "invalid_persona", Error;
    /// The server has no activity of the name that a step gives.
    UnknownActivity = "unknown_activity", Error;
    /// No catalog has the name that a step gives.
    UnknownCatalog = "unknown_catalog", Error;
    /// The catalog has no such operation, or one that cannot be called.
    UnknownOperation = "unknown_operation", Error;
    /// The operation takes no such argument.
    UnknownArgument = "unknown_argument", Error;
    /// The operation needs an argument that the step does not give.
    MissingArgument = "missing_argument", Error;
    /// A value is none that the operation takes.
    InvalidArgument = "invalid_argument", Error;
    /// The catalog has no operation of this name that lists choices.
    UnknownProvider = "unknown_provider", Error;
    /// What the provider lists has no such field.
    ProviderSelectValueFieldMissing = "provider_select_value_field_missing", Error;
    /// The field of what the provider lists is no single value.
    ProviderSelectValueFieldNonScalar = "provider_select_value_field_non_scalar", Error;
    /// The document of the catalog names no such field in the answer of a step.
    StepTemplateOutputPathMissing = "step_template_output_path_missing", Warning;
    /// A path leads into the items of a list and does not say which.
    StepTemplateArrayOutputMissingIndex = "step_template_array_output_missing_index", Warning;
    /// A step changes something, and nobody is asked before.
    MutationWithoutGate = "mutation_without_gate", Warning;
    /// The first call of a workflow that changes something comes before any that only reads.
    WorkflowMutationBeforePreflight = "workflow_mutation_before_preflight", Warning;
    /// Quotes around an expression make a text of a value that is none.
    QuotedTemplate = "quoted_template", Warning;
    /// A catalog that the workflow requires is not there.
    CatalogRequirement = "catalog_requirement", Warning;
    /// The file of an agent has no body.
    EmptyPersona = "empty_persona", Error;
    /// `result` is not a JSON Schema.
    InvalidSchema = "invalid_schema", Error;
    /// JSON Schema has no such keyword.
    UnknownKeyword = "unknown_keyword", Error;
    /// Properties stand where a JSON Schema was to be.
    BareProperties = "bare_properties", Error;
    /// `pattern` is not a regular expression.
    InvalidPattern = "invalid_pattern", Error;
    /// A value of `enum` breaks the other rules of its input.
    InvalidEnum = "invalid_enum", Error;
    /// A default breaks the rules of its input.
    InvalidDefault = "invalid_default", Error;
    /// Two things that are said cannot both hold.
    Contradiction = "contradiction", Error;
    /// `example` is not what `result` asks for.
    ExampleMismatch = "example_mismatch", Error;
    /// A list names one thing twice.
    DuplicateValue = "duplicate_value", Error;
    /// Two keys that exclude each other.
    ConflictingKeys = "conflicting_keys", Error;
    /// A key that has no effect at its place.
    NoEffect = "no_effect", Error;
    /// The number is too small or too large.
    OutOfRange = "out_of_range", Error;
    /// The text is not a duration.
    IllFormedDuration = "ill_formed_duration", Error;
    /// The text is not an instant.
    IllFormedInstant = "ill_formed_instant", Error;
    /// No step has the id that control would go to.
    UnknownStep = "unknown_step", Error;
    /// One arm of a branch runs on into another one.
    ArmsRunTogether = "arms_run_together", Error;
    /// Nothing leads to the step, or the arm can never be taken.
    Unreachable = "unreachable", Error;
    /// The expression cannot be read.
    IllFormedExpression = "ill_formed_expression", Error;
    /// The expression names something that is not there.
    UnknownReference = "unknown_reference", Error;
    /// The expression names a step that cannot come before.
    ReferenceTooEarly = "reference_too_early", Error;
    /// The expression names a step that is reset before every use of the expression.
    ForgottenOutput = "forgotten_output", Error;
    /// The expression names a field that its step need not bring.
    UncertainReference = "uncertain_reference", Warning;
    /// The expression asks for the output of a step that its condition may skip.
    DependsOnConditional = "depends_on_conditional", Warning;
    /// A loop may go round once at most.
    LoopNearBound = "loop_near_bound", Warning;
    /// Nothing reads the input.
    UnusedInput = "unused_input", Warning;
    /// The text looks like an expression and is none.
    LooksLikeExpression = "looks_like_expression", Warning;
    /// Nothing leads out of a loop.
    EndlessLoop = "endless_loop", Error;
    /// A step that handles failures is reached without one.
    HandlerInOrder = "handler_in_order", Error;
    /// A secret that the configuration does not name.
    UnknownSecret = "unknown_secret", Warning;
    /// A nearer file hides the definition.
    ShadowedName = "shadowed_name", Warning;
    /// A section of the Markdown body belongs to no step.
    UnknownSection = "unknown_section", Error;
    /// Two files of one directory define the same name.
    DuplicateName = "duplicate_name", Error;
    /// The file or directory cannot be read.
    Unreadable = "unreadable", Error;
    /// The file is not UTF-8.
    NotUtf8 = "not_utf8", Error;
    /// The file is larger than the limit.
    FileTooLarge = "file_too_large", Error;
    /// The directory holds more definition files than the limit.
    TooManyFiles = "too_many_files", Error;
    /// A symbolic link leaves the directory.
    OutsideDirectory = "outside_directory", Error;
    /// The file is of no kind that midex reads.
    UnsupportedFile = "unsupported_file", Error;
    /// There are more findings than are listed.
    TooManyFindings = "too_many_findings", Warning;
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One fault of a definition file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "Payload")]
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
    /// The suggestion as edits that a program may make, which [`Finding::locate`] computes from the text.
    pub edits: Vec<Edit>,
    /// The first byte, for drawing.
    pub start: usize,
    /// The byte after the last, for drawing.
    pub end: usize,
    /// The part of a value that the finding is about, before its place in the text is known.
    part: Option<Change>,
    /// The changes that become `edits`.
    changes: Vec<Change>,
}

/// The JSON form of a finding.
#[derive(Serialize)]
struct Payload {
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

impl From<Finding> for Payload {
    fn from(finding: Finding) -> Self {
        Self {
            suggestion: finding.suggested(),
            path: finding.path,
            severity: finding.severity,
            rule: finding.rule,
            message: finding.message,
            line: placed(finding.line),
            column: placed(finding.column),
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
            part: None,
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
        Self {
            severity: Severity::Warning,
            ..self
        }
    }

    /// A finding about the file as a whole.
    pub fn of_file(rule: Rule, message: impl Into<String>) -> Self {
        Self::new(rule, "", Place::START, message)
    }

    /// Adds what the rule asks for and the actual value.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>, actual: impl Into<String>) -> Self {
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
        match nearest(wrong, known) {
            Some(near) => self.suggest(format!("did you mean `{near}`?")).replace(
                place,
                wrong,
                is_sure(wrong, near).then_some(near),
            ),
            None => self,
        }
    }

    /// Suggests `meant` for the word `wrong` at `place`, with an edit.
    #[must_use]
    pub fn is_called(self, place: Place, wrong: &str, meant: &str) -> Self {
        self.suggest(format!("did you mean `{meant}`?"))
            .replace(place, wrong, Some(meant))
    }

    /// Offers an edit that puts `value`, which is written at `place`, between two texts; `None` for a list.
    #[must_use]
    pub fn around(self, place: Place, value: Option<String>, before: &str, after: &str) -> Self {
        self.change(Change::Around {
            place,
            value,
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }

    /// Offers an edit that removes the entry whose key is at `entry`: up to the next entry's key, or with its line up to `end`.
    #[must_use]
    pub fn cut(self, entry: Place, next: Option<Place>, end: Place) -> Self {
        self.change(Change::Cut {
            entry,
            next: next.map(|next| next.start),
            end: end.end,
        })
    }

    /// Offers an edit that replaces `old` at the byte `start`, if the text has it there. Without `start` no edit is offered.
    #[must_use]
    pub fn raw(self, start: Option<usize>, old: String, new: String) -> Self {
        let change = start.map(|start| Change::Raw { start, old, new });
        self.change(change.unwrap_or(Change::ByHand))
    }

    /// Offers no edit, in spite of all other changes.
    #[must_use]
    pub fn by_hand(self) -> Self {
        self.change(Change::ByHand)
    }

    /// Offers an edit that replaces the value or key `old` at `place`, if there is a `new` one.
    #[must_use]
    pub fn replace(self, place: Place, old: &str, new: Option<&str>) -> Self {
        match new {
            Some(new) => self.change(Change::whole(place, old, new, Manner::Alike)),
            None => self,
        }
    }

    /// Offers an edit that replaces the value `old` at `place`, which has no quotes, with `written` as it is.
    #[must_use]
    pub fn rewrite(self, place: Place, old: &str, written: &str) -> Self {
        self.change(Change::whole(place, old, written, Manner::AsIs))
    }

    /// Offers an edit that replaces the text `old` at `place`, with its quotes, by `written` as it is.
    #[must_use]
    pub fn rewrite_text(self, place: Place, old: &str, written: &str) -> Self {
        self.change(Change::whole(place, old, written, Manner::Whole))
    }

    /// Narrows the finding to `length` bytes of the text `value` at `place`.
    #[must_use]
    pub fn within(mut self, place: Place, value: &str, offset: usize, length: usize) -> Self {
        self.part = Some(Change::part(place, value, (offset, length), ""));
        self
    }

    /// Offers an edit that replaces `length` bytes of the text `value` at `place`.
    #[must_use]
    pub fn replace_within(
        self,
        place: Place,
        value: &str,
        (offset, length): (usize, usize),
        new: &str,
    ) -> Self {
        self.change(Change::part(place, value, (offset, length), new))
    }

    /// Offers an edit that adds `key` with this value to the step whose id `id` is at `place`.
    #[must_use]
    pub fn insert_key(self, place: Place, id: &str, key: &str, value: &str) -> Self {
        self.change(Change::whole(place, id, value, Manner::Key(key.to_owned())))
    }

    /// Offers an edit that inserts `item` into the list before the item at `place`.
    #[must_use]
    pub fn insert_before(self, place: Place, item: &str) -> Self {
        self.change(Change::whole(place, "", item, Manner::Item))
    }

    fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Computes the exact place and the edits from the text of the file. There are no edits if the text is not written as
    /// expected: an edit never guesses.
    pub fn locate(&mut self, text: &str) {
        if let Some(part) = self.part.take()
            && let Some((start, end)) = part.span(text)
        {
            let place = Place::of(text, start, end);
            (self.line, self.column) = (place.line, place.column);
            (self.start, self.end) = (place.start, place.end);
        }
        let changes = std::mem::take(&mut self.changes);
        let edits: Option<Vec<_>> = changes.iter().map(|change| change.edits(text)).collect();
        self.edits
            .extend(edits.unwrap_or_default().into_iter().flatten());
    }

    fn suggested(&self) -> Option<Suggestion> {
        self.suggestion.as_ref().map(|text| Suggestion {
            text: text.clone(),
            edits: self.edits.clone(),
        })
    }

    /// Makes it one about an object, of which there is no text that could have places.
    pub fn forget_place(&mut self) {
        (self.line, self.column) = (0, 0);
        self.edits.clear();
    }

    /// The finding as a violation of an error's wire form.
    pub fn violation(&self) -> Violation {
        Violation {
            path: self.path.clone(),
            rule: self.rule.as_str().to_owned(),
            message: self.message.clone(),
            line: placed(self.line),
            column: placed(self.column),
            expected: self.expected.clone(),
            actual: self.actual.clone(),
            suggestion: self.suggested(),
        }
    }
}

/// A line or a column; none in an object.
fn placed(number: usize) -> Option<usize> {
    (number > 0).then_some(number)
}

/// The findings that are errors.
pub fn errors(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| !finding.is_warning())
}

/// Whether a definition with these findings cannot be used.
pub fn is_broken(findings: &[Finding]) -> bool {
    errors(findings).next().is_some()
}

/// Puts findings in the order of the file and lists at most [`limits::FINDINGS_MAX`] of them, warnings only where errors
/// leave room; the last one then says how many more there are.
pub fn arrange(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(limits::FINDINGS_MAX);
    findings.sort_by_key(|finding| {
        (
            more > 0 && finding.is_warning(),
            finding.line,
            finding.column,
        )
    });
    findings.truncate(limits::FINDINGS_MAX);
    findings.sort_by_key(|finding| (finding.line, finding.column));
    if more > 0 {
        findings.push(Finding::of_file(
            Rule::TooManyFindings,
            format!("{more} more findings are not listed"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_distinct_names() {
        let mut names: Vec<_> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rule::ALL.len());
    }

    #[test]
    fn findings_are_sorted_and_the_rest_is_counted() {
        let findings = (0..limits::FINDINGS_MAX + 3)
            .rev()
            .map(|line| {
                let place = Place {
                    line: line + 1,
                    ..Place::START
                };
                Finding::new(Rule::UnknownKey, "", place, "x")
            })
            .collect();
        let arranged = arrange(findings);
        assert_eq!(arranged.len(), limits::FINDINGS_MAX + 1);
        assert_eq!(arranged[0].line, 1);
        assert_eq!(
            arranged.last().unwrap().message,
            "3 more findings are not listed"
        );
    }
}
