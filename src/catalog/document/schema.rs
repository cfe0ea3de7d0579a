//! Converts OpenAPI schemas to JSON Schema 2020-12, as [`midex_domain::schema`] reads it. Keywords of OpenAPI are
//! translated or dropped, and an invalid schema becomes one that accepts anything. A schema that references point to
//! is converted once, and shared.

mod cycles;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{
    Warnings,
    reference::{
        BrokenReference, get_entries, get_flag, parse_reference_pointer, resolve_reference,
    },
};
use midex_domain::{
    limits,
    schema::{self, KeywordValueForm, PatternQuota, Schema},
    truncate::json_length,
};

/// The schemas of a document: the shared ones by name, and those that are still to be converted.
pub(super) struct SchemaConverter<'a> {
    root: &'a Value,
    /// In OpenAPI 3.0, keywords beside a `$ref` are ignored, except for `description`.
    is_generation_30: bool,
    /// The names of shared schemas, by reference.
    names: HashMap<String, String>,
    used_names: HashSet<String>,
    /// Shared schemas that are still to be converted.
    unconverted: Vec<(String, &'a Value)>,
    shared_schemas: BTreeMap<String, Value>,
    /// The external references in shared schemas, by the name of the schema.
    external_references: BTreeMap<String, BrokenReference>,
    /// The external reference that was found last.
    last_external_reference: Option<BrokenReference>,
    /// How many more bytes operations and shared schemas may have.
    bytes_left: usize,
    /// Whether a pattern or a format is supported.
    usable_keywords: HashMap<(&'static str, &'a str), bool>,
}

impl<'a> SchemaConverter<'a> {
    pub(super) fn new(root: &'a Value, is_generation_30: bool) -> Self {
        Self {
            root,
            is_generation_30,
            names: HashMap::new(),
            used_names: HashSet::new(),
            unconverted: Vec::new(),
            shared_schemas: BTreeMap::new(),
            external_references: BTreeMap::new(),
            last_external_reference: None,
            bytes_left: limits::DOCUMENT_EXPANDED_BYTES_MAX,
            usable_keywords: HashMap::new(),
        }
    }

    /// Converts a schema, and all shared schemas that it needs. Fails if the schema itself has an external reference.
    /// [`Self::find_external_reference`] returns those in shared schemas.
    pub(super) fn convert_schema(
        &mut self,
        value: &'a Value,
        warnings: &mut Warnings,
    ) -> Result<Value, BrokenReference> {
        self.last_external_reference = None;
        let converted = self.convert_subschema(value, warnings);
        let external_reference = self.last_external_reference.take();
        while let Some((name, value)) = self.unconverted.pop() {
            let converted_shared = self.convert_subschema(value, warnings);
            self.external_references
                .extend(self.last_external_reference.take().map(|met| (name.clone(), met)));
            self.shared_schemas.insert(name, converted_shared);
        }
        external_reference.map_or(Ok(converted), Err)
    }

