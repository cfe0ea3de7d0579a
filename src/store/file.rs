//! Opening the data file: created whole or not at all, refused where it is damaged or of another format, and never
//! replaced.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::UNIX_EPOCH,
};

use redb::{Database, ReadTransaction, ReadableDatabase, TableHandle};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    Options,
    backend::{Backend, Disk, Operation},
    batch::{CONTENT, EXECUTIONS, JOURNAL, Ledger, META, OPEN, REFUSALS},
    fault::{fault, fault_at_opening, guarded, unusable},
    lock::Lock,
    record::damaged,
    recovery, rewrite,
};
use crate::{
    error::{Code, Error, Result},
    limits,
};

/// The data file's name in its directory.
const FILE_NAME: &str = "executions.redb";
/// What a database is called, behind that name, until it is whole.
const DRAFT: &str = ".new-";
/// What a copy of a damaged one is called until it is whole.
const COPY: &str = ".copy-";
/// The entry of `meta.v1` that holds the name of the format. No build before this format wrote it.
const FORMAT_KEY: &str = "released_format";
/// The format of the file as a whole.
const FORMAT: &str = "midex-1";
/// Where builds before the first release said theirs.
const UNRELEASED_KEYS: [&str; 2] = ["format", "release_format"];
/// Our tables, without the version that their names end with.
const TABLES: [&str; 6] = [
    "executions",
    "journal",
    "content",
    "refusals",
    "meta",
    "open",
];

/// An open database and its file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) disk: Arc<Disk>,
}

/// Takes `directory`, which is created where it is missing, for as long as the lock it returns lives.
pub(super) fn lock(directory: &Path) -> Result<Arc<Lock>> {
    make_directory(directory).map_err(|error| unusable(directory, &error))?;
    Lock::take(directory).map(Arc::new)
}

/// The data file in `directory`; it is created where it is missing.
pub(super) fn prepare(directory: &Path, lock: &Arc<Lock>, options: &Options) -> Result<PathBuf> {
    let path = directory.join(FILE_NAME);
    match fs::symlink_metadata(&path) {
        Ok(_) => check_regular(&path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if lock.stood_for_one() {
                tracing::warn!(path = %path.display(), "the database that was in this directory is gone; an empty one is begun");
            }
            create(&path, lock, options)?;
        }
        Err(error) => return Err(unusable(&path, &error)),
    }
    // Whoever created it may have crashed before its name was durable.
    let named = options.before(Operation::SyncDirectory);
    named
        .and_then(|()| sync_directory(directory))
        .map_err(|error| unusable(directory, &error))?;
    Ok(path)
}

/// Refuses a pipe, for which opening would wait, and a device.
pub(super) fn check_regular(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let path = path.display().to_string();
            let message = format!("`{path}` is not a regular file");
            Err(Error::new(Code::FileUnusable, message)
                .with("path", path)
                .with_action("Move {path} away, or choose another --data-dir"))
        }
        // Whatever else is wrong with it is met when it is opened.
        _ => Ok(()),
    }
}

/// Creates `directory` and what is missing above it, and makes their names durable.
fn make_directory(directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = directory
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    for made in missing {
        sync_directory(made.parent().unwrap_or(made))?;
    }
    Ok(())
}

/// Makes the names in `directory` durable, where the system lets us.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let named = !directory.as_os_str().is_empty();
    let synced = File::open(if named { directory } else { here }).and_then(|file| file.sync_all());
    match synced {
        // A directory that may be written but not read, and file systems that sync no directories.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Opens the data file at `path`, and brings its snapshots up to date. Where a sync of it failed, its content is
/// written anew first.
///
/// # Errors
/// `STORE_BUSY`, `STORE_TOO_NEW`, `STORE_FORMAT`, `STORE_CORRUPT` and `FILE_UNUSABLE` leave the file as it was, to the
/// byte; save that fresh snapshots stay where the damage is met while they are made.
pub(super) fn open(path: &Path, lock: &Arc<Lock>, options: &Options) -> Result<(Opened, Ledger)> {
    lock.check_names(path)?;
    let (opened, ledger) = if lock.is_unsynced() {
        rewrite::open(path, lock, options)?
    } else {
        let disk = || Ok(Disk::new(at(path)?, options.hook.clone(), lock));
        open_disk(path, disk, options, limits::CHECKED_FILE_BYTES_MAX)?
    };
    lock.name(
        opened
            .disk
            .identity()
            .map_err(|error| unusable(path, &error))?,
    );
    Ok((opened, ledger))
}

/// The same with a copy of the data file that is to take its place: every page of it is checked.
pub(super) fn open_checked(
    path: &Path,
    copy: Arc<Disk>,
    options: &Options,
) -> Result<(Opened, Ledger)> {
    open_disk(path, || Ok(copy), options, u64::MAX)
}

fn open_disk(
    path: &Path,
    disk: impl FnOnce() -> Result<Arc<Disk>>,
    options: &Options,
    checked_below: u64,
) -> Result<(Opened, Ledger)> {
    let opened = guarded(|| open_unguarded(path, disk()?, options, checked_below));
    opened.map_err(|error| {
        let error = error.with("path", path.display().to_string());
        if error.code() == Code::StoreCorrupt {
            return set_aside(path, error);
        }
        error
    })
}

/// The file at `path`, to be read and written.
pub(super) fn at(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|error| unusable(path, &error))
}

