//! The configuration of a process. Values come from the command line, then environment variables, then defaults.

mod authoring;
mod retention;
mod trust;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use etcetera::BaseStrategy;

pub use self::trust::TRUST_KEY;
pub use self::{
    authoring::{AuthorTarget, AuthoringDirectory, RegistryDir},
    retention::{parse_backup_interval, parse_retention_rule, sort_retention_rules},
    trust::TrustedProjects,
};
#[cfg(feature = "catalog")]
use midex_catalog::{self as catalog, Catalogs, call::SecretSources};
use midex_domain::{
    DefinitionDirectories, ProjectDirectories,
    check::ServerCapabilities,
    error::{Code, Error, Result},
    limits,
};
use midex_engine::{PruneRule, Secrets};
use midex_registry::{DefinitionPlaces, LiveDefinitions, Registry, WorkflowBuilder, find_user_dir};

/// The environment variable that names the data directory.
pub const DATA_DIR_ENV: &str = "MIDEX_DATA_DIR";

/// The environment variable that lists, separated by commas, the variables that defaults of inputs may read.
pub const ALLOW_ENV_ENV: &str = "MIDEX_ALLOW_ENV";

/// The environment variable that lists, separated by commas, the variables that steps may use as secrets.
pub const SECRET_ENV_ENV: &str = "MIDEX_SECRET_ENV";

/// The configuration of a process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of the store.
    pub data_dir: PathBuf,
    /// A directory of workflows that takes precedence over all others.
    pub workflows_dir: Option<PathBuf>,
    /// A directory of agents that takes precedence over all others.
    pub agents_dir: Option<PathBuf>,
    /// The project directory. Its definitions are loaded, and executions are tagged with it.
    pub project_dir: PathBuf,
    /// The definition directories that the project's own configuration names.
    pub project_directories: ProjectDirectories,
    /// The trusted projects, whose workflows may have effects outside midex.
    pub trust: TrustedProjects,
    /// The lifetime of a token.
    pub token_ttl: Duration,
    /// A snapshot is written every this many transitions.
    pub snapshot_every: u32,
    /// The environment variables that defaults of inputs may read. All others are unreadable.
    pub allow_env: Vec<String>,
    /// The environment variables that server-side steps may use as `secrets.NAME`. Their values are never shown.
    pub secret_env: Vec<String>,
    /// The hosts that each secret may be sent to: `HOST` or `HOST:PORT`. A secret without an entry may be sent to the
    /// origins that the user set for a catalog.
    pub secret_hosts: BTreeMap<String, BTreeSet<String>>,
    /// A workflow directory that takes precedence over the project's.
    pub registry_dir: Option<RegistryDir>,
    /// The directory of published definitions. `None` for a process that is no server of a cluster.
    pub published: Option<PathBuf>,
    /// Which workflow directory the authoring tools write into.
    pub author_to: AuthorTarget,
    /// The directories of the user's catalogs. `None` if there is no home directory.
    #[cfg(feature = "catalog")]
    pub catalogs: Option<catalog::CatalogPaths>,
    /// A file of secrets for the headers of catalogs. Only its owner may be able to read it.
    pub secrets_file: Option<PathBuf>,
    /// Sources that catalogs may be imported from, besides the project and the user's directory: directories, and
    /// `HOST:PORT` of servers that are not public.
    pub import_from: Vec<String>,
    /// Which executions a server removes once they have ended; the first rule that is about one decides.
    pub retention: Vec<PruneRule>,
    /// When a server makes backups. `None`: never.
    pub backups: Option<BackupSchedule>,
}

/// When a server makes backups, and how many it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSchedule {
    /// A backup is made once the last one is this old.
    pub every: Duration,
    /// How many are kept, at least 1.
    pub keep: usize,
    /// Where they are.
    pub directory: PathBuf,
}

