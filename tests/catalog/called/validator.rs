//! Schemas of a document as another evaluator takes them. Nothing here is midex's: the words of OpenAPI 3.0 are said in JSON
//! Schema once more, from the document itself.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use jsonschema::{Draft, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

/// A document whose schemas can be asked about values.
pub(super) struct Schemas {
    pub(super) document: Value,
    /// Whether a `$ref` stands alone, whatever is written beside it.
    is_generation_30: bool,
    made: RefCell<HashMap<String, Rc<Validator>>>,
}

impl Schemas {
    pub(super) fn new(document: Value) -> Self {
        let version = document["openapi"].as_str().unwrap_or_default();
        Self { is_generation_30: version.starts_with("3.0"), document, made: RefCell::default() }
    }

    /// The value that is meant: what a `$ref` leads to in the end.
    pub(super) fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        let mut at = value;
        for _ in 0..20 {
            let Some(reference) = at.get("$ref").and_then(Value::as_str) else {
                break;
            };
            let found = self.document.pointer(&pointer(reference));
            at = found.unwrap_or(&Value::Null);
        }
        at
    }

    /// What the value breaks: the rule with its place.
    pub(super) fn broken(&self, schema: &Value, value: &Value) -> Option<String> {
        let validator = match self.validator(schema) {
            Ok(validator) => validator,
            Err(why) => return Some(format!("the judge cannot read the schema: {why}")),
        };
        let found = validator.iter_errors(value).next();
        found.map(|error| {
            let (rule, place) = (error.kind().keyword(), error.instance_path());
            format!("{rule}: `{place}` {error}")
        })
    }

    fn validator(&self, schema: &Value) -> Result<Rc<Validator>, String> {
        let key = schema.to_string();
        if let Some(known) = self.made.borrow().get(&key) {
            return Ok(known.clone());
        }
        let bundled = self.bundled(schema);
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true);
        let made = options.build(&bundled).map_err(|error| error.to_string());
        let made = Rc::new(made?);
        self.made.borrow_mut().insert(key, made.clone());
        Ok(made)
    }

    /// The schema with all that it refers to.
    fn bundled(&self, schema: &Value) -> Value {
        let mut references = Vec::new();
        let mut made = self.said(schema, &mut references);
        let mut shared = Map::new();
        let mut at = 0;
        while at < references.len() {
            let found = self.document.pointer(&pointer(&references[at]));
            let found = found.unwrap_or(&Value::Bool(true));
            shared.insert(at.to_string(), self.said(found, &mut references));
            at += 1;
        }
        if let Some(map) = made.as_object_mut() {
            map.insert("$defs".into(), shared.into());
        }
        made
    }

    fn said(&self, schema: &Value, references: &mut Vec<String>) -> Value {
        let Value::Object(map) = schema else {
            return Value::Bool(schema != &Value::Bool(false));
        };
        let mut made = Map::new();
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let known = references.iter().position(|one| one == reference);
            let place = known.unwrap_or_else(|| {
                references.push(reference.to_owned());
                references.len() - 1
            });
            made.insert("$ref".into(), format!("#/$defs/{place}").into());
            if self.is_generation_30 {
                return made.into();
            }
        }
        for (word, value) in map {
            if let Some(value) = self.word(word, value, map, references) {
                made.insert(word.clone(), value);
            }
        }
        for (word, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
        {
            if map.get(exclusive) == Some(&Value::Bool(true))
                && let Some(bound) = made.remove(word)
            {
                made.insert(exclusive.into(), bound);
            }
        }
        // "Allows sending a null value for the defined schema" (OpenAPI 3.0.2, 4.7.24.1).
        if map.get("nullable") == Some(&Value::Bool(true)) {
            return json!({ "anyOf": [made, { "type": "null" }] });
        }
        made.into()
    }

    /// The value of a keyword; nothing for one that says nothing of values.
    fn word(
        &self,
        word: &str,
        value: &Value,
        of: &Map<String, Value>,
        references: &mut Vec<String>,
    ) -> Option<Value> {
        match (word, value) {
            ("properties" | "patternProperties", Value::Object(map)) => {
                let each = map.iter();
                let each = each.map(|(name, value)| (name.clone(), self.said(value, references)));
                Some(Value::Object(each.collect()))
            }
            ("items" | "additionalProperties" | "not" | "propertyNames" | "contains", _) => {
                Some(self.said(value, references))
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                let each = list.iter();
                Some(each.map(|value| self.said(value, references)).collect())
            }
            ("required", Value::Array(names)) => {
                let names = names.iter().filter(|name| !self.is_of_answers(of, name));
                Some(names.cloned().collect())
            }
            ("exclusiveMinimum" | "exclusiveMaximum", value) => {
                value.is_number().then(|| value.clone())
            }
            (
                "type" | "enum" | "const" | "format" | "pattern" | "minimum" | "maximum"
                | "multipleOf" | "minLength" | "maxLength" | "minItems" | "maxItems"
                | "uniqueItems" | "minProperties" | "maxProperties" | "dependentRequired",
                value,
            ) => Some(value.clone()),
            _ => None,
        }
    }

    /// Whether a property that is required is so in answers alone: it is `readOnly` (OpenAPI 3.0.3, 4.7.24.1).
    fn is_of_answers(&self, of: &Map<String, Value>, name: &Value) -> bool {
        let name = name.as_str().unwrap_or_default();
        let property = of.get("properties").and_then(|all| all.get(name));
        property.is_some_and(|property| self.follow(property)["readOnly"] == true)
    }

    /// The schema and all that stand in it for the same value: where `$ref` leads, what `allOf` and the alternatives hold.
    pub(super) fn parts<'a>(&'a self, schemas: &[&'a Value]) -> Vec<&'a Value> {
        let mut parts: Vec<&Value> = Vec::new();
        let mut waiting = schemas.to_vec();
        while let Some(schema) = waiting.pop() {
            let schema = self.follow(schema);
            if parts.iter().any(|one| std::ptr::eq(*one, schema)) {
                continue;
            }
            parts.push(schema);
            for word in ["allOf", "anyOf", "oneOf"] {
                waiting.extend(schema[word].as_array().into_iter().flatten());
            }
        }
        parts
    }
}

/// The JSON pointer of a reference within the document.
fn pointer(reference: &str) -> String {
    let fragment = reference.trim_start_matches('#');
    percent_decode_str(fragment).decode_utf8_lossy().into_owned()
}