/// A new file at `path`.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn open_unguarded(
    path: &Path,
    disk: Arc<Disk>,
    options: &Options,
    checked_below: u64,
) -> Result<(Opened, Ledger)> {
    if disk.bytes().map_err(|error| unusable(path, &error))? == 0 {
        return Err(damaged("it is empty"));
    }
    let opened = open_database(disk, path, options, checked_below)?;
    check_format(&opened.database, path)?;
    let mut ledger = recovery::survey(&opened.database)?;
    // What folding overwrites need not be kept: each of its transactions leaves a whole database.
    opened.disk.trust();
    let room = recovery::fold_bytes(&ledger);
    match opened.disk.reserve(room) {
        Ok(()) => recovery::fold(&opened.database, &mut ledger)?,
        Err(error) => tracing::warn!(%error, "no room for fresh snapshots: they stay as they are"),
    }
    Ok((opened, ledger))
}

fn open_database(
    disk: Arc<Disk>,
    path: &Path,
    options: &Options,
    checked_below: u64,
) -> Result<Opened> {
    let backend = Backend::new(&disk).map_err(|error| unusable(path, &error))?;
    let bytes = disk.bytes().map_err(|error| unusable(path, &error))?;
    let database = Database::builder()
        .set_cache_size(options.cache_bytes)
        // redb trusts what it closed cleanly. A small file is cheap to read through, as after a crash.
        .set_check_integrity_on_open(bytes < checked_below)
        .create_with_backend(backend)
        .map_err(|error| fault_at_opening(error, path))?;
    Ok(Opened { database, disk })
}

/// Makes an empty database under another name and moves it into its place: a crash leaves no half of one.
fn create(path: &Path, lock: &Arc<Lock>, options: &Options) -> Result<()> {
    let draft = draft(path);
    let refuse = |error: io::Error| unusable(path, &error);
    remove(&draft).map_err(refuse)?;
    options.before(Operation::Create).map_err(refuse)?;
    let file = create_new(&draft).map_err(refuse)?;
    let made = fill(file, &draft, lock, options)
        .map_err(|error| error.with("path", path.display().to_string()));
    let placed = made.and_then(|()| {
        let named = options.before(Operation::Rename);
        named.and_then(|()| place(&draft, path)).map_err(refuse)
    });
    let removed = remove(&draft).map_err(refuse);
    placed.and(removed)
}

fn fill(file: File, draft: &Path, lock: &Arc<Lock>, options: &Options) -> Result<()> {
    let disk = Disk::new(file, options.hook.clone(), lock);
    let opened = open_database(disk, draft, options, 0)?;
    opened.disk.trust();
    let transaction = opened.database.begin_write().map_err(fault)?;
    transaction.open_table(EXECUTIONS).map_err(fault)?;
    transaction.open_table(JOURNAL).map_err(fault)?;
    transaction.open_table(CONTENT).map_err(fault)?;
    transaction.open_table(REFUSALS).map_err(fault)?;
    transaction.open_table(OPEN).map_err(fault)?;
    let mut meta = transaction.open_table(META).map_err(fault)?;
    meta.insert(FORMAT_KEY, FORMAT.as_bytes()).map_err(fault)?;
    drop(meta);
    transaction.commit().map_err(fault)?;
    opened.database.close().map_err(fault)?;
    opened.disk.sync().map_err(|error| unusable(draft, &error))
}

