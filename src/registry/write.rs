//! Saves, renames and deletes workflow files. The text is stored byte for byte, an id has one file in the directory,
//! and of two concurrent writers with the same expected version exactly one succeeds, even across processes.

mod directory;
mod refusal;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;

use self::directory::{LockedDirectory, LockedFile, write_error};
use super::{
    DefinitionDirectory, Format, LiveDefinitions, Manifest, Registry, Source, WorkflowEntry,
    author::unusable_path_error,
};
use midex_domain::{
    error::Result,
    finding::{Finding, Rule, has_errors},
};
use midex_folder::ExistingFilePolicy;

/// A save request.
#[derive(Clone, Debug)]
pub struct SaveRequest {
    /// The text and its format.
    pub manifest: Manifest,
    /// Whether the save may replace a file without an expected version. The file must still be the one that was there
    /// when the save began.
    pub should_overwrite: bool,
    /// The version of the file that the save may replace.
    pub expected_version: Option<String>,
}

/// The result of a save.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedWorkflow {
    workflow_id: String,
    path: String,
    format: &'static str,
    version: String,
    created: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_version: Option<String>,
    #[schemars(with = "Vec<serde_json::Value>")]
    warnings: Vec<Finding>,
    sync: WorkflowCounts,
}

/// The result of a rename.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RenamedWorkflow {
    workflow_id: String,
    #[serde(rename = "renamed_from")]
    from: String,
    path: String,
    format: &'static str,
    version: String,
    sync: WorkflowCounts,
}

/// The result of a delete, or of its preview.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeletedWorkflow {
    /// The id of the workflow.
    pub workflow_id: String,
    /// Its file.
    pub path: String,
    /// The version of the file.
    pub version: String,
    sync: WorkflowCounts,
}

/// The number of workflows and workflow commands after a change.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct WorkflowCounts {
    workflow_count: usize,
    synthetic_command_count: usize,
}

impl WorkflowCounts {
    fn from_registry(registry: &Registry) -> Self {
        let usable = registry.workflows().filter(|entry| entry.value.is_some());
        Self {
            workflow_count: registry.workflows().count(),
            synthetic_command_count: usable.count(),
        }
    }
}

/// Saves a workflow into `target`, which is created if necessary. Blocks.
///
/// # Errors
/// `WORKFLOW_VALIDATION_FAILED` with every violation; `IDENTIFIER_INVALID`; `WORKFLOW_ALREADY_EXISTS`,
/// `VERSION_CONFLICT`, `WORKFLOW_NOT_WRITABLE`, `SERVER_BUSY`, `FILE_UNUSABLE`. Nothing is written in these cases.
pub fn save_workflow(
    definitions: &LiveDefinitions,
    target: &DefinitionDirectory,
    save: &SaveRequest,
) -> Result<SavedWorkflow> {
    let registry = definitions.current_registry();
    let check = registry.check_manifest(&save.manifest);
    let id = &*check.name;
    let is_name_finding = |one: &Finding| one.rule == Rule::IllFormedName && one.path == "workflow";
    if !id.is_empty() && check.findings.iter().any(is_name_finding) {
        check_file_name_id(id)?;
    }
    if has_errors(&check.findings) {
        return Err(super::invalid_definition_error(id, &check.findings));
    }
    refuse_program_name(&registry, id, target)?;
    check_file_name_id(id)?;
    if !target.path.exists() {
        // Refuse before the directory is created, so that a refused save leaves nothing behind.
        refuse_replacing(id, registry.workflow(id), &target.path, save)?;
    }
    directory::open_target_folder(target)?;
    let seen_directory = LockedDirectory::open_unlocked(definitions, target)?.find_file(id)?;
    let locked_directory = LockedDirectory::open_locked(definitions, target)?;
    let locked_file = locked_directory.find_file(id)?;
    let path = match &locked_file {
        Some(held) => replace_file(held, seen_directory.as_ref(), id, save)?,
        None => create_file(&locked_directory, id, save)?,
    };
    let registry = definitions.load_written_change();
    let mut warnings = check.findings;
    warnings.extend(hidden_workflow_warning(&registry, id, &path));
    Ok(SavedWorkflow {
        workflow_id: id.to_owned(),
        path: path.display().to_string(),
        format: save.manifest.format.as_str(),
        version: save.manifest.version().to_string(),
        created: locked_file.is_none(),
        replaced_version: locked_file.map(|held| held.version()),
        warnings,
        sync: WorkflowCounts::from_registry(&registry),
    })
}

