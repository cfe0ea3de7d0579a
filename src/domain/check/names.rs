//! Names that expressions use and that no file declares as such: what memory can hold, what an execution says of itself, and
//! the fields of what a step brings.

use std::collections::BTreeSet;

use super::super::{
    draft::{StepDraft, WorkflowDraft},
    expression::Segment,
    node::{Content, Node},
};

/// S3's name of the inputs in memory.
const WORKFLOW_INPUT: &str = "__workflow_input__";

/// What an execution says of itself, as `run.`; where steps are named, the fields below them.
const RUN: &[(&str, Below)] = &[
    ("execution_id", Below::Nothing),
    ("workflow", Below::Nothing),
    ("project", Below::Nothing),
    ("started_at", Below::Nothing),
    ("visit", Below::Nothing),
    ("step", Below::Nothing),
    ("visits", Below::Steps(&[])),
    ("steps", Below::Steps(&["status", "error"])),
    ("failure", Below::These(&["code", "message", "step"])),
];

enum Below {
    Nothing,
    These(&'static [&'static str]),
    /// The id of a step, and these of it.
    Steps(&'static [&'static str]),
}

/// A name that cannot be, and those that can stand there.
pub(super) struct Unknown<'a> {
    pub(super) name: String,
    pub(super) known: Vec<&'a str>,
}

/// The names that something writes into memory; `None` where that cannot be read.
pub(super) fn memory<'a>(
    draft: &'a WorkflowDraft,
    steps: &'a [StepDraft],
) -> Option<BTreeSet<&'a str>> {
    let mut names = BTreeSet::from([WORKFLOW_INPUT]);
    let first = draft.said.iter().filter(|said| said.key == "memory");
    let bodies = steps
        .iter()
        .flat_map(|step| step.each.as_deref().into_iter().chain([step]));
    let sets = bodies.filter_map(|step| step.said("set"));
    for said in first.chain(sets) {
        names.extend(said.value.entries()?.iter().map(|entry| entry.key.as_str()));
    }
    // The output of a step lies in memory under its id too (S3).
    names.extend(
        steps
            .iter()
            .filter_map(|step| Some(step.id.given()?.value.as_str())),
    );
    Some(names)
}

/// What is wrong with a path below `run`, in a workflow with these steps.
pub(super) fn run<'a>(path: &[Segment], ids: impl Iterator<Item = &'a str>) -> Option<Unknown<'a>> {
    let first = path.first()?.key();
    let Some((_, below)) = RUN.iter().find(|(name, _)| *name == first) else {
        return Some(unknown(&first, RUN.iter().map(|(name, _)| *name)));
    };
    let (fields, rest) = match below {
        Below::Nothing => (&[][..], &path[1..]),
        Below::These(fields) => (*fields, &path[1..]),
        Below::Steps(fields) => {
            let id = path.get(1)?.key();
            let ids: Vec<_> = ids.collect();
            if !ids.contains(&&*id) {
                return Some(unknown(&id, ids.into_iter()));
            }
            (*fields, &path[2..])
        }
    };
    let next = rest.first()?.key();
    (!fields.contains(&&*next)).then(|| unknown(&next, fields.iter().copied()))
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Unknown<'a> {
    Unknown {
        name: name.to_owned(),
        known: known.collect(),
    }
}

/// Where a path into a value leads, by what the schema of the value says.
pub(super) enum Leads<'a> {
    /// To something, or nobody knows.
    Somewhere,
    /// The name cannot be there.
    Nowhere(Unknown<'a>),
    /// The field of this name may be left out.
    Perhaps(String),
}

/// The keywords that say of a value what is not read here.
const OTHERWISE: &[&str] = &[
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

/// Follows `path` through `schema` as far as that says anything.
pub(super) fn lead<'a>(schema: &'a Node, path: &[Segment]) -> Leads<'a> {
    let (mut schema, mut perhaps) = (schema, None);
    for segment in path {
        let key = segment.key();
        let says = |keyword: &&str| schema.get(keyword).is_some();
        if OTHERWISE.iter().any(says) {
            break;
        }
        match schema.get("type").and_then(Node::text) {
            Some("string" | "number" | "integer" | "boolean" | "null") => {
                return nowhere(&key, None);
            }
            Some("array") => match (segment, schema.get("items")) {
                (Segment::Key(_), _) => return nowhere(&key, None),
                (Segment::Index(_), Some(items)) => {
                    schema = items;
                    continue;
                }
                _ => break,
            },
            _ => {}
        }
        let field = schema.get("properties").and_then(|all| all.get(&key));
        if field.is_none() && is_closed(schema) {
            return nowhere(&key, schema.get("properties"));
        }
        if says(&"properties") && !is_required(schema, &key) {
            perhaps.get_or_insert_with(|| key.into_owned());
        }
        match field {
            Some(field) => schema = field,
            None => break,
        }
    }
    perhaps.map_or(Leads::Somewhere, Leads::Perhaps)
}

fn nowhere<'a>(name: &str, properties: Option<&'a Node>) -> Leads<'a> {
    let entries = properties.and_then(Node::entries).unwrap_or_default();
    let known = entries.iter().map(|entry| entry.key.as_str());
    Leads::Nowhere(unknown(name, known))
}

/// Whether an object may have only the properties that are declared.
fn is_closed(schema: &Node) -> bool {
    let is_false = |keyword| {
        schema
            .get(keyword)
            .is_some_and(|node| node.content == Content::Bool(false))
    };
    is_false("additionalProperties") || is_false("unevaluatedProperties")
}

fn is_required(schema: &Node, key: &str) -> bool {
    let required = schema.get("required").and_then(Node::items);
    required.is_some_and(|names| names.iter().any(|name| name.text() == Some(key)))
}
