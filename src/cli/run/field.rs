//! A value that a person is asked for: its description, and how a typed text is read as its value.

use serde_json::{Map, Value, json};

use crate::{
    screen::{one_line, truncate_text},
    value::{describe_json_error, escape_json_text, list_items, optional_text_line, text_field},
};
use midex_domain::{
    error::Violation,
    input::{Choice, Choices, DefaultFrom, InputDefault, InputType, parse_typed_text},
    schema::Schema,
    view::InputView,
};

/// A value that a person is asked for: an input of a workflow, or a property of an output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InputField {
    name: String,
    /// The description for people.
    description: String,
    schema: Value,
    is_required: bool,
    /// The default, as it is shown in the question.
    default: Option<String>,
    hint: String,
    example: Option<Value>,
    /// Whether the field already has a value, which an empty line keeps.
    has_kept_value: bool,
    /// Whether a provider lists the choices.
    pub(super) has_provider: bool,
    /// The choices that a provider listed.
    listed: Vec<Choice>,
}

impl InputField {
    /// An input of a workflow.
    pub(crate) fn from_input(input: &InputView) -> Self {
        let non_empty_texts = |words: [&Option<String>; 2]| {
            let words = words.map(|words| optional_text_line(words.as_deref())).into_iter();
            words.filter(|words| !words.is_empty())
        };
        let descriptions: Vec<_> = non_empty_texts([&input.label, &input.description]).collect();
        let mut hints = non_empty_texts([&input.hint, &input.placeholder]);
        Self {
            name: one_line(&input.name),
            description: descriptions.join(": "),
            schema: input.schema.clone(),
            is_required: input.required && input.default.is_none(),
            default: input.default.as_ref().map(describe_default),
            hint: hints.next().unwrap_or_default(),
            example: input.example.clone(),
            has_provider: input.provider.is_some(),
            ..Self::default()
        }
    }

    /// The input `task`, for a workflow that declares no inputs: the documentation gives it this name.
    pub(super) fn task_input() -> Self {
        Self {
            name: "task".to_owned(),
            description: "What it is to work on".to_owned(),
            schema: json!({ "type": "string" }),
            ..Self::default()
        }
    }