/// Replaces the file that has the id of the workflow. If the format differs, the old file is removed, since an id has
/// one file. Without an expected version, the file must still be the one `seen_file` when the save began.
fn replace_file(
    locked_file: &LockedFile,
    seen_file: Option<&LockedFile>,
    id: &str,
    save: &SaveRequest,
) -> Result<PathBuf> {
    let seen_version = seen_file.filter(|_| save.should_overwrite).map(LockedFile::version);
    match save.expected_version.as_ref().or(seen_version.as_ref()) {
        Some(expected) if *expected != locked_file.version() => {
            return Err(refusal::version_conflict_error(id, expected, Some(locked_file)));
        }
        None => return Err(refusal::already_exists_error(id, locked_file)),
        _ => {}
    }
    let bytes = save.manifest.text.as_bytes();
    if Format::from_path(&locked_file.path) == save.manifest.format {
        let (name, before) = (&locked_file.name, Some(&locked_file.metadata));
        let result = locked_file.folder.write(name, bytes, before, ExistingFilePolicy::Replace);
        result.map_err(|error| unusable_path_error(&locked_file.path, error))?;
        return Ok(locked_file.path.clone());
    }
    let path = locked_file.path.with_file_name(save.manifest.file_name(id));
    let name = path.file_name().unwrap_or_default();
    let result = locked_file.folder.write(
        name,
        bytes,
        Some(&locked_file.metadata),
        ExistingFilePolicy::Keep,
    );
    result.map_err(|error| write_error(&path, id, error))?;
    let result = locked_file.folder.remove(&locked_file.name);
    result.map_err(|error| unusable_path_error(&locked_file.path, error))?;
    Ok(path)
}

/// Refuses a save that would replace a file which is not in the target directory.
fn refuse_replacing(
    id: &str,
    existing: Option<&WorkflowEntry>,
    directory: &Path,
    save: &SaveRequest,
) -> Result<()> {
    match (existing, &save.expected_version) {
        (None, None) => Ok(()),
        (Some(_), None) if !save.should_overwrite => Ok(()),
        (Some(entry), _) => Err(refusal::not_writable_error(entry, directory)),
        (None, Some(expected)) => Err(refusal::version_conflict_error(id, expected, None)),
    }
}

fn create_file(
    locked_directory: &LockedDirectory,
    id: &str,
    save: &SaveRequest,
) -> Result<PathBuf> {
    refuse_replacing(
        id,
        locked_directory.find_in_other_directory(id),
        &locked_directory.directory,
        save,
    )?;
    locked_directory.refuse_case_variant(id, None)?;
    let path = locked_directory.directory.join(save.manifest.file_name(id));
    let (name, bytes) = (path.file_name().unwrap_or_default(), save.manifest.text.as_bytes());
    let result = locked_directory.folder()?.write(name, bytes, None, ExistingFilePolicy::Keep);
    result.map_err(|error| write_error(&path, id, error))?;
    Ok(path)
}

/// Gives a workflow of `target` another id, in its text and in its file name. Blocks. The text is changed first, in
/// place, so a crash in between leaves one workflow with the new id.
///
/// # Errors
/// As [`save_workflow`], and `WORKFLOW_NOT_FOUND`.
pub fn rename_workflow(
    definitions: &LiveDefinitions,
    target: &DefinitionDirectory,
    (id, new_id): (&str, &str),
    expected_version: Option<&str>,
) -> Result<RenamedWorkflow> {
    check_file_name_id(new_id)?;
    let (locked_directory, locked_file) =
        open_locked_file(definitions, target, id, expected_version)?;
    refuse_program_name(&locked_directory.registry, new_id, target)?;
    locked_directory.refuse_case_variant(new_id, Some(id))?;
    if let Some(other_file) = locked_directory.find_file(new_id)? {
        return Err(refusal::already_exists_error(new_id, &other_file));
    }
    let before = locked_file.manifest()?;
    let path = locked_file.path.with_file_name(before.file_name(new_id));
    let name = path.file_name().unwrap_or_default();
    if *name != *locked_file.name && path.exists() {
        return Err(refusal::path_taken_error(new_id, &path));
    }
    let renamed_manifest = locked_directory.registry.rename_manifest(&before, (id, new_id));
    let after =
        renamed_manifest.ok_or_else(|| refusal::name_not_located_error(id, &locked_file))?;
    let (bytes, replaced_metadata) = (after.text.as_bytes(), Some(&locked_file.metadata));
    let result = locked_file.folder.write(
        &locked_file.name,
        bytes,
        replaced_metadata,
        ExistingFilePolicy::Replace,
    );
    result.map_err(|error| unusable_path_error(&locked_file.path, error))?;
    if *name != *locked_file.name {
        let result = locked_file.folder.rename(&locked_file.name, name);
        result.map_err(|error| write_error(&path, new_id, error))?;
    }
    Ok(RenamedWorkflow {
        workflow_id: new_id.to_owned(),
        from: id.to_owned(),
        path: path.display().to_string(),
        format: after.format.as_str(),
        version: after.version().to_string(),
        sync: WorkflowCounts::from_registry(&definitions.load_written_change()),
    })
}

