//! The class of an operation by its method and its words.
//!
//! Many services delete by `POST /containers/prune` or `GET /tokens/{id}/revoke`, so the method alone understates what a
//! call may take away. Words only ever raise a class: a document cannot talk an operation below the class of its method.

use super::{name::dashed, provider::singular, words::stem};
use crate::operation::{Class, Operation};

/// Verbs for taking something away, in their base form.
const REMOVALS: &[&str] = &[
    "ban",
    "clear",
    "delete",
    "deregister",
    "destroy",
    "discard",
    "drop",
    "erase",
    "expunge",
    "flush",
    "invalidate",
    "kill",
    "prune",
    "purge",
    "remove",
    "reset",
    "revoke",
    "terminate",
    "truncate",
    "uninstall",
    "unlink",
    "unregister",
    "wipe",
];

/// Forms of [`REMOVALS`] that [`stem`] does not lead back to the verb.
const REMOVAL_FORMS: &[&str] = &[
    "bann",
    "deletion",
    "dropp",
    "erasure",
    "removal",
    "resett",
    "revocation",
    "termination",
    "wiping",
];

/// Those of [`REMOVALS`] that are nouns too: `GET /users/{id}/ban` may show a ban.
const NOUNS: &[&str] = &["ban", "clear", "drop", "flush", "kill", "reset"];

/// Verbs by which a document says that an operation reads.
const READS: &[&str] = &[
    "check", "count", "describe", "download", "export", "fetch", "find", "get", "has", "is",
    "list", "look", "lookup", "obtain", "poll", "preview", "query", "read", "retrieve", "return",
    "search", "see", "show", "view",
];

/// The class of an operation that no settings say another class of.
pub(super) fn class_of(operation: &Operation) -> Class {
    let (path, summary) = (operation.path.as_str(), operation.summary.as_str());
    let operation_id = operation.aliases.first().map_or("", String::as_str);
    let class = operation.method.class();
    let removes = match class {
        Class::Safe => is_removal_by_reading_method(path, operation_id, summary),
        Class::Standard => {
            literal_parts(path).any(has_removal)
                || has_removal(operation_id)
                || has_removal(first_sentence(summary))
        }
        Class::Destructive => true,
    };
    if removes { Class::Destructive } else { class }
}

/// Whether a word of the text is a form of a removal, participles aside: `Restore a deleted item` removes nothing.
fn has_removal(text: &str) -> bool {
    let dashed = dashed(text);
    let mut words = dashed.split('-').filter(|word| !word.ends_with("ed"));
    words.any(|word| {
        let stemmed = stem(word);
        REMOVAL_FORMS.contains(&&*stemmed) || REMOVALS.iter().any(|verb| stem(verb) == stemmed)
    })
}

/// Whether a GET removes something. Its verb ends the path, begins or ends the operationId, or begins the summary.
fn is_removal_by_reading_method(path: &str, operation_id: &str, summary: &str) -> bool {
    let is_removal = |word: &str| REMOVALS.contains(&word);
    let path = dashed(literal_parts(path).next_back().unwrap_or_default());
    let id = dashed(operation_id);
    let path_end = path.rsplit('-').next().unwrap_or_default();
    if is_removal(path_end) && !NOUNS.contains(&path_end) {
        return true;
    }
    let summary = dashed(summary);
    let verb = summary.split('-').find(|word| !word.ends_with("ly"));
    let verb = singular(verb.unwrap_or_default());
    let (id_begin, id_end) = (id.split('-').next(), id.rsplit('-').next());
    let reads = READS.contains(&&*verb) || id_begin.is_some_and(|word| READS.contains(&word));
    let said = [id_begin, id_end, Some(path_end), Some(&*verb)];
    !reads && said.into_iter().flatten().any(is_removal)
}

/// The parts of a path that are no parameters.
fn literal_parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    let parts = path.split('/');
    parts.filter(|part| !part.is_empty() && !part.contains('{'))
}

fn first_sentence(text: &str) -> &str {
    text.split(". ").next().unwrap_or_default()
}
