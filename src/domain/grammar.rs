//! What a definition file may say, as one table: every key of a manifest, of front matter and of an agent stands in it once,
//! with the shape of its value, whom it concerns, and whether anything acts on it yet. The checker holds values against these
//! shapes, unknown keys are compared with these names, expressions are found by them, and the JSON Schemas for editors are
//! written from them.

pub mod foreign;
mod table;

pub use self::table::{
    ACCEPT_KEY, BRANCH_ARM_SHAPE, COMPENSATION_SHAPE, DECLARED_INPUT_SHAPE, DEFAULT_SHAPE,
    END_TARGET, EXCLUSIVE_FIELD_PAIRS, EXPOSE_KEY, EXTENDS_KEY, FOREACH_ALIAS_DEFAULT,
    FRONT_MATTER_SHAPE, HOOK_SHAPE, HOST_PERSONA_SHAPE, INSERT_ITEM_SHAPE, INSERT_KEY,
    INSERT_PLACE_KEYS, LABELS_KEY, MANIFEST_SHAPE, NEXT_WORDS, ON_ERROR_WORDS, PACE_WORDS,
    PERSONA_SHAPE, PHASE_SHAPE, REMOVE_KEY, STEP_SHAPE, STEPS_KEY, STOP_TARGET, VALIDATE_SHAPE,
};
use super::id::{AgentName, InputName, StepId, WorkflowName};
use crate::error::Result;

