//! What an export leaves out of rows and contents.
//!
//! Rows are changed in their JSON form, in which a payload is an object with `digest`, `bytes` and `inline`, and every other
//! digest is a string of 64 hexadecimal digits. Where a value is replaced, so is its digest wherever the rows name it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::manifest::ContentRole;
use midex_domain::{
    Digest, Event, JsonText, Row,
    error::{Error, Result},
    limits,
};

/// The value that stands in place of one that was redacted.
const REDACTED: &str = "[redacted]";

/// What an export replaces by `[redacted]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction {
    /// The values of all inputs, and what steps were given of them.
    inputs: bool,
    /// What steps returned, with memory and the final output.
    outputs: bool,
    /// The contents of artifacts.
    artifacts: bool,
    /// The values of the entries with these keys, in all values.
    keys: BTreeSet<String>,
}

impl Redaction {
    /// Parses what a person lists: `inputs`, `outputs`, `artifacts`, and keys of objects.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` for more than [`limits::REDACTED_KEYS_MAX`] keys.
    pub fn parse(names: &[String]) -> Result<Self> {
        let mut redaction = Self::default();
        for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            match name {
                "inputs" => redaction.inputs = true,
                "outputs" => redaction.outputs = true,
                "artifacts" => redaction.artifacts = true,
                key => drop(redaction.keys.insert(key.to_owned())),
            }
        }
        let max_keys = limits::REDACTED_KEYS_MAX;
        if redaction.keys.len() > max_keys {
            return Err(Error::limit_exceeded(format!("an export may redact {max_keys} keys")));
        }
        Ok(redaction)
    }

    /// The names that [`Self::parse`] reads.
    pub fn names(&self) -> Vec<String> {
        let words =
            [(self.inputs, "inputs"), (self.outputs, "outputs"), (self.artifacts, "artifacts")];
        let words = words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word);
        words.map(str::to_owned).chain(self.keys.iter().cloned()).collect()
    }

    /// Whether nothing is redacted.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether texts that quote values, such as titles and messages, are replaced too.
    fn hides_texts(&self) -> bool {
        self.inputs || self.outputs
    }

    /// Replaces what is to be hidden of a value with this meaning.
    fn redact_value(&self, value: &mut Value, meaning: Meaning) {
        match meaning {
            Meaning::Inputs if self.inputs => match value {
                Value::Object(inputs) => inputs.values_mut().for_each(|one| *one = REDACTED.into()),
                value => *value = REDACTED.into(),
            },
            Meaning::Output if self.outputs => *value = REDACTED.into(),
            Meaning::Derived if self.hides_texts() => redact_leaves(value),
            Meaning::Definition => {}
            Meaning::Artifact if self.artifacts => *value = REDACTED.into(),
            _ => self.redact_keys(value),
        }
    }

    fn redact_keys(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_keys(item)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    match self.keys.contains(key) {
                        true => *value = REDACTED.into(),
                        false => self.redact_keys(value),
                    }
                }
            }
            _ => {}
        }
    }

    fn redact_document(&self, document: &JsonText, meaning: Meaning) -> JsonText {
        let mut value = document.value();
        self.redact_value(&mut value, meaning);
        JsonText::from_value(&value)
    }

    /// The bytes in place of a content; `None` if it stays as it is.
    pub(super) fn redact_content(&self, content: &[u8], meaning: Meaning) -> Option<Vec<u8>> {
        let is_hidden_artifact = meaning == Meaning::Artifact && self.artifacts;
        let redacted = match serde_json::from_slice::<Value>(content) {
            _ if is_hidden_artifact => REDACTED.as_bytes().to_vec(),
            Ok(value) => {
                let mut redacted = value.clone();
                self.redact_value(&mut redacted, meaning);
                if redacted == value {
                    return None;
                }
                redacted.to_string().into_bytes()
            }
            Err(_) => return None,
        };
        (redacted != content).then_some(redacted)
    }
}

