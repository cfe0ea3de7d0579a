//! Names of operations: `services:deploys:create`.
//!
//! A name is derived from the method, the path and the answer alone, so no other path of a document affects it:
//! - the segments of the path without parameters, in lower case with dashes, and without `.json` at the end;
//! - without versions (`v2`, `v1beta1`, `2010-04-01`), and without `api`, `apis` and `rest` at the beginning;
//! - then the action: `list` for a GET, `show` if its answer is a single object, `info` if the path ends with a
//!   parameter, `create` for a POST, `update` for a PUT or PATCH, `delete` for a DELETE, or else the name of the
//!   method.
//!
//! If several operations have the same derived name, one of them gets it. An operation that updates or deletes a
//! whole collection has the lowest precedence. Among the others, the one with the fewest segments in its path gets the name, and of
//! the same path PATCH before PUT, because it changes less. Each other operation gets the first free name of:
//! - its `operationId`, if that is a phrase instead of a repetition of the path (`updateThing`);
//! - the derived name with the last segment of the path appended (`things:create-things`);
//! - its `operationId`;
//! - the derived name with a digest of method and path appended.
//!
//! So a new version of a document changes names only among operations with the same derived name, and the order of
//! its paths does not matter. `assign_names` is the only function that assigns names, and it returns the collisions.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Warnings, operation::build_operation_pointer};
use crate::operation::{Method, Operation};
use midex_domain::{Digest, limits};

/// An operation whose derived name another operation has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameCollision {
    /// The derived name.
    pub wanted: String,
    /// The name that it has instead.
    pub name: String,
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
}

/// Assigns a name to each operation, and removes aliases that are not unique. `changes_existing` tells whether the answer of
/// an operation is a single object.
pub(super) fn assign_names(
    operations: &mut [Operation],
    changes_existing: impl Fn(&Operation) -> bool,
    warnings: &mut Warnings,
) -> Vec<NameCollision> {
    let ids = count_operation_ids(operations);
    let mut groups: BTreeMap<String, Vec<&mut Operation>> = BTreeMap::new();
    for operation in operations.iter_mut() {
        let mut derived_name = derive_name(operation.method, &operation.path);
        if changes_existing(operation)
            && let Some(prefix) = derived_name.strip_suffix(":list")
        {
            let show_name = format!("{prefix}:show");
            operation.aliases.push(std::mem::replace(&mut derived_name, show_name));
        }
        groups.entry(derived_name).or_default().push(operation);
    }
    let mut collisions = Vec::new();
    for (wanted, mut group) in groups {
        group.sort_by_key(|operation| name_precedence(operation));
        let mut taken_names = HashSet::new();
        for operation in group {
            let name = choose_free_name(operation, &wanted, &ids, &taken_names);
            taken_names.insert(name.clone());
            let earlier_name = name_with_last_segment(operation, &wanted);
            if name != wanted
                && is_phrase_id(&name, &operation.path)
                && taken_names.insert(earlier_name.clone())
            {
                operation.aliases.push(earlier_name);
            }
            if name != wanted {
                collisions.push(NameCollision {
                    wanted: wanted.clone(),
                    name: name.clone(),
                    method: operation.method,
                    path: operation.path.clone(),
                });
            }
            operation.name = name;
        }
    }
    remove_shared_aliases(operations, warnings);
    collisions
}

/// Counts the operations with each `operationId`, in the form of a name.
fn count_operation_ids(operations: &[Operation]) -> HashMap<String, usize> {
    let mut ids = HashMap::new();
    for alias in operations.iter().flat_map(|operation| &operation.aliases) {
        *ids.entry(to_kebab_case(alias)).or_default() += 1;
    }
    ids
}

/// The precedence among operations with the same derived name: the lowest one gets the name.
fn name_precedence(operation: &Operation) -> (bool, usize, String, bool) {
    let changes_existing = matches!(operation.method, Method::Put | Method::Patch | Method::Delete);
    let changes_collection = changes_existing && !ends_with_parameter(&operation.path);
    let parts = operation.path.split('/').count();
    (changes_collection, parts, operation.path.clone(), operation.method != Method::Patch)
}

