//! The messages of violations. A value may be large or secret, so messages name its place and not its content.

use std::fmt::Write as _;

use serde_json::Value;

use super::node::{CountUnit, Keyword};
use crate::{
    error::{Suggestion, Violation},
    limits,
    nearest::suggest_nearest,
    truncate::truncate_to_chars,
};

/// The most characters of a schema, or of names of properties, in a message.
pub(super) const SHOWN_CHARS_MAX: usize = 200;

/// The beginning of a JSON value as text; the rest is not even written.
pub(super) fn shorten_json(value: &Value, max_chars: usize) -> String {
    write_bounded(max_chars, |text| write!(text, "{value}"))
}

/// The text that `write` writes, up to `max_chars` characters.
fn write_bounded(
    max_chars: usize,
    write: impl FnOnce(&mut BoundedText) -> std::fmt::Result,
) -> String {
    let mut text = BoundedText(String::new(), max_chars);
    // An error says that there is no room for more.
    let _ = write(&mut text);
    text.0
}

/// The beginning of a list of values as JSON text.
fn shorten_json_list(values: &[Value], max_chars: usize) -> String {
    write_bounded(max_chars, |text| {
        write!(text, "[")?;
        for (index, value) in values.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(text, "{comma}{value}")?;
        }
        write!(text, "]")
    })
}

/// A text, and the number of characters that it may still take; writing more ends it with `…`.
struct BoundedText(String, usize);

impl std::fmt::Write for BoundedText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let Some((end, _)) = text.char_indices().nth(self.1) else {
            self.1 -= text.chars().count();
            self.0.push_str(text);
            return Ok(());
        };
        self.1 = 0;
        self.0.extend([&text[..end], "…"]);
        Err(std::fmt::Error)
    }
}

/// The part of a keyword that a value violates.
#[derive(Clone, Copy, Debug)]
pub(super) enum ViolatedPart<'a> {
    /// The keyword as a whole.
    Whole,
    /// A missing property.
    Property(&'a str),
    /// Properties that are not allowed.
    Names(&'a [&'a str]),
    /// The number of items that are not allowed.
    Items(usize),
    /// More valid schemas, or more items, than allowed.
    TooMany,
}

/// The violation of a keyword by the value at `path`, which messages call `name`.
pub(super) fn keyword_violation(
    keyword: &Keyword,
    part: ViolatedPart<'_>,
    (path, name): (String, &str),
    value: &Value,
) -> Violation {
    let max_chars = limits::VIOLATION_PART_CHARS_MAX;
    let expected = match (keyword, part) {
        (_, ViolatedPart::Property(property)) => {
            Some(format!("property `{}`", truncate_to_chars(property, max_chars)))
        }
        (Keyword::Enum(options), _) => {
            Some(shorten_json_list(options, limits::SCHEMA_OPTIONS_SHOWN_CHARS))
        }
        (Keyword::Const(value), _) => Some(shorten_json(value, max_chars)),
        _ => None,
    };
    Violation {
        expected,
        actual: Some(describe_value(value)),
        suggestion: suggest_option(keyword, value),
        ..Violation::new(
            path,
            find_rule_name(keyword, part),
            build_violation_message(keyword, part, name),
        )
    }
}

/// The steps of comparing a text with an option.
const STEPS_PER_OPTION: u64 = 16;

/// The steps of writing the violation of a keyword.
pub(super) fn count_violation_steps(keyword: &Keyword) -> u64 {
    let option_count = match keyword {
        Keyword::Enum(options) => options.len().min(limits::SCHEMA_OPTIONS_COMPARED_MAX),
        _ => 0,
    };
    keyword.evaluation_steps() + option_count as u64 * STEPS_PER_OPTION
}

/// The option of an `enum` that is similar to a text.
fn suggest_option(keyword: &Keyword, value: &Value) -> Option<Suggestion> {
    let (Keyword::Enum(options), Value::String(text)) = (keyword, value) else {
        return None;
    };
    let is_short = |text: &&str| {
        let max_chars = limits::SCHEMA_OPTION_COMPARED_CHARS_MAX;
        text.chars().nth(max_chars).is_none()
    };
    let text = Some(text.as_str()).filter(is_short)?;
    if options.len() > limits::SCHEMA_OPTIONS_COMPARED_MAX {
        return None;
    }
    let candidates = options.iter().filter_map(Value::as_str).filter(is_short);
    suggest_nearest(text, candidates).map(|text| Suggestion { text, edits: Vec::new() })
}

