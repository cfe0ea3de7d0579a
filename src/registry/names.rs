//! Checks cheaply whether files may define certain names.

use super::{DefinitionDirectory, files, read};
use midex_domain::limits;

/// Whether a file in the project's directories among these may define one of `names`. The name may be the file name, or
/// be in a line with its key.
pub(super) fn may_define_in_project(directories: &[DefinitionDirectory], names: &[&str]) -> bool {
    let mut parsed_files = 0;
    let mut files = directories
        .iter()
        .filter(|directory| directory.source.is_project_source())
        .flat_map(|directory| files::read_directory(directory, files::EXTENSIONS));
    files.any(|file| {
        let stem = file.file_stem();
        if names.contains(&stem.as_str()) {
            return true;
        }
        let has_name = |line: &str| {
            (line.contains("name") || line.contains("workflow"))
                && names.iter().any(|name| line.contains(name))
        };
        if !file.text.lines().any(has_name) {
            return false;
        }
        parsed_files += 1;
        // After this many parsed files, assume that it may: a full load decides.
        parsed_files > limits::DEFINITION_NAMES_READ_MAX
            || read::read_stated_name(&file).is_some_and(|name| names.contains(&name.as_str()))
    })
}
