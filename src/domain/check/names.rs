//! The valid names in expressions, by root: keys of memory, fields of `run`, and fields of outputs.

use std::collections::BTreeSet;

use super::super::{
    draft::{StepDraft, WorkflowDraft},
    expression::{ALL_INPUTS_MEMORY_KEY, HOOK_RUN_FIELDS, RUN_FIELDS, Segment, SubpathRule},
    node::{DocumentNode, NodeContent},
};

/// An unknown name, with the names that are valid in its place.
pub(super) struct UnknownName<'a> {
    pub(super) name: String,
    pub(super) known: Vec<&'a str>,
}

/// The keys that memory may have; `None` if a `set` does not parse.
pub(super) fn memory_keys<'a>(
    draft: &'a WorkflowDraft,
    steps: &'a [StepDraft],
) -> Option<BTreeSet<&'a str>> {
    let mut names = BTreeSet::from([ALL_INPUTS_MEMORY_KEY]);
    let bodies = steps.iter().flat_map(StepDraft::all_bodies_and_hooks);
    let bodies = bodies.chain(draft.hooks.iter().map(|(_, hook)| hook));
    let sets = bodies.filter_map(|step| step.find_field("set"));
    for field in draft.field("memory").into_iter().chain(sets) {
        let entries = field.value.entries()?.iter();
        names.extend(entries.map(|entry| entry.key.as_str()));
    }
    // Memory also holds the output of each step under the step's id.
    names.extend(steps.iter().filter_map(|step| Some(step.id.as_ref()?.value.as_str())));
    Some(names)
}

/// The first unknown name in a path below `run`, if any.
pub(super) fn unknown_run_field<'a>(
    path: &[Segment],
    is_hook_or_compensation: bool,
    ids: impl Iterator<Item = &'a str>,
) -> Option<UnknownName<'a>> {
    let first = path.first()?.as_key();
    let hook_fields = if is_hook_or_compensation { HOOK_RUN_FIELDS } else { &[] };
    let mut known = RUN_FIELDS.iter().chain(hook_fields);
    let Some((_, subpath_rule)) = known.clone().find(|(name, _)| *name == first) else {
        return Some(new_unknown_name(&first, known.by_ref().map(|(name, _)| *name)));
    };
    let (fields, rest) = match subpath_rule {
        SubpathRule::Nothing => (&[][..], &path[1..]),
        SubpathRule::Anything => return None,
        SubpathRule::OneOf(fields) => (*fields, &path[1..]),
        SubpathRule::Steps(fields) => {
            let id = path.get(1)?.as_key();
            let ids: Vec<_> = ids.collect();
            if !ids.contains(&&*id) {
                return Some(new_unknown_name(&id, ids.into_iter()));
            }
            (*fields, &path[2..])
        }
    };
    let field = rest.first()?.as_key();
    (!fields.contains(&&*field)).then(|| new_unknown_name(&field, fields.iter().copied()))
}

fn new_unknown_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> UnknownName<'a> {
    UnknownName { name: name.to_owned(), known: known.collect() }
}

/// The result of following a path through a schema.
pub(super) enum SchemaPathResult<'a> {
    /// The path is possible.
    Possible,
    /// The schema excludes this name.
    Impossible(UnknownName<'a>),
    /// A field on the path is optional. If it is not declared, the declared names are candidates for a suggestion.
    Optional(UnknownName<'a>),
}

/// Keywords that are not evaluated here. A schema with one of them allows any path.
const UNEVALUATED_KEYWORDS: &[&str] = &[
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "not",
    "$ref",
    "$dynamicRef",
    "patternProperties",
    "dependentSchemas",
];

/// Follows `path` through `schema` as far as the schema restricts it.
pub(super) fn follow_schema_path<'a>(
    schema: &'a DocumentNode,
    path: &[Segment],
) -> SchemaPathResult<'a> {
    let (mut schema, mut optional) = (schema, None);
    for segment in path {
        let key = segment.as_key();
        let has_keyword = |keyword: &&str| schema.get(keyword).is_some();
        if UNEVALUATED_KEYWORDS.iter().any(has_keyword) {
            break;
        }
        match schema.get("type").and_then(DocumentNode::as_text) {
            // Indexing a string yields a character.
            Some("string") if matches!(segment, Segment::Index(_)) => break,
            Some("string" | "number" | "integer" | "boolean" | "null") => {
                return missing_path_result(&key, None);
            }
            Some("array") => match (segment, schema.get("items")) {
                (Segment::Key(_), _) => return missing_path_result(&key, None),
                (Segment::Index(_), Some(items)) => {
                    schema = items;
                    continue;
                }
                _ => break,
            },
            _ => {}
        }
        let properties = schema.get("properties");
        let field = properties.and_then(|all| all.get(&key));
        if field.is_none() && is_closed(schema) {
            return missing_path_result(&key, properties);
        }
        if properties.is_some() && !is_required(schema, &key) {
            let others = properties.filter(|_| field.is_none());
            optional.get_or_insert_with(|| new_unknown_name(&key, declared_field_names(others)));
        }
        match field {
            Some(field) => schema = field,
            None => break,
        }
    }
    optional.map_or(SchemaPathResult::Possible, SchemaPathResult::Optional)
}

fn missing_path_result<'a>(
    name: &str,
    properties: Option<&'a DocumentNode>,
) -> SchemaPathResult<'a> {
    SchemaPathResult::Impossible(new_unknown_name(name, declared_field_names(properties)))
}

/// The names of declared fields.
fn declared_field_names(properties: Option<&DocumentNode>) -> impl Iterator<Item = &str> {
    let entries = properties.and_then(DocumentNode::entries).unwrap_or_default();
    entries.iter().map(|entry| entry.key.as_str())
}

/// Whether an object may have only the properties that are declared.
fn is_closed(schema: &DocumentNode) -> bool {
    let is_false =
        |keyword| schema.get(keyword).is_some_and(|node| node.content == NodeContent::Bool(false));
    is_false("additionalProperties") || is_false("unevaluatedProperties")
}

fn is_required(schema: &DocumentNode, key: &str) -> bool {
    let required = schema.get("required").and_then(DocumentNode::items);
    required.is_some_and(|names| names.iter().any(|name| name.as_text() == Some(key)))
}
