//! Where the tools of authors write workflows.

use std::path::{Path, PathBuf};

#[cfg(feature = "catalog")]
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use super::Config;
#[cfg(feature = "catalog")]
use midex_catalog::Places;
use midex_domain::error::{Code, Error, Result};
use midex_registry::{Directory, Source, user_dir};

/// The environment variable that names the directory of workflows of the registry.
const WORKFLOWS_ENV: &str = "REGISTRY_WORKFLOWS_PATH";
/// The environment variable that names the directory of catalogs.
#[cfg(feature = "catalog")]
const CATALOGS_ENV: &str = "REGISTRY_CATALOGS_PATH";
/// The environment variable that names a file beside which that directory lies.
const CONFIG_ENV: &str = "REGISTRY_CONFIG_PATH";

/// A directory of workflows that the environment names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryDir {
    /// Where it is.
    pub path: PathBuf,
    /// The variable that names it.
    pub variable: String,
}

/// Whose workflows the tools of authors write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorTo {
    /// Those of the registry, where the environment names one; else the user's.
    #[default]
    User,
    /// The project's.
    Project,
}

/// The directory that the tools of authors write into.
#[derive(Clone, Debug)]
pub struct Authoring {
    /// The directory; it need not be there yet.
    pub directory: Directory,
    /// What makes it that one.
    pub reason: String,
}

impl RegistryDir {
    /// What the environment of this process says.
    ///
    /// # Errors
    /// `USAGE_INVALID` where a variable holds a relative path.
    pub(super) fn from_environment() -> Result<Option<Self>> {
        if let Some(path) = path_in(WORKFLOWS_ENV)? {
            let variable = WORKFLOWS_ENV.to_owned();
            return Ok(Some(Self { path, variable }));
        }
        let beside = path_in(CONFIG_ENV)?;
        Ok(beside.map(|file| Self {
            path: file.parent().unwrap_or(&file).join("workflows"),
            variable: CONFIG_ENV.to_owned(),
        }))
    }
}

/// Where the user's catalogs lie, as the environment of this process says; `None` where there is no home.
///
/// # Errors
/// `USAGE_INVALID` where a variable holds a relative path.
#[cfg(feature = "catalog")]
pub(super) fn catalogs() -> Result<Option<Places>> {
    let beside = path_in(CONFIG_ENV)?;
    let beside = beside.map(|file| file.parent().unwrap_or(&file).join("catalogs"));
    let path = path_in(CATALOGS_ENV)?.or(beside);
    let path = path.or_else(|| Some(user_dir()?.join("catalogs")));
    let cache = etcetera::choose_base_strategy().ok();
    let cache = cache.map(|base| base.cache_dir().join("midex").join("catalogs"));
    Ok(path.map(|catalogs| Places {
        cache: cache.unwrap_or_else(|| catalogs.join(".cache")),
        catalogs,
    }))
}

impl Config {
    /// The directory that the tools of authors write into; `None` where there is no home.
    pub fn authoring(&self) -> Option<Authoring> {
        let (source, path, reason) = match (self.author_to, &self.registry_dir) {
            (AuthorTo::Project, _) => {
                let path = self.project_dir.join("workflows");
                (Source::Project, path, "--author-to project".to_owned())
            }
            (AuthorTo::User, Some(RegistryDir { path, variable })) => {
                (Source::Registry, path.clone(), variable.clone())
            }
            (AuthorTo::User, None) => {
                let path = user_dir()?.join("workflows");
                (Source::User, path, "the user's directory".to_owned())
            }
        };
        let directory = Directory { source, path };
        Some(Authoring { directory, reason })
    }
}

/// The path in a variable that is set, with the home directory in its place.
fn path_in(variable: &str) -> Result<Option<PathBuf>> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = match (value.to_str(), etcetera::home_dir()) {
        (Some(text), Ok(home)) => expanded(text, &home),
        _ => PathBuf::from(&value),
    };
    if path.is_absolute() {
        return Ok(Some(path));
    }
    let message = format!(
        "`{variable}` must be an absolute path, this is `{}`",
        path.display()
    );
    Err(Error::new(Code::UsageInvalid, message).with_action(
        "Set the variable to a path that begins with `/`, `~/` or `$HOME/`, or unset it",
    ))
}

fn expanded(text: &str, home: &Path) -> PathBuf {
    let homes = ["~", "$HOME", "${HOME}"];
    let below = homes.into_iter().find_map(|it| text.strip_prefix(it));
    match below {
        Some("") => home.to_owned(),
        Some(below) if below.starts_with('/') => home.join(below.trim_start_matches('/')),
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_is_put_in_its_place() {
        for (text, path) in [
            ("~", "/h"),
            ("~/w", "/h/w"),
            ("$HOME/w/x", "/h/w/x"),
            ("${HOME}/w", "/h/w"),
            ("~w", "~w"),
            ("$HOMEX/w", "$HOMEX/w"),
            ("/a/~", "/a/~"),
            ("a", "a"),
        ] {
            assert_eq!(expanded(text, Path::new("/h")), Path::new(path), "{text}");
        }
    }
}
