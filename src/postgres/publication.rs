//! The definitions that `midex publish` shares with all servers of a cluster: versions in the database, and the copy of the newest
//! one in a directory of each server. Paths and sizes from the database are checked before a file is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use deadpool_postgres::Pool;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{Connector, discard, reader},
    error::database_error,
    lease::LeaseOptions,
    schema::prepare_tables,
    value::{from_int8, to_int8},
};
use midex_domain::{
    Digest,
    error::{Code, Error, Result},
    limits,
};
use midex_folder::put_in_place;

/// Published files: their texts by relative path, such as `workflows/review.yaml` and `catalogs/shop/catalog.toml`.
pub type PublishedFiles = BTreeMap<String, String>;

/// The file with the number of the version, beside the directories of definitions.
const VERSION_FILE: &str = "version";

/// The newest version, without its files if they are larger than $1 or have the digest $2.
const NEWEST: &str = "SELECT version, digest, \
    CASE WHEN octet_length(files)::int8 <= $1 AND digest <> $2 THEN files END \
    FROM publications ORDER BY version DESC LIMIT 1";

/// Adds a version with these files, unless the newest one has them, and removes those that are too old. Creates missing tables.
/// Returns the number of the newest version, and the files of the one that was the newest before.
///
/// # Errors
/// `LIMIT_EXCEEDED` and `USAGE_INVALID` for files that no server would take, and for an address that is none; those of the database.
pub async fn publish_files(url: &str, files: &PublishedFiles) -> Result<(u64, PublishedFiles)> {
    let bytes = serde_json::to_vec(files)
        .map_err(|error| Error::internal("the files cannot be encoded").with_source(error))?;
    decode_files(&bytes)?;
    let mut client = Connector::new(url, None, LeaseOptions::default())?.connect().await?;
    prepare_tables(&mut client).await?;
    let (version, previous) = add_version(&mut client, &bytes).await.map_err(database_error)?;
    Ok((version, decode_files(&previous).unwrap_or_default()))
}

async fn add_version(
    client: &mut Client,
    bytes: &[u8],
) -> Result<(u64, Vec<u8>), tokio_postgres::Error> {
    let (digest, bytes_max) = (Digest::compute(bytes), to_int8(limits::PUBLICATION_BYTES_MAX));
    let digest = digest.as_bytes().as_slice();
    let transaction = client.transaction().await?;
    let newest = transaction.query_opt(NEWEST, &[&bytes_max, &b"".as_slice()]).await?;
    let version = newest.as_ref().map_or(0, |row| from_int8(row.get(0)));
    let previous = newest.and_then(|row| row.get::<_, Option<Vec<u8>>>(2)).unwrap_or_default();
    if previous == bytes {
        return Ok((version, previous));
    }
    // Of two publications at the same moment, the database refuses the second one.
    let (version, statement) =
        (version + 1, "INSERT INTO publications (version, digest, files) VALUES ($1, $2, $3)");
    transaction.execute(statement, &[&to_int8(version), &digest, &bytes]).await?;
    let oldest = to_int8(version.saturating_sub(limits::PUBLICATIONS_KEPT));
    transaction.execute("DELETE FROM publications WHERE version <= $1", &[&oldest]).await?;
    transaction.commit().await?;
    Ok((version, previous))
}

/// Copies the newest published definitions into a directory of this server, which others read, and follows them.
pub(crate) struct DefinitionFollower {
    pool: Pool,
    directory: PathBuf,
    /// The digest of the newest version, whether it is in use or refused.
    seen: Vec<u8>,
}

impl DefinitionFollower {
    pub(crate) fn new(pool: Pool, directory: PathBuf) -> Self {
        Self { pool, directory, seen: Vec::new() }
    }

