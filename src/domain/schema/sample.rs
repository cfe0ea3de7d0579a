//! Generates a sample value of a schema, for the example of a call.

use regex_syntax::hir::{Class, ClassUnicodeRange, Hir, HirKind};
use serde_json::{Map, Value, json};

use super::{Schema, follow_references, member_schemas, non_null_types, pattern::parse_regex};
use crate::limits;

/// A minimal value that satisfies the schema. For a schema with demanding constraints the value may be invalid.
pub fn sample_value(schema: &Value) -> Value {
    Sampler { root_schema: schema }.sample_for_schema(schema, limits::EXAMPLE_DEPTH_MAX)
}

struct Sampler<'a> {
    root_schema: &'a Value,
}

/// The schemas that apply to one value.
#[derive(Default)]
struct AppliedSchemas<'a> {
    schemas: Vec<&'a Value>,
    /// Discriminator properties with the values that select the chosen alternative.
    fixed_properties: Map<String, Value>,
}

impl<'a> AppliedSchemas<'a> {
    fn find_keyword(&self, key: &str) -> Option<&'a Value> {
        self.schemas.iter().find_map(|schema| schema.get(key))
    }

    fn find_number_keyword(&self, key: &str) -> Option<f64> {
        self.find_keyword(key)?.as_f64()
    }

    fn find_count_keyword(&self, key: &str) -> Option<usize> {
        usize::try_from(self.find_keyword(key)?.as_u64()?).ok()
    }

    /// A value that the schema itself states: `const`, the first of `enum` or `examples`, or `default`.
    fn find_stated_value(&self) -> Option<&'a Value> {
        let first_item = |key: &str| self.find_keyword(key)?.as_array()?.first();
        let value = self.find_keyword("const").or_else(|| first_item("enum"));
        value.or_else(|| first_item("examples")).or_else(|| self.find_keyword("default"))
    }
}

impl<'a> Sampler<'a> {
    fn sample_for_schema(&self, schema: &'a Value, depth: usize) -> Value {
        let mut parts = AppliedSchemas::default();
        self.gather_schemas(schema, &mut parts, depth);
        let stated = parts.find_stated_value().filter(|given| self.is_valid_for(schema, given));
        stated.cloned().unwrap_or_else(|| self.make_by_type(&parts, depth))
    }

    fn is_valid_for(&self, schema: &Value, value: &Value) -> bool {
        let mut standalone = schema.clone();
        if let (Value::Object(alone), Some(shared)) =
            (&mut standalone, self.root_schema.get("$defs"))
        {
            alone.insert("$defs".to_owned(), shared.clone());
        }
        Schema::compile(&standalone).is_ok_and(|schema| schema.find_violations(value).is_empty())
    }

    fn gather_schemas(&self, schema: &'a Value, parts: &mut AppliedSchemas<'a>, depth: usize) {
        let schema = follow_references(schema, self.root_schema);
        parts.schemas.push(schema);
        let first =
            ["oneOf", "anyOf"].into_iter().filter_map(|key| member_schemas(schema, key).first());
        let first: Vec<_> = first.collect();
        parts
            .fixed_properties
            .extend(first.iter().filter_map(|option| discriminator_entry(schema, option)));
        let all = member_schemas(schema, "allOf").iter().chain(first);
        all.take_while(|_| depth > 0).for_each(|part| self.gather_schemas(part, parts, depth - 1));
    }

    fn make_by_type(&self, applied: &AppliedSchemas<'a>, depth: usize) -> Value {
        let mut type_names = applied.schemas.iter().flat_map(|schema| non_null_types(schema));
        let has_keyword = |key: &str| applied.find_keyword(key).is_some();
        match type_names.next() {
            Some("object") => self.make_object(applied, depth),
            None if has_keyword("properties") || has_keyword("required") => {
                self.make_object(applied, depth)
            }
            Some("array") => self.make_array(applied, depth),
            Some("integer" | "number") => make_number(applied),
            Some("boolean") => json!(true),
            _ => json!(make_text(applied)),
        }
    }

    fn make_object(&self, parts: &AppliedSchemas<'a>, depth: usize) -> Value {
        let names = parts.schemas.iter().flat_map(|schema| member_schemas(schema, "required"));
        let sample_property = |name: &str| {
            let mut schemas = parts.schemas.iter();
            let schema = schemas.find_map(|schema| schema.get("properties")?.get(name));
            let value = schema
                .filter(|_| depth > 0)
                .map(|schema| self.sample_for_schema(schema, depth - 1));
            (name.to_owned(), value.unwrap_or_else(|| json!(SAMPLE_TEXT)))
        };
        let mut object: Map<_, _> = names.filter_map(Value::as_str).map(sample_property).collect();
        object.extend(parts.fixed_properties.clone());
        object.into()
    }

    fn make_array(&self, parts: &AppliedSchemas<'a>, depth: usize) -> Value {
        let schema = parts.find_keyword("items").filter(|_| depth > 0);
        let item =
            schema.map_or(json!(SAMPLE_TEXT), |schema| self.sample_for_schema(schema, depth - 1));
        let min_items = parts.find_count_keyword("minItems").unwrap_or(0);
        vec![item; min_items.min(limits::EXAMPLE_ITEMS_MAX)].into()
    }
}