impl Config {
    /// The default configuration with this data directory. `None` for the one in the environment, otherwise the user's.
    pub fn new(data_dir: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            data_dir: match data_dir {
                Some(data_dir) => data_dir,
                None => match std::env::var_os(DATA_DIR_ENV).filter(|dir| !dir.is_empty()) {
                    Some(data_dir) => data_dir.into(),
                    None => find_user_data_dir()?,
                },
            },
            workflows_dir: None,
            agents_dir: None,
            project_dir: find_project_dir(),
            project_directories: ProjectDirectories::default(),
            trust: TrustedProjects::for_user(),
            token_ttl: limits::TOKEN_TTL,
            snapshot_every: 1,
            allow_env: read_names_variable(ALLOW_ENV_ENV),
            secret_env: read_names_variable(SECRET_ENV_ENV),
            secret_hosts: BTreeMap::new(),
            registry_dir: RegistryDir::from_environment()?,
            published: None,
            author_to: AuthorTarget::default(),
            #[cfg(feature = "catalog")]
            catalogs: authoring::find_catalog_paths()?,
            secrets_file: find_user_dir().map(|dir| dir.join("secrets")),
            import_from: Vec::new(),
            retention: Vec::new(),
            backups: None,
        })
    }

    /// The value of `--data-dir` that a suggested command line needs. `None` for the user's default data directory.
    pub fn data_dir_flag_value(&self) -> Option<String> {
        let is_default = find_user_data_dir().is_ok_and(|usual| usual == self.data_dir);
        (!is_default).then(|| self.data_dir.display().to_string())
    }

    /// The current values of the allowed environment variables. Unset and non-Unicode variables are left out.
    pub fn environment(&self) -> BTreeMap<String, String> {
        read_variables(&self.allow_env).collect()
    }

    /// The current values of the secrets. Unset and non-Unicode variables are left out.
    pub fn secrets(&self) -> Secrets {
        read_variables(&self.secret_env).collect()
    }

    /// Like [`Config::secrets`], as a map by name, for the headers of catalogs.
    pub fn secret_values(&self) -> BTreeMap<String, String> {
        read_variables(&self.secret_env).collect()
    }

    /// The directories that this configuration reads definitions from.
    pub fn directories(&self) -> DefinitionDirectories {
        // Make paths absolute, since an execution may outlive the current working directory.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        DefinitionDirectories {
            project_dir: absolute(&self.project_dir),
            workflows_dir: self.workflows_dir.as_ref().map(absolute),
            agents_dir: self.agents_dir.as_ref().map(absolute),
            registry_dir: self.registry_dir.as_ref().map(|dir| absolute(&dir.path)),
            named_by_project: self.project_directories.clone(),
        }
    }

    /// The live definitions of this configuration and those of the embedding program, checked against these abilities. They
    /// follow their files.
    pub fn definitions(
        &self,
        abilities: &ServerCapabilities,
        program: &[WorkflowBuilder],
    ) -> LiveDefinitions {
        let places = DefinitionPlaces { program: program.into(), ..self.definition_places() };
        LiveDefinitions::with_abilities(places, self.add_secret_names(abilities))
    }

    /// The definitions of this configuration as they are now, checked against the user's catalogs and no activities.
    pub fn registry(&self) -> Registry {
        #[cfg(feature = "catalog")]
        let operations = self.catalogs.clone().map(|places| {
            let catalogs = Catalogs::open(places, SecretSources::default());
            midex_domain::check::OperationsSnapshot::capture(catalogs.last_loaded_catalogs())
        });
        let abilities = self.add_secret_names(&ServerCapabilities {
            #[cfg(feature = "catalog")]
            operations,
            ..ServerCapabilities::default()
        });
        Registry::load_with_abilities(&self.definition_places().sources(), &abilities)
    }

    /// Adds the names of the secrets of this configuration to abilities.
    fn add_secret_names(&self, abilities: &ServerCapabilities) -> ServerCapabilities {
        ServerCapabilities {
            secrets: Some(self.secret_env.iter().cloned().collect()),
            ..abilities.clone()
        }
    }

    fn definition_places(&self) -> DefinitionPlaces {
        let (workflows, agents) = (self.workflows_dir.as_deref(), self.agents_dir.as_deref());
        DefinitionPlaces {
            registry: self.registry_dir.as_ref().map(|dir| dir.path.clone()),
            cluster: self.published.clone(),
            project_directories: self.project_directories.clone(),
            ..DefinitionPlaces::new(workflows, agents, &self.project_dir)
        }
    }
}