    /// One field per property of an output's JSON Schema; `None` if the schema is not a plain object with properties.
    pub(super) fn from_schema(schema: &Value) -> Option<Vec<Self>> {
        let properties = schema["properties"].as_object()?;
        let is_plain = schema["type"] == "object"
            && ["anyOf", "oneOf", "allOf", "$ref", "if"]
                .iter()
                .all(|key| schema.get(key).is_none());
        let make_field = |(name, property_schema): (&String, &Value)| Self {
            name: name.clone(),
            description: text_field(property_schema, "description"),
            schema: property_schema.clone(),
            is_required: list_items(&schema["required"]).contains(&Value::from(name.as_str())),
            example: property_schema["examples"].get(0).cloned(),
            ..Self::default()
        };
        (is_plain && !properties.is_empty()).then(|| properties.iter().map(make_field).collect())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_required(&self) -> bool {
        self.is_required
    }

    pub(super) fn has_kept_value(&self) -> bool {
        self.has_kept_value
    }

    /// The field with the choices that its provider listed. If those are all, no other value is taken.
    pub(super) fn with_choices(mut self, listed: Choices) -> Self {
        if !listed.has_more {
            let is_list = self.schema_type() == Some("array");
            let schema = if is_list { &mut self.schema["items"] } else { &mut self.schema };
            schema["enum"] = listed.choices.iter().map(|choice| choice.value.clone()).collect();
        }
        self.listed = listed.choices;
        self
    }

    /// The listed choices, one a line: the value, and what a person reads if that is something else.
    pub(super) fn listed_lines(&self) -> String {
        let format_line = |choice: &Choice| {
            let (value, label) = (format_typed_value(&choice.value), one_line(&choice.label));
            if value == label { value } else { format!("{value}  {label}") }
        };
        self.listed.iter().map(format_line).collect::<Vec<_>>().join("\n")
    }

    /// Whether a line clears the value that the field already has.
    pub(super) fn is_clearing_line(&self, line: &str) -> bool {
        self.has_kept_value && !self.is_required && line == CLEAR_VALUE_WORD
    }

    /// The field with a value that an empty line keeps.
    fn with_kept_value(self, value: &Value) -> Self {
        Self {
            default: Some(truncate_text(&format_typed_value(value), KEPT_COLUMNS_MAX)),
            has_kept_value: true,
            ..self
        }
    }

    /// The description of the field in a line: `level: How deep (whole number; 1 to 5)`.
    pub(crate) fn describe_in_line(&self) -> String {
        self.describe_with_type(self.describe_type(), format_typed_example)
    }

    /// The description for a value that is given as a flag, where a list or an object is written as JSON.
    pub(crate) fn describe_as_flag(&self) -> String {
        let type_text = match self.schema_type() {
            Some("boolean") => "true or false".to_owned(),
            Some("array") => "list, as JSON: [\"…\", \"…\"]".to_owned(),
            _ => self.describe_type(),
        };
        self.describe_with_type(type_text, format_typed_value)
    }

    fn describe_with_type(
        &self,
        type_text: String,
        format_example: impl Fn(&Value) -> String,
    ) -> String {
        let mut notes = vec![type_text];
        notes.extend(describe_bounds(&self.schema));
        if let Some(example) = &self.example {
            notes.push(format!("such as {}", format_example(example)));
        }
        if self.has_kept_value && !self.is_required {
            notes.push(format!("{CLEAR_VALUE_WORD} takes it away"));
        } else if !self.is_required && self.default.is_none() {
            notes.push("may be left empty".to_owned());
        }
        notes.extend(Some(self.hint.clone()).filter(|hint| !hint.is_empty()));
        let separator = if self.description.is_empty() { "" } else { ": " };
        format!("{}{separator}{} ({})", one_line(&self.name), self.description, notes.join("; "))
    }

    fn describe_type(&self) -> String {
        let choices = self.typed_choices();
        if !choices.is_empty() && self.schema_type() != Some("boolean") {
            let typed =
                if self.listed.is_empty() { choices.join(", ") } else { "these".to_owned() };
            return format!("one of {typed}");
        }
        match self.schema_type() {
            Some("string") => "text",
            Some("integer") => "whole number",
            Some("number") => "number",
            Some("boolean") => "yes or no",
            Some("array") => "list: one a line, ended by an empty line",
            Some("object") => "JSON object",
            _ => "text or JSON",
        }
        .to_owned()
    }

    fn schema_type(&self) -> Option<&str> {
        self.schema["type"].as_str()
    }

    /// The values that can be typed, if the field accepts only certain ones.
    pub(super) fn typed_choices(&self) -> Vec<String> {
        match self.schema_type() {
            Some("boolean") => ["yes", "no"].map(str::to_owned).to_vec(),
            _ => list_items(&self.schema["enum"]).iter().map(format_typed_value).collect(),
        }
    }

    pub(super) fn prompt_text(&self) -> String {
        let name = one_line(&self.name);
        match &self.default {
            Some(default) => format!("{name} [{default}]> "),
            None => format!("{name}> "),
        }
    }

    /// Reads a typed text as a value of the field; fails with the reason, in words.
    pub(super) fn parse_typed_value(&self, text: &str) -> Result<Value, String> {
        let value = self.parse_plain_text(text)?;
        self.find_violation(&value).map_or(Ok(value), Err)
    }

    /// The first violation of the schema, in words. `None` if there is none, or if the schema cannot be compiled by
    /// itself because it is part of a larger one, which the server then checks.
    pub(super) fn find_violation(&self, value: &Value) -> Option<String> {
        let schema = Schema::compile(&self.schema).ok()?;
        let violation = schema.find_violations_named(value, "it").into_iter().next()?;
        Some(if violation.rule == "type" && violation.path.is_empty() {
            format!("that is no {}", self.describe_type())
        } else {
            violation.message
        })
    }

    /// Checks a value that was typed as JSON over several lines and is parsed as `parsed`.
    pub(super) fn check_json_value(
        &self,
        text: &str,
        parsed: serde_json::Result<Value>,
    ) -> Result<Value, String> {
        let reason = match parsed {
            Ok(value) => match self.find_violation(&value) {
                None => return Ok(value),
                Some(reason) => reason,
            },
            // A plain text may also begin with a brace or a bracket.
            Err(error)
                if !error.is_eof() && !text.contains('\n') && !is_json_object_start(text) =>
            {
                return self.parse_typed_value(text);
            }
            Err(error) => describe_json_error(&error),
        };
        Err(format!("{reason}; you typed {}", escape_json_text(&text.replace('\n', " "))))
    }

    /// Whether a line begins JSON that can be the field's value.
    pub(super) fn is_json_start(&self, line: &str) -> bool {
        let has_type = |kind: &str| self.schema_type().is_none_or(|type_name| type_name == kind);
        let is_enum = self.schema["enum"].is_array();
        let is_object = line.starts_with('{') && has_type("object");
        (is_object || line.starts_with('[') && has_type("array")) && !is_enum
    }

    /// Whether a line is, or begins, the whole list as JSON, rather than its first item.
    pub(super) fn is_whole_list_json(&self, item: &Self, line: &str) -> bool {
        let parsed = serde_json::from_str(line);
        line.starts_with('[')
            && match parsed {
                Ok(value) => {
                    self.find_violation(&value).is_none() || item.find_violation(&value).is_some()
                }
                Err(error) => error.is_eof() || line.contains('\n') || line.starts_with("[\""),
            }
    }

    /// The field for one item of the list; `None` if this field is no list.
    pub(super) fn item_field(&self) -> Option<Self> {
        (self.schema_type() == Some("array"))
            .then(|| Self { schema: self.schema["items"].clone(), ..self.clone() })
    }

    /// Why a list of `count` items is too short; `None` if it is long enough.
    pub(super) fn too_few_items_message(&self, count: usize) -> Option<String> {
        let min_items = self.schema["minItems"].as_u64()?;
        let is_short = u64::try_from(count).is_ok_and(|count| count < min_items);
        let noun = if min_items == 1 { "item" } else { "items" };
        is_short.then(|| format!("it has fewer than {min_items} {noun}"))
    }

    fn parse_plain_text(&self, text: &str) -> Result<Value, String> {
        let is_value = |choice: &&Choice| format_typed_value(&choice.value) == text;
        let is_label = |choice: &&Choice| choice.label.eq_ignore_ascii_case(text);
        let mut listed = self.listed.iter();
        if let Some(choice) = listed.clone().find(is_value).or_else(|| listed.find(is_label)) {
            return Ok(choice.value.clone());
        }
        let choices = list_items(&self.schema["enum"]);
        if !choices.is_empty() {
            return find_choice(choices, text);
        }
        match self.schema_type() {
            Some("boolean") => match text.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Value::Bool(true)),
                "n" | "no" | "false" => Ok(Value::Bool(false)),
                _ => Err("type yes or no".to_owned()),
            },
            Some("string") => Ok(Value::from(strip_json_quotes(text))),
            None => {
                Ok(serde_json::from_str(text)
                    .unwrap_or_else(|_| Value::from(strip_json_quotes(text))))
            }
            Some(_) => {
                let kind = serde_json::from_value::<InputType>(self.schema["type"].clone()).ok();
                match parse_typed_text(kind, &[], text) {
                    Value::String(_) => Err(format!("that is no {}", self.describe_type())),
                    value => Ok(value),
                }
            }
        }
    }
}

