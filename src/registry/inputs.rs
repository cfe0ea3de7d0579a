//! The `inputs` of a manifest, from a tree to drafts.

use serde_json::Number;

use super::{
    keys::Keys,
    mapping::{Mapping, boolean, join, text},
};
use crate::domain::{
    check::wrong_type,
    finding::Finding,
    input::draft::{DefaultDraft, InputDraft, ValidateDraft},
    node::{At, Content, Entry, Node},
};

/// Of one input.
pub(super) const INPUT: Keys = Keys {
    what: "an input",
    read: &[
        "name",
        "description",
        "type",
        "enum",
        "validate",
        "optional",
        "default",
        "placeholder",
        "hint",
        "example",
    ],
    planned: &[
        "provider",
        "provider_args",
        "select",
        "mode",
        "join",
        "cache_ttl_sec",
        "on_error",
        "depends_on",
    ],
};

/// Of its `validate`.
pub(super) const VALIDATE: Keys = Keys {
    what: "`validate`",
    read: &[
        "required",
        "enum",
        "pattern",
        "min_length",
        "max_length",
        "min",
        "max",
    ],
    planned: &[],
};

/// Of its `default`.
pub(super) const DEFAULT: Keys = Keys {
    what: "`default`",
    read: &["from", "value"],
    planned: &[],
};

/// The inputs, in the order of the document.
pub(super) fn inputs(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Vec<InputDraft>> {
    let entries = entries(found, node, path)?;
    let read = |entry: &&Entry| input(found, entry, path);
    Some(entries.iter().map(read).collect())
}

/// The entries of a mapping; of a key that stands twice, for which there is a finding already, the first.
fn entries<'a>(found: &mut Vec<Finding>, node: &'a Node, path: &str) -> Option<Vec<&'a Entry>> {
    let Content::Map(all) = &node.content else {
        found.push(wrong_type(node, path, "a mapping"));
        return None;
    };
    let mut seen = std::collections::HashSet::new();
    Some(all.iter().filter(|entry| seen.insert(&entry.key)).collect())
}

fn key(entry: &Entry, path: &str) -> At<String> {
    At {
        value: entry.key.clone(),
        path: join(path, &entry.key),
        place: entry.place,
    }
}

fn input(found: &mut Vec<Finding>, entry: &Entry, path: &str) -> InputDraft {
    let key = key(entry, path);
    let path = key.path.clone();
    let mut map = Mapping::new(found, &entry.value, &path, &INPUT);
    let draft = InputDraft {
        place: entry.value.place,
        label: map.take(found, "name", text),
        description: map.take(found, "description", text),
        kind: map.take(found, "type", text),
        one_of: map.take(found, "enum", values),
        validate: map.take(found, "validate", validate),
        optional: map.take(found, "optional", boolean),
        default: map.take(found, "default", default),
        placeholder: map.take(found, "placeholder", text),
        hint: map.take(found, "hint", text),
        example: map.take(found, "example", value),
        key,
    };
    map.refuse_rest(found);
    draft
}

fn validate(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<ValidateDraft> {
    let mut map = Mapping::of_mapping(found, node, path, &VALIDATE)?;
    let draft = ValidateDraft {
        required: map.take(found, "required", boolean),
        one_of: map.take(found, "enum", values),
        pattern: map.take(found, "pattern", text),
        min_length: map.take(found, "min_length", whole),
        max_length: map.take(found, "max_length", whole),
        min: map.take(found, "min", number),
        max: map.take(found, "max", number),
    };
    map.refuse_rest(found);
    Some(draft)
}

fn default(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<DefaultDraft> {
    let mut map = Mapping::of_mapping(found, node, path, &DEFAULT)?;
    let draft = DefaultDraft {
        place: node.place,
        from: map.take(found, "from", text),
        value: map.take(found, "value", value),
    };
    map.refuse_rest(found);
    Some(draft)
}

/// Any value but none.
fn value(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Node> {
    if node.content == Content::Null {
        found.push(wrong_type(node, path, "a value"));
        return None;
    }
    Some(node.clone())
}

fn values(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Vec<At<Node>>> {
    let Content::List(items) = &node.content else {
        found.push(wrong_type(node, path, "a list of values"));
        return None;
    };
    let read = |(at, item): (usize, &Node)| {
        let path = format!("{path}[{at}]");
        let value = value(found, item, &path)?;
        let place = item.place;
        Some(At { value, path, place })
    };
    Some(items.iter().enumerate().filter_map(read).collect())
}

fn whole(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<u64> {
    let number = match &node.content {
        Content::Number(number, _) => number.as_u64(),
        _ => None,
    };
    if number.is_none() {
        found.push(wrong_type(node, path, "a whole number, 0 or more"));
    }
    number
}

fn number(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Number> {
    if let Content::Number(number, _) = &node.content {
        return Some(number.clone());
    }
    found.push(wrong_type(node, path, "a number"));
    None
}