/// The places to read these directories' definitions from, plus those of the user who runs this process.
pub(crate) fn build_definition_places(directories: &DefinitionDirectories) -> DefinitionPlaces {
    let workflows = directories.workflows_dir.as_deref();
    let agents = directories.agents_dir.as_deref();
    DefinitionPlaces {
        registry: directories.registry_dir.clone(),
        project_directories: directories.named_by_project.clone(),
        ..DefinitionPlaces::new(workflows, agents, &directories.project_dir)
    }
}

/// An id of the machine and user that paths belong to: the machine id, or else the hostname, and the effective user id.
pub(crate) fn compute_account_id() -> String {
    let machine = ["/etc/machine-id", "/proc/sys/kernel/hostname"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    format!("{machine} {}", rustix::process::geteuid().as_raw())
}

/// The names that an environment variable lists.
fn read_names_variable(variable: &str) -> Vec<String> {
    let names = std::env::var(variable);
    names.map(|names| split_names(&names)).unwrap_or_default()
}

/// The values of these environment variables; at most [`limits::ENV_NAMES_MAX`]. Unset and non-Unicode variables are
/// left out.
fn read_variables(names: &[String]) -> impl Iterator<Item = (String, String)> {
    let names = names.iter().take(limits::ENV_NAMES_MAX);
    names.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)))
}

fn find_user_data_dir() -> Result<PathBuf> {
    let strategy = etcetera::choose_base_strategy().map_err(|error| {
        Error::new(
            Code::UsageInvalid,
            "there is no home directory: name a data directory with --data-dir",
        )
        .with_source(error)
    })?;
    Ok(strategy.data_dir().join("midex"))
}

/// The project of the current working directory.
pub fn find_project_dir() -> PathBuf {
    find_project_root(&std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")))
}

/// The root of the git repository that contains a directory, or the directory itself.
pub fn find_project_root(directory: &Path) -> PathBuf {
    let mut ancestors = directory.ancestors();
    let root = ancestors.find(|dir| dir.join(".git").exists());
    root.unwrap_or(directory).to_path_buf()
}

/// The project that an absolute path names, as its executions record it; `None` if that is no directory.
pub fn resolve_project(directory: &str) -> Option<String> {
    let path = Some(Path::new(directory)).filter(|path| path.is_absolute())?;
    let path = path.canonicalize().ok().filter(|path| path.is_dir())?;
    Some(find_project_root(&path).display().to_string())
}

/// Splits names that are separated by commas.
pub fn split_names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Checks names of environment variables that are separated by commas. Returns the text unchanged.
pub fn parse_names(text: &str) -> Result<String, String> {
    let is_invalid = |name: &String| {
        name.contains(|char: char| char == '=' || char.is_whitespace() || char.is_control())
    };
    match split_names(text).into_iter().find(is_invalid) {
        Some(name) => Err(format!("`{name}` is no name of an environment variable")),
        None => Ok(text.to_owned()),
    }
}

/// Parses a duration: `250ms`, `10s`, `5m`, `24h`, or several of them in a row.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("`{text}` is not a duration: write 250ms, 10s, 5m or 24h"))?;
    Duration::try_from(duration).map_err(|_| format!("`{text}` is negative"))
}

/// Parses a duration that must be in a range. `describe_range` makes the message for others.
pub fn parse_duration_within(
    text: &str,
    range: RangeInclusive<Duration>,
    describe_range: impl FnOnce() -> String,
) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if range.contains(&duration) { Ok(duration) } else { Err(describe_range()) }
}

/// Parses the lifetime of tokens, and checks that it is within its limits.
pub fn parse_token_ttl(text: &str) -> Result<Duration, String> {
    let (min, max) = (limits::TOKEN_TTL_MIN, limits::TOKEN_TTL_MAX);
    parse_duration_within(text, min..=max, || {
        format!("a token may live from {min:?} to {}h", max.as_secs() / 3600)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, milliseconds) in
            [("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "10", "x", "-5m"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_token_ttl("999ms").is_err() && parse_token_ttl("1s").is_ok());
        assert!(parse_token_ttl("8784h").is_ok() && parse_token_ttl("8785h").is_err());
    }
}
