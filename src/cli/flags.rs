//! The flags that every command takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum};

use super::command::quoted;
use midex_catalog::call::{normalize_allowed_host, normalize_secret_host};
use midex_domain::{
    ProjectDirectories,
    error::{Code, Error, Result},
};
use midex_server::{
    config::{AuthorTarget, Config, parse_names, parse_token_ttl, split_names},
    well_known::{well_known_directory_path, workflow_logs_path},
};

/// The flags that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options (the others: midex help options)")]
pub(super) struct GlobalFlags {
    /// The directory where executions are stored
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        hide_default_value = true,
        help = "The directory where executions are stored [default: MIDEX_DATA_DIR, else midex.toml, else the user's data directory]"
    )]
    pub(super) data_dir: Option<PathBuf>,
    /// The directories that were given as flags: only then further commands need them too
    #[arg(skip)]
    pub(super) directory_flags: DirectoryFlags,
    /// The directories that the project's file names
    #[arg(skip)]
    pub(super) project_directories: ProjectDirectories,
    /// A directory of workflows that take precedence over the project's, the user's and those that come with midex
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) workflows: Option<PathBuf>,
    /// A directory of agents that take precedence over the project's, the user's and those that come with midex
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) agents: Option<PathBuf>,
    /// Use the directory of mcp-workflow
    #[arg(
        long,
        global = true,
        help = "Keep executions in .magen of the directory that PROJECT_PATH names, else of the home directory; a server also logs to workflow_logs.json there"
    )]
    pub(super) well_known: bool,
    /// How long a continuation token is valid
    #[arg(long, global = true, value_name = "DURATION", default_value = "24h", value_parser = parse_token_ttl)]
    token_ttl: Duration,
    /// An environment variable that input defaults may read; may be given several times
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        value_parser = parse_names,
        hide_default_value = true,
        help = "An environment variable that input defaults may read; may be given several times [default: the comma-separated names in MIDEX_ALLOW_ENV, else midex.toml]"
    )]
    allow_env: Vec<String>,
    /// An environment variable that server steps may use as a secret; may be given several times
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        value_parser = parse_names,
        hide_default_value = true,
        help = "An environment variable that server steps may use as a secret; may be given several times [default: the comma-separated names in MIDEX_SECRET_ENV, else midex.toml]"
    )]
    secret_env: Vec<String>,
    /// Allow a secret to be sent only to this host; may be given several times
    #[arg(long, global = true, value_name = "NAME=HOST", value_parser = parse_secret_host)]
    secret_host: Vec<(String, String)>,
    /// A directory that agents may import catalogs from, or the HOST:PORT of a server; may be given several times
    #[arg(
        long,
        global = true,
        value_name = "DIR|HOST:PORT",
        value_hint = clap::ValueHint::AnyPath,
        help = "A directory that agents may import catalogs from, in addition to the project and the user's own directory, or a HOST:PORT that is not public; may be given several times"
    )]
    import_from: Vec<String>,
    /// Where the tools of the toolset `author` write workflows
    #[arg(long, global = true, value_name = "WHOSE", value_enum, default_value_t = AuthorToArg::User)]
    author_to: AuthorToArg,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// The directories that were given as flags.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryFlags {
    pub(super) data_dir: Option<PathBuf>,
    pub(super) workflows: Option<PathBuf>,
    pub(super) agents: Option<PathBuf>,
}

/// Whose workflows are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AuthorToArg {
    #[value(
        help = "The directory that REGISTRY_WORKFLOWS_PATH or REGISTRY_CONFIG_PATH names, else the user's"
    )]
    User,
    #[value(help = "The project's directory")]
    Project,
}

impl From<AuthorToArg> for AuthorTarget {
    fn from(arg: AuthorToArg) -> Self {
        match arg {
            AuthorToArg::User => Self::User,
            AuthorToArg::Project => Self::Project,
        }
    }
}

impl GlobalFlags {
    /// The flags that a follow-up command needs to reach the same executions and definitions, as they were given.
    pub(super) fn follow_up_flags(&self) -> String {
        let directories = &self.directory_flags;
        let flags = [
            ("--data-dir", &directories.data_dir),
            ("--workflows", &directories.workflows),
            ("--agents", &directories.agents),
        ];
        let flag = |(name, dir): (&str, &Option<PathBuf>)| {
            let dir = dir.as_ref()?.display().to_string();
            Some(format!(" {name} {}", quoted(&dir)))
        };
        let directories: String = flags.into_iter().filter_map(flag).collect();
        let well_known = if self.well_known { " --well-known" } else { "" };
        directories + well_known
    }

    /// The file that a server logs to beside stderr, if there is one.
    pub(super) fn log_file(&self) -> Result<Option<PathBuf>> {
        self.well_known.then(workflow_logs_path).transpose()
    }

    /// The data directory, if the command line or the environment names one.
    ///
    /// # Errors
    /// `USAGE_INVALID` if the command line names two, or if there is no home directory.
    fn data_dir(&self) -> Result<Option<PathBuf>> {
        if !self.well_known {
            return Ok(self.data_dir.clone());
        }
        if self.directory_flags.data_dir.is_some() {
            let message = "--well-known and --data-dir name two data directories";
            return Err(Error::new(Code::UsageInvalid, message));
        }
        well_known_directory_path().map(Some)
    }
}

/// The configuration that the flags ask for.
///
/// # Errors
/// `USAGE_INVALID`.
pub(super) fn load_config(global: &GlobalFlags) -> Result<Config> {
    let names = |lists: &[String]| lists.iter().flat_map(|names| split_names(names)).collect();
    Ok(Config {
        workflows_dir: global.workflows.clone(),
        agents_dir: global.agents.clone(),
        project_directories: global.project_directories.clone(),
        token_ttl: global.token_ttl,
        allow_env: names(&global.allow_env),
        secret_env: names(&global.secret_env),
        secret_hosts: group_secret_hosts(&global.secret_host),
        import_from: global
            .import_from
            .iter()
            .flat_map(|source| parse_catalog_sources(source))
            .collect(),
        author_to: global.author_to.into(),
        ..Config::new(global.data_dir()?)?
    })
}

/// The hosts that each secret may be sent to.
fn group_secret_hosts(pairs: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut hosts = BTreeMap::<_, BTreeSet<_>>::new();
    for (name, host) in pairs {
        hosts.entry(name.clone()).or_default().insert(host.clone());
    }
    hosts
}

fn parse_secret_host(text: &str) -> std::result::Result<(String, String), String> {
    let parsed = text.split_once('=').and_then(|(name, host)| {
        let name = Some(name.trim()).filter(|name| !name.is_empty())?;
        Some((name.to_owned(), normalize_secret_host(host.trim())?))
    });
    parsed.ok_or_else(|| {
        "it is NAME=HOST or NAME=HOST:PORT, as DEPLOY_KEY=api.example.com".to_owned()
    })
}

/// The catalog sources in one value of `--import-from`, with directories as absolute paths.
fn parse_catalog_sources(text: &str) -> Vec<String> {
    let absolute_source = |from: String| match std::path::absolute(&from) {
        Ok(path) if normalize_allowed_host(&from).is_none() => path.display().to_string(),
        _ => from,
    };
    split_names(text).into_iter().map(absolute_source).collect()
}
