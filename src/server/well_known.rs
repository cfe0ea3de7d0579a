//! The directory of mcp-workflow, where programs that know it look for workflow state and logs.

use std::path::PathBuf;

use midex_domain::error::{Code, Error, Result};
use midex_engine::store;

/// The name of the directory.
pub const WELL_KNOWN_DIR_NAME: &str = ".magen";
/// The environment variable that names the directory in which it is.
pub const PROJECT_PATH_ENV: &str = "PROJECT_PATH";

/// The well-known directory: `.magen` in the directory that `PROJECT_PATH` names, else in the home directory. It may not exist yet.
///
/// # Errors
/// `USAGE_INVALID` if there is neither.
pub fn well_known_directory_path() -> Result<PathBuf> {
    let project = std::env::var_os(PROJECT_PATH_ENV).filter(|path| !path.is_empty());
    let parent = match project {
        Some(path) => path.into(),
        None => etcetera::home_dir().map_err(|error| {
            let message = "there is no home directory: set PROJECT_PATH";
            Error::new(Code::UsageInvalid, message).with_source(error)
        })?,
    };
    Ok(parent.join(WELL_KNOWN_DIR_NAME))
}

/// The file of the store in the well-known directory.
///
/// # Errors
/// As [`well_known_directory_path`].
pub fn workflow_state_store_path() -> Result<PathBuf> {
    Ok(well_known_directory_path()?.join(store::FILE_NAME))
}

/// The file of the logs in the well-known directory: JSON lines.
///
/// # Errors
/// As [`well_known_directory_path`].
pub fn workflow_logs_path() -> Result<PathBuf> {
    Ok(well_known_directory_path()?.join("workflow_logs.json"))
}