/// What [`delete_workflow`] would delete. Changes nothing. Blocks.
///
/// # Errors
/// As [`delete_workflow`].
pub fn preview_delete(
    definitions: &LiveDefinitions,
    target: &DefinitionDirectory,
    id: &str,
    expected_version: Option<&str>,
) -> Result<DeletedWorkflow> {
    let registry = definitions.current_registry();
    let opened_directory = LockedDirectory::open_unlocked(definitions, target);
    let opened_directory = opened_directory.map_err(|error| match registry.workflow(id) {
        Some(entry) => refusal::not_writable_error(entry, &target.path),
        // The directory does not exist, so it holds no workflow.
        None if !target.path.exists() => registry.unknown_id_error(id),
        None => error,
    })?;
    let file = find_expected_file(&opened_directory, id, expected_version)?;
    Ok(build_deletion_result(id, &file, &registry))
}

/// Deletes the file of a workflow in `target`. Blocks.
///
/// # Errors
/// `WORKFLOW_NOT_FOUND`, `WORKFLOW_NOT_WRITABLE`, `VERSION_CONFLICT`, `SERVER_BUSY`, `FILE_UNUSABLE`.
pub fn delete_workflow(
    definitions: &LiveDefinitions,
    target: &DefinitionDirectory,
    id: &str,
    expected_version: Option<&str>,
) -> Result<DeletedWorkflow> {
    let (_room, locked_file) = open_locked_file(definitions, target, id, expected_version)?;
    let result = locked_file.folder.remove(&locked_file.name);
    result.map_err(|error| unusable_path_error(&locked_file.path, error))?;
    Ok(build_deletion_result(id, &locked_file, &definitions.load_written_change()))
}

fn build_deletion_result(id: &str, file: &LockedFile, registry: &Registry) -> DeletedWorkflow {
    DeletedWorkflow {
        workflow_id: id.to_owned(),
        path: file.path.display().to_string(),
        version: file.version(),
        sync: WorkflowCounts::from_registry(registry),
    }
}

/// Locks the directory, and finds the file in it that has this id.
fn open_locked_file(
    definitions: &LiveDefinitions,
    target: &DefinitionDirectory,
    id: &str,
    expected_version: Option<&str>,
) -> Result<(LockedDirectory, LockedFile)> {
    // Check first without the lock, since taking it would create the directory.
    preview_delete(definitions, target, id, expected_version)?;
    let locked_directory = LockedDirectory::open_locked(definitions, target)?;
    let locked_file = find_expected_file(&locked_directory, id, expected_version)?;
    Ok((locked_directory, locked_file))
}

/// The file that has this id, if it has the version that the caller expects.
fn find_expected_file(
    directory: &LockedDirectory,
    id: &str,
    expected_version: Option<&str>,
) -> Result<LockedFile> {
    let Some(file) = directory.find_file(id)? else {
        return Err(match (directory.find_in_other_directory(id), expected_version) {
            (Some(entry), _) => refusal::not_writable_error(entry, &directory.directory),
            (None, Some(expected)) => refusal::version_conflict_error(id, expected, None),
            (None, None) => directory.registry.unknown_id_error(id),
        });
    };
    match expected_version {
        Some(expected) if expected != file.version() => {
            Err(refusal::version_conflict_error(id, expected, Some(&file)))
        }
        _ => Ok(file),
    }
}

/// Refuses to give a file the name of a workflow of the embedding program, which would hide it in every project.
fn refuse_program_name(registry: &Registry, id: &str, target: &DefinitionDirectory) -> Result<()> {
    match registry.workflow(id).filter(|entry| entry.source == Source::Program) {
        Some(entry) => Err(refusal::not_writable_error(entry, &target.path)),
        None => Ok(()),
    }
}

/// Refuses an id that is not a portable file name.
fn check_file_name_id(id: &str) -> Result<()> {
    let is_portable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Readers skip files whose names begin with an underscore or a dot.
    if id.is_empty() || id.starts_with(['.', '-', '_']) || !id.chars().all(is_portable) {
        return Err(refusal::invalid_id_error(id));
    }
    Ok(())
}

/// A warning if another file of this id hides the saved one.
fn hidden_workflow_warning(registry: &Registry, id: &str, path: &Path) -> Option<Finding> {
    let effective = registry.workflow(id).filter(|entry| entry.path.as_deref() != Some(path))?;
    let message = format!(
        "the workflow is saved, but {} hides it: a start takes that one",
        describe_location(effective)
    );
    Some(Finding::new_for_file(Rule::ShadowedName, message))
}

/// The location of a workflow, in words.
fn describe_location(entry: &WorkflowEntry) -> String {
    match &entry.path {
        Some(path) => format!("`{}` ({})", path.display(), entry.source.as_str()),
        None => format!("the one that is {}", entry.source.origin()),
    }
}

impl Manifest {
    /// The name of the file for this id.
    fn file_name(&self, id: &str) -> String {
        format!("{id}.{}", self.format.extension())
    }
}

/// A file name as text, for messages.
fn file_name_text(name: &OsStr) -> String {
    name.display().to_string()
}
