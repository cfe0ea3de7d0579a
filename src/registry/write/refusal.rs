//! The errors for workflows that cannot be written.

use std::path::Path;

use super::{
    super::{Source, WorkflowEntry},
    describe_location,
    directory::LockedFile,
};
use midex_domain::{
    error::{Code, Error, NextCall, call_tool, repeat_call},
    limits,
};

/// The next call if the caller has not seen the current version of the file.
const READ_FILE_FIRST_CALL: NextCall = call_tool(
    "workflow.get",
    &[("workflow_id", "{workflow_id}")],
    "make the change in its content, and send its version as expected_version",
);

/// The next call if the id is taken.
const OTHER_ID_CALL: NextCall = repeat_call("choose another id");

/// The next call if the embedding program defines the workflow.
const COPY_PROGRAM_WORKFLOW_CALL: NextCall = call_tool(
    "workflow.get",
    &[("workflow_id", "{workflow_id}")],
    "workflow.save with its content and another id makes a copy; the workflow itself changes with the program alone",
);

/// The next call if the file belongs to another source.
const COPY_WORKFLOW_CALL: NextCall = call_tool(
    "workflow.get",
    &[("workflow_id", "{workflow_id}")],
    "workflow.save with its content, without overwrite and expected_version, makes a copy; else the user edits the file",
);

/// The next call if the workflow is published.
const CHANGE_PUBLISHED_CALL: NextCall = call_tool(
    "workflow.get",
    &[("workflow_id", "{workflow_id}")],
    "the user changes it in its project, and runs `midex publish` there; workflow.save with its content and another id makes a copy",
);

pub(super) fn invalid_id_error(id: &str) -> Error {
    let short_id: String = id.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let hint =
        suggest_valid_id(&short_id).map_or_else(String::new, |id| format!("; `{id}` would do"));
    let message = format!(
        "the id {short_id:?} cannot be the name of a file: it takes letters, digits, `_`, `.` and `-`, and begins with a letter or a digit{hint}"
    );
    Error::new(Code::IdentifierInvalid, message).with_context("workflow_id", short_id)
}

/// A valid id made of the same words, as a suggestion.
fn suggest_valid_id(id: &str) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let words: Vec<_> = id
        .split(|c| !is_word(c))
        .map(|word| word.trim_start_matches(['.', '_']))
        .filter(|word| !word.is_empty())
        .collect();
    (id.is_ascii() && !words.is_empty()).then(|| words.join("-"))
}

pub(super) fn already_exists_error(id: &str, file: &LockedFile) -> Error {
    let message = format!("the workflow `{id}` is there already, as `{}`", file.path.display());
    file_error(Code::WorkflowAlreadyExists, id, message, Some(&file.path))
        .with_context("version", file.version())
        .with_next(READ_FILE_FIRST_CALL)
}

pub(super) fn path_taken_error(id: &str, path: &Path) -> Error {
    let message = format!(
        "the workflow `{id}` would be `{}`, and a file of another workflow has that name",
        path.display()
    );
    file_error(Code::WorkflowAlreadyExists, id, message, Some(path)).with_next(OTHER_ID_CALL)
}

pub(super) fn look_alike_error(id: &str, entry: &WorkflowEntry, path: &Path) -> Error {
    let message = format!(
        "the id `{id}` differs in case alone from that of `{}`, `{}`: not every file system tells the two apart",
        path.display(),
        entry.name
    );
    file_error(Code::WorkflowAlreadyExists, id, message, Some(path)).with_next(OTHER_ID_CALL)
}

pub(super) fn version_conflict_error(id: &str, expected: &str, file: Option<&LockedFile>) -> Error {
    let expected: String = expected.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let actual = file.map(LockedFile::version);
    let message = match &actual {
        Some(actual) => format!("the workflow `{id}` has the version {actual}, not {expected}"),
        None => format!("the workflow `{id}` is not there, so it has not the version {expected}"),
    };
    let error = file_error(Code::VersionConflict, id, message, file.map(|held| &*held.path))
        .with_context("expected_version", expected)
        .with_context("actual_version", actual.clone());
    match actual {
        Some(_) => error.with_next(READ_FILE_FIRST_CALL),
        None => {
            error.with_next(repeat_call("without expected_version, if it is to be a new workflow"))
        }
    }
}

pub(super) fn not_writable_error(entry: &WorkflowEntry, directory: &Path) -> Error {
    let name = &entry.name;
    let (message, next) = if entry.source == Source::Program {
        let message =
            format!("the program defines the workflow `{name}`, and hides every file of that name");
        (message, COPY_PROGRAM_WORKFLOW_CALL)
    } else {
        let (place, directory) = (describe_location(entry), directory.display());
        let message = format!(
            "the workflow `{name}` is {place}, and the tools write into `{directory}` alone"
        );
        let is_published = entry.source == Source::Cluster;
        (message, if is_published { CHANGE_PUBLISHED_CALL } else { COPY_WORKFLOW_CALL })
    };
    file_error(Code::WorkflowNotWritable, name, message, entry.path.as_deref())
        .with_context("source", entry.source.as_str())
        .with_next(next)
}

pub(super) fn not_a_file_error(id: &str, path: &Path, problem: &str) -> Error {
    let message = format!("`{}`, which has the workflow `{id}`, {problem}", path.display());
    file_error(Code::WorkflowNotWritable, id, message, Some(path)).with_next(COPY_WORKFLOW_CALL)
}

pub(super) fn name_not_located_error(id: &str, file: &LockedFile) -> Error {
    let problem = "says its id in a way that cannot be changed at its place";
    not_a_file_error(id, &file.path, problem)
}

fn file_error(code: Code, id: &str, message: String, path: Option<&Path>) -> Error {
    let error = Error::new(code, message).with_context("workflow_id", id);
    match path {
        Some(path) => error.with_context("path", path.display().to_string()),
        None => error,
    }
}
