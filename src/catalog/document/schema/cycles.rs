//! Breaks cycles of shared schemas that apply to the same value (`A: {allOf: [A]}`). Such schemas constrain nothing,
//! and evaluating them would not terminate.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::parse_shared_name;
use midex_domain::limits;

/// Replaces the schemas that close such a cycle, or a chain of more than [`limits::SCHEMA_REFERENCES_MAX`]
/// references, by schemas that accept anything. Returns their names.
pub(super) fn cut_schema_cycles(shared: &mut BTreeMap<String, Value>) -> Vec<String> {
    let mut chain_lengths = HashMap::new();
    let mut cycle_closers = Vec::new();
    for name in shared.keys() {
        measure_reference_chain(name, shared, &mut chain_lengths, &mut cycle_closers);
    }
    for name in &cycle_closers {
        shared.insert(name.clone(), Value::Bool(true));
    }
    cycle_closers
}

/// Computes the length of the longest chain of references from a schema, without recursion. Adds the schemas to
/// replace to `cut_schemas`; a chain ends at them. A length is `None` while the targets of its schema are being measured, so a
/// target with `None` closes a cycle.
fn measure_reference_chain<'a>(
    first: &'a str,
    shared: &'a BTreeMap<String, Value>,
    chain_lengths: &mut HashMap<&'a str, Option<usize>>,
    cut_schemas: &mut Vec<String>,
) {
    let mut stack = vec![first];
    while let Some(name) = stack.last().copied() {
        let targets = list_applied_schemas(name, shared);
        let is_visited = match chain_lengths.get(name) {
            Some(Some(_)) => {
                stack.pop();
                continue;
            }
            open => open.is_some(),
        };
        if !is_visited {
            chain_lengths.insert(name, None);
            stack.extend(targets.into_iter().filter(|target| !chain_lengths.contains_key(target)));
            continue;
        }
        let mut target_lengths =
            targets.iter().map(|target| chain_lengths.get(target).copied().flatten());
        let depth = target_lengths.try_fold(0, |most: usize, one| Some(most.max(one? + 1)));
        let depth = depth.filter(|depth| *depth <= limits::SCHEMA_REFERENCES_MAX);
        if depth.is_none() {
            cut_schemas.push(name.to_owned());
        }
        chain_lengths.insert(name, Some(depth.unwrap_or(0)));
        stack.pop();
    }
}

/// The shared schemas that apply to the same value as this schema: by reference, or in `allOf`, `anyOf`, `oneOf`,
/// `not`, `if`, `then`, `else` and `dependentSchemas`.
fn list_applied_schemas<'a>(name: &str, shared: &'a BTreeMap<String, Value>) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut pending: Vec<_> = shared.get(name).into_iter().collect();
    while let Some(value) = pending.pop() {
        let reference = value.get("$ref").and_then(Value::as_str);
        let name = reference.and_then(parse_shared_name);
        names.extend(name.filter(|name| shared.contains_key(*name)));
        for word in ["allOf", "anyOf", "oneOf"] {
            pending.extend(value.get(word).and_then(Value::as_array).into_iter().flatten());
        }
        pending.extend(["not", "if", "then", "else"].iter().filter_map(|word| value.get(word)));
        let dependent = value.get("dependentSchemas").and_then(Value::as_object);
        pending.extend(dependent.into_iter().flat_map(|map| map.values()));
    }
    names
}
