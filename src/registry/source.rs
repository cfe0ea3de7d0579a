//! Where definitions come from, nearest first.

use std::{
    fs,
    path::{Path, PathBuf},
};

use etcetera::{BaseStrategy, choose_base_strategy};
use serde::Serialize;

/// Whose a definition is. A nearer one hides a farther one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The directory named on the command line.
    Flag,
    /// The project's own.
    Project,
    /// The user's.
    User,
    /// Those that are part of midex.
    Shipped,
}

impl Source {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Project => "project",
            Self::User => "user",
            Self::Shipped => "shipped",
        }
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

/// The directories that definitions are read from, nearest first. The shipped ones follow always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Those of workflows.
    pub workflows: Vec<Directory>,
    /// Those of agents.
    pub agents: Vec<Directory>,
}

impl Sources {
    /// The directories of the command line, then the project's, then the user's. Of those that are
    /// only looked for, the ones that do not exist are left out; one that was named and does not
    /// exist stays, and becomes a finding.
    pub fn discover(
        flag_workflows: Option<&Path>,
        flag_agents: Option<&Path>,
        project: &Path,
    ) -> Self {
        let user = choose_base_strategy()
            .ok()
            .map(|base| base.config_dir().join("midex"));
        let find = |flag: Option<&Path>, name: &str| {
            let flag = flag.map(|path| (Source::Flag, path.to_owned()));
            let project = Some((Source::Project, project.join(name)));
            let user = user.as_ref().map(|user| (Source::User, user.join(name)));
            distinct([flag, project, user].into_iter().flatten())
        };
        Self {
            workflows: find(flag_workflows, "workflows"),
            agents: find(flag_agents, "agents"),
        }
    }
}

/// A directory that comes twice (the project is the user's home, say) counts where it comes first.
fn distinct(directories: impl Iterator<Item = (Source, PathBuf)>) -> Vec<Directory> {
    let mut seen = Vec::new();
    let mut kept = Vec::new();
    for (source, path) in directories {
        let real = fs::canonicalize(&path).ok();
        let met = real.as_ref().is_some_and(|real| seen.contains(real));
        if met || (source != Source::Flag && !path.is_dir()) {
            continue;
        }
        seen.extend(real);
        kept.push(Directory { source, path });
    }
    kept
}