    /// Counts bytes against the size limit of the document.
    pub(super) fn count_bytes(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    /// Whether the size limit is reached. Schemas that are converted after that are incomplete.
    pub(super) fn is_size_limit_reached(&self) -> bool {
        self.bytes_left == 0
    }

    /// The first external reference in the shared schemas that `value` refers to, directly or indirectly.
    pub(super) fn find_external_reference(&self, value: &Value) -> Option<&BrokenReference> {
        if self.external_references.is_empty() {
            return None;
        }
        let reachable = find_reachable_schemas(value, |name| self.shared_schemas.get(name));
        reachable.iter().find_map(|name| self.external_references.get(*name))
    }

    /// Returns all shared schemas. A schema that refers to itself for the same value, or begins a chain of more than
    /// [`limits::SCHEMA_REFERENCES_MAX`] references, is replaced by one that accepts anything.
    pub(super) fn into_shared_schemas(
        mut self,
        warnings: &mut Warnings,
    ) -> BTreeMap<String, Value> {
        for name in cycles::cut_schema_cycles(&mut self.shared_schemas) {
            let words = format!(
                "the schema `{name}` refers to itself for the same value, or through too many schemas: it accepts anything"
            );
            let reference = self.names.iter().find(|(_, shared)| **shared == name);
            let place = reference.map_or_else(String::new, |(text, _)| text.clone());
            warnings.add_warning(place, "schema_cycle", words);
        }
        self.shared_schemas
    }

    fn convert_subschema(&mut self, value: &'a Value, warnings: &mut Warnings) -> Value {
        match value {
            Value::Object(map) if !self.is_size_limit_reached() => {
                self.convert_object(map, warnings)
            }
            Value::Bool(_) => value.clone(),
            _ => Value::Bool(true),
        }
    }

    fn convert_object(&mut self, map: &'a Map<String, Value>, warnings: &mut Warnings) -> Value {
        let mut converted = Map::new();
        let reference = map.get("$ref").and_then(Value::as_str);
        if let Some(name) = reference.and_then(|text| self.share_schema(text, warnings)) {
            converted.insert("$ref".into(), format!("{DEFINITIONS_PREFIX}{name}").into());
        }
        let should_ignore_siblings = reference.is_some() && self.is_generation_30;
        let is_read = |word: &str| !should_ignore_siblings || word == "description";
        for (word, value) in map.iter().filter(|(word, _)| is_read(word)) {
            let Some(form) = schema::find_keyword_form(word)
                .filter(|_| !DROPPED_KEYWORDS.contains(&word.as_str()))
            else {
                continue;
            };
            if word == "items" && value.is_array() {
                let list =
                    self.convert_keyword("prefixItems", KeywordValueForm::Schemas, value, warnings);
                converted.extend(list.map(|list| ("prefixItems".into(), list)));
            } else if let Some(value) = self.convert_keyword(word, form, value, warnings) {
                converted.insert(word.clone(), value);
            }
        }
        if !should_ignore_siblings {
            convert_exclusive_bounds(map, &mut converted);
            relax_one_sided_required(map, &mut converted);
            convert_example(map, &mut converted);
            self.convert_discriminator(map, &mut converted, warnings);
        }
        if map.get("nullable") == Some(&Value::Bool(true)) {
            return make_nullable(converted);
        }
        Value::Object(converted)
    }

    /// Converts a discriminator: the property that distinguishes the alternatives, and the schema for each of its
    /// values.
    fn convert_discriminator(
        &mut self,
        map: &'a Map<String, Value>,
        converted: &mut Map<String, Value>,
        warnings: &mut Warnings,
    ) {
        let discriminator = map.get("discriminator").unwrap_or(&Value::Null);
        let Some(property) = discriminator.get("propertyName").filter(|name| name.is_string())
        else {
            return;
        };
        let named_targets = || {
            get_entries(discriminator, "mapping")
                .filter_map(|(value, target)| Some((value.as_str(), target.as_str()?)))
        };
        let alternatives = ["oneOf", "anyOf"].iter().find_map(|word| map.get(*word)?.as_array());
        let references =
            alternatives.into_iter().flatten().filter_map(|option| option.get("$ref")?.as_str());
        let mut mapping = Map::new();
        for text in references {
            let schema_name = text.rsplit('/').next().unwrap_or_default();
            // The mapping refers to a schema by a reference, or by its name alone.
            let values =
                named_targets().filter(|(_, target)| *target == text || *target == schema_name);
            let mut values: Vec<_> = values.map(|(value, _)| value).collect();
            if values.is_empty() {
                values.push(schema_name);
            }
            let Some(name) = self.share_schema(text, warnings) else {
                continue;
            };
            for value in values {
                self.count_bytes(value.len() + name.len());
                mapping.insert(value.to_owned(), format!("{DEFINITIONS_PREFIX}{name}").into());
            }
        }
        if !mapping.is_empty() {
            converted.insert(
                "discriminator".into(),
                json!({ "propertyName": property, "mapping": mapping }),
            );
        }
    }

    /// Converts the value of a keyword; `None` if it is invalid or not supported.
    fn convert_keyword(
        &mut self,
        word: &str,
        form: KeywordValueForm,
        value: &'a Value,
        warnings: &mut Warnings,
    ) -> Option<Value> {
        let is_schema = |value: &Value| value.is_object() || value.is_boolean();
        let has_valid_form = match form {
            KeywordValueForm::Schema | KeywordValueForm::Items => {
                return is_schema(value).then(|| self.convert_subschema(value, warnings));
            }
            KeywordValueForm::Schemas => {
                let list = value.as_array()?.iter().filter(|value| is_schema(value));
                let list: Vec<_> =
                    list.map(|value| self.convert_subschema(value, warnings)).collect();
                return (!list.is_empty()).then_some(Value::Array(list));
            }
            KeywordValueForm::NamedSchemas | KeywordValueForm::PatternSchemas => {
                let mut converted = Map::new();
                for (name, value) in value.as_object()? {
                    if is_schema(value)
                        && (form == KeywordValueForm::NamedSchemas
                            || self.is_usable_pattern("pattern", name))
                    {
                        self.count_bytes(name.len());
                        converted.insert(name.clone(), self.convert_subschema(value, warnings));
                    }
                }
                return Some(Value::Object(converted));
            }
            KeywordValueForm::Types => return convert_types(value),
            KeywordValueForm::Texts => return Some(remove_duplicate_texts(value.as_array()?)),
            KeywordValueForm::Count => {
                let count = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
                value.is_u64() || count.is_some()
            }
            KeywordValueForm::Number => value.is_number(),
            KeywordValueForm::Positive => value.as_f64().is_some_and(|number| number > 0.0),
            KeywordValueForm::Flag => value.is_boolean(),
            KeywordValueForm::Pattern => self.is_usable_pattern("pattern", value.as_str()?),
            KeywordValueForm::Text if word == "format" => {
                self.is_usable_pattern("format", value.as_str()?)
            }
            KeywordValueForm::Text => value.is_string(),
            KeywordValueForm::Values => value.as_array().is_some_and(|list| !list.is_empty()),
            KeywordValueForm::Any => true,
            KeywordValueForm::NameLists | KeywordValueForm::Dependencies => false,
        };
        self.count_bytes(word.len() + estimate_value_bytes(value));
        has_valid_form.then(|| value.clone())
    }

    /// The name of the shared schema that a reference points to. `None` if it cannot be resolved; anything is
    /// accepted then.
    fn share_schema(&mut self, text: &'a str, warnings: &mut Warnings) -> Option<String> {
        if let Some(name) = self.names.get(text) {
            return Some(name.clone());
        }
        let target = parse_reference_pointer(text)
            .and_then(|pointer| Ok((resolve_reference(self.root, text)?, pointer)));
        match target {
            Ok((value, pointer)) => {
                let name = self.choose_schema_name(&pointer);
                self.names.insert(text.to_owned(), name.clone());
                self.unconverted.push((name.clone(), value));
                Some(name)
            }
            Err(broken @ BrokenReference::External(_)) => {
                self.last_external_reference = Some(broken);
                None
            }
            Err(broken) => {
                warnings.add_warning(
                    String::new(),
                    "reference",
                    format!("{broken}: anything is accepted there"),
                );
                None
            }
        }
    }

    /// A unique name of characters that need no escapes.
    fn choose_schema_name(&mut self, pointer: &str) -> String {
        let path = pointer.strip_prefix("/components/schemas").unwrap_or(pointer);
        let is_plain_char = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }
        };
        let name: String =
            path.trim_start_matches('/').replace('/', ".").chars().map(is_plain_char).collect();
        let mut unique_name = name.clone();
        let mut number = 1;
        while !self.used_names.insert(unique_name.clone()) {
            number += 1;
            unique_name = format!("{name}-{number}");
        }
        unique_name
    }

    fn is_usable_pattern(&mut self, word: &'static str, text: &'a str) -> bool {
        if self.usable_keywords.len() >= limits::DOCUMENT_PATTERNS_MAX {
            return false;
        }
        *self.usable_keywords.entry((word, text)).or_insert_with(|| {
            let (_, faults) =
                Schema::compile_with_faults(&json!({ word: text }), &mut PatternQuota::default());
            faults.is_empty()
        })
    }
}

