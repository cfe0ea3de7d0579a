//! The workflows of the embedding program, read as if each were a JSON file.

use std::path::{Path, PathBuf};

use super::{
    builder::WorkflowBuilder,
    files::DefinitionFile,
    source::{DefinitionDirectory, Source},
};

/// A directory that is not on disk: the paths of the program's workflows begin with it.
pub(super) fn program_directory() -> DefinitionDirectory {
    DefinitionDirectory { source: Source::Program, path: PathBuf::from("(program)") }
}

/// The files of these workflows. A path has the position of its workflow in the list of the program, since the name need
/// not be valid.
pub(super) fn build_program_files(
    workflows: &[WorkflowBuilder],
) -> impl Iterator<Item = DefinitionFile> {
    workflows.iter().enumerate().map(|(index, workflow)| {
        let path = program_directory().path.join(format!("definitions[{index}].json"));
        DefinitionFile::from_text(path, format!("{:#}", workflow.to_json())).limit_file_size()
    })
}

/// The file of one of these workflows.
pub(super) fn find_program_file(
    workflows: &[WorkflowBuilder],
    path: &Path,
) -> Option<DefinitionFile> {
    build_program_files(workflows).find(|file| file.path == path)
}