/// Replaces all that is in lists and objects, which keep their form.
fn redact_leaves(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact_leaves),
        Value::Object(entries) => entries.values_mut().for_each(redact_leaves),
        value => *value = REDACTED.into(),
    }
}

/// The meaning of a value that rows name. If a value has several, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    /// A definition, which stays as it is.
    Definition,
    /// The content of an artifact.
    Artifact,
    /// What a step returned, memory, the final output.
    Output,
    /// The inputs of an execution.
    Inputs,
    /// What is computed of inputs and outputs, or was sent: the input of a step, a list, a signal, options.
    Derived,
}

impl Meaning {
    pub(super) fn role(self) -> ContentRole {
        match self {
            Self::Definition => ContentRole::Definition,
            Self::Artifact => ContentRole::Artifact,
            Self::Output | Self::Inputs | Self::Derived => ContentRole::Value,
        }
    }

    /// The meaning in an execution. The inputs of a child are computed of what its parent has.
    fn in_execution(self, is_child: bool) -> Self {
        if self == Self::Inputs && is_child { Self::Derived } else { self }
    }

    /// The meaning of a payload or digest that is the value of this key.
    fn from_key(key: &str) -> Self {
        match key {
            "definition" => Self::Definition,
            "artifact" => Self::Artifact,
            "inputs" => Self::Inputs,
            "input" | "payload" | "error" | "options" | "offered" | "list" | "items" => {
                Self::Derived
            }
            _ => Self::Output,
        }
    }
}

/// A value or content in place of another one.
pub(super) struct Replacement {
    pub(super) digest: Digest,
    pub(super) bytes: u64,
}

/// The values that the rows of a bundle name, and what stands in place of them.
#[derive(Default)]
pub(super) struct NamedValues {
    /// The meaning of every value that a row names by digest. Digests of calls are among them.
    pub(super) meanings: BTreeMap<Digest, Meaning>,
    /// The digests of values that rows hold themselves.
    inline: BTreeSet<Digest>,
    /// The digests of values that the store holds.
    pub(super) stored: BTreeSet<Digest>,
    pub(super) replacements: BTreeMap<Digest, Replacement>,
}

/// A row without what no bundle holds: paths of this machine. JSON leaves nonces out by itself.
pub(super) fn to_portable_json(mut row: Row) -> Result<Value> {
    for event in &mut row.events {
        if let Event::Created(created) = event {
            (created.project, created.lookup) = (None, None);
        }
    }
    serde_json::to_value(&row)
        .map_err(|error| Error::internal("a row cannot be written as JSON").with_source(error))
}

impl NamedValues {
    /// Notes the values that a row names. Where a value has several meanings, its replacement is right after a second call for
    /// all rows.
    pub(super) fn collect(&mut self, row: &mut Value, redaction: &Redaction, is_child: bool) {
        walk(row, "", &mut |part| match part {
            Part::Payload(payload, meaning) => {
                let meaning = meaning.in_execution(is_child);
                let Some(digest) = parse_digest(&payload["digest"]) else {
                    return;
                };
                let meaning = self.note(digest, meaning);
                if let Some(text) = parse_document(payload.get("inline"))
                    && !redaction.is_empty()
                {
                    self.inline.insert(digest);
                    let text = redaction.redact_document(&text, meaning);
                    let bytes = text.as_str().len() as u64;
                    self.replacements.insert(digest, Replacement { digest: text.digest(), bytes });
                }
            }
            Part::Digest(text, meaning) => {
                if let Some(digest) = Digest::parse(text) {
                    let _ = self.note(digest, meaning.in_execution(is_child));
                }
            }
            Part::Text(_) | Part::Document(_) => {}
        });
    }

    /// Notes the values that a row names. A row that cannot be written names none.
    pub(super) fn collect_row(&mut self, row: &Row) {
        if let Ok(mut row) = serde_json::to_value(row) {
            self.collect(&mut row, &Redaction::default(), false);
        }
    }

