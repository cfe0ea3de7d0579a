//! The table of keywords of JSON Schema, each with the form of its value. [`super::read`] checks values and finds nested
//! schemas by it, and suggests its names for unknown words.

use super::super::{grammar::foreign, nearest::nearest};

/// The form of a keyword's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A schema.
    Schema,
    /// A list of schemas, at least one.
    Schemas,
    /// A schema; before 2020-12 also a list of them.
    Items,
    /// Schemas by name.
    Named,
    /// Schemas by pattern.
    Patterns,
    /// Schemas, or lists of names, by name: `dependencies` of the drafts before 2019-09.
    Dependencies,
    /// Lists of names by name.
    NamedTexts,
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

/// All known keywords, including those of earlier drafts.
pub(super) const KEYWORDS: &[(&str, Form)] = &[
    ("type", Form::Types),
    ("enum", Form::Values),
    ("const", Form::Any),
    ("properties", Form::Named),
    ("required", Form::Texts),
    ("additionalProperties", Form::Schema),
    ("patternProperties", Form::Patterns),
    ("propertyNames", Form::Schema),
    ("minProperties", Form::Count),
    ("maxProperties", Form::Count),
    ("dependentRequired", Form::NamedTexts),
    ("dependentSchemas", Form::Named),
    ("items", Form::Items),
    ("prefixItems", Form::Schemas),
    ("contains", Form::Schema),
    ("minContains", Form::Count),
    ("maxContains", Form::Count),
    ("minItems", Form::Count),
    ("maxItems", Form::Count),
    ("uniqueItems", Form::Flag),
    ("minLength", Form::Count),
    ("maxLength", Form::Count),
    ("pattern", Form::Pattern),
    ("format", Form::Text),
    ("minimum", Form::Number),
    ("maximum", Form::Number),
    ("exclusiveMinimum", Form::Number),
    ("exclusiveMaximum", Form::Number),
    ("multipleOf", Form::Positive),
    ("allOf", Form::Schemas),
    ("anyOf", Form::Schemas),
    ("oneOf", Form::Schemas),
    ("not", Form::Schema),
    ("if", Form::Schema),
    ("then", Form::Schema),
    ("else", Form::Schema),
    ("unevaluatedProperties", Form::Schema),
    ("unevaluatedItems", Form::Schema),
    ("$ref", Form::Text),
    ("$dynamicRef", Form::Text),
    ("$recursiveRef", Form::Text),
    ("$defs", Form::Named),
    ("definitions", Form::Named),
    ("dependencies", Form::Dependencies),
    ("additionalItems", Form::Schema),
    ("title", Form::Text),
    ("description", Form::Text),
    ("default", Form::Any),
    ("examples", Form::Values),
    ("deprecated", Form::Flag),
    ("readOnly", Form::Flag),
    ("writeOnly", Form::Flag),
    ("contentEncoding", Form::Text),
    ("contentMediaType", Form::Text),
    ("contentSchema", Form::Schema),
    ("$schema", Form::Text),
    ("$id", Form::Text),
    ("$anchor", Form::Text),
    ("$dynamicAnchor", Form::Text),
    ("$recursiveAnchor", Form::Flag),
    ("$vocabulary", Form::Any),
    ("$comment", Form::Text),
];

/// The form of a keyword's value; `None` for an unknown keyword.
pub(super) fn form(keyword: &str) -> Option<Form> {
    let mut known = KEYWORDS.iter();
    known
        .find(|(name, _)| *name == keyword)
        .map(|(_, form)| *form)
}

/// The names of the types.
pub(super) const TYPES: [&str; 7] = [
    "null", "boolean", "integer", "number", "string", "array", "object",
];

/// The keyword that an unknown word was meant to be.
pub(super) fn meant(word: &str) -> Option<&'static str> {
    let known = KEYWORDS.iter().map(|(name, _)| *name);
    foreign::value("keyword", word).or_else(|| nearest(word, known))
}

/// The type that an unknown word was meant to be.
pub(super) fn meant_type(word: &str) -> Option<&'static str> {
    let null = word.eq_ignore_ascii_case("none").then_some("null");
    let meant = foreign::value("type", word).or(null);
    meant.or_else(|| nearest(word, TYPES))
}

/// A draft of JSON Schema that differs from the others in its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    /// Drafts 6 and 7: all keywords beside a `$ref` are ignored.
    Seven,
    /// 2019-09: `items` may be a list, and `additionalItems` is for the items after it.
    Year2019,
    /// The current one.
    Year2020,
}

impl Draft {
    /// The draft that a `$schema` names; `None` for others.
    pub(super) fn named(uri: &str) -> Option<Self> {
        let rest = uri.split_once("://")?.1.trim_end_matches('#');
        match rest {
            "json-schema.org/draft-06/schema" | "json-schema.org/draft-07/schema" => {
                Some(Self::Seven)
            }
            "json-schema.org/draft/2019-09/schema" => Some(Self::Year2019),
            "json-schema.org/draft/2020-12/schema" => Some(Self::Year2020),
            _ => None,
        }
    }
}
