//! The table of keywords of JSON Schema, each with the form of its value. [`super::read`] checks values and finds nested
//! schemas by it, and suggests its names for unknown words.

use super::super::{grammar::foreign, nearest::find_nearest};

/// The form of a keyword's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordValueForm {
    /// A schema.
    Schema,
    /// A list of schemas, at least one.
    Schemas,
    /// A schema; before 2020-12 also a list of them.
    Items,
    /// Schemas by name.
    NamedSchemas,
    /// Schemas by pattern.
    PatternSchemas,
    /// Schemas, or lists of names, by name: `dependencies` of the drafts before 2019-09.
    Dependencies,
    /// Lists of names by name.
    NameLists,
    /// A list of texts that differ.
    Texts,
    /// The name of a type, or a list of them.
    Types,
    /// A number.
    Number,
    /// A number above zero.
    Positive,
    /// A whole number from zero on.
    Count,
    /// `true` or `false`.
    Flag,
    /// A text.
    Text,
    /// A regular expression.
    Pattern,
    /// A list of any values.
    Values,
    /// Any value.
    Any,
}

/// The keywords of each form, with blanks between them; those of earlier drafts are among them.
const KEYWORDS: &[(KeywordValueForm, &str)] = &[
    (KeywordValueForm::Types, "type"),
    (KeywordValueForm::Values, "enum examples"),
    (KeywordValueForm::Any, "const default $vocabulary"),
    (KeywordValueForm::NamedSchemas, "properties dependentSchemas $defs definitions"),
    (KeywordValueForm::Texts, "required"),
    (
        KeywordValueForm::Schema,
        "additionalProperties propertyNames contains not if then else unevaluatedProperties \
         unevaluatedItems additionalItems contentSchema",
    ),
    (KeywordValueForm::PatternSchemas, "patternProperties"),
    (
        KeywordValueForm::Count,
        "minProperties maxProperties minContains maxContains minItems maxItems minLength \
         maxLength",
    ),
    (KeywordValueForm::NameLists, "dependentRequired"),
    (KeywordValueForm::Items, "items"),
    (KeywordValueForm::Schemas, "prefixItems allOf anyOf oneOf"),
    (KeywordValueForm::Flag, "uniqueItems deprecated readOnly writeOnly $recursiveAnchor"),
    (KeywordValueForm::Pattern, "pattern"),
    (
        KeywordValueForm::Text,
        "format $ref $dynamicRef $recursiveRef title description contentEncoding \
         contentMediaType $schema $id $anchor $dynamicAnchor $comment",
    ),
    (KeywordValueForm::Number, "minimum maximum exclusiveMinimum exclusiveMaximum"),
    (KeywordValueForm::Positive, "multipleOf"),
    (KeywordValueForm::Dependencies, "dependencies"),
];

/// Every known keyword with the form of its value.
fn all_keywords() -> impl Iterator<Item = (&'static str, KeywordValueForm)> {
    let row = |&(form, names): &(KeywordValueForm, &'static str)| {
        names.split(' ').map(move |name| (name, form))
    };
    KEYWORDS.iter().flat_map(row)
}

/// The form of a keyword's value; `None` for an unknown keyword.
pub fn find_keyword_form(keyword: &str) -> Option<KeywordValueForm> {
    let row = all_keywords().find(|(name, _)| *name == keyword);
    row.map(|(_, form)| form)
}

/// The names of the types.
pub const TYPE_NAMES: [&str; 7] =
    ["null", "boolean", "integer", "number", "string", "array", "object"];

/// The keyword that an unknown word was meant to be.
pub(super) fn suggest_keyword(word: &str) -> Option<&'static str> {
    let known = all_keywords().map(|(name, _)| name);
    foreign::find_value_counterpart("keyword", word).or_else(|| find_nearest(word, known))
}

/// The type that an unknown word was meant to be.
pub(super) fn suggest_type(word: &str) -> Option<&'static str> {
    let null = word.eq_ignore_ascii_case("none").then_some("null");
    let counterpart = foreign::find_value_counterpart("type", word).or(null);
    counterpart.or_else(|| find_nearest(word, TYPE_NAMES))
}

/// Drafts of JSON Schema in which the same keywords have the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DraftFamily {
    /// Drafts 6 and 7: all keywords next to a `$ref` are ignored.
    Draft7,
    /// 2019-09: `items` may be a list, and `additionalItems` is for the items after it.
    Year2019,
    /// The current one.
    Year2020,
}

impl DraftFamily {
    /// The draft that a `$schema` names; `None` for others.
    pub(super) fn from_uri(uri: &str) -> Option<Self> {
        let rest = uri.split_once("://")?.1.trim_end_matches('#');
        match rest {
            "json-schema.org/draft-06/schema" | "json-schema.org/draft-07/schema" => {
                Some(Self::Draft7)
            }
            "json-schema.org/draft/2019-09/schema" => Some(Self::Year2019),
            "json-schema.org/draft/2020-12/schema" => Some(Self::Year2020),
            _ => None,
        }
    }
}