/// Whether a text begins with a brace and a quote, as a JSON object does and plain text does not.
fn is_json_object_start(text: &str) -> bool {
    let inside = text.strip_prefix('{');
    inside.is_some_and(|inside| inside.trim_start().starts_with('"'))
}

/// The content of a text typed in JSON quotes, so that a command word such as "later" can be entered as text.
pub(super) fn strip_json_quotes(text: &str) -> String {
    let is_quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let unquoted = is_quoted.then(|| serde_json::from_str(text).ok()).flatten();
    unquoted.unwrap_or_else(|| text.to_owned())
}

/// The choice that the text names in full, or the only one that it is a prefix of.
fn find_choice(choices: &[Value], text: &str) -> Result<Value, String> {
    let exact = choices.iter().find(|value| format_typed_value(value) == text);
    if let Some(value) = exact {
        return Ok(value.clone());
    }
    let unquoted = strip_json_quotes(text);
    if let Some(value) = choices.iter().find(|value| **value == unquoted) {
        return Ok(value.clone());
    }
    let prefix = text.to_lowercase();
    let mut matches = choices
        .iter()
        .filter(|value| format_typed_value(value).to_lowercase().starts_with(&prefix));
    if let (Some(value), None) = (matches.next(), matches.next()) {
        return Ok(value.clone());
    }
    let choice_texts: Vec<_> = choices.iter().map(format_typed_value).collect();
    Err(format!("type one of {}", choice_texts.join(", ")))
}

