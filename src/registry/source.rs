//! The sources of definitions, nearest first.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use etcetera::{BaseStrategy, choose_base_strategy};
use serde::Serialize;

use midex_domain::{
    NamedByProject,
    error::plain,
    finding::{Finding, Rule},
};

/// Whose a definition is. A nearer one hides a farther one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The directory named on the command line.
    Flag,
    /// The directory of workflows that the environment names.
    Registry,
    /// The project's own.
    Project,
    /// The user's.
    User,
    /// Those that are part of midex.
    Shipped,
    /// Agents of the project as hosts such as Claude Code have them, in its `.claude/agents/`.
    #[serde(rename = "project_host")]
    ProjectHost,
    /// The user's own of that kind.
    #[serde(rename = "user_host")]
    UserHost,
}

/// Where hosts keep agents, in a project and in the user's home.
const HOST_AGENTS: &str = ".claude/agents";

/// Whether a file lies where hosts keep agents: it is written for them.
pub(super) fn is_of_host(path: &Path) -> bool {
    format!("/{}", path.display()).contains(&format!("/{HOST_AGENTS}/"))
}

impl Source {
    /// The words for them, nearest first.
    pub const NAMES: &[&str] = &[
        "flag",
        "registry",
        "project",
        "user",
        "shipped",
        "project_host",
        "user_host",
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether the project brings it.
    pub fn is_of_project(self) -> bool {
        matches!(self, Self::Project | Self::ProjectHost)
    }

    /// Whether its files are written for another program. They never take the name of one of ours.
    pub(super) fn is_of_host(self) -> bool {
        self > Self::Shipped
    }
}

/// A directory of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Whose it is.
    pub source: Source,
    /// Where it is.
    pub path: PathBuf,
}

impl Directory {
    /// A placeholder for files that lie in no directory, such as the shipped ones.
    pub(super) fn new(source: Source) -> Self {
        let path = PathBuf::new();
        Self { source, path }
    }

    /// Where it lies, links resolved.
    ///
    /// # Errors
    /// It cannot be read; or it is one of the project's, and a link leads out of the project: a cloned repository makes no files
    /// of its user definitions.
    pub(super) fn real_path(&self) -> Result<PathBuf, Box<Finding>> {
        let real =
            |path: &Path| fs::canonicalize(path).map_err(|error| Box::new(unreadable(&error)));
        let found = real(&self.path)?;
        let base = self.path.ancestors().nth(2).unwrap_or(&self.path);
        if self.source.is_of_host() && found != real(base)?.join(HOST_AGENTS) {
            let message = "a symbolic link leads here: it is not followed";
            return Err(Finding::of_file(Rule::OutsideDirectory, message).into());
        }
        let project = self
            .path
            .parent()
            .filter(|_| self.source == Source::Project);
        if let Some(project) = project
            && !found.starts_with(real(project)?)
        {
            let message = format!(
                "the symbolic link leads out of the project, to {}: it is not followed",
                found.display()
            );
            let finding = Finding::of_file(Rule::OutsideDirectory, message);
            return Err(finding.suggest("copy the files here".to_owned()).into());
        }
        Ok(found)
    }
}

/// The directories that definitions are read from, nearest first. The shipped ones follow always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Those of workflows.
    pub workflows: Vec<Directory>,
    /// Those of agents.
    pub agents: Vec<Directory>,
}

impl Sources {
    /// All but those of the project.
    pub(super) fn without_project(mut self) -> Self {
        for directories in [&mut self.workflows, &mut self.agents] {
            directories.retain(|directory| !directory.source.is_of_project());
        }
        self
    }

    /// The directories of the command line, then the project's, then the user's. Of those that are
    /// only looked for, the ones that do not exist are left out; one that was named and does not
    /// exist stays, and becomes a finding.
    pub fn discover(
        flag_workflows: Option<&Path>,
        flag_agents: Option<&Path>,
        project: &Path,
    ) -> Self {
        Places::new(flag_workflows, flag_agents, project).sources()
    }
}

