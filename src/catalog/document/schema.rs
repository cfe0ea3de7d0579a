//! Converts OpenAPI schemas to JSON Schema 2020-12, as [`midex_domain::schema`] reads it. Keywords of OpenAPI are
//! translated or dropped, and an invalid schema becomes one that accepts anything. A schema that references point to
//! is converted once, and shared.

mod ring;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{
    Warnings,
    reference::{
        BrokenReference, entries_under_key, flag_under_key, reference_pointer, resolve_reference,
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
    shared: BTreeMap<String, Value>,
    /// The external references in shared schemas, by the name of the schema.
    external: BTreeMap<String, BrokenReference>,
    /// The external reference that was found last.
    last_external: Option<BrokenReference>,
    /// How many more bytes operations and shared schemas may have.
    bytes_left: usize,
    /// Whether a pattern or a format is supported.
    usable: HashMap<(&'static str, &'a str), bool>,
}

impl<'a> SchemaConverter<'a> {
    pub(super) fn new(root: &'a Value, is_generation_30: bool) -> Self {
        Self {
            root,
            is_generation_30,
            names: HashMap::new(),
            used_names: HashSet::new(),
            unconverted: Vec::new(),
            shared: BTreeMap::new(),
            external: BTreeMap::new(),
            last_external: None,
            bytes_left: limits::DOCUMENT_EXPANDED_BYTES_MAX,
            usable: HashMap::new(),
        }
    }

    /// Converts a schema, and all shared schemas that it needs. Fails if the schema itself has an external reference.
    /// [`Self::find_external_reference`] returns those in shared schemas.
    pub(super) fn convert_schema(
        &mut self,
        value: &'a Value,
        warnings: &mut Warnings,
    ) -> Result<Value, BrokenReference> {
        self.last_external = None;
        let made = self.convert_subschema(value, warnings);
        let met = self.last_external.take();
        while let Some((name, value)) = self.unconverted.pop() {
            let made = self.convert_subschema(value, warnings);
            self.external.extend(self.last_external.take().map(|met| (name.clone(), met)));
            self.shared.insert(name, made);
        }
        met.map_or(Ok(made), Err)
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
        if self.external.is_empty() {
            return None;
        }
        let reached = reachable_schemas(value, |name| self.shared.get(name));
        reached.iter().find_map(|name| self.external.get(*name))
    }

    /// Returns all shared schemas. A schema that refers to itself for the same value, or begins a chain of more than
    /// [`limits::SCHEMA_REFERENCES_MAX`] references, is replaced by one that accepts anything.
    pub(super) fn into_shared_schemas(
        mut self,
        warnings: &mut Warnings,
    ) -> BTreeMap<String, Value> {
        for name in ring::cut_schema_cycles(&mut self.shared) {
            let words = format!(
                "the schema `{name}` refers to itself for the same value, or through too many schemas: it accepts anything"
            );
            let reference = self.names.iter().find(|(_, shared)| **shared == name);
            let place = reference.map_or_else(String::new, |(text, _)| text.clone());
            warnings.add_warning(place, "schema_cycle", words);
        }
        self.shared
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
        let mut made = Map::new();
        let reference = map.get("$ref").and_then(Value::as_str);
        if let Some(name) = reference.and_then(|text| self.share_schema(text, warnings)) {
            made.insert("$ref".into(), format!("{DEFINITIONS_PREFIX}{name}").into());
        }
        let is_alone = reference.is_some() && self.is_generation_30;
        let counts = |word: &str| !is_alone || word == "description";
        for (word, value) in map.iter().filter(|(word, _)| counts(word)) {
            let Some(form) =
                schema::keyword_form(word).filter(|_| !DROPPED_KEYWORDS.contains(&word.as_str()))
            else {
                continue;
            };
            if word == "items" && value.is_array() {
                let list =
                    self.convert_keyword("prefixItems", KeywordValueForm::Schemas, value, warnings);
                made.extend(list.map(|list| ("prefixItems".into(), list)));
            } else if let Some(value) = self.convert_keyword(word, form, value, warnings) {
                made.insert(word.clone(), value);
            }
        }
        if !is_alone {
            convert_exclusive_bounds(map, &mut made);
            relax_one_sided_required(map, &mut made);
            convert_example(map, &mut made);
            self.convert_discriminator(map, &mut made, warnings);
        }
        if map.get("nullable") == Some(&Value::Bool(true)) {
            return make_nullable(made);
        }
        Value::Object(made)
    }