/// A value as it is typed: a string without quotes.
fn format_typed_value(value: &Value) -> String {
    one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// An example as it is typed: the items of a list one after the other.
fn format_typed_example(example: &Value) -> String {
    match example.as_array() {
        Some(items) if items.iter().all(Value::is_string) => {
            items.iter().map(format_typed_value).collect::<Vec<_>>().join(", then ")
        }
        _ => format_typed_value(example),
    }
}

/// The bounds that a schema sets, in words.
fn describe_bounds(schema: &Value) -> Vec<String> {
    let range = |min_key: &str, max_key: &str, noun: &str| {
        let (min, max) = (&schema[min_key], &schema[max_key]);
        let format_unit = |count: &Value| match noun {
            "" => String::new(),
            noun if *count == 1 => format!(" {noun}"),
            noun => format!(" {noun}s"),
        };
        match (min.is_null(), max.is_null()) {
            (true, true) => None,
            (false, true) => Some(format!("at least {min}{}", format_unit(min))),
            (true, false) => Some(format!("at most {max}{}", format_unit(max))),
            (false, false) => Some(format!("{min} to {max}{}", format_unit(max))),
        }
    };
    let pattern = schema["pattern"].as_str();
    [
        range("minimum", "maximum", ""),
        range("minLength", "maxLength", "character"),
        range("minItems", "maxItems", "item"),
        pattern.map(|pattern| format!("matches {}", one_line(pattern))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The default of an input, in words: its value, or the source of its value.
fn describe_default(default: &InputDefault) -> String {
    let value = format_typed_value(default.value.as_ref().unwrap_or(&Value::Null));
    match default.from {
        DefaultFrom::Literal => value,
        DefaultFrom::Env => format!("${value}"),
        DefaultFrom::History => "as last time".to_owned(),
        DefaultFrom::WorkflowOutput => "what another workflow came to".to_owned(),
    }
}

/// Typed for a field, this clears the value that an empty line would keep.
const CLEAR_VALUE_WORD: &str = "\"\"";

/// How many columns of a kept value the question shows.
const KEPT_COLUMNS_MAX: usize = 40;

/// The fields that the violations are about (`/text`, `inputs.topic`), to be asked again. If a violation is about none
/// of the fields, all are asked, and an empty line keeps the value in `values`.
pub(super) fn select_violated_fields(
    fields: &[InputField],
    violations: &[Violation],
    values: &Map<String, Value>,
) -> Vec<InputField> {
    let violated: Vec<_> = fields
        .iter()
        .filter(|field| violations.iter().any(|violation| field.is_violated_by(violation)))
        .map(|field| field.prepare_retry(violations))
        .collect();
    let is_covered =
        |violation: &Violation| violated.iter().any(|field| field.is_violated_by(violation));
    if violations.iter().all(is_covered) && !violated.is_empty() {
        return violated;
    }
    let keep_value = |field: &InputField| match values.get(&field.name) {
        Some(value) => field.clone().with_kept_value(value),
        None => field.clone(),
    };
    fields.iter().map(keep_value).collect()
}

impl InputField {
    /// Whether a violation is about this field. A missing property is reported at the object that lacks it, so the
    /// message is compared too.
    fn is_violated_by(&self, violation: &Violation) -> bool {
        let missing_message = format!("{} is a required property", Value::from(self.name.as_str()));
        let path = violation.path.as_str();
        if let Some(pointer) = path.strip_prefix('/').filter(|path| !path.is_empty()) {
            let first = pointer.split('/').next().unwrap_or_default();
            return first.replace("~1", "/").replace("~0", "~") == self.name;
        }
        let input = path.strip_prefix("inputs.").unwrap_or_default();
        let remainder = input.strip_prefix(self.name.as_str());
        remainder.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '[', '/']))
            || violation.message == missing_message
    }

    /// The field as it is asked again. If its value is missing, its default yielded none, so it has no default and is
    /// required.
    fn prepare_retry(&self, violations: &[Violation]) -> Self {
        let mut missing = violations.iter().filter(|violation| violation.rule == "required");
        let is_missing = missing.any(|violation| self.is_violated_by(violation));
        Self {
            is_required: self.is_required || is_missing,
            default: self.default.clone().filter(|_| !is_missing),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_from_schema(schema: &Value) -> InputField {
        field(json!({ "name": "x", "required": true, "schema": schema }))
    }

    fn field(input: Value) -> InputField {
        InputField::from_input(&serde_json::from_value(input).expect("an input"))
    }

    #[test]
    fn a_question_says_what_may_be_typed() {
        let level = json!({
            "name": "level", "description": "How deep", "required": false,
            "default": { "from": "literal", "value": 2 },
            "schema": { "type": "integer", "minimum": 1, "maximum": 5 }
        });
        let level = field(level);
        assert_eq!(level.describe_in_line(), "level: How deep (whole number; 1 to 5)");
        assert_eq!(level.prompt_text(), "level [2]> ");
        let tone = json!({
            "name": "tone", "required": false, "hint": "how it should sound", "example": "warm",
            "schema": { "type": "string", "enum": ["warm", "dry"] }
        });
        let tone = field(tone);
        assert_eq!(
            tone.describe_in_line(),
            "tone (one of warm, dry; such as warm; may be left empty; how it should sound)"
        );
        assert_eq!(tone.typed_choices(), ["warm", "dry"]);
    }

    #[test]
    fn bounds_are_described_in_words() {
        for (schema, expected) in [
            (json!({ "minItems": 1 }), "at least 1 item"),
            (json!({ "minItems": 2 }), "at least 2 items"),
            (json!({ "minItems": 1, "maxItems": 1 }), "1 to 1 item"),
            (json!({ "maxLength": 1 }), "at most 1 character"),
            (json!({ "minLength": 11 }), "at least 11 characters"),
        ] {
            assert_eq!(describe_bounds(&schema), [expected]);
        }
        let pages = json!({ "name": "pages", "required": true, "example": ["a.md", "b.md"], "schema": { "type": "array" } });
        assert_eq!(
            field(pages).describe_in_line(),
            "pages (list: one a line, ended by an empty line; such as a.md, then b.md)"
        );
    }

    #[test]
    fn schema_violation_is_refused() {
        let level = field_from_schema(&json!({ "type": "integer", "minimum": 1, "maximum": 5 }));
        assert_eq!(level.parse_typed_value("3"), Ok(json!(3)));
        let reason = level.parse_typed_value("9").expect_err("too much");
        assert!(reason.contains("maximum of 5"), "{reason}");
        let ref_field = field_from_schema(&json!({ "$ref": "#/$defs/elsewhere" }));
        assert_eq!(ref_field.parse_typed_value("9"), Ok(json!(9)));
    }

    #[test]
    fn typed_text_becomes_a_value() {
        let choice_field = field_from_schema(&json!({ "enum": ["short", "long", 3] }));
        for (field, text, expected) in [
            (&field_from_schema(&json!({ "type": "string" })), "12", Ok(json!("12"))),
            (&field_from_schema(&json!({ "type": "string" })), "\"later\"", Ok(json!("later"))),
            (&field_from_schema(&json!({ "type": "integer" })), "12", Ok(json!(12))),
            (
                &field_from_schema(&json!({ "type": "integer" })),
                "x",
                Err("that is no whole number"),
            ),
            (&field_from_schema(&json!({ "type": "boolean" })), "Y", Ok(json!(true))),
            (&field_from_schema(&json!({ "type": "boolean" })), "perhaps", Err("type yes or no")),
            (&field_from_schema(&json!({})), "[1]", Ok(json!([1]))),
            (&field_from_schema(&json!({})), "words", Ok(json!("words"))),
            (&choice_field, "s", Ok(json!("short"))),
            (&choice_field, "3", Ok(json!(3))),
            (&choice_field, "x", Err("type one of short, long, 3")),
        ] {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(field.parse_typed_value(text), expected, "{field:?} {text}");
        }
    }

    #[test]
    fn only_what_was_refused_is_asked_again() {
        let schema =
            json!({ "type": "object", "properties": { "a": {}, "b": {} }, "required": ["a"] });
        let fields = InputField::from_schema(&schema).expect("fields");
        let violation_at = |path: &str| Violation::new(path, "type", "no");
        let names = |violations: &[Violation]| -> Vec<String> {
            let selected = select_violated_fields(&fields, violations, &Map::new());
            selected.into_iter().map(|field| field.name).collect()
        };
        assert_eq!(names(&[violation_at("/b")]), ["b"]);
        assert_eq!(names(&[violation_at("inputs.a"), violation_at("/b/0")]), ["a", "b"]);
        assert_eq!(names(&[violation_at("/b"), violation_at("/")]), ["a", "b"]);
        // Violations at other names do not match, even if a deeper path segment or a longer name contains this one.
        assert_eq!(names(&[violation_at("/b/a")]), ["b"]);
        let dotted = json!({ "type": "object", "properties": { "a": {}, "a.b": {}, "x/y": {} } });
        let dotted = InputField::from_schema(&dotted).expect("fields");
        let selected = select_violated_fields(
            &dotted,
            &[violation_at("/a.b"), violation_at("/x~1y")],
            &Map::new(),
        );
        let selected: Vec<_> = selected.iter().map(InputField::name).collect();
        assert_eq!(selected, ["a.b", "x/y"]);
        assert!(fields[0].is_required() && !fields[1].is_required());
        // A missing property is reported at the object.
        let object_schema = Schema::compile(&schema).expect("a schema");
        assert_eq!(names(&object_schema.find_violations(&json!({ "b": 1 }))), ["a"]);
        // If all fields are asked again, each keeps its value.
        let values = json!({ "b": "long ago" });
        let selected = select_violated_fields(
            &fields,
            &[violation_at("/")],
            values.as_object().expect("values"),
        );
        assert_eq!([selected[0].has_kept_value(), selected[1].has_kept_value()], [false, true]);
        assert_eq!(selected[1].prompt_text(), "b [long ago]> ");
        assert!(selected[1].describe_in_line().contains("\"\" takes it away"));
        assert!(selected[1].is_clearing_line("\"\"") && !selected[0].is_clearing_line("\"\""));
        assert_eq!(InputField::from_schema(&json!({ "type": "array" })), None);
    }
}
