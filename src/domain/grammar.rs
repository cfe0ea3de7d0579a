//! What a manifest may say, as tables: every kind of step and every field, with the shape of its value. The checker holds
//! values against these shapes, the JSON Schema for editors is written from them, and expressions are found by them, so
//! that the three cannot differ.

pub mod foreign;
mod table;

pub use self::table::{
    ALIAS, ARM, END, EXCLUSIVE, EXTRACT, FAIL, FIELDS, FOREACH, GATE, INPUT, KINDS, LIMITS,
    ON_ERROR, REPEAT, RETRY, RUN_WHEN, VIA, WAIT, WORKFLOW,
};

/// What a value must be.
#[derive(Debug)]
pub enum Shape {
    /// A text with something in it, of at most so many bytes.
    Text(usize),
    /// The same; may hold `${{ … }}`.
    Template(usize),
    /// An expression that holds or does not; `${{ }}` around it is allowed.
    Condition,
    /// A name of at most so many bytes: no control characters, no white space around it.
    Name(usize),
    /// A word that expressions can use: letters, digits and `_`.
    Word,
    /// A catalog and an operation of it.
    Operation,
    /// Anything; texts in it may hold `${{ … }}`.
    Value,
    /// Anything, taken as it is.
    Data,
    /// A mapping of anything; texts in it may hold `${{ … }}`.
    Values,
    /// The same with so many entries at least, whose names memory can have.
    Memory(usize),
    /// A list, or a text that holds `${{ … }}`.
    Items,
    /// `true` or `false`.
    Flag,
    /// A whole number between these.
    Count(u32, u32),
    /// A duration longer than nothing.
    Span,
    /// A duration, or a text that holds `${{ … }}`.
    SpanOrTemplate,
    /// An instant (RFC 3339), or a text that holds `${{ … }}`.
    InstantOrTemplate,
    /// One of these.
    Choice(&'static [&'static str]),
    /// The id of a step, or one of these.
    Target(&'static [&'static str]),
    /// So many things at least and at most.
    List(&'static Self, usize, usize),
    /// A mapping with these keys.
    Record(&'static Record),
    /// A text alone, which is the first key, or the mapping.
    TextOr(&'static Record),
    /// A JSON Schema.
    Schema,
    /// A step without an id.
    Step,
}

/// A mapping.
#[derive(Debug)]
pub struct Record {
    /// What it is, for messages.
    pub what: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// Exactly one of them stands in it.
    pub exactly_one: bool,
}

/// One key of a mapping.
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What its value must be.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
    /// What it means, in a sentence.
    pub what: &'static str,
}

/// A kind of step.
#[derive(Debug)]
pub struct Kind {
    /// The key that makes a step one of it.
    pub key: Key,
    /// Whether a `foreach` may do it.
    pub each: bool,
}

/// A field that steps of several kinds may have.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub key: Key,
    /// The kinds that act on it.
    pub kinds: &'static [&'static str],
    /// Whether it may stand in what a `foreach` does.
    pub each: bool,
    /// What to write where it may not stand.
    pub instead: Option<&'static str>,
}

/// The kind of this name.
pub fn kind_of(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.key.name == name)
}

/// The field of this name.
pub fn field_of(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.key.name == name)
}

/// Whether a text is in part an expression.
pub fn is_template(text: &str) -> bool {
    text.contains("${{")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::limits;

    #[test]
    fn names_are_distinct_and_every_field_has_kinds_that_exist() {
        let kinds: BTreeSet<_> = KINDS.iter().map(|kind| kind.key.name).collect();
        let fields: BTreeSet<_> = FIELDS.iter().map(|field| field.key.name).collect();
        assert_eq!((kinds.len(), fields.len()), (KINDS.len(), FIELDS.len()));
        assert!(kinds.is_disjoint(&fields));
        assert_eq!(kinds, table::EVERY.iter().copied().collect());
        for field in FIELDS {
            assert!(!field.kinds.is_empty(), "{}", field.key.name);
            assert!(field.kinds.iter().all(|kind| kinds.contains(kind)));
        }
    }

    #[test]
    fn what_is_said_of_defaults_is_what_the_limits_say() {
        let says = |record: &Record, name: &str, default: String| {
            let key = record.keys.iter().find(|key| key.name == name).unwrap();
            assert!(
                key.what.contains(&format!("{default} without it")),
                "{}",
                key.what
            );
        };
        let span = |duration| crate::domain::span::Span::of(duration).to_string();
        says(
            &FOREACH,
            "parallel",
            limits::FOREACH_PARALLEL_DEFAULT.to_string(),
        );
        says(
            &RETRY,
            "max_attempts",
            limits::RETRY_ATTEMPTS_DEFAULT.to_string(),
        );
        says(&RETRY, "backoff", span(limits::RETRY_BACKOFF_DEFAULT));
        says(
            &RETRY,
            "max_backoff",
            span(limits::RETRY_BACKOFF_MAX_DEFAULT),
        );
        says(&REPEAT, "every", span(limits::REPEAT_EVERY_DEFAULT));
        says(
            &REPEAT,
            "max_attempts",
            limits::REPEAT_ATTEMPTS_DEFAULT.to_string(),
        );
        says(&LIMITS, "max_visits", limits::VISITS_DEFAULT.to_string());
    }
}
