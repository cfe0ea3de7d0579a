//! Backups: on request, on the schedule of a server, and put back in the place of a store that no process has open.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use super::{App, OwnedDirectory, database_directory::check_no_database};
use crate::config::{BackupSchedule, Config};
use midex_domain::{
    clock::{Clock, Timestamp},
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_engine::{
    Engine,
    store::{BackupReport, Compaction, Options, Restoration, StoreRecords},
};

/// The advice where another process owns the store.
const STOP_ADVICE: &str = "Stop the midex that uses the data directory {data_dir} (`midex doctor` names it), and run the same command again";

impl App {
    /// Makes a backup at `target`: see [`Engine::back_up`].
    ///
    /// # Errors
    /// As [`Engine::back_up`].
    pub async fn back_up(&self, target: PathBuf) -> Result<BackupReport> {
        self.engine().await?.back_up(target).await
    }
}

/// Makes the data file of a configuration smaller. Owns the data directory meanwhile. Blocks.
///
/// # Errors
/// `STORE_BUSY` while another process owns it, and those of [`OwnedDirectory::compact`].
pub fn compact_store(config: &Config) -> Result<Compaction> {
    own_directory_with_store(&config.data_dir)?.compact(&Options::default())
}

/// Opens the store in a data directory to read its records. Owns the directory as long as the returned value lives. Blocks.
///
/// # Errors
/// `STORE_BUSY` while another process owns it, and those of [`OwnedDirectory::open_records`].
pub fn open_store_records(data_dir: &Path) -> Result<StoreRecords> {
    own_directory_with_store(data_dir)?.open_records(&Options::default())
}

/// Puts a backup in the place of the data file of a configuration. Owns the data directory meanwhile. Blocks.
///
/// # Errors
/// `STORE_BUSY` while another process owns it, and those of [`OwnedDirectory::restore`].
pub fn restore_store(
    config: &Config,
    backup: &Path,
    replace: bool,
    now: Timestamp,
) -> Result<Restoration> {
    // Taking ownership creates the directory.
    if let Err(error) = fs::metadata(backup) {
        return Err(unusable_file_error(backup, &error));
    }
    own_directory(&config.data_dir)?.restore(backup, replace, now, &Options::default())
}

fn own_directory_with_store(data_dir: &Path) -> Result<OwnedDirectory> {
    let path = data_dir.join(super::STORE_FILE);
    // Taking ownership creates the directory.
    match fs::symlink_metadata(&path) {
        Ok(_) => own_directory(data_dir),
        Err(error) => {
            // After a migration the store is in a database.
            check_no_database(data_dir)?;
            Err(unusable_file_error(&path, &error))
        }
    }
}

fn own_directory(data_dir: &Path) -> Result<OwnedDirectory> {
    check_no_database(data_dir)?;
    let owned = OwnedDirectory::take_ownership(data_dir);
    owned.map_err(|error| match error.code() {
        Code::StoreBusy => error.with_action(STOP_ADVICE),
        _ => error,
    })
}

fn unusable_file_error(path: &Path, error: &io::Error) -> Error {
    Error::file_unusable(path, describe_io_error(error))
}

/// Makes backups as the schedule says, until the engine stops. After a failure it tries again at the next look.
pub(super) async fn serve_schedule(
    engine: Engine,
    clock: Arc<dyn Clock>,
    schedule: BackupSchedule,
    stop_token: CancellationToken,
) {
    let mut looks = tokio::time::interval(limits::BACKUP_LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop_token.cancelled() => return,
            _ = looks.tick() => {}
        }
        match back_up_if_due(&engine, clock.now(), &schedule).await {
            Ok(None) => {}
            Ok(Some(backup)) => tracing::info!(path = %backup.path.display(), "a backup was made"),
            Err(_) if stop_token.is_cancelled() => return,
            Err(error) => tracing::warn!(%error, "the backup of the schedule could not be made"),
        }
    }
}

async fn back_up_if_due(
    engine: &Engine,
    now: Timestamp,
    schedule: &BackupSchedule,
) -> Result<Option<BackupReport>> {
    let last = list_backups(&schedule.directory, now).await?.pop();
    let mut backup = None;
    if last.is_none_or(|(last, _)| now.since(last) >= schedule.every) {
        let name = format!("{BACKUP_PREFIX}{}{BACKUP_SUFFIX}", now.to_file_name());
        backup = Some(engine.back_up(schedule.directory.join(name)).await?);
    }
    let made = list_backups(&schedule.directory, now).await?;
    let superseded = made.len().saturating_sub(schedule.keep);
    for (_, path) in &made[..superseded] {
        fs::remove_file(path).map_err(|error| unusable_file_error(path, &error))?;
    }
    Ok(backup)
}

const BACKUP_PREFIX: &str = "midex-";
const BACKUP_SUFFIX: &str = ".redb";

async fn list_backups(directory: &Path, now: Timestamp) -> Result<Vec<(Timestamp, PathBuf)>> {
    let path = directory.to_owned();
    // The directory may be on a slow disk.
    let listed = tokio::task::spawn_blocking(move || read_backups(&path, now)).await;
    let listed = listed
        .map_err(|error| Error::internal("listing the backups panicked").with_source(error))?;
    listed.map_err(|error| unusable_file_error(directory, &error))
}

/// The backups of the schedule up to now, the oldest first. Other files are ignored. The directory is created if it is
/// missing.
fn read_backups(directory: &Path, now: Timestamp) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut backups = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let made_at = name.to_str().and_then(|name| {
            let time = name.strip_prefix(BACKUP_PREFIX)?.strip_suffix(BACKUP_SUFFIX)?;
            Timestamp::parse_file_name(time).filter(|made_at| *made_at <= now)
        });
        backups.extend(made_at.map(|made_at| (made_at, directory.join(name))));
    }
    backups.sort_unstable();
    Ok(backups)
}
