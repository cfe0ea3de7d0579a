//! Reading one mapping of a document: what is there is taken by key and type, what is left is refused,
//! and every fault is a finding with its place.

use std::collections::{HashMap, HashSet};

use super::{
    inputs::INPUT,
    keys::{KINDS, Keys},
};
use crate::domain::{
    check::{unknown_key, wrong_type},
    draft::{Field, Said},
    finding::{Finding, Rule},
    node::{At, Content, Entry, Node},
};

/// A mapping that is being read: its entries are taken one by one, and what stays is refused.
pub(super) struct Mapping<'a> {
    path: &'a str,
    keys: &'static Keys,
    /// What was not taken yet.
    pub(super) entries: Vec<&'a Entry>,
    /// The node is no mapping, which has been said: nothing in it is missing.
    broken: bool,
}

impl<'a> Mapping<'a> {
    /// Begins to read `node`, which stands at `path`.
    pub(super) fn new(
        found: &mut Vec<Finding>,
        node: &'a Node,
        path: &'a str,
        keys: &'static Keys,
    ) -> Self {
        let mut entries: Vec<&Entry> = Vec::new();
        let broken = if let Content::Map(all) = &node.content {
            // Of a key that stands twice, for which there is a finding already, the first is read.
            let mut seen = HashSet::new();
            entries.extend(all.iter().filter(|entry| seen.insert(&entry.key)));
            false
        } else {
            found.push(wrong_type(node, path, "a mapping"));
            true
        };
        Self {
            path,
            keys,
            entries,
            broken,
        }
    }

    /// The same, and nothing where the node is no mapping.
    pub(super) fn of_mapping(
        found: &mut Vec<Finding>,
        node: &'a Node,
        path: &'a str,
        keys: &'static Keys,
    ) -> Option<Self> {
        Some(Self::new(found, node, path, keys)).filter(|mapping| !mapping.broken)
    }

    /// Takes the value of `key`, if it is one of the mapping's keys and there.
    pub(super) fn take<T>(
        &mut self,
        found: &mut Vec<Finding>,
        key: &str,
        read: impl FnOnce(&mut Vec<Finding>, &Node, &str) -> Option<T>,
    ) -> Field<T> {
        if self.broken {
            return Field::Broken;
        }
        let position = self.entries.iter().position(|entry| entry.key == key);
        let Some(position) = position.filter(|_| self.keys.read.contains(&key)) else {
            return Field::Absent;
        };
        let node = &self.entries.remove(position).value;
        let path = join(self.path, key);
        match read(found, node, &path) {
            None => Field::Broken,
            Some(value) => Field::Given(At {
                value,
                path,
                place: node.place,
            }),
        }
    }

    /// Takes what is said under these keys as it is.
    pub(super) fn said(&mut self, keys: impl Iterator<Item = &'static str>) -> Vec<Said> {
        let mut said = Vec::new();
        for key in keys.filter(|key| self.keys.read.contains(key)) {
            let Some(at) = self.entries.iter().position(|entry| entry.key == key) else {
                continue;
            };
            let entry = self.entries.remove(at);
            said.push(Said {
                key,
                path: join(self.path, key),
                place: entry.place,
                value: entry.value.clone(),
            });
        }
        said
    }

    /// The kind keys that are there, in the order of the file.
    pub(super) fn kinds(&self) -> Vec<At<String>> {
        self.entries
            .iter()
            .filter(|entry| KINDS.contains(&entry.key.as_str()) && self.keys.knows(&entry.key))
            .map(|entry| At {
                value: entry.key.clone(),
                path: join(self.path, &entry.key),
                place: entry.place,
            })
            .collect()
    }