/// The approximate size of a value in bytes.
fn estimate_value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => json_length(value),
        _ => 8,
    }
}

/// The prefix of references to shared schemas.
const DEFINITIONS_PREFIX: &str = "#/$defs/";

/// Keywords that are dropped, because they only make sense in the original document or are translated otherwise.
const DROPPED_KEYWORDS: &[&str] = &[
    "$ref",
    "$schema",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
    "$comment",
    "$defs",
    "definitions",
    "additionalItems",
];

/// The name of the shared schema that a reference points to.
pub(super) fn parse_shared_name(reference: &str) -> Option<&str> {
    reference.strip_prefix(DEFINITIONS_PREFIX)
}

/// Adds the names of the shared schemas that a value refers to directly.
pub(super) fn collect_shared_names<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            names.extend(reference.and_then(parse_shared_name));
            map.values().for_each(|value| collect_shared_names(value, names));
        }
        Value::Array(list) => list.iter().for_each(|value| collect_shared_names(value, names)),
        _ => {}
    }
}

/// The shared schemas that a value refers to directly or indirectly, in breadth-first order.
fn find_reachable_schemas<'a>(
    value: &'a Value,
    shared: impl Fn(&str) -> Option<&'a Value>,
) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut visited = HashSet::new();
    collect_shared_names(value, &mut names);
    names.retain(|name| visited.insert(*name));
    let mut index = 0;
    while index < names.len() {
        let mut next_names = Vec::new();
        if let Some(value) = shared(names[index]) {
            collect_shared_names(value, &mut next_names);
        }
        names.extend(next_names.into_iter().filter(|name| visited.insert(*name)));
        index += 1;
    }
    names
}

