//! What an export leaves out of rows and contents.
//!
//! Rows are changed in their JSON form, in which a payload is an object with `digest`, `bytes` and `inline`, and every other
//! digest is a string. Where a value is replaced, so is its digest wherever the rows name it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::manifest::ContentRole;
use midex_domain::{
    Digest, Event, JsonText, Row,
    error::{Error, Result},
    limits,
};

/// The value that stands in place of one that was redacted.
const REDACTED: &str = "[redacted]";
/// The fields of events that are digests, or lists of digests.
const DIGEST_KEYS: &[&str] =
    &["definition", "call", "output", "shown", "list", "items", "offered", "memory", "inputs"];
/// The fields of events that are texts which may quote a value.
const TEXT_KEYS: &[&str] = &["message", "title", "text", "comment"];

/// What an export replaces by `[redacted]`: `inputs`, `outputs`, `artifacts`, and the values of the entries with other keys,
/// in all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction(BTreeSet<String>);

impl Redaction {
    /// The redaction of what a person lists.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` for more than [`limits::REDACTED_KEYS_MAX`] names.
    pub fn new(names: &[String]) -> Result<Self> {
        let names = names.iter().map(|name| name.trim().to_owned());
        let names: BTreeSet<_> = names.filter(|name| !name.is_empty()).collect();
        if names.len() > limits::REDACTED_KEYS_MAX {
            let limit = format!("an export may redact {} keys", limits::REDACTED_KEYS_MAX);
            return Err(Error::limit_exceeded(limit));
        }
        Ok(Self(names))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether what is computed of values is replaced too, such as titles and messages.
    fn hides_derived(&self) -> bool {
        self.has("inputs") || self.has("outputs")
    }

    fn redact_value(&self, value: &mut Value, role: ContentRole) {
        match role {
            ContentRole::Definition => {}
            ContentRole::Artifact if self.has("artifacts") => *value = REDACTED.into(),
            ContentRole::Output if self.has("outputs") => *value = REDACTED.into(),
            ContentRole::Inputs if self.has("inputs") => match value.as_object_mut() {
                Some(inputs) => inputs.values_mut().for_each(|input| *input = REDACTED.into()),
                None => *value = REDACTED.into(),
            },
            ContentRole::Derived if self.hides_derived() => {
                replace(value, None, &|_, part| !part.is_array() && !part.is_object());
            }
            _ => replace(value, None, &|key, _| key.is_some_and(|key| self.has(key))),
        }
    }

    fn redact_document(&self, document: &JsonText, role: ContentRole) -> JsonText {
        let mut value = document.value();
        self.redact_value(&mut value, role);
        JsonText::from_value(&value)
    }

    /// The bytes in place of a content; `None` if it stays as it is.
    pub(super) fn redact_content(&self, content: &[u8], role: ContentRole) -> Option<Vec<u8>> {
        let text = match serde_json::from_slice::<Value>(content) {
            Ok(value) => value,
            // Only an artifact may be no JSON.
            Err(_) if self.has("artifacts") => Value::Null,
            Err(_) => return None,
        };
        let mut redacted = text.clone();
        self.redact_value(&mut redacted, role);
        (redacted != text).then(|| redacted.to_string().into_bytes())
    }
}

/// Replaces the parts of a value that `is_hidden` chooses by their key and value.
fn replace(value: &mut Value, key: Option<&str>, is_hidden: &dyn Fn(Option<&str>, &Value) -> bool) {
    match value {
        value if is_hidden(key, value) => *value = REDACTED.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, None, is_hidden)),
        Value::Object(entries) => {
            entries.iter_mut().for_each(|(key, value)| replace(value, Some(key), is_hidden));
        }
        _ => {}
    }
}

impl ContentRole {
    /// The role of a value of this key in the events of an execution. The inputs of a child are computed by its parent.
    fn from_key(key: &str, is_child: bool) -> Self {
        match key {
            "definition" => Self::Definition,
            "artifact" => Self::Artifact,
            "inputs" if !is_child => Self::Inputs,
            "inputs" | "input" | "payload" | "error" | "options" | "offered" | "list" | "items" => {
                Self::Derived
            }
            _ => Self::Output,
        }
    }
}

/// The JSON form of a row without paths of this machine. JSON leaves nonces out by itself.
pub(super) fn to_portable_json(mut row: Row) -> Result<Value> {
    for event in &mut row.events {
        match event {
            Event::Created(created) => (created.project, created.lookup) = (None, None),
            Event::Imported { project } => project.clear(),
            _ => {}
        }
    }
    serde_json::to_value(&row)
        .map_err(|error| Error::internal("a row cannot be written as JSON").with_source(error))
}

