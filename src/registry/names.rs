//! Whether files define something of a name, told without checking them.

use super::{Directory, files, read};
use midex_domain::limits;

/// Whether a file in one of these directories, of those that are the project's, may define something of one of `names`. A name may be that of the file, or stand
/// in a line with its key.
pub(super) fn may_define_in_project(directories: &[Directory], names: &[&str]) -> bool {
    let mut parsed = 0;
    let mut files = directories
        .iter()
        .filter(|directory| directory.source.is_of_project())
        .flat_map(|directory| files::read_directory(directory, files::EXTENSIONS));
    files.any(|file| {
        let stem = file.stem();
        if names.contains(&stem.as_str()) {
            return true;
        }
        let is_said = |line: &str| {
            (line.contains("name") || line.contains("workflow"))
                && names.iter().any(|name| line.contains(name))
        };
        if !file.text.lines().any(is_said) {
            return false;
        }
        parsed += 1;
        // Past so many it is left to a load to tell.
        parsed > limits::DEFINITION_NAMES_READ_MAX
            || read::stated_name(&file).is_some_and(|name| names.contains(&name.as_str()))
    })
}
