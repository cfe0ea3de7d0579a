//! The rules that a definition file may break.

use std::fmt;

use serde::{Serialize, Serializer};

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
    /// No failure has the code or the class.
    UnknownFailure = "unknown_failure", Error;
    /// The expression asks for what is not there where something failed, or for a failure where nothing did.
    FailedOutput = "failed_output", Error;
    /// The expression names a field that its step need not bring.
    UncertainReference = "uncertain_reference", Warning;
    /// The expression asks for the output of a step that its condition may skip.
    DependsOnConditional = "depends_on_conditional", Warning;
    /// A loop may go round once at most.
    LoopNearBound = "loop_near_bound", Warning;
    /// A tool of the workflow cannot have this name.
    ToolNameRefused = "tool_name_refused", Error;
    /// Another workflow has tools of these names, which are those that are offered.
    ToolNameTaken = "tool_name_taken", Warning;
    /// Nothing reads the input.
    UnusedInput = "unused_input", Warning;
    /// The text looks like an expression and is none.
    LooksLikeExpression = "looks_like_expression", Warning;
    /// An expression stands where none is evaluated.
    NotATemplate = "not_a_template", Error;
    /// An expression puts a secret where it would be kept or shown.
    MisplacedSecret = "misplaced_secret", Error;
    /// An expression reads an input, and the manifest declares none.
    UndeclaredInput = "undeclared_input", Warning;
    /// A ` #` in a text without quotes begins a comment, which looks like a part of the text.
    CutByComment = "cut_by_comment", Warning;
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
    /// No workflow has the name that a manifest extends.
    UnknownBase = "unknown_base", Error;
    /// No workflow has the name that a step begins.
    UnknownWorkflow = "unknown_workflow", Warning;
    /// The workflow that a manifest extends has findings of its own, or cannot be extended.
    InvalidBase = "invalid_base", Error;
    /// A manifest extends itself, or one that extends it.
    CyclicBase = "cyclic_base", Error;
    /// An heir names a step that its base has not.
    NotInBase = "not_in_base", Error;
    /// A step of the base depends on one that the heir removes.
    RemovedDependency = "removed_dependency", Error;
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
    /// The document is one of another system.
    ForeignDocument = "foreign_document", Error;
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
}
