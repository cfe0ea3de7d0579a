//! The syntax tree of a document: values with their places, as the parsers of YAML and JSON make it. It is independent of
//! the notation.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use super::{
    document::type_name,
    finding::{Finding, Place, Rule},
};
use crate::limits;

/// Something that stands in a document: the value, its path (`steps[2].agent`) and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedValue<T> {
    /// The value.
    pub value: T,
    /// Its path inside the document.
    pub path: String,
    /// Where it stands.
    pub place: Place,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentNode {
    /// The value.
    pub content: NodeContent,
    /// Where it stands.
    pub place: Place,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeContent {
    /// Nothing: `null`, `~` or no value at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, and how it was written: `1.10` is a version before it is a number.
    Number(Number, String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<DocumentNode>),
    /// A mapping, in the order of the document, with the keys that stand twice.
    Map(Vec<MappingEntry>),
}

/// The path of the value under `key` of the mapping at `path`. A long key is cut, because every path below repeats it.
pub fn join_path(path: &str, key: &str) -> String {
    let key = match key.len() {
        0..=limits::PATH_KEY_BYTES_MAX => key,
        _ => &key[..key.floor_char_boundary(limits::PATH_KEY_BYTES_MAX)],
    };
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// One entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingEntry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// The value.
    pub value: DocumentNode,
}

impl<T> LocatedValue<T> {
    /// A finding about it.
    pub fn new_finding(&self, rule: Rule, message: impl Into<String>) -> Finding {
        Finding::new(rule, &self.path, self.place, message)
    }
}

impl DocumentNode {
    /// A finding about it, where it stands at `path`.
    pub fn new_finding(&self, rule: Rule, path: &str, message: impl Into<String>) -> Finding {
        Finding::new(rule, path, self.place, message)
    }

    /// Calls `visit` with every text in it, itself included, and the path of that text.
    pub fn for_each_text<'a>(
        &'a self,
        path: &str,
        visit: &mut impl FnMut(&'a Self, &'a str, &str),
    ) {
        match &self.content {
            NodeContent::Text(text) => visit(self, text, path),
            NodeContent::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.for_each_text(&format!("{path}[{index}]"), visit);
                }
            }
            NodeContent::Map(entries) => {
                for entry in entries {
                    entry.value.for_each_text(&join_path(path, &entry.key), visit);
                }
            }
            _ => {}
        }
    }

    /// The type, as a message names it.
    pub fn type_name(&self) -> &'static str {
        match &self.content {
            NodeContent::List(_) => type_name(&Value::Array(Vec::new())),
            NodeContent::Map(_) => type_name(&Value::Object(Map::new())),
            _ => type_name(&self.to_json()),
        }
    }

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text with its place, where it is one; the node stands at `path`.
    pub fn located_text(&self, path: &str) -> Option<LocatedValue<String>> {
        Some(LocatedValue {
            value: self.as_text()?.to_owned(),
            path: path.to_owned(),
            place: self.place,
        })
    }

    /// The text, or the number as it was written.
    pub fn text_or_number(&self) -> Option<String> {
        match &self.content {
            NodeContent::Text(text) | NodeContent::Number(_, text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The number, where it is a whole one that is not negative.
    pub fn as_count(&self) -> Option<u64> {
        let NodeContent::Number(number, _) = &self.content else {
            return None;
        };
        // `3.0` is a whole number too.
        let parse_whole = |number: f64| {
            let text = (number >= 0.0 && number.fract() == 0.0).then(|| format!("{number:.0}"));
            text.and_then(|text| text.parse().ok())
        };
        number.as_u64().or_else(|| number.as_f64().and_then(parse_whole))
    }

    /// The items, where it is a list.
    pub fn items(&self) -> Option<&[Self]> {
        match &self.content {
            NodeContent::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, where it is a mapping; of a key that stands twice the first counts.
    pub fn entries(&self) -> Option<&[MappingEntry]> {
        match &self.content {
            NodeContent::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let mut entries = self.entries()?.iter();
        entries.find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The value as a `T`, where it is one.
    pub fn deserialize_as<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.to_json()).ok()
    }

    /// The value under a key of a mapping as a `T`, where it is one.
    pub fn deserialize_key<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.get(key)?.deserialize_as()
    }

    /// The number, where it is a whole one that fits.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_count()?.try_into().ok()
    }

    /// How many values there are in it, itself included; a long text counts as several.
    pub fn value_count(&self) -> usize {
        match &self.content {
            NodeContent::Text(text) => 1 + text.len() / 64,
            NodeContent::List(items) => 1 + items.iter().map(Self::value_count).sum::<usize>(),
            NodeContent::Map(entries) => {
                1 + entries.iter().map(|entry| entry.value.value_count()).sum::<usize>()
            }
            _ => 1,
        }
    }

    /// The node as JSON; of a key that stands twice the last value stays.
    pub fn to_json(&self) -> Value {
        match &self.content {
            NodeContent::Null => Value::Null,
            NodeContent::Bool(value) => Value::Bool(*value),
            NodeContent::Number(number, _) => Value::Number(number.clone()),
            NodeContent::Text(text) => Value::String(text.clone()),
            NodeContent::List(items) => items.iter().map(Self::to_json).collect(),
            NodeContent::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// The node that a JSON pointer leads to, or the nearest one above it, with its path below `path`.
    pub fn find_by_pointer(&self, pointer: &str, path: &str) -> (&Self, String) {
        let mut node = self;
        let mut path = path.to_owned();
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let child = match &node.content {
                NodeContent::List(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
                NodeContent::Map(entries) => {
                    entries.iter().rfind(|entry| entry.key == part).map(|entry| &entry.value)
                }
                _ => None,
            };
            let Some(child) = child else { break };
            path = match node.content {
                NodeContent::List(_) => format!("{path}[{part}]"),
                _ => format!("{path}.{part}"),
            };
            node = child;
        }
        (node, path)
    }
}