fn convert_types(value: &Value) -> Option<Value> {
    let one = std::slice::from_ref(value);
    let list = value.as_array().map_or(one, Vec::as_slice).iter();
    let known: Vec<_> = list
        .filter(|name| name.as_str().is_some_and(|name| schema::TYPE_NAMES.contains(&name)))
        .collect();
    match known[..] {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(remove_duplicate_texts(&known)),
    }
}

/// The strings of a list, without duplicates.
fn remove_duplicate_texts<V: std::borrow::Borrow<Value>>(list: &[V]) -> Value {
    let mut seen_texts = HashSet::new();
    let texts = list.iter().filter_map(|value| value.borrow().as_str());
    texts.filter(|text| seen_texts.insert(*text)).collect()
}

/// In OpenAPI 3.0, `exclusiveMinimum: true` makes `minimum` an exclusive bound. It becomes the number
/// `exclusiveMinimum`.
fn convert_exclusive_bounds(map: &Map<String, Value>, converted: &mut Map<String, Value>) {
    for (word, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if map.get(exclusive) == Some(&Value::Bool(true))
            && let Some(bound) = converted.shift_remove(word)
        {
            converted.insert(exclusive.into(), bound);
        }
    }
}

/// Removes `readOnly` and `writeOnly` properties from `required`. The schema is used for requests and for answers,
/// and such a property is only in one of them.
fn relax_one_sided_required(map: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let Some(properties) = map.get("properties") else {
        return;
    };
    if let Some(Value::Array(names)) = converted.get_mut("required") {
        names.retain(|name| {
            let property = name.as_str().and_then(|name| properties.get(name));
            !property
                .is_some_and(|value| get_flag(value, "readOnly") || get_flag(value, "writeOnly"))
        });
    }
}

fn convert_example(map: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let example = map
        .get("example")
        .filter(|value| !value.is_object() && !value.is_array() && !value.is_null());
    if let Some(example) = example.filter(|_| !converted.contains_key("examples")) {
        converted.insert("examples".into(), json!([example]));
    }
}

/// Changes a schema so that it accepts null too.
fn make_nullable(mut schema: Map<String, Value>) -> Value {
    let is_open =
        !["$ref", "allOf", "anyOf", "oneOf", "const"].iter().any(|word| schema.contains_key(*word));
    if !is_open {
        return json!({ "anyOf": [schema, { "type": "null" }] });
    }
    if let Some(names) = schema.get_mut("type") {
        let mut list = names.as_array().cloned().unwrap_or_else(|| vec![names.clone()]);
        if !list.contains(&"null".into()) {
            list.push("null".into());
        }
        *names = list.into();
    }
    if let Some(Value::Array(options)) = schema.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
    Value::Object(schema)
}
