//! The definitions that are part of midex: ordinary files of the repository, embedded into the binary.

use std::path::Path;

use super::files::DefinitionFile;

macro_rules! table {
    ($(#[doc = $doc:literal])* $name:ident: $($path:literal)*) => {
        $(#[doc = $doc])*
        pub(super) const $name: &[(&str, &str)] =
            &[$(($path, include_str!($path)),)*];
    };
}

table! {
    /// The workflows.
    WORKFLOWS:
    "workflows/announce.yaml"
    "workflows/app-scaffold.yaml"
    "workflows/bug-fix.md"
    "workflows/code-review.md"
    "workflows/component-performance-review.md"
    "workflows/feature-development.md"
    "workflows/incident-runbook.yaml"
    "workflows/parallel-code-review.md"
    "workflows/parallel-documentation-review.md"
    "workflows/parallel-maintenance-audit.md"
    "workflows/parallel-root-cause-analysis.md"
    "workflows/parallel-testing-strategy.md"
    "workflows/release.yaml"
    "workflows/retract.yaml"
    "workflows/review-until-approved.md"
    "workflows/security-audit.md"
    "workflows/security-threat-assessment.md"
}

table! {
    /// The personas.
    AGENTS:
    "agents/architect.md"
    "agents/debugger.md"
    "agents/devops-engineer.md"
    "agents/documentation-specialist.md"
    "agents/implementer.md"
    "agents/maintainer.md"
    "agents/performance-engineer.md"
    "agents/reviewer.md"
    "agents/security-specialist.md"
    "agents/supervisor.md"
}

/// The files of a table, under paths that mark them as part of midex.
pub(super) fn build_shipped_files(table: &[(&str, &str)]) -> Vec<DefinitionFile> {
    table.iter().map(|(path, text)| build_shipped_file(path, text)).collect()
}

/// The file of the workflow of this name that is part of midex.
pub(super) fn find_shipped_workflow(name: &str) -> Option<DefinitionFile> {
    let has_name = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.split('.').next() == Some(name)
    };
    let mut table = WORKFLOWS.iter();
    let (path, text) = table.find(|(path, _)| has_name(path))?;
    Some(build_shipped_file(path, text))
}

/// Whether the file at this path is part of midex.
pub(super) fn is_shipped_path(path: &Path) -> bool {
    path.starts_with(SHIPPED_PREFIX)
}

/// The prefix of the paths of files that are part of midex.
const SHIPPED_PREFIX: &str = "(shipped)";

fn build_shipped_file(path: &str, text: &str) -> DefinitionFile {
    let path = Path::new(SHIPPED_PREFIX).join(path);
    DefinitionFile::from_text(path, text.replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_file_of_the_repository_is_in_the_table() {
        for (directory, table) in [("workflows", WORKFLOWS), ("agents", AGENTS)] {
            let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(directory);
            let mut on_disk: Vec<_> = std::fs::read_dir(root)
                .unwrap()
                .map(|entry| {
                    let name = entry.unwrap().file_name();
                    format!("{directory}/{}", name.to_string_lossy())
                })
                .collect();
            on_disk.sort();
            let embedded: Vec<_> = table.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(on_disk, embedded);
        }
    }
}