    /// A finding for every entry that was not taken.
    pub(super) fn refuse_rest(self, found: &mut Vec<Finding>) {
        for entry in self.entries {
            let (key, path) = (entry.key.as_str(), join(self.path, &entry.key));
            let finding = if self.keys.planned.contains(&key) {
                let message = format!("`{key}` is not supported yet");
                Finding::new(Rule::NotSupportedYet, path, entry.place, message)
                    .suggest(instead_of(self.keys.what, key).to_owned())
            } else if self.keys.read.contains(&key) {
                let message = format!("`{key}` says again what another key says");
                Finding::new(Rule::DuplicateKey, path, entry.place, message)
            } else {
                unknown_key(self.keys.what, entry, path).suggest(self.keys.hint(key))
            };
            found.push(finding);
        }
    }
}

/// The path of what stands under `key`.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// A finding for each key of the whole document that stands twice in one mapping.
pub(super) fn repeated_keys(found: &mut Vec<Finding>, node: &Node, path: &str) {
    match &node.content {
        Content::List(items) => {
            for (at, item) in items.iter().enumerate() {
                repeated_keys(found, item, &format!("{path}[{at}]"));
            }
        }
        Content::Map(entries) => {
            let mut first: HashMap<&str, usize> = HashMap::new();
            for entry in entries {
                if let Some(line) = first.get(entry.key.as_str()) {
                    found.push(twice(entry, path, *line));
                }
                first.entry(&entry.key).or_insert(entry.place.line);
                repeated_keys(found, &entry.value, &join(path, &entry.key));
            }
        }
        _ => {}
    }
}

fn twice(entry: &Entry, path: &str, first_line: usize) -> Finding {
    let message = format!("`{}` stands twice: first on line {first_line}", entry.key);
    Finding::new(
        Rule::DuplicateKey,
        join(path, &entry.key),
        entry.place,
        message,
    )
}

/// A text.
pub(super) fn text(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<String> {
    if let Content::Text(text) = &node.content {
        return Some(text.clone());
    }
    found.push(wrong_type(node, path, "a text"));
    None
}

/// A text, or a number as it was written: `version: 1.10`.
pub(super) fn scalar(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<String> {
    match &node.content {
        Content::Number(_, written) => Some(written.clone()),
        _ => text(found, node, path),
    }
}

/// `true` or `false`.
pub(super) fn boolean(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<bool> {
    if let Content::Bool(value) = node.content {
        return Some(value);
    }
    found.push(wrong_type(node, path, "`true` or `false`"));
    None
}

/// The texts of a list. One that is no text is a finding, and the others stay.
pub(super) fn texts(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Vec<At<String>>> {
    let Content::List(items) = &node.content else {
        found.push(wrong_type(node, path, "a list of texts"));
        return None;
    };
    let texts = items.iter().enumerate().filter_map(|(at, item)| {
        let path = format!("{path}[{at}]");
        text(found, item, &path).map(|value| At {
            value,
            path,
            place: item.place,
        })
    });
    Some(texts.collect())
}

/// A list of texts, or one text alone.
pub(super) fn text_or_texts(
    found: &mut Vec<Finding>,
    node: &Node,
    path: &str,
) -> Option<Vec<At<String>>> {
    match &node.content {
        Content::Text(value) => Some(vec![At {
            value: value.clone(),
            path: path.to_owned(),
            place: node.place,
        }]),
        _ => texts(found, node, path),
    }
}

/// What to write in place of a key that is planned.
fn instead_of(what: &str, key: &str) -> &'static str {
    match key {
        "provider" => "list the choices in `enum`",
        _ if what == INPUT.what => "leave it out: nothing would act on it",
        "workflow" => {
            "write the steps of that workflow here, or start it with a `tool` step that calls workflow.start"
        }
        "hooks" | "compensate" | "on_failure" => {
            "write a step with `run_when: failed`, or with `run_when: finished`, that does it"
        }
        "join" => {
            "a step waits for all that `depends_on` names; make those `optional` that may fail"
        }
        "stall_after" | "escalate" => {
            "give the step a `timeout`, and an `on_error` that leads to a step for a person"
        }
        "extends" => "copy what you need of that workflow",
        "requires" => "say in `description` what the workflow needs",
        _ => "leave it out: nothing would act on it",
    }
}
