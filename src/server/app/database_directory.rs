//! Data directories whose executions are in a database: of the servers of a cluster, and those that were migrated.

use std::path::Path;

use midex_domain::error::{Code, Error, Result, describe_io_error};
use midex_engine::store;

/// A file in a data directory whose executions are in a database. While no server of the cluster runs there, a command must not
/// open a store in the directory, which would be empty.
const DATABASE_MARKER: &str = "cluster-member";

/// Marks a data directory whose executions are in a database: no store is opened in it from now on.
///
/// # Errors
/// `FILE_UNUSABLE`.
pub fn mark_database_directory(data_dir: &Path) -> Result<()> {
    let path = data_dir.join(DATABASE_MARKER);
    std::fs::create_dir_all(data_dir)
        .and_then(|()| std::fs::write(&path, "The executions are in a database: see --store.\n"))
        .map_err(|error| Error::file_unusable(&path, describe_io_error(&error)))
}

/// Refuses to open a store in a directory whose executions are in a database.
pub(super) fn check_no_database(data_dir: &Path) -> Result<()> {
    let path = data_dir.join(DATABASE_MARKER);
    if !path.exists() {
        return Ok(());
    }
    let message = format!(
        "the executions of the data directory {} are in a database, and no server of that cluster runs here",
        data_dir.display()
    );
    Err(Error::new(Code::StoreUnavailable, message)
        .with_context("path", path.display().to_string())
        .with_action("Start it (`midex serve --store`), or name another --data-dir. To use the directory without a database, remove the file {path}"))
}

/// Refuses a data directory that contains executions as that of a server of a cluster, which would hide them.
pub(super) fn check_no_own_store(data_dir: &Path) -> Result<()> {
    let path = data_dir.join(store::FILE_NAME);
    if !path.exists() {
        return Ok(());
    }
    let message = format!("{} has executions that are not in the database", path.display());
    Err(Error::new(Code::StoreUnavailable, message)
        .with_context("data_dir", data_dir.display().to_string())
        .with_action("Stop this server and run `midex migrate-store --from redb:{data_dir} --to URL`, or name another --data-dir"))
}
