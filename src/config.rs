//! What a process is told: flags, then environment, then defaults.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use etcetera::BaseStrategy;

use crate::{
    domain::check::Abilities,
    engine::Secrets,
    error::{Code, Error, Result},
    limits,
    registry::{Definitions, Places, Registry},
};

/// The environment variable that names the data directory.
pub const DATA_DIR_ENV: &str = "MIDEX_DATA_DIR";

/// The environment variable that names those that defaults of inputs may be taken from, with commas between them.
pub const ALLOW_ENV_ENV: &str = "MIDEX_ALLOW_ENV";

/// The environment variable that names those that are secrets of steps, with commas between them.
pub const SECRET_ENV_ENV: &str = "MIDEX_SECRET_ENV";

/// What a process is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where executions are kept.
    pub data_dir: PathBuf,
    /// A directory of workflows that comes before all others.
    pub workflows_dir: Option<PathBuf>,
    /// A directory of agents that comes before all others.
    pub agents_dir: Option<PathBuf>,
    /// The project: its definitions are found, its executions are marked.
    pub project_dir: PathBuf,
    /// How long a token lives.
    pub token_ttl: Duration,
    /// A snapshot on every so-manieth transition.
    pub snapshot_every: u32,
    /// The environment variables that defaults of inputs may be taken from. None but these are looked at.
    pub allow_env: Vec<String>,
    /// The environment variables that steps of the server may be given as `secrets.NAME`. Nobody sees their values.
    pub secret_env: Vec<String>,
}

impl Config {
    /// The defaults, on this data directory; `None` for that of the environment, else the user's.
    pub fn new(data_dir: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            data_dir: match data_dir {
                Some(data_dir) => data_dir,
                None => match std::env::var_os(DATA_DIR_ENV).filter(|dir| !dir.is_empty()) {
                    Some(data_dir) => data_dir.into(),
                    None => user_data_dir()?,
                },
            },
            workflows_dir: None,
            agents_dir: None,
            project_dir: project_dir(),
            token_ttl: limits::TOKEN_TTL,
            snapshot_every: 1,
            allow_env: named_in(ALLOW_ENV_ENV),
            secret_env: named_in(SECRET_ENV_ENV),
        })
    }

    /// What a person writes after `--data-dir` to reach the same data directory; `None` for the user's own.
    pub fn data_dir_named(&self) -> Option<String> {
        let is_usual = user_data_dir().is_ok_and(|usual| usual == self.data_dir);
        (!is_usual).then(|| self.data_dir.display().to_string())
    }

    /// The environment variables that are let in, as they stand now: those that are set, and are Unicode.
    pub fn environment(&self) -> BTreeMap<String, String> {
        values_of(&self.allow_env).collect()
    }

    /// The secrets of steps, as they stand now: those that are set, and are Unicode.
    pub fn secrets(&self) -> Secrets {
        values_of(&self.secret_env).collect()
    }

    /// The definitions that are found from here, live, as a server with these abilities can run them.
    pub fn definitions(&self, abilities: &Abilities) -> Definitions {
        Definitions::new_for(self.places(), &self.with_secrets(abilities))
    }

    /// The definitions that are found from here, as a server that has nothing but midex can run them.
    pub fn registry(&self) -> Registry {
        let abilities = self.with_secrets(&Abilities::default());
        Registry::load_for(&self.places().sources(), &abilities)
    }

    /// These abilities, and the names of the secrets that steps may use here.
    fn with_secrets(&self, abilities: &Abilities) -> Abilities {
        Abilities {
            secrets: Some(self.secret_env.iter().cloned().collect()),
            ..abilities.clone()
        }
    }

    fn places(&self) -> Places {
        Places::new(
            self.workflows_dir.as_deref(),
            self.agents_dir.as_deref(),
            &self.project_dir,
        )
    }
}

/// The names that an environment variable holds.
fn named_in(variable: &str) -> Vec<String> {
    let names = std::env::var(variable);
    names.map(|names| split_names(&names)).unwrap_or_default()
}

/// The values of environment variables.
fn values_of(names: &[String]) -> impl Iterator<Item = (String, String)> {
    let names = names.iter().take(limits::ENV_NAMES_MAX);
    names.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)))
}

fn user_data_dir() -> Result<PathBuf> {
    let strategy = etcetera::choose_base_strategy().map_err(|error| {
        Error::new(
            Code::UsageInvalid,
            "there is no home directory: name a data directory with --data-dir",
        )
        .because(error)
    })?;
    Ok(strategy.data_dir().join("midex"))
}

/// The root of the git repository around the working directory, else the working directory.
fn project_dir() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let root = here
        .ancestors()
        .find(|dir| dir.join(".git").exists())
        .map(Path::to_path_buf);
    root.unwrap_or(here)
}

/// Names with commas between them.
pub fn split_names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Reads a duration: `250ms`, `10s`, `5m`, `24h`, or several of them after one another.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("`{text}` is not a duration: write 250ms, 10s, 5m or 24h"))?;
    Duration::try_from(duration).map_err(|_| format!("`{text}` is negative"))
}

/// Reads a token's life, within its limits.
pub fn parse_token_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse_duration(text)?;
    if (limits::TOKEN_TTL_MIN..=limits::TOKEN_TTL_MAX).contains(&ttl) {
        return Ok(ttl);
    }
    Err(format!(
        "a token may live from {:?} to {} days",
        limits::TOKEN_TTL_MIN,
        limits::TOKEN_TTL_MAX.as_secs() / 86400
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for bad in ["", "10", "x", "-5m"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_token_ttl("999ms").is_err() && parse_token_ttl("1s").is_ok());
        assert!(parse_token_ttl("8784h").is_ok() && parse_token_ttl("8785h").is_err());
    }
}