/// What a value must be.
#[derive(Debug)]
pub enum ValueShape {
    /// A text with something in it, of at most so many bytes.
    Text(usize),
    /// The same; may hold `${{ … }}`.
    Template(usize),
    /// A text of at most so many bytes, which may be empty.
    FreeText(usize),
    /// The author's version: a text, or a number as it is written.
    Version,
    /// An expression that holds or does not; `${{ }}` around it is allowed.
    Condition,
    /// A name of at most so many bytes: no control characters, no white space around it.
    Name(usize),
    /// The name or id of something that midex itself refers to by it.
    Id(IdKind),
    /// The same, or a text that holds `${{ … }}`.
    IdOrTemplate(IdKind),
    /// The ids of steps: one alone, or a list.
    Ids,
    /// A word that expressions can use: letters, digits and `_`.
    Word,
    /// A catalog and an operation of it.
    Operation,
    /// Anything; texts in it may hold `${{ … }}`.
    Value,
    /// Anything, taken as it is.
    Data,
    /// The same, but not null.
    NotNull,
    /// A mapping of anything; texts in it may hold `${{ … }}`.
    Values,
    /// The same, or a text that is one `${{ … }}` and yields a mapping.
    ValuesOrTemplate,
    /// The same, where a value may be such a mapping, which says what it is bound to.
    Bindings(&'static MappingShape),
    /// A mapping of anything with so many entries at least, whose names memory can have; texts in it may hold `${{ … }}`.
    Memory(usize),
    /// A mapping from patterns of an output to such mappings.
    Branches(&'static MappingShape),
    /// A mapping of at most so many scalars, taken as they are.
    Scalars(usize),
    /// A list, or a text that holds `${{ … }}`.
    Items,
    /// `true` or `false`.
    Flag,
    /// A whole number between these.
    Count(u32, u32),
    /// The same, or a text that holds `${{ … }}`.
    CountOrTemplate(u32, u32),
    /// A whole number up to this one, a share such as `20%`, or a text that holds `${{ … }}`.
    Tolerance(u32),
    /// A whole number, 0 or more.
    NonNegativeInteger,
    /// A number.
    Number,
    /// A duration longer than nothing.
    Duration,
    /// A duration, or a text that holds `${{ … }}`.
    DurationOrTemplate,
    /// An instant (RFC 3339), or a text that holds `${{ … }}`.
    InstantOrTemplate,
    /// A code or a class of failures, or a status of HTTP.
    Failure,
    /// One of these.
    Choice(&'static [&'static str]),
    /// `all`, `any` or `quorum(N)`; the number may be `${{ … }}`.
    Join,
    /// The id of a step, or one of these.
    Target(&'static [&'static str]),
    /// So many values of a shape at least and at most; names in it are distinct.
    List(&'static Self, usize, usize),
    /// A mapping with these keys.
    Record(&'static MappingShape),
    /// A text alone, which is the first key, or the mapping.
    TextOr(&'static MappingShape),
    /// `true` or `false`, or the mapping.
    FlagOr(&'static MappingShape),
    /// A mapping from names of inputs to such mappings.
    Inputs(&'static MappingShape),
    /// The list of the steps of a workflow.
    Steps(&'static MappingShape),
    /// What a `foreach` does: a [`STEP_SHAPE`] without an id.
    ForeachBody,
    /// A JSON Schema.
    Schema,
    /// Nothing reads the key yet.
    Planned,
}

/// What becomes of `${{ … }}` in a text. Everything that looks for expressions asks [`ValueShape::template_handling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateHandling {
    /// They are evaluated.
    Evaluated,
    /// They are shown or kept as they stand.
    Shown,
    /// The text means something by itself, and could mean nothing with them.
    Refused,
}

/// What a name or an id is of: its parser says which are well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// A workflow.
    Workflow,
    /// An agent.
    Agent,
    /// A step.
    Step,
    /// An input.
    Input,
}

impl IdKind {
    /// Parses `text`; the error says which rule it breaks.
    pub fn parse(self, text: &str) -> Result<()> {
        match self {
            Self::Workflow => WorkflowName::parse_declared(text).map(drop),
            Self::Agent => AgentName::parse(text).map(drop),
            Self::Step => StepId::parse_declared(text).map(drop),
            Self::Input => InputName::parse(text).map(drop),
        }
    }
}

/// A mapping.
#[derive(Debug)]
pub struct MappingShape {
    /// What it is, for messages.
    pub label: &'static str,
    /// Its keys.
    pub keys: &'static [MappingKey],
    /// Exactly one of them stands in it.
    pub exactly_one: bool,
    /// It may have other keys besides.
    pub is_open: bool,
}

/// One key of a mapping.
#[derive(Debug)]
pub struct MappingKey {
    /// The key.
    pub name: &'static str,
    /// What its value must be.
    pub shape: ValueShape,
    /// Whether it must be there.
    pub required: bool,
    /// The key of the same mapping that makes up for it where it is missing, though it is required.
    pub alternative_key: Option<&'static str>,
    /// The key of the same mapping without which it has no effect.
    pub required_key: Option<&'static str>,
    /// What it means, in a sentence.
    pub description: &'static str,
    /// What to write instead, while nothing acts on the key.
    pub unbuilt_advice: Option<&'static str>,
    /// What to do instead, where it may not stand in what a `foreach` does.
    pub foreach_advice: Option<&'static str>,
    /// What it is to a step.
    pub role: KeyRole,
}

/// What a key is to the step that it stands in.
#[derive(Debug)]
pub enum KeyRole {
    /// Every step may have it; or it is no key of steps.
    Plain,
    /// It makes the step one of its kind.
    Kind,
    /// Steps of some kinds act on it.
    Field {
        /// The kinds.
        kinds: &'static [&'static str],
        /// What to write at steps of other kinds.
        instead: Option<&'static str>,
    },
}

impl MappingShape {
    /// The key of this name.
    pub fn find_key(&self, name: &str) -> Option<&'static MappingKey> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// This mapping and all that stand in it.
    pub fn self_and_nested_records(&'static self) -> Vec<&'static Self> {
        let nested = self.keys.iter().flat_map(|key| key.shape.nested_records());
        [self].into_iter().chain(nested).collect()
    }
}

impl ValueShape {
    /// What becomes of templates in texts of this shape; of a mapping with keys of its own each key says that itself.
    pub const fn template_handling(&self) -> TemplateHandling {
        match self {
            Self::Template(_)
            | Self::Condition
            | Self::Items
            | Self::TextOr(_)
            | Self::Value
            | Self::Values
            | Self::ValuesOrTemplate
            | Self::IdOrTemplate(_)
            | Self::Memory(_)
            | Self::Bindings(_)
            | Self::DurationOrTemplate
            | Self::InstantOrTemplate
            | Self::CountOrTemplate(..)
            | Self::Tolerance(_)
            | Self::Join => TemplateHandling::Evaluated,
            Self::Text(_)
            | Self::FreeText(_)
            | Self::Version
            | Self::Data
            | Self::Scalars(_)
            | Self::Schema => TemplateHandling::Shown,
            _ => TemplateHandling::Refused,
        }
    }

    fn nested_records(&self) -> Vec<&'static MappingShape> {
        match self {
            Self::Record(record)
            | Self::TextOr(record)
            | Self::FlagOr(record)
            | Self::Inputs(record)
            | Self::Bindings(record)
            | Self::Branches(record)
            | Self::Steps(record) => record.self_and_nested_records(),
            Self::List(of, ..) => of.nested_records(),
            _ => Vec::new(),
        }
    }
}

impl MappingKey {
    /// Whether nothing reads it yet.
    pub const fn is_planned(&self) -> bool {
        matches!(self.shape, ValueShape::Planned)
    }

    /// Whether it makes a step one of its kind.
    pub const fn is_step_kind(&self) -> bool {
        matches!(self.role, KeyRole::Kind)
    }

    /// Whether a step with the key `kind` acts on it.
    pub fn applies_to_kind(&self, kind: &str) -> bool {
        match self.role {
            KeyRole::Plain | KeyRole::Kind => true,
            KeyRole::Field { kinds, .. } => kinds.contains(&kind),
        }
    }
}

/// The kinds of steps, those that are planned among them.
pub fn step_kinds() -> impl Iterator<Item = &'static MappingKey> {
    STEP_SHAPE.keys.iter().filter(|key| key.is_step_kind())
}

/// Whether a step with this key is of its kind.
pub fn is_step_kind(name: &str) -> bool {
    STEP_SHAPE.find_key(name).is_some_and(MappingKey::is_step_kind)
}

/// Whether a text is in part an expression.
pub fn has_template(text: &str) -> bool {
    text.contains("${{")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        table::{ALL_STEP_KINDS, FOREACH_SHAPE, LIMITS_SHAPE, REPEAT_SHAPE, RETRY_SHAPE},
        *,
    };
    use crate::limits;

    fn all_records() -> Vec<&'static MappingShape> {
        [&MANIFEST_SHAPE, &FRONT_MATTER_SHAPE, &PERSONA_SHAPE]
            .into_iter()
            .flat_map(MappingShape::self_and_nested_records)
            .collect()
    }

