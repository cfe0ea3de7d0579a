//! The sources of definitions, nearest first.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use etcetera::{BaseStrategy, choose_base_strategy};
use serde::Serialize;

use super::builder::WorkflowBuilder;
use midex_domain::{
    ProjectDirectories,
    error::describe_io_error,
    finding::{Finding, Rule},
};

/// The source of a definition, nearest first. A definition hides those of the same name from farther sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The program that embeds midex, which defines workflows in code.
    Program,
    /// The directory that the command line names.
    Flag,
    /// The workflow directory that the environment names.
    Registry,
    /// The project's directory.
    Project,
    /// What `midex publish` has put into the database of a cluster.
    Cluster,
    /// The user's directory.
    User,
    /// Definitions that are part of midex.
    Shipped,
    /// Agents that the project keeps for hosts such as Claude Code, in its `.claude/agents/`.
    #[serde(rename = "project_host")]
    ProjectHost,
    /// Agents that the user keeps for such hosts, in the home directory.
    #[serde(rename = "user_host")]
    UserHost,
}

/// Where hosts keep agents, relative to a project or to the home directory.
const HOST_AGENTS: &str = ".claude/agents";

/// Whether a file is in a host's agent directory, and so written for that host.
pub(super) fn is_host_agent_file(path: &Path) -> bool {
    format!("/{}", path.display()).contains(&format!("/{HOST_AGENTS}/"))
}

impl Source {
    /// The names of the sources, nearest first.
    pub const SOURCE_NAMES: &[&str] = &[
        "program",
        "flag",
        "registry",
        "project",
        "cluster",
        "user",
        "shipped",
        "project_host",
        "user_host",
    ];

    /// The name of the source.
    pub fn as_str(self) -> &'static str {
        Self::SOURCE_NAMES[self as usize]
    }

    /// Whether the source belongs to the project.
    pub fn is_project_source(self) -> bool {
        matches!(self, Self::Project | Self::ProjectHost)
    }

    /// What a definition without a file is part of, in words.
    pub fn origin(self) -> &'static str {
        if self == Self::Program { "part of the program" } else { "part of midex" }
    }

    /// Whether its definitions are files on disk.
    pub(super) fn has_files(self) -> bool {
        !matches!(self, Self::Program | Self::Shipped)
    }

    /// Whether its files are written for a host. They never hide a definition of a midex source.
    pub(super) fn is_host_source(self) -> bool {
        self > Self::Shipped
    }
}

/// A directory of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionDirectory {
    /// The source that it belongs to.
    pub source: Source,
    /// The path of the directory.
    pub path: PathBuf,
}

impl DefinitionDirectory {
    /// A placeholder for files outside any directory, such as those that are part of midex.
    pub(super) fn new(source: Source) -> Self {
        let path = PathBuf::new();
        Self { source, path }
    }

    /// The real path of the directory, with links resolved.
    ///
    /// # Errors
    /// If the directory cannot be read; or if it is the project's and a link points out of the project, since a cloned
    /// repository must not be able to claim other files of the user as its definitions.
    pub(super) fn resolve_path(&self) -> Result<PathBuf, Box<Finding>> {
        let canonicalize = |path: &Path| {
            fs::canonicalize(path).map_err(|error| Box::new(unreadable_finding(&error)))
        };
        let resolved = canonicalize(&self.path)?;
        let base = self.path.ancestors().nth(2).unwrap_or(&self.path);
        if self.source.is_host_source() && resolved != canonicalize(base)?.join(HOST_AGENTS) {
            let message = "a symbolic link leads here: it is not followed";
            return Err(Finding::new_for_file(Rule::OutsideDirectory, message).into());
        }
        let project = self.path.parent().filter(|_| self.source == Source::Project);
        if let Some(project) = project
            && !resolved.starts_with(canonicalize(project)?)
        {
            let message = format!(
                "the symbolic link leads out of the project, to {}: it is not followed",
                resolved.display()
            );
            let finding = Finding::new_for_file(Rule::OutsideDirectory, message);
            return Err(finding.suggest("copy the files here".to_owned()).into());
        }
        Ok(resolved)
    }
}

/// The places to read definitions from, nearest first. The definitions that are part of midex are always added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The workflows that the embedding program defines, which hide all others of their names.
    pub program: Arc<[WorkflowBuilder]>,
    /// The workflow directories.
    pub workflows: Vec<DefinitionDirectory>,
    /// The agent directories.
    pub agents: Vec<DefinitionDirectory>,
}

impl Sources {
    /// All directories except those of the project.
    pub(super) fn without_project(mut self) -> Self {
        for directories in [&mut self.workflows, &mut self.agents] {
            directories.retain(|directory| !directory.source.is_project_source());
        }
        self
    }

    /// The directories of the command line, then of the project, then of the user. A default directory that does not
    /// exist is left out. One that was named explicitly stays, and gets a finding if it does not exist.
    pub fn discover(
        flag_workflows: Option<&Path>,
        flag_agents: Option<&Path>,
        project: &Path,
    ) -> Self {
        DefinitionPlaces::new(flag_workflows, flag_agents, project).sources()
    }
}