/// The values that the rows of a bundle name, and what stands in place of them.
#[derive(Default)]
pub(super) struct NamedValues {
    /// The role of everything that a row names by a digest; the first one counts if there are several. Digests of calls are
    /// among them.
    pub(super) roles: BTreeMap<Digest, ContentRole>,
    /// The values, inline or contents of the store, each with the digest and size that it has in the bundle.
    pub(super) values: BTreeMap<Digest, (Digest, u64)>,
}

impl NamedValues {
    /// Notes the values that a row names. If values have several roles, their replacements are right after a second call.
    pub(super) fn collect(&mut self, row: &mut Value, is_child: bool, redaction: &Redaction) {
        visit_values(row, "", &mut |part, key| {
            let digest = match &part {
                RowValue::Payload(payload) => parse_digest(&payload["digest"]),
                RowValue::Digest(digest) => parse_digest(digest),
                RowValue::Text(_) | RowValue::Document(_) => None,
            };
            let Some(digest) = digest else { return };
            let role = ContentRole::from_key(key, is_child);
            let known = self.roles.entry(digest).or_insert(role);
            *known = role.min(*known);
            if let RowValue::Payload(payload) = part
                && let Some(document) = parse_document(&payload["inline"])
                && !redaction.is_empty()
            {
                let text = redaction.redact_document(&document, *known);
                self.values.insert(digest, (text.digest(), text.as_str().len() as u64));
            }
        });
    }

    /// Replaces in a row what is to be redacted.
    pub(super) fn redact(&self, row: &mut Value, redaction: &Redaction) {
        visit_values(row, "", &mut |part, _| match part {
            RowValue::Payload(payload) => {
                let Some(digest) = parse_digest(&payload["digest"]) else { return };
                if let (Some(document), Some(role)) =
                    (parse_document(&payload["inline"]), self.roles.get(&digest))
                {
                    payload["inline"] = json!(redaction.redact_document(&document, *role));
                }
                if let Some((digest, bytes)) = self.values.get(&digest) {
                    (payload["digest"], payload["bytes"]) = (json!(digest), json!(bytes));
                }
            }
            RowValue::Digest(text) => {
                let Some(digest) = parse_digest(text) else { return };
                // With the digest of a call, values that were redacted could be found out by trying.
                let hidden = Digest::from_bytes([0; 32]);
                *text = json!(self.values.get(&digest).map_or(hidden, |(digest, _)| *digest));
            }
            RowValue::Text(text) if redaction.hides_derived() => *text = REDACTED.into(),
            RowValue::Text(_) => {}
            RowValue::Document(value) => {
                if let Some(document) = parse_document(value) {
                    *value = json!(redaction.redact_document(&document, ContentRole::Derived));
                }
            }
        });
    }
}

/// A part of a row that names or holds a value.
enum RowValue<'a> {
    /// A payload, or the description of an artifact: an object with `digest` and `bytes`.
    Payload(&'a mut Value),
    /// A digest.
    Digest(&'a mut Value),
    /// A text that may quote a value.
    Text(&'a mut Value),
    /// A [`JsonText`] that is no payload.
    Document(&'a mut Value),
}

/// Visits the parts of a row, each with its key.
fn visit_values(value: &mut Value, key: &str, visit: &mut impl FnMut(RowValue<'_>, &str)) {
    if value.get("digest").is_some() && value.get("bytes").is_some() {
        if let Some(metadata) = value.get_mut("metadata") {
            visit(RowValue::Document(metadata), key);
        }
        return visit(RowValue::Payload(value), key);
    }
    if key == "response" && value.is_object() {
        return visit(RowValue::Document(&mut value["payload"]), key);
    }
    match value {
        value if matches!(key, "metadata" | "next") => visit(RowValue::Document(value), key),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, value)| visit_values(value, key, visit));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit_values(item, key, visit)),
        value if !value.is_string() => {}
        value if TEXT_KEYS.contains(&key) => visit(RowValue::Text(value), key),
        value if DIGEST_KEYS.contains(&key) => visit(RowValue::Digest(value), key),
        _ => {}
    }
}

fn parse_digest(value: &Value) -> Option<Digest> {
    Digest::parse(value.as_str()?)
}

/// The document of an optional field; `None` if it is absent.
fn parse_document(value: &Value) -> Option<JsonText> {
    if value.is_null() { None } else { JsonText::deserialize(value).ok() }
}
