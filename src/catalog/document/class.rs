//! The class of an operation, from its method and its wording.
//!
//! Many services delete by `POST /containers/prune` or `GET /tokens/{id}/revoke`, so the method alone understates
//! what a call may remove. Wording only ever raises a class: a document cannot lower it below the class of the
//! method.

use super::{name::to_kebab_case, provider::to_singular, words::stem_word};
use crate::operation::{Operation, OperationClass};

/// Verbs of removal, in their base form.
const REMOVAL_VERBS: &[&str] = &[
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

/// Forms of [`REMOVAL_VERBS`] that [`stem_word`] does not reduce to the stem of the verb.
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

/// [`REMOVAL_VERBS`] that are also nouns: `GET /users/{id}/ban` may show a ban.
const REMOVAL_NOUNS: &[&str] = &["ban", "clear", "drop", "flush", "kill", "reset"];

/// Verbs that indicate that an operation only reads.
const READ_VERBS: &[&str] = &[
    "check", "count", "describe", "download", "export", "fetch", "find", "get", "has", "is",
    "list", "look", "lookup", "obtain", "poll", "preview", "query", "read", "retrieve", "return",
    "search", "see", "show", "view",
];

/// The class of an operation, unless the settings override it.
pub(super) fn infer_class(operation: &Operation) -> OperationClass {
    let (path, summary) = (operation.path.as_str(), operation.summary.as_str());
    let operation_id = operation.aliases.first().map_or("", String::as_str);
    let class = operation.method.class();
    let is_removal = match class {
        OperationClass::Safe => is_removal_by_reading_method(path, operation_id, summary),
        OperationClass::Standard => {
            list_literal_segments(path).any(has_removal_verb)
                || has_removal_verb(operation_id)
                || has_removal_verb(extract_first_sentence(summary))
        }
        OperationClass::Destructive => true,
    };
    if is_removal { OperationClass::Destructive } else { class }
}

/// Whether the text contains a form of a removal verb. Participles do not count: `Restore a deleted item` removes
/// nothing.
fn has_removal_verb(text: &str) -> bool {
    let kebab_text = to_kebab_case(text);
    let mut words = kebab_text.split('-').filter(|word| !word.ends_with("ed"));
    words.any(|word| {
        let stem = stem_word(word);
        REMOVAL_FORMS.contains(&&*stem) || REMOVAL_VERBS.iter().any(|verb| stem_word(verb) == stem)
    })
}

/// Whether an operation with a reading method removes something: a removal verb ends the path, begins or ends the
/// `operationId`, or begins the summary.
fn is_removal_by_reading_method(path: &str, operation_id: &str, summary: &str) -> bool {
    let is_removal = |word: &str| REMOVAL_VERBS.contains(&word);
    let path = to_kebab_case(list_literal_segments(path).next_back().unwrap_or_default());
    let id = to_kebab_case(operation_id);
    let path_end = path.rsplit('-').next().unwrap_or_default();
    if is_removal(path_end) && !REMOVAL_NOUNS.contains(&path_end) {
        return true;
    }
    let summary = to_kebab_case(summary);
    let verb = summary.split('-').find(|word| !word.ends_with("ly"));
    let verb = to_singular(verb.unwrap_or_default());
    let (id_begin, id_end) = (id.split('-').next(), id.rsplit('-').next());
    let has_read_verb =
        READ_VERBS.contains(&&*verb) || id_begin.is_some_and(|word| READ_VERBS.contains(&word));
    let candidate_words = [id_begin, id_end, Some(path_end), Some(&*verb)];
    !has_read_verb && candidate_words.into_iter().flatten().any(is_removal)
}

/// The segments of a path that contain no parameter.
fn list_literal_segments(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    let parts = path.split('/');
    parts.filter(|part| !part.is_empty() && !part.contains('{'))
}

fn extract_first_sentence(text: &str) -> &str {
    text.split(". ").next().unwrap_or_default()
}