fn find_rule_name(keyword: &Keyword, part: ViolatedPart<'_>) -> &'static str {
    match keyword {
        Keyword::FalseSchema => "falseSchema",
        Keyword::Type(_) => "type",
        Keyword::Const(_) => "const",
        Keyword::Enum(_) => "enum",
        Keyword::Bound((name, ..), _) | Keyword::CountBound((name, ..), _) => name,
        Keyword::MultipleOf(_) => "multipleOf",
        Keyword::Required(_) => "required",
        Keyword::DependentRequired(_) => "dependentRequired",
        Keyword::Pattern(..) => "pattern",
        Keyword::Format(_) => "format",
        Keyword::UniqueItems => "uniqueItems",
        Keyword::Properties(_) => "additionalProperties",
        Keyword::PropertyNames(_) => "propertyNames",
        Keyword::Items { .. } => "items",
        Keyword::Contains { .. } if matches!(part, ViolatedPart::TooMany) => "maxContains",
        Keyword::Contains { .. } => "contains",
        Keyword::DependentSchemas(_) => "dependentSchemas",
        Keyword::AllOf(_) => "allOf",
        Keyword::AnyOf(_) => "anyOf",
        Keyword::OneOf(_) => "oneOf",
        Keyword::Discriminator(_) => "discriminator",
        Keyword::Not(..) => "not",
        Keyword::If { .. } => "if",
        Keyword::Reference(_) => "$ref",
        Keyword::UnevaluatedItems(_) => "unevaluatedItems",
        Keyword::UnevaluatedProperties(_) => "unevaluatedProperties",
    }
}

fn build_violation_message(keyword: &Keyword, part: ViolatedPart<'_>, name: &str) -> String {
    match (keyword, part) {
        (Keyword::FalseSchema, _) => format!("False schema does not allow {name}"),
        (Keyword::Type(types), _) => {
            let names: Vec<_> = types.names().map(|name| format!("\"{name}\"")).collect();
            let word = if names.len() == 1 { "type" } else { "types" };
            format!("{name} is not of {word} {}", names.join(", "))
        }
        (Keyword::Const(value), _) => {
            format!("{} was expected", shorten_json(value, SHOWN_CHARS_MAX))
        }
        (Keyword::Enum(options), _) => format!("{name} is not one of {}", list_options(options)),
        (Keyword::Bound((_, words, _), limit), _) => format!("{name} is {words} of {limit}"),
        (Keyword::MultipleOf(of), _) => format!("{name} is not a multiple of {of}"),
        (Keyword::CountBound((_, words, unit, _), limit), _) => {
            format!("{name} {words} {}", format_count_with_unit(*limit, *unit))
        }
        (_, ViolatedPart::Property(property)) => {
            let property = truncate_to_chars(property, limits::VIOLATION_PART_CHARS_MAX);
            format!("{} is a required property", Value::from(property))
        }
        (Keyword::Pattern(_, pattern), _) => format!("{name} does not match \"{pattern}\""),
        (Keyword::Format(format), _) => format!("{name} is not a \"{}\"", format.name),
        (Keyword::UniqueItems, _) => format!("{name} has non-unique elements"),
        (_, ViolatedPart::Names(names)) => {
            let kind = match keyword {
                Keyword::PropertyNames(_) => return property_names_message(names),
                Keyword::UnevaluatedProperties(_) => "Unevaluated",
                _ => "Additional",
            };
            let were = if names.len() == 1 { "was" } else { "were" };
            let quoted = quote_names(names);
            format!("{kind} properties are not allowed ({quoted} {were} unexpected)")
        }
        (_, ViolatedPart::Items(count)) => {
            let kind = match keyword {
                Keyword::UnevaluatedItems(_) => "Unevaluated",
                _ => "Additional",
            };
            let count = format_count_with_unit(count as u64, CountUnit::Item);
            format!("{kind} items are not allowed ({count})")
        }
        (Keyword::Contains { max_count: most, .. }, ViolatedPart::TooMany) => format!(
            "more than {} of {name} are valid under the schema of `contains`",
            most.unwrap_or_default()
        ),
        (Keyword::Contains { min_count: 0 | 1, .. }, _) => {
            format!("None of {name} are valid under the given schema")
        }
        (Keyword::Contains { min_count: least, .. }, _) => {
            format!("fewer than {least} of {name} are valid under the schema of `contains`")
        }
        (Keyword::OneOf(_), ViolatedPart::TooMany) => format!(
            "{name} is valid under more than one of the schemas listed in the 'oneOf' keyword"
        ),
        (Keyword::Not(_, schema), _) => format!("{schema} is not allowed for {name}"),
        (keyword, _) => {
            let rule = find_rule_name(keyword, part);
            format!("{name} is not valid under any of the schemas listed in the '{rule}' keyword")
        }
    }
}

fn property_names_message(names: &[&str]) -> String {
    let quoted = quote_names(names);
    format!("{quoted} cannot be a name of a property: `propertyNames` does not allow it")
}

/// The beginning of a list of quoted names.
fn quote_names(names: &[&str]) -> String {
    write_bounded(SHOWN_CHARS_MAX, |text| {
        names.iter().enumerate().try_for_each(|(index, name)| {
            let comma = if index == 0 { "" } else { ", " };
            write!(text, "{comma}'{name}'")
        })
    })
}

fn format_count_with_unit(count: u64, unit: CountUnit) -> String {
    let (one, several) = match unit {
        CountUnit::Character => ("character", "characters"),
        CountUnit::Item => ("item", "items"),
        CountUnit::Property => ("property", "properties"),
    };
    format!("{count} {}", if count == 1 { one } else { several })
}

fn list_options(options: &[Value]) -> String {
    let mut chars_left = limits::SCHEMA_OPTIONS_SHOWN_CHARS;
    let fits_in_room = |option: &String| {
        let remaining = chars_left.checked_sub(option.chars().count());
        chars_left = remaining.unwrap_or_default();
        remaining.is_some()
    };
    let all = options.iter().map(|option| shorten_json(option, SHOWN_CHARS_MAX));
    let shown: Vec<_> = all.take_while(fits_in_room).collect();
    let hidden_count = options.len() - shown.len();
    match (shown.as_slice(), hidden_count) {
        ([all @ .., last], 0) if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        (all, 0) => all.join(", "),
        (all, 1) => format!("{} or 1 other", all.join(", ")),
        (all, more) => format!("{} or {more} others", all.join(", ")),
    }
}

/// Describes a value without its content.
pub(super) fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(_) => "a number".into(),
        Value::String(text) => format!(
            "a string of {}",
            format_count_with_unit(text.chars().count() as u64, CountUnit::Character)
        ),
        Value::Array(items) => {
            format!("an array of {}", format_count_with_unit(items.len() as u64, CountUnit::Item))
        }
        Value::Object(map) => {
            format!(
                "an object with {}",
                format_count_with_unit(map.len() as u64, CountUnit::Property)
            )
        }
    }
}