fn choose_free_name(
    operation: &Operation,
    derived_name: &str,
    ids: &HashMap<String, usize>,
    taken_names: &HashSet<String>,
) -> String {
    let id_names = operation.aliases.iter().map(|id| to_kebab_case(id));
    let id_names =
        id_names.filter(|id| !id.is_empty() && ids.get(id) == Some(&1)).map(limit_name_length);
    // A phrase says more than the last segment of the path.
    let (first, last_candidates): (Vec<_>, Vec<_>) =
        id_names.partition(|id| is_phrase_id(id, &operation.path));
    let candidates = std::iter::once(derived_name.to_owned())
        .chain(first)
        .chain([name_with_last_segment(operation, derived_name)])
        .chain(last_candidates);
    let mut candidates = candidates.filter(|name| !taken_names.contains(name));
    candidates.next().unwrap_or_else(|| {
        let method = operation.method.as_str();
        let digest = compute_short_digest(&format!("{method} {}", operation.path));
        format!("{derived_name}-{}-{digest}", method.to_ascii_lowercase())
    })
}

/// The derived name with the last segment of the path appended. Earlier versions gave this name to some operations
/// whose name now is their `operationId`; it stays their alias.
fn name_with_last_segment(operation: &Operation, derived_name: &str) -> String {
    let last_segment = list_name_segments(&operation.path).pop().unwrap_or_default();
    limit_name_length(format!("{derived_name}-{last_segment}"))
}

/// Whether an `operationId`, in the form of a name, is a phrase: `update-number`, but not `numbers-update` for the
/// path `/numbers`, which repeats the path.
fn is_phrase_id(id: &str, path: &str) -> bool {
    let is_in_path =
        |word: &str| list_name_segments(path).iter().any(|part| part.starts_with(word));
    id.split_once('-').is_some_and(|(first, _)| !is_in_path(first))
}

/// The derived name of an operation, before collisions are resolved.
fn derive_name(method: Method, path: &str) -> String {
    let mut parts = list_name_segments(path);
    let action = match method {
        Method::Get if ends_with_parameter(path) => "info",
        Method::Get => "list",
        Method::Post => "create",
        Method::Put | Method::Patch => "update",
        Method::Delete => "delete",
        Method::Head => "head",
        Method::Options => "options",
        Method::Trace => "trace",
    };
    if parts.is_empty() {
        parts.push("root".into());
    }
    parts.push(action.into());
    limit_name_length(parts.join(":"))
}

/// The segments of a path that are part of a name.
pub(super) fn list_name_segments(path: &str) -> Vec<String> {
    let segments = path.split('/').map(strip_parameters).filter(|part| !part.is_empty());
    let mut parts: Vec<_> =
        segments.filter(|part| !is_version(part)).map(|part| to_kebab_case(&part)).collect();
    parts.retain(|part| !part.is_empty());
    let roots = parts.iter().take_while(|part| ["api", "apis", "rest"].contains(&part.as_str()));
    let root_count = roots.count();
    if root_count < parts.len() {
        parts.drain(..root_count);
    }
    parts
}

/// A segment of a path without its parameters.
fn strip_parameters(segment: &str) -> String {
    let mut stripped = String::new();
    let mut depth = 0_usize;
    for c in segment.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if depth == 0 => stripped.push(c),
            _ => {}
        }
    }
    stripped.strip_suffix(".json").map_or(stripped.clone(), str::to_owned)
}

pub(super) fn ends_with_parameter(path: &str) -> bool {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    last.contains('{') && to_kebab_case(&strip_parameters(last)).is_empty()
}