    #[test]
    fn names_are_distinct_and_every_field_has_kinds_that_exist() {
        for record in all_records() {
            let names: BTreeSet<_> = record.keys.iter().map(|key| key.name).collect();
            assert_eq!(names.len(), record.keys.len(), "{}", record.label);
        }
        let built = step_kinds().filter(|kind| !kind.is_planned());
        let built: BTreeSet<_> = built.map(|kind| kind.name).collect();
        assert_eq!(built, ALL_STEP_KINDS.iter().copied().collect());
        for key in STEP_SHAPE.keys {
            if let KeyRole::Field { kinds, .. } = key.role {
                assert!(!kinds.is_empty(), "{}", key.name);
                assert!(kinds.iter().all(|kind| built.contains(kind)));
            }
        }
    }

    #[test]
    fn foreign_words_lead_to_known_keys() {
        for (place, key) in foreign::all_referenced_keys() {
            let mut known = all_records().into_iter().filter(|record| record.label == place);
            assert!(known.any(|record| record.find_key(key).is_some()), "{place}: {key}");
        }
    }

    #[test]
    fn documented_defaults_match_the_limits() {
        let check_default = |record: &MappingShape, name: &str, default: String| {
            let key = record.keys.iter().find(|key| key.name == name).unwrap();
            assert!(
                key.description.contains(&format!("{default} without it")),
                "{}",
                key.description
            );
        };
        let span = |duration| crate::span::HumanDuration::from_duration(duration).to_string();
        check_default(&FOREACH_SHAPE, "parallel", limits::FOREACH_PARALLEL_DEFAULT.to_string());
        check_default(&RETRY_SHAPE, "max_attempts", limits::RETRY_ATTEMPTS_DEFAULT.to_string());
        check_default(&RETRY_SHAPE, "factor", limits::RETRY_FACTOR_DEFAULT.to_string());
        check_default(&RETRY_SHAPE, "backoff", span(limits::RETRY_BACKOFF_DEFAULT));
        check_default(&RETRY_SHAPE, "max_backoff", span(limits::RETRY_BACKOFF_MAX_DEFAULT));
        check_default(&REPEAT_SHAPE, "every", span(limits::REPEAT_EVERY_DEFAULT));
        check_default(&REPEAT_SHAPE, "max_attempts", limits::REPEAT_ATTEMPTS_DEFAULT.to_string());
        check_default(&LIMITS_SHAPE, "max_visits", limits::VISITS_DEFAULT.to_string());
    }
}