/// The places where definition directories are looked for, whether they exist or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionPlaces {
    /// The workflows that the embedding program defines.
    pub program: Arc<[WorkflowBuilder]>,
    /// The workflow directory that the command line names.
    pub flag_workflows: Option<PathBuf>,
    /// The agent directory that the command line names.
    pub flag_agents: Option<PathBuf>,
    /// The workflow directory that the environment names.
    pub registry: Option<PathBuf>,
    /// The directories that the project's own configuration names.
    pub project_directories: ProjectDirectories,
    /// The project, with its `workflows/` and `agents/`.
    pub project: PathBuf,
    /// Where the published definitions are, with `workflows/` and `agents/`.
    pub cluster: Option<PathBuf>,
    /// The user's midex directory, with its `workflows/` and `agents/`.
    pub user: Option<PathBuf>,
    /// The user's home directory, where hosts keep agents.
    pub home: Option<PathBuf>,
}

impl DefinitionPlaces {
    /// The places that the command line and the project determine, plus those of the user who runs this process.
    pub fn new(flag_workflows: Option<&Path>, flag_agents: Option<&Path>, project: &Path) -> Self {
        Self {
            program: Arc::default(),
            flag_workflows: flag_workflows.map(Path::to_owned),
            flag_agents: flag_agents.map(Path::to_owned),
            registry: None,
            project_directories: ProjectDirectories::default(),
            project: project.to_owned(),
            cluster: None,
            user: find_user_dir(),
            home: etcetera::home_dir().ok(),
        }
    }

    /// The places of the project alone.
    pub fn of_project(project: &Path, project_directories: ProjectDirectories) -> Self {
        Self { project_directories, user: None, home: None, ..Self::new(None, None, project) }
    }

    /// The directories that exist now, nearest first: see [`Sources::discover`].
    pub fn sources(&self) -> Sources {
        Sources {
            program: self.program.clone(),
            workflows: remove_duplicates(self.workflow_directories()),
            agents: remove_duplicates(self.agent_directories()),
        }
    }

    /// Every directory that is looked for, including those that do not exist yet.
    pub(super) fn candidate_directories(&self) -> impl Iterator<Item = DefinitionDirectory> {
        let all = self.workflow_directories().chain(self.agent_directories());
        all.map(|(source, path)| DefinitionDirectory { source, path })
    }

    fn workflow_directories(&self) -> impl Iterator<Item = (Source, PathBuf)> {
        let registry = self.registry.clone().map(|path| (Source::Registry, path));
        let by_project = self.project_directories.workflows.clone();
        self.list_candidate_paths((self.flag_workflows.clone(), by_project), registry, "workflows")
    }

    fn agent_directories(&self) -> impl Iterator<Item = (Source, PathBuf)> {
        let by_project = self.project_directories.agents.clone();
        let own_paths =
            self.list_candidate_paths((self.flag_agents.clone(), by_project), None, "agents");
        let project = (Source::ProjectHost, self.project.join(HOST_AGENTS));
        let user = self.home.as_ref();
        let user = user.map(|home| (Source::UserHost, home.join(HOST_AGENTS)));
        own_paths.chain([project]).chain(user)
    }

    fn list_candidate_paths(
        &self,
        (flag, by_project): (Option<PathBuf>, Option<PathBuf>),
        registry: Option<(Source, PathBuf)>,
        name: &str,
    ) -> impl Iterator<Item = (Source, PathBuf)> {
        let flag = flag.map(|path| (Source::Flag, path));
        let by_project = by_project.map(|path| (Source::Project, path));
        let project = Some((Source::Project, self.project.join(name)));
        let directory_of = |place: &Option<PathBuf>, source| {
            place.as_ref().map(|place| (source, place.join(name)))
        };
        let cluster = directory_of(&self.cluster, Source::Cluster);
        let user = directory_of(&self.user, Source::User);
        let all = [flag, by_project, registry, project, cluster, user];
        all.into_iter().flatten()
    }
}

/// The user's midex directory, which holds their definitions and their `midex.toml`. `None` if there is no home
/// directory.
pub fn find_user_dir() -> Option<PathBuf> {
    let base = choose_base_strategy().ok()?;
    Some(base.config_dir().join("midex"))
}

/// Removes repeated directories, such as when the project is the user's home directory. The first one is kept.
fn remove_duplicates(
    directories: impl Iterator<Item = (Source, PathBuf)>,
) -> Vec<DefinitionDirectory> {
    let mut seen_paths = Vec::new();
    let mut kept_directories = Vec::new();
    for (source, path) in directories {
        let directory = DefinitionDirectory { source, path };
        // `real_path` fails for a link out of the project, so a project that links to the user's directory cannot hide
        // it as a duplicate.
        let real = directory.resolve_path().ok();
        let is_repeated = real.as_ref().is_some_and(|real| seen_paths.contains(real));
        let is_host_link = source.is_host_source() && real.is_none();
        if is_repeated || is_host_link || (source != Source::Flag && !directory.path.is_dir()) {
            continue;
        }
        seen_paths.extend(real);
        kept_directories.push(directory);
    }
    kept_directories
}

/// The finding for a file or directory that cannot be read.
pub(super) fn unreadable_finding(error: &io::Error) -> Finding {
    let message = format!("it cannot be read: {}", describe_io_error(error));
    Finding::new_for_file(Rule::Unreadable, message)
}