    /// Converts a discriminator: the property that distinguishes the alternatives, and the schema for each of its
    /// values.
    fn convert_discriminator(
        &mut self,
        map: &'a Map<String, Value>,
        made: &mut Map<String, Value>,
        warnings: &mut Warnings,
    ) {
        let told = map.get("discriminator").unwrap_or(&Value::Null);
        let Some(property) = told.get("propertyName").filter(|name| name.is_string()) else {
            return;
        };
        let named = || {
            entries_under_key(told, "mapping")
                .filter_map(|(value, target)| Some((value.as_str(), target.as_str()?)))
        };
        let listed = ["oneOf", "anyOf"].iter().find_map(|word| map.get(*word)?.as_array());
        let references =
            listed.into_iter().flatten().filter_map(|option| option.get("$ref")?.as_str());
        let mut mapping = Map::new();
        for text in references {
            let own = text.rsplit('/').next().unwrap_or_default();
            // The mapping refers to a schema by a reference, or by its name alone.
            let values = named().filter(|(_, target)| *target == text || *target == own);
            let mut values: Vec<_> = values.map(|(value, _)| value).collect();
            if values.is_empty() {
                values.push(own);
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
            made.insert(
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
        let fits = match form {
            KeywordValueForm::Schema | KeywordValueForm::Items => {
                return is_schema(value).then(|| self.convert_subschema(value, warnings));
            }
            KeywordValueForm::Schemas => {
                let list = value.as_array()?.iter().filter(|value| is_schema(value));
                let list: Vec<_> =
                    list.map(|value| self.convert_subschema(value, warnings)).collect();
                return (!list.is_empty()).then_some(Value::Array(list));
            }
            KeywordValueForm::Named | KeywordValueForm::Patterns => {
                let mut made = Map::new();
                for (name, value) in value.as_object()? {
                    if is_schema(value)
                        && (form == KeywordValueForm::Named
                            || self.is_usable_pattern("pattern", name))
                    {
                        self.count_bytes(name.len());
                        made.insert(name.clone(), self.convert_subschema(value, warnings));
                    }
                }
                return Some(Value::Object(made));
            }
            KeywordValueForm::Types => return convert_types(value),
            KeywordValueForm::Texts => return Some(unique_texts(value.as_array()?)),
            KeywordValueForm::Count => {
                let whole = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
                value.is_u64() || whole.is_some()
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
            KeywordValueForm::NamedTexts | KeywordValueForm::Dependencies => false,
        };
        self.count_bytes(word.len() + estimate_value_bytes(value));
        fits.then(|| value.clone())
    }

    /// The name of the shared schema that a reference points to. `None` if it cannot be resolved; anything is
    /// accepted then.
    fn share_schema(&mut self, text: &'a str, warnings: &mut Warnings) -> Option<String> {
        if let Some(name) = self.names.get(text) {
            return Some(name.clone());
        }
        let found = reference_pointer(text)
            .and_then(|pointer| Ok((resolve_reference(self.root, text)?, pointer)));
        match found {
            Ok((value, pointer)) => {
                let name = self.unique_schema_name(&pointer);
                self.names.insert(text.to_owned(), name.clone());
                self.unconverted.push((name.clone(), value));
                Some(name)
            }
            Err(broken @ BrokenReference::External(_)) => {
                self.last_external = Some(broken);
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
    fn unique_schema_name(&mut self, pointer: &str) -> String {
        let path = pointer.strip_prefix("/components/schemas").unwrap_or(pointer);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }
        };
        let name: String =
            path.trim_start_matches('/').replace('/', ".").chars().map(plain).collect();
        let mut free = name.clone();
        let mut number = 1;
        while !self.used_names.insert(free.clone()) {
            number += 1;
            free = format!("{name}-{number}");
        }
        free
    }

    fn is_usable_pattern(&mut self, word: &'static str, text: &'a str) -> bool {
        if self.usable.len() >= limits::DOCUMENT_PATTERNS_MAX {
            return false;
        }
        *self.usable.entry((word, text)).or_insert_with(|| {
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
pub(super) fn collect_shared_names<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(parse_shared_name));
            map.values().for_each(|value| collect_shared_names(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| collect_shared_names(value, found)),
        _ => {}
    }
}

/// The shared schemas that a value refers to directly or indirectly, in breadth-first order.
fn reachable_schemas<'a>(
    value: &'a Value,
    shared: impl Fn(&str) -> Option<&'a Value>,
) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    collect_shared_names(value, &mut found);
    found.retain(|name| seen.insert(*name));
    let mut at = 0;
    while at < found.len() {
        let mut next = Vec::new();
        if let Some(value) = shared(found[at]) {
            collect_shared_names(value, &mut next);
        }
        found.extend(next.into_iter().filter(|name| seen.insert(*name)));
        at += 1;
    }
    found
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
        _ => Some(unique_texts(&known)),
    }
}

/// The strings of a list, without duplicates.
fn unique_texts<V: std::borrow::Borrow<Value>>(list: &[V]) -> Value {
    let mut seen = HashSet::new();
    let texts = list.iter().filter_map(|value| value.borrow().as_str());
    texts.filter(|text| seen.insert(*text)).collect()
}

/// In OpenAPI 3.0, `exclusiveMinimum: true` makes `minimum` an exclusive bound. It becomes the number
/// `exclusiveMinimum`.
fn convert_exclusive_bounds(map: &Map<String, Value>, made: &mut Map<String, Value>) {
    for (word, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if map.get(exclusive) == Some(&Value::Bool(true))
            && let Some(bound) = made.shift_remove(word)
        {
            made.insert(exclusive.into(), bound);
        }
    }
}

/// Removes `readOnly` and `writeOnly` properties from `required`. The schema is used for requests and for answers,
/// and such a property is only in one of them.
fn relax_one_sided_required(map: &Map<String, Value>, made: &mut Map<String, Value>) {
    let Some(properties) = map.get("properties") else {
        return;
    };
    if let Some(Value::Array(names)) = made.get_mut("required") {
        names.retain(|name| {
            let property = name.as_str().and_then(|name| properties.get(name));
            !property.is_some_and(|value| {
                flag_under_key(value, "readOnly") || flag_under_key(value, "writeOnly")
            })
        });
    }
}

fn convert_example(map: &Map<String, Value>, made: &mut Map<String, Value>) {
    let example = map
        .get("example")
        .filter(|value| !value.is_object() && !value.is_array() && !value.is_null());
    if let Some(example) = example.filter(|_| !made.contains_key("examples")) {
        made.insert("examples".into(), json!([example]));
    }
}

/// Changes a schema so that it accepts null too.
fn make_nullable(mut made: Map<String, Value>) -> Value {
    let is_open =
        !["$ref", "allOf", "anyOf", "oneOf", "const"].iter().any(|word| made.contains_key(*word));
    if !is_open {
        return json!({ "anyOf": [made, { "type": "null" }] });
    }
    if let Some(names) = made.get_mut("type") {
        let mut list = names.as_array().cloned().unwrap_or_else(|| vec![names.clone()]);
        if !list.contains(&"null".into()) {
            list.push("null".into());
        }
        *names = list.into();
    }
    if let Some(Value::Array(options)) = made.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
    Value::Object(made)
}
