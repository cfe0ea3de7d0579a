//! The errors for workflows that cannot be written.

use std::path::Path;

use super::{super::WorkflowEntry, held::LockedFile, place};
use midex_domain::{
    error::{Code, Error, NextCall, again, call},
    limits,
};

/// The next call if the caller has not seen the current version of the file.
const SEEN_FIRST: NextCall = call(
    "workflow.get",
    &[("workflow_id", "{workflow_id}")],
    "make the change in its content, and send its version as expected_version",
);

/// The next call if the id is taken.
const ANOTHER_ID: NextCall = again("choose another id");

/// The next call if the file belongs to another source.
const A_COPY: NextCall = call(
    "workflow.get",
    &[("workflow_id", "{workflow_id}")],
    "workflow.save with its content, without overwrite and expected_version, makes a copy; else the user edits the file",
);

pub(super) fn identifier(id: &str) -> Error {
    let shown: String = id.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let hint = alike(&shown).map_or_else(String::new, |id| format!("; `{id}` would do"));
    let message = format!(
        "the id {shown:?} cannot be the name of a file: it takes letters, digits, `_`, `.` and `-`, and begins with a letter or a digit{hint}"
    );
    Error::new(Code::IdentifierInvalid, message).with("workflow_id", shown)
}

/// A valid id made of the same words, as a suggestion.
fn alike(id: &str) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let words: Vec<_> = id
        .split(|c| !is_word(c))
        .map(|word| word.trim_start_matches(['.', '_']))
        .filter(|word| !word.is_empty())
        .collect();
    (id.is_ascii() && !words.is_empty()).then(|| words.join("-"))
}

pub(super) fn exists(id: &str, held: &LockedFile) -> Error {
    let message = format!(
        "the workflow `{id}` is there already, as `{}`",
        held.path.display()
    );
    about(Code::WorkflowAlreadyExists, id, message, Some(&held.path))
        .with("version", held.version())
        .with_next(SEEN_FIRST)
}

pub(super) fn taken(id: &str, path: &Path) -> Error {
    let message = format!(
        "the workflow `{id}` would be `{}`, and a file of another workflow has that name",
        path.display()
    );
    about(Code::WorkflowAlreadyExists, id, message, Some(path)).with_next(ANOTHER_ID)
}

pub(super) fn look_alike(id: &str, entry: &WorkflowEntry, path: &Path) -> Error {
    let message = format!(
        "the id `{id}` differs in case alone from that of `{}`, `{}`: not every file system tells the two apart",
        path.display(),
        entry.name
    );
    about(Code::WorkflowAlreadyExists, id, message, Some(path)).with_next(ANOTHER_ID)
}

pub(super) fn version(id: &str, expected: &str, held: Option<&LockedFile>) -> Error {
    let expected: String = expected.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let actual = held.map(LockedFile::version);
    let message = match &actual {
        Some(actual) => format!("the workflow `{id}` has the version {actual}, not {expected}"),
        None => format!("the workflow `{id}` is not there, so it has not the version {expected}"),
    };
    let error = about(
        Code::VersionConflict,
        id,
        message,
        held.map(|held| &*held.path),
    )
    .with("expected_version", expected)
    .with("actual_version", actual.clone());
    match actual {
        Some(_) => error.with_next(SEEN_FIRST),
        None => error.with_next(again(
            "without expected_version, if it is to be a new workflow",
        )),
    }
}

pub(super) fn not_writable(entry: &WorkflowEntry, directory: &Path) -> Error {
    let message = format!(
        "the workflow `{}` is {}, and the tools write into `{}` alone",
        entry.name,
        place(entry),
        directory.display()
    );
    about(
        Code::WorkflowNotWritable,
        &entry.name,
        message,
        entry.path.as_deref(),
    )
    .with("source", entry.source.as_str())
    .with_next(A_COPY)
}

pub(super) fn not_a_file(id: &str, path: &Path, what: &str) -> Error {
    let message = format!(
        "`{}`, which has the workflow `{id}`, {what}",
        path.display()
    );
    about(Code::WorkflowNotWritable, id, message, Some(path)).with_next(A_COPY)
}

pub(super) fn no_place_for_name(id: &str, held: &LockedFile) -> Error {
    let what = "says its id in a way that cannot be changed at its place";
    not_a_file(id, &held.path, what)
}

fn about(code: Code, id: &str, message: String, path: Option<&Path>) -> Error {
    let error = Error::new(code, message).with("workflow_id", id);
    match path {
        Some(path) => error.with("path", path.display().to_string()),
        None => error,
    }
}
