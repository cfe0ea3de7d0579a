//! Where an execution looks up the workflows that it names: children, and the hooks and compensations that begin one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::document::Digest;

/// The directories of one caller's definitions, but for the user's own, the shipped ones and those of the embedding program,
/// which every caller has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionDirectories {
    /// The project.
    pub project_dir: PathBuf,
    /// The directory of workflows that is searched before the project.
    pub workflows_dir: Option<PathBuf>,
    /// The directory of agents that is searched before the project.
    pub agents_dir: Option<PathBuf>,
    /// The registry, which is searched between `workflows_dir` and the project.
    pub registry_dir: Option<PathBuf>,
    /// The directories that the project's own `midex.toml` names: they come where the two above would.
    #[serde(default)]
    pub named_by_project: ProjectDirectories,
}

/// The directories of definitions that a project's `midex.toml` names. What lies in them is the project's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectDirectories {
    /// Of workflows.
    pub workflows: Option<PathBuf>,
    /// Of agents.
    pub agents: Option<PathBuf>,
}

impl DefinitionDirectories {
    /// The directories that workflows are looked for in, nearest first; of the project's own the project.
    pub fn workflow_directories(&self) -> impl Iterator<Item = &Path> {
        let directories = self.workflows_dir.iter().chain(&self.registry_dir);
        let directories = directories.chain(&self.named_by_project.workflows);
        directories.chain([&self.project_dir]).map(PathBuf::as_path)
    }
}

/// What an execution keeps for later look-ups of workflows. It lies in the store by digest, and no view shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowLookup {
    /// The directories of the caller that started the root.
    pub directories: DefinitionDirectories,
    /// The machine and the user whose directories these are: for others the paths mean nothing.
    pub account: String,
    /// Whether a project has a part in the definition or in one above it: its children are then judged as the project's.
    pub is_of_project: bool,
    /// The workflows that the definition names, as they were at the start.
    pub kept: BTreeMap<String, Digest>,
}