    /// Notes a meaning of a value, and returns the one that counts so far.
    fn note(&mut self, digest: Digest, meaning: Meaning) -> Meaning {
        let known = self.meanings.entry(digest).or_insert(meaning);
        *known = meaning.min(*known);
        *known
    }

    /// Replaces in a row what is to be redacted.
    pub(super) fn redact(&self, row: &mut Value, redaction: &Redaction) {
        if redaction.is_empty() {
            return;
        }
        walk(row, "", &mut |part| match part {
            Part::Payload(payload, meaning) => {
                let digest = parse_digest(&payload["digest"]);
                let known = digest.and_then(|digest| self.meanings.get(&digest));
                if let Some(text) = parse_document(payload.get("inline")) {
                    let text = redaction.redact_document(&text, *known.unwrap_or(&meaning));
                    payload["inline"] = json!(text);
                }
                if let Some(new) = digest.and_then(|digest| self.replacements.get(&digest)) {
                    payload["digest"] = json!(new.digest);
                    payload["bytes"] = json!(new.bytes);
                }
            }
            Part::Digest(text, _) => {
                let digest = Digest::parse(text);
                let Some(digest) = digest else { return };
                if let Some(new) = self.replacements.get(&digest) {
                    *text = new.digest.to_string();
                } else if !self.inline.contains(&digest) && !self.stored.contains(&digest) {
                    // The digest of a call would let somebody try values that were redacted.
                    *text = Digest::from_bytes([0; 32]).to_string();
                }
            }
            Part::Text(text) if redaction.hides_texts() => *text = REDACTED.to_owned(),
            Part::Document(document) => {
                if let Some(text) = parse_document(Some(&*document)) {
                    *document = json!(redaction.redact_document(&text, Meaning::Derived));
                }
            }
            Part::Text(_) => {}
        });
    }
}

/// A part of a row that names or holds a value.
enum Part<'a> {
    /// A payload, or the description of an artifact: an object with `digest` and `bytes`.
    Payload(&'a mut Map<String, Value>, Meaning),
    /// A digest.
    Digest(&'a mut String, Meaning),
    /// A text that may quote a value.
    Text(&'a mut String),
    /// A [`JsonText`] that is no payload.
    Document(&'a mut Value),
}

/// The fields of events that are digests, or lists of digests.
const DIGEST_KEYS: &[&str] =
    &["definition", "call", "output", "shown", "list", "items", "offered", "memory", "inputs"];

fn walk(value: &mut Value, key: &str, visit: &mut impl FnMut(Part<'_>)) {
    match value {
        Value::Object(fields) if fields.contains_key("digest") && fields.contains_key("bytes") => {
            visit(Part::Payload(fields, Meaning::from_key(key)));
            if let Some(metadata) = fields.get_mut("metadata") {
                visit(Part::Document(metadata));
            }
        }
        // Of other objects and lists, these keys hold values of users.
        value if matches!(key, "metadata" | "next") => visit(Part::Document(value)),
        Value::Object(fields) if key != "response" => {
            fields.iter_mut().for_each(|(key, value)| walk(value, key, visit));
        }
        Value::Object(response) => {
            if let Some(payload) = response.get_mut("payload") {
                visit(Part::Document(payload));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, key, visit)),
        Value::String(text) if matches!(key, "message" | "title" | "text" | "comment") => {
            visit(Part::Text(text));
        }
        Value::String(text) if DIGEST_KEYS.contains(&key) => {
            visit(Part::Digest(text, Meaning::from_key(key)));
        }
        _ => {}
    }
}

fn parse_digest(value: &Value) -> Option<Digest> {
    Digest::parse(value.as_str()?)
}

/// The document of an optional field; `None` if it is absent.
fn parse_document(value: Option<&Value>) -> Option<JsonText> {
    let value = value.filter(|value| !value.is_null())?;
    JsonText::deserialize(value).ok()
}