/// Gives the draft its name, unless another process was first: a file in that place is never replaced.
fn place(draft: &Path, path: &Path) -> io::Result<()> {
    let placed = fs::hard_link(draft, path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no links.
        _ => Ok(renameat_with(
            CWD,
            draft,
            CWD,
            path,
            RenameFlags::NOREPLACE,
        )?),
    });
    match placed {
        Err(_) if path.exists() => Ok(()),
        placed => placed,
    }
}

/// Removes what crashed creations left behind. Only the owner of the store does so; who makes one just now
/// finds that the store is there.
pub(super) fn sweep(path: &Path) {
    let left = |name: &str| {
        [DRAFT, COPY]
            .iter()
            .any(|kind| name.starts_with(&format!("{FILE_NAME}{kind}")))
    };
    let entries = path
        .parent()
        .and_then(|directory| fs::read_dir(directory).ok());
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(left)
            && let Err(error) = remove(&entry.path())
        {
            tracing::warn!(%error, "a leftover of a crash cannot be removed");
        }
    }
}

/// The name of a file that is to take the place of the one at `path`.
pub(super) fn draft(path: &Path) -> PathBuf {
    beside(path, DRAFT, &unique())
}

fn beside(path: &Path, kind: &str, name: &str) -> PathBuf {
    path.with_file_name(format!("{FILE_NAME}{kind}{name}"))
}

/// A name that no other process and no other thread uses at this time.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// Removes what is at `path`, if anything is.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Refuses what another version wrote, and what is no database of midex.
fn check_format(database: &Database, path: &Path) -> Result<()> {
    let transaction = database.begin_read().map_err(fault)?;
    let tables: Vec<String> = transaction
        .list_tables()
        .map_err(fault)?
        .map(|table| table.name().to_owned())
        .collect();
    refuse_later_tables(&tables)?;
    refuse_other_formats(&transaction, path)?;
    let missing = |name: &&str| !tables.contains(&format!("{name}.v1"));
    match TABLES.into_iter().find(missing) {
        None => Ok(()),
        Some(name) => Err(damaged(&format!("it has no table `{name}.v1`"))),
    }
}

fn refuse_later_tables(tables: &[String]) -> Result<()> {
    for table in tables {
        if let Some((name, version)) = table.rsplit_once(".v")
            && TABLES.contains(&name)
            && version.parse::<u64>().is_ok_and(|version| version > 1)
        {
            return Err(too_new(&format!("the table `{table}`")));
        }
    }
    Ok(())
}

fn refuse_other_formats(transaction: &ReadTransaction, path: &Path) -> Result<()> {
    let meta = transaction.open_table(META).map_err(fault)?;
    let format = meta.get(FORMAT_KEY).map_err(fault)?;
    if let Some(format) = format.as_ref().map(redb::AccessGuard::value) {
        if format == FORMAT.as_bytes() {
            return Ok(());
        }
        let name = String::from_utf8_lossy(format);
        return Err(too_new(&format!("the format `{name}`")));
    }
    for key in UNRELEASED_KEYS {
        if meta.get(key).map_err(fault)?.is_some() {
            return Err(unreleased(path));
        }
    }
    Err(damaged("it does not say its format"))
}

fn unreleased(path: &Path) -> Error {
    let message = format!(
        "`{}` was written by an earlier build, before the first release of midex, and is left as it is",
        path.display()
    );
    Error::new(Code::StoreFormat, message)
}

fn too_new(what: &str) -> Error {
    let message = format!("the database was written by a later version: it has {what}");
    Error::new(Code::StoreTooNew, message)
}

/// Keeps a copy of a damaged file beside it: once, however often it is met.
fn set_aside(path: &Path, error: Error) -> Error {
    match copy_aside(path) {
        Ok(copy) => {
            tracing::error!(path = %path.display(), copy = %copy.display(), %error, "the database is damaged");
            error.with("copy", copy.display().to_string())
        }
        Err(fault) => {
            tracing::error!(path = %path.display(), %fault, %error, "the database is damaged, and cannot be copied");
            error
        }
    }
}

fn copy_aside(path: &Path) -> io::Result<PathBuf> {
    let modified = fs::metadata(path)?.modified()?;
    let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let copy = beside(path, ".damaged-", &modified.as_nanos().to_string());
    if !copy.exists() {
        let draft = beside(path, COPY, &unique());
        let copied = fs::copy(path, &draft).and_then(|_| fs::rename(&draft, &copy));
        if copied.is_err() {
            remove(&draft)?;
        }
        copied?;
    }
    Ok(copy)
}