/// The places where directories of definitions are looked for, whether they exist or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The directory of workflows that the command line names.
    pub flag_workflows: Option<PathBuf>,
    /// The directory of agents that the command line names.
    pub flag_agents: Option<PathBuf>,
    /// The directory of workflows that the environment names.
    pub registry: Option<PathBuf>,
    /// What the project's own configuration names.
    pub by_project: NamedByProject,
    /// The project: its `workflows/` and `agents/`.
    pub project: PathBuf,
    /// The user's directory of midex: its `workflows/` and `agents/`.
    pub user: Option<PathBuf>,
    /// The user's home, where hosts have agents of theirs.
    pub home: Option<PathBuf>,
}

impl Places {
    /// The places of the command line and of the project, and those of the user who runs this.
    pub fn new(flag_workflows: Option<&Path>, flag_agents: Option<&Path>, project: &Path) -> Self {
        Self {
            flag_workflows: flag_workflows.map(Path::to_owned),
            flag_agents: flag_agents.map(Path::to_owned),
            registry: None,
            by_project: NamedByProject::default(),
            project: project.to_owned(),
            user: user_dir(),
            home: etcetera::home_dir().ok(),
        }
    }

    /// The directories that are there now, nearest first: see [`Sources::discover`].
    pub fn sources(&self) -> Sources {
        Sources {
            workflows: distinct(self.workflows()),
            agents: distinct(self.agents()),
        }
    }

    /// Every directory that may be there one day.
    pub(super) fn candidates(&self) -> impl Iterator<Item = Directory> {
        let all = self.workflows().chain(self.agents());
        all.map(|(source, path)| Directory { source, path })
    }

    fn workflows(&self) -> impl Iterator<Item = (Source, PathBuf)> {
        let registry = self.registry.clone().map(|path| (Source::Registry, path));
        let by_project = self.by_project.workflows.clone();
        self.named(
            (self.flag_workflows.clone(), by_project),
            registry,
            "workflows",
        )
    }

    fn agents(&self) -> impl Iterator<Item = (Source, PathBuf)> {
        let by_project = self.by_project.agents.clone();
        let own = self.named((self.flag_agents.clone(), by_project), None, "agents");
        let project = (Source::ProjectHost, self.project.join(HOST_AGENTS));
        let user = self.home.as_ref();
        let user = user.map(|home| (Source::UserHost, home.join(HOST_AGENTS)));
        own.chain([project]).chain(user)
    }

    fn named(
        &self,
        (flag, by_project): (Option<PathBuf>, Option<PathBuf>),
        registry: Option<(Source, PathBuf)>,
        name: &str,
    ) -> impl Iterator<Item = (Source, PathBuf)> {
        let flag = flag.map(|path| (Source::Flag, path));
        let by_project = by_project.map(|path| (Source::Project, path));
        let project = Some((Source::Project, self.project.join(name)));
        let user = self.user.as_ref();
        let user = user.map(|user| (Source::User, user.join(name)));
        let all = [flag, by_project, registry, project, user];
        all.into_iter().flatten()
    }
}

/// The user's directory of midex, where their definitions and their `midex.toml` lie; `None` where there is no home.
pub fn user_dir() -> Option<PathBuf> {
    let base = choose_base_strategy().ok()?;
    Some(base.config_dir().join("midex"))
}

/// Removes repeated directories (the project may be the user's home): the first place counts.
fn distinct(directories: impl Iterator<Item = (Source, PathBuf)>) -> Vec<Directory> {
    let mut seen = Vec::new();
    let mut kept = Vec::new();
    for (source, path) in directories {
        let directory = Directory { source, path };
        // A project's link to the user's directory must not hide that directory as a duplicate.
        let real = directory.real_path().ok();
        let met = real.as_ref().is_some_and(|real| seen.contains(real));
        let is_led_to = source.is_of_host() && real.is_none();
        if met || is_led_to || (source != Source::Flag && !directory.path.is_dir()) {
            continue;
        }
        seen.extend(real);
        kept.push(directory);
    }
    kept
}

/// That something cannot be read.
pub(super) fn unreadable(error: &io::Error) -> Finding {
    let message = format!("it cannot be read: {}", plain(error));
    Finding::of_file(Rule::Unreadable, message)
}