/// Whether a segment is a version: `v2`, `v1beta1`, `v1.1`, `2.0`, `2010-04-01`.
fn is_version(segment: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = segment.strip_prefix(['v', 'V']).unwrap_or(segment);
    let is_release = number.split(['.', '-']).all(digits);
    let number_end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let stage = ["alpha", "beta", "rc", "preview"]
        .iter()
        .find_map(|stage| number[number_end..].strip_prefix(stage));
    let is_staged = number_end > 0 && stage.is_some_and(|rest| rest.is_empty() || digits(rest));
    (is_release && (segment.len() > number.len() || segment.contains(['.', '-'])))
        || (segment.len() > number.len() && is_staged)
}

/// Converts text to lower case, with dashes between words: `pullRequests` and `pull_requests` become `pull-requests`.
pub(super) fn to_kebab_case(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 4);
    let mut was_lowercase = false;
    for c in text.chars() {
        let is_word_start = c.is_uppercase() && was_lowercase;
        if (is_word_start || !c.is_alphanumeric()) && !result.is_empty() && !result.ends_with('-') {
            result.push('-');
        }
        if c.is_alphanumeric() {
            result.extend(c.to_lowercase());
        }
        was_lowercase = c.is_lowercase() || c.is_numeric();
    }
    result.truncate(result.trim_end_matches('-').len());
    result
}

fn limit_name_length(name: String) -> String {
    let max_bytes = limits::OPERATION_NAME_BYTES_MAX;
    if name.len() <= max_bytes {
        return name;
    }
    let digest = compute_short_digest(&name);
    let end = name.floor_char_boundary(max_bytes - digest.len() - 1);
    format!("{}-{digest}", &name[..end])
}

fn compute_short_digest(text: &str) -> String {
    Digest::compute(text.as_bytes()).to_string()[..8].to_owned()
}

/// Removes aliases that several operations have, or that are the name of another operation.
fn remove_shared_aliases(operations: &mut [Operation], warnings: &mut Warnings) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for operation in operations.iter() {
        for word in operation.aliases.iter().chain([&operation.name]) {
            *counts.entry(word.clone()).or_default() += 1;
        }
    }
    for operation in operations {
        let (path, method, name) = (&operation.path, operation.method, &operation.name);
        operation.aliases.retain(|alias| {
            let is_unique = counts.get(alias) == Some(&1);
            if !is_unique && alias != name {
                let message = format!("several operations have the `operationId` `{alias}`: this one is called `{name}` only");
                warnings.add_warning(build_operation_pointer(path, Some(method)), "duplicate_operation_id", message);
            }
            is_unique
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_method_and_path() {
        for (method, path, name) in [
            (Method::Get, "/v1/services", "services:list"),
            (Method::Get, "/api/v2/services/{id}", "services:info"),
            (Method::Post, "/apis/apps/v1beta1/deployments", "apps:deployments:create"),
            (Method::Put, "/repos/{owner}/{repo}/topics/", "repos:topics:update"),
            (Method::Patch, "/pullRequests/{number}", "pull-requests:update"),
            (Method::Delete, "/2010-04-01/Accounts/{Sid}.json", "accounts:delete"),
            (Method::Get, "/2010-04-01/Accounts.json", "accounts:list"),
            (Method::Get, "/files/{id}:download", "files:download:list"),
            (Method::Get, "/compare/{base}...{head}", "compare:info"),
            (Method::Get, "/", "root:list"),
            (Method::Get, "/api", "api:list"),
            (Method::Head, "/files", "files:head"),
            (Method::Options, "/files", "files:options"),
            (Method::Trace, "/v2.1/files", "files:trace"),
            (Method::Get, "/volumes/v", "volumes:v:list"),
            (Method::Get, "/orders/2024", "orders:2024:list"),
        ] {
            assert_eq!(derive_name(method, path), name, "{path}");
        }
    }

    #[test]
    fn long_names_stay_unique_and_limited() {
        let path = |end: &str| format!("/{}/{end}", "a".repeat(limits::OPERATION_NAME_BYTES_MAX));
        let (one, two) =
            (derive_name(Method::Get, &path("x")), derive_name(Method::Get, &path("y")));
        assert_ne!(one, two);
        assert_eq!(one.len(), limits::OPERATION_NAME_BYTES_MAX);
    }
}