    /// Looks for a new version again and again, until `stop` is cancelled.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let pause = || tokio::time::sleep(limits::PUBLICATIONS_FOLLOWED_EVERY);
        while stop.run_until_cancelled(pause()).await.is_some() {
            self.look().await;
        }
    }

    /// Takes over the newest version, if it is not in use. After an error, which is logged, the version in use stays.
    pub(crate) async fn look(&mut self) {
        if let Err(error) = self.update().await {
            if error.code() == Code::StoreUnavailable {
                // The keeper of the leases warns of it.
                return tracing::debug!(%error, "the database cannot be asked for new definitions");
            }
            tracing::warn!(%error, "new published definitions cannot be used: those in use stay");
        }
    }

    async fn update(&mut self) -> Result<()> {
        let client = reader(&self.pool).await?;
        let newest = async {
            let statement = client.prepare_cached(NEWEST).await.map_err(database_error)?;
            let bytes_max = to_int8(limits::PUBLICATION_BYTES_MAX);
            let newest = client.query_opt(&statement, &[&bytes_max, &self.seen]).await;
            newest.map_err(database_error)
        };
        let newest = tokio::time::timeout(limits::DATABASE_TRANSACTION_MAX, newest).await;
        let newest = newest.unwrap_or_else(|_| Err(discard(client)))?;
        let Some(newest) = newest.filter(|row| row.get::<_, &[u8]>(1) != self.seen) else {
            return Ok(());
        };
        let (version, directory) = (from_int8(newest.get(0)), self.directory.clone());
        let bytes: Vec<u8> = newest.get::<_, Option<_>>(2).unwrap_or_default();
        let copied = tokio::task::spawn_blocking(move || {
            install_files(&directory, version, &decode_files(&bytes)?).map_err(|error| {
                let message = format!("{} cannot be written: {error}", directory.display());
                Error::new(Code::FileUnusable, message).with_source(error)
            })
        });
        let copied = copied.await.map_err(|_| Error::internal("the copying panicked"))?;
        // A version that is refused stays refused, whereas a disk may have room the next time.
        if !copied.as_ref().is_err_and(|error| error.code() == Code::FileUnusable) {
            self.seen = newest.get(1);
        }
        copied?;
        tracing::info!(version, "the published definitions are in use");
        Ok(())
    }
}

/// The number of the version in a directory of published definitions; 0 if there is none.
pub(crate) fn read_used_version(directory: &Path) -> u64 {
    let number = fs::read_to_string(directory.join(VERSION_FILE));
    number.ok().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The files in the bytes of a version, if all of them may be written.
fn decode_files(bytes: &[u8]) -> Result<PublishedFiles> {
    let files: PublishedFiles = serde_json::from_slice(bytes).map_err(|error| {
        let message = "the published definitions are damaged or too large";
        Error::new(Code::StoreCorrupt, message).with_source(error)
    })?;
    let (bytes_max, files_max) = (limits::PUBLICATION_BYTES_MAX, limits::PUBLICATION_FILES_MAX);
    if bytes.len() > bytes_max || files.len() > files_max {
        let message = format!("more than {files_max} files or {bytes_max} bytes are published");
        return Err(Error::limit_exceeded(message));
    }
    files.keys().find(|path| !is_definition_path(path)).map_or(Ok(()), |path| {
        let message = format!("`{}` is no path of a definition", path.escape_debug());
        Err(Error::new(Code::UsageInvalid, message))
    })?;
    Ok(files)
}

/// Whether a path is below one of the three directories, without `..`, and has an extension of definitions.
fn is_definition_path(path: &str) -> bool {
    let is_plain =
        |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(char::is_control);
    let extension = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    ["workflows/", "agents/", "catalogs/"].iter().any(|directory| path.starts_with(directory))
        && ["md", "yaml", "yml", "json", "toml"].contains(&extension.as_str())
        && path.split('/').all(is_plain)
        && path.split('/').count() <= limits::DEFINITION_DIRECTORY_DEPTH_MAX + 2
}

/// Replaces the directory by one with these files, in one step. The previous one stays beside it until the next version,
/// because the registry may be reading it.
fn install_files(directory: &Path, version: u64, files: &PublishedFiles) -> io::Result<()> {
    let next = directory.with_extension("other");
    if next.exists() {
        fs::remove_dir_all(&next)?;
    }
    let mut directories = BTreeSet::new();
    let number = (VERSION_FILE.to_owned(), version.to_string());
    for (path, text) in files.iter().chain([(&number.0, &number.1)]) {
        let path = next.join(path);
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&next));
        directories.extend(above.map(Path::to_owned));
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(&next))?;
        let mut file = File::create_new(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    for directory in directories {
        File::open(directory)?.sync_all()?;
    }
    put_in_place(&next, directory)
}
