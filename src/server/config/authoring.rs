//! The directory that the authoring tools (`workflow.save`, `workflow.rename`, `workflow.delete`) write into.

use std::path::{Path, PathBuf};

#[cfg(feature = "catalog")]
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use super::Config;
#[cfg(feature = "catalog")]
use midex_catalog::CatalogPaths;
use midex_domain::error::{Code, Error, Result};
use midex_registry::{DefinitionDirectory, Source, find_user_dir};

/// The environment variable that names the registry's workflow directory.
const WORKFLOWS_ENV: &str = "REGISTRY_WORKFLOWS_PATH";
/// The environment variable that names the catalog directory.
#[cfg(feature = "catalog")]
const CATALOGS_ENV: &str = "REGISTRY_CATALOGS_PATH";
/// The environment variable that names the registry's configuration file. Its directory holds the `workflows` and
/// `catalogs` directories.
const CONFIG_ENV: &str = "REGISTRY_CONFIG_PATH";

/// A workflow directory that an environment variable names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryDir {
    /// The path of the directory.
    pub path: PathBuf,
    /// The variable that names it.
    pub variable: String,
}

/// Which workflow directory the authoring tools write into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorTarget {
    /// The registry's directory if the environment names one, otherwise the user's.
    #[default]
    User,
    /// The project's directory.
    Project,
}

/// The directory that the authoring tools write into.
#[derive(Clone, Debug)]
pub struct AuthoringDirectory {
    /// The directory. It may not exist yet.
    pub directory: DefinitionDirectory,
    /// The setting that selects it.
    pub reason: String,
}

impl RegistryDir {
    /// Reads the directory from the environment of this process. The variable for workflows takes precedence over the
    /// one for the configuration file.
    ///
    /// # Errors
    /// `USAGE_INVALID` if a variable holds a relative path.
    pub(super) fn from_environment() -> Result<Option<Self>> {
        if let Some(path) = read_path_variable(WORKFLOWS_ENV)? {
            let variable = WORKFLOWS_ENV.to_owned();
            return Ok(Some(Self { path, variable }));
        }
        let config_file = read_path_variable(CONFIG_ENV)?;
        Ok(config_file.map(|file| Self {
            path: file.parent().unwrap_or(&file).join("workflows"),
            variable: CONFIG_ENV.to_owned(),
        }))
    }
}

/// The directories of the user's catalogs and of their cache, from the environment of this process. `None` if no
/// variable is set and there is no home directory.
///
/// # Errors
/// `USAGE_INVALID` if a variable holds a relative path.
#[cfg(feature = "catalog")]
pub(super) fn find_catalog_paths() -> Result<Option<CatalogPaths>> {
    let config_file = read_path_variable(CONFIG_ENV)?;
    let config_dir = config_file.map(|file| file.parent().unwrap_or(&file).join("catalogs"));
    let path = read_path_variable(CATALOGS_ENV)?.or(config_dir);
    let path = path.or_else(|| Some(find_user_dir()?.join("catalogs")));
    let cache = etcetera::choose_base_strategy().ok();
    let cache = cache.map(|base| base.cache_dir().join("midex").join("catalogs"));
    Ok(path.map(|catalogs| CatalogPaths {
        cache: cache.unwrap_or_else(|| catalogs.join(".cache")),
        catalogs,
        published: None,
    }))
}

impl Config {
    /// The directory that the authoring tools write into. `None` if it would be the user's and there is no home
    /// directory.
    pub fn authoring_directory(&self) -> Option<AuthoringDirectory> {
        let (source, path, reason) = match (self.author_to, &self.registry_dir) {
            (AuthorTarget::Project, _) => {
                let path = self.project_dir.join("workflows");
                (Source::Project, path, "--author-to project".to_owned())
            }
            (AuthorTarget::User, Some(RegistryDir { path, variable })) => {
                (Source::Registry, path.clone(), variable.clone())
            }
            (AuthorTarget::User, None) => {
                let path = find_user_dir()?.join("workflows");
                (Source::User, path, "the user's directory".to_owned())
            }
        };
        let directory = DefinitionDirectory { source, path };
        Some(AuthoringDirectory { directory, reason })
    }
}

/// The path in an environment variable, with a leading home directory expanded. `None` if the variable is unset or
/// empty.
fn read_path_variable(variable: &str) -> Result<Option<PathBuf>> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = match (value.to_str(), etcetera::home_dir()) {
        (Some(text), Ok(home)) => expand_home(text, &home),
        _ => PathBuf::from(&value),
    };
    if path.is_absolute() {
        return Ok(Some(path));
    }
    let message = format!("`{variable}` must be an absolute path, this is `{}`", path.display());
    Err(Error::new(Code::UsageInvalid, message).with_action(
        "Set the variable to a path that begins with `/`, `~/` or `$HOME/`, or unset it",
    ))
}

fn expand_home(text: &str, home: &Path) -> PathBuf {
    let home_prefixes = ["~", "$HOME", "${HOME}"];
    let relative_path = home_prefixes.into_iter().find_map(|it| text.strip_prefix(it));
    match relative_path {
        Some("") => home.to_owned(),
        Some(below) if below.starts_with('/') => home.join(below.trim_start_matches('/')),
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_directory_is_expanded() {
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
            assert_eq!(expand_home(text, Path::new("/h")), Path::new(path), "{text}");
        }
    }
}