/// The discriminator property with the value that selects this alternative.
fn discriminator_entry(schema: &Value, option: &Value) -> Option<(String, Value)> {
    let discriminator = schema.get("discriminator")?;
    let mut mapping = discriminator.get("mapping")?.as_object()?.iter();
    let (value, _) = mapping.find(|(_, target)| Some(*target) == option.get("$ref"))?;
    Some((discriminator.get("propertyName")?.as_str()?.to_owned(), json!(value)))
}

fn make_number(parts: &AppliedSchemas<'_>) -> Value {
    let step = parts.find_number_keyword("multipleOf").unwrap_or(1.0);
    let above = parts.find_number_keyword("exclusiveMinimum").map(|limit| limit + step);
    let below = parts.find_number_keyword("exclusiveMaximum").map(|limit| limit - step);
    let minimum = parts.find_number_keyword("minimum").or(above).unwrap_or(1.0);
    let maximum = parts.find_number_keyword("maximum").or(below).unwrap_or(f64::MAX);
    let number = (minimum.max(1.0).min(maximum) / step).ceil() * step;
    match format!("{number:.0}").parse::<i64>() {
        Ok(whole) if number.fract().abs() < f64::EPSILON => json!(whole),
        _ => json!(number),
    }
}

/// The sample text without format and pattern.
const SAMPLE_TEXT: &str = "example";
/// Sample texts by format.
const FORMAT_SAMPLES: &[(&str, &str)] = &[
    ("date-time", "2030-01-31T09:00:00Z"),
    ("date", "2030-01-31"),
    ("time", "09:00:00Z"),
    ("duration", "PT1H"),
    ("email", "user@example.com"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380"),
    ("uri", "https://example.com/"),
    ("json-pointer", "/example"),
    ("byte", "ZXhhbXBsZQ=="),
];

fn make_text(parts: &AppliedSchemas<'_>) -> String {
    let text_keyword = |key: &str| parts.find_keyword(key).and_then(Value::as_str);
    let format = FORMAT_SAMPLES.iter().find(|(name, _)| Some(*name) == text_keyword("format"));
    let mut text = format.map_or(SAMPLE_TEXT, |(_, text)| *text).to_owned();
    if let Some(expression) = text_keyword("pattern").and_then(parse_regex) {
        text.clear();
        write_match(&expression, &mut text);
    }
    let max_chars = limits::EXAMPLE_CHARS_MAX;
    let min_chars = parts.find_count_keyword("minLength").unwrap_or(0).min(max_chars);
    let filling = text.chars().last().unwrap_or('e');
    let padded = text
        .chars()
        .chain(std::iter::repeat_n(filling, min_chars.saturating_sub(text.chars().count())));
    padded.take(parts.find_count_keyword("maxLength").unwrap_or(max_chars)).collect()
}

/// Appends a short text that the expression matches. Look-around assertions are ignored, so the match is not
/// guaranteed.
fn write_match(expression: &Hir, text: &mut String) {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.push(pick_class_char(class)),
        HirKind::Repetition(repetition) => {
            let mut rounds = 0..repetition.min;
            while text.len() < limits::EXAMPLE_CHARS_MAX && rounds.next().is_some() {
                write_match(&repetition.sub, text);
            }
        }
        HirKind::Capture(capture) => write_match(&capture.sub, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write_match(part, text)),
        HirKind::Alternation(options) => {
            options.iter().take(1).for_each(|one| write_match(one, text));
        }
    }
}

/// A character of a class: a common one if the class has any, else the first.
fn pick_class_char(class: &Class) -> char {
    let Class::Unicode(class) = class else {
        return 'a';
    };
    let is_in_class =
        |letter: &char| class.iter().any(|range| (range.start()..=range.end()).contains(letter));
    let first = class.iter().next().map_or('a', ClassUnicodeRange::start);
    "aA1e-_.".chars().find(is_in_class).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_size_is_limited() {
        let list = json!({ "type": "array", "minItems": 1000, "items": { "type": "integer" } });
        let items = sample_value(&list).as_array().map(Vec::len);
        assert_eq!(items, Some(limits::EXAMPLE_ITEMS_MAX));
        let text = json!({ "type": "string", "minLength": 100_000 });
        let chars = sample_value(&text).as_str().map(str::len);
        assert_eq!(chars, Some(limits::EXAMPLE_CHARS_MAX));
        let long = sample_value(&json!({ "pattern": "^(a{900}){900}$" }));
        assert!(long.as_str().is_some_and(|text| text.len() < 2 * limits::EXAMPLE_CHARS_MAX));
        let node = json!({ "type": "object", "required": ["n"], "properties": { "n": { "$ref": "#/$defs/N" } } });
        let mut made = &sample_value(&json!({ "$ref": "#/$defs/N", "$defs": { "N": node } }));
        let mut depth = 0;
        while let Some(inner) = made.get("n") {
            (made, depth) = (inner, depth + 1);
        }
        assert_eq!(depth, limits::EXAMPLE_DEPTH_MAX + 1);
    }
}
