//! The `inputs` of a manifest, from a tree to drafts.

use serde_json::Number;

use super::{
    keys::Keys,
    mapping::{Mapping, boolean, join, text},
};
use crate::domain::{
    check::wrong_type,
    draft::Field,
    finding::Finding,
    input::draft::{
        ArgumentDraft, ArgumentValueDraft, BindingDraft, DefaultDraft, InputDraft, JoinDraft,
        ProviderDraft, SelectDraft, ValidateDraft,
    },
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
        "provider",
        "select",
        "mode",
        "join",
        "cache_ttl_sec",
        "on_error",
        "provider_args",
        "depends_on",
    ],
    planned: &[],
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

/// Of its `provider`, where that is a mapping.
pub(super) const PROVIDER: Keys = Keys {
    what: "`provider`",
    read: &["id", "field"],
    planned: &[],
};

/// Of its `select`.
pub(super) const SELECT: Keys = Keys {
    what: "`select`",
    read: &["value_field", "display_field", "id_field"],
    planned: &[],
};

/// Of its `join`.
pub(super) const JOIN: Keys = Keys {
    what: "`join`",
    read: &["separator", "wrap_each"],
    planned: &[],
};

/// Of a binding.
pub(super) const BINDING: Keys = Keys {
    what: "a binding",
    read: &["from_step", "from_input", "path", "required", "on_missing"],
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
        provider: map.take(found, "provider", provider),
        select: map.take(found, "select", select),
        mode: map.take(found, "mode", text),
        join: map.take(found, "join", joined),
        cache_ttl_sec: map.take(found, "cache_ttl_sec", whole),
        on_error: map.take(found, "on_error", text),
        provider_args: map.take(found, "provider_args", arguments),
        depends_on: map.take(found, "depends_on", arguments),
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

fn provider(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<ProviderDraft> {
    let Content::Map(_) = &node.content else {
        let id = text_or_mapping(found, node, path)?;
        return Some(ProviderDraft {
            place: node.place,
            id: Field::Given(id),
            field: Field::Absent,
        });
    };
    let mut map = Mapping::of_mapping(found, node, path, &PROVIDER)?;
    let draft = ProviderDraft {
        place: node.place,
        id: map.take(found, "id", text),
        field: map.take(found, "field", text),
    };
    map.refuse_rest(found);
    Some(draft)
}

fn select(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<SelectDraft> {
    let mut map = Mapping::of_mapping(found, node, path, &SELECT)?;
    let draft = SelectDraft {
        value_field: map.take(found, "value_field", text),
        display_field: map.take(found, "display_field", text),
        id_field: map.take(found, "id_field", text),
    };
    map.refuse_rest(found);
    Some(draft)
}

fn joined(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<JoinDraft> {
    let mut map = Mapping::of_mapping(found, node, path, &JOIN)?;
    let draft = JoinDraft {
        place: node.place,
        separator: map.take(found, "separator", text),
        wrap_each: map.take(found, "wrap_each", text),
    };
    map.refuse_rest(found);
    Some(draft)
}

fn arguments(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<Vec<ArgumentDraft>> {
    let entries = entries(found, node, path)?;
    let read = |entry: &&Entry| {
        let key = key(entry, path);
        let value = argument(found, &entry.value, &key.path);
        ArgumentDraft {
            value: value.unwrap_or(ArgumentValueDraft::Broken),
            key,
        }
    };
    Some(entries.iter().map(read).collect())
}

fn argument(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<ArgumentValueDraft> {
    let Content::Map(_) = &node.content else {
        return text_or_mapping(found, node, path).map(ArgumentValueDraft::Text);
    };
    let mut map = Mapping::of_mapping(found, node, path, &BINDING)?;
    let draft = BindingDraft {
        place: node.place,
        from_step: map.take(found, "from_step", text),
        from_input: map.take(found, "from_input", text),
        path: map.take(found, "path", text),
        required: map.take(found, "required", boolean),
        on_missing: map.take(found, "on_missing", text),
    };
    map.refuse_rest(found);
    Some(ArgumentValueDraft::Binding(Box::new(draft)))
}

fn text_or_mapping(found: &mut Vec<Finding>, node: &Node, path: &str) -> Option<At<String>> {
    let Content::Text(value) = &node.content else {
        found.push(wrong_type(node, path, "a text or a mapping"));
        return None;
    };
    Some(At {
        value: value.clone(),
        path: path.to_owned(),
        place: node.place,
    })
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
