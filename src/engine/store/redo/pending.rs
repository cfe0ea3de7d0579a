//! The log that an opening finds beside the data file. It is read whole before anything is changed, refused if it does
//! not belong to the data file, and applied to the data file in one transaction.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use redb::{Database, Durability, ReadTransaction, ReadableDatabase};

use super::{
    record::{HEADER_BYTES, PAGE_BYTES, ParsedRecord, RecordPlace, padded_length, read_record},
    state::{FollowingLog, LogId, LogState, record_following_log},
};
use crate::store::{
    backend::FileOperation,
    batch::{self},
    changes::{self, LogChange},
    fault::{file_unusable_error, redb_error},
    options::Options,
    paths::{check_regular, keep_damaged_copy, redo_log_path},
    tables::{
        CONTENT_TABLE, EXECUTIONS_TABLE, FORKS_TABLE, JOURNAL_TABLE, OPEN_TABLE, REFUSALS_TABLE,
    },
};
use midex_domain::error::{Code, Error, Result};

/// The content of a file that a user puts in place of a log in order to accept its loss.
const DROPPED_LOG_CONTENT: &[u8] = b"dropped";

/// Disk space needed for each byte of a log that is applied to the data file.
const ROOM_PER_LOG_BYTE: u64 = 4;

/// The smallest piece that a disk writes at once. A record that was written at a wrong place may begin at any multiple
/// of it.
const SECTOR_BYTES: usize = 512;

/// The changes that the log holds and the data file lacks.
#[derive(Debug, Default)]
pub(in crate::store) struct PendingLog {
    /// Whether the data file names a log that follows it.
    is_required: bool,
    /// The bodies of its records, in order.
    bodies: Vec<Vec<u8>>,
}

/// Reads the log beside the data file at `path`.
///
/// # Errors
/// `STORE_CORRUPT` where the two do not belong together or the log is damaged, `STORE_TOO_NEW` where a later version
/// wrote it, `FILE_UNUSABLE` where it cannot be read.
pub(in crate::store) fn read_pending_log(
    database: &Database,
    path: &Path,
    options: &Options,
) -> Result<PendingLog> {
    let transaction = database.begin_read().map_err(redb_error)?;
    let pending = check_log(&transaction, path, options);
    let log = redo_log_path(path);
    pending.map_err(|error| {
        let error = error.with_context("redo", log.display().to_string());
        if error.code() == Code::StoreCorrupt && log.exists() {
            return keep_damaged_copy(&log, error);
        }
        error
    })
}

fn check_log(transaction: &ReadTransaction, path: &Path, options: &Options) -> Result<PendingLog> {
    let state = LogState::read(transaction)?;
    let max_bytes = state.following_log.map_or(0, |follows| follows.bytes);
    let log = read_log_start(path, max_bytes, options)?;
    let Some(follows) = state.following_log else {
        let log = log.unwrap_or_default();
        return accept_leftover_log(&log, &state, path).map(|()| PendingLog::default());
    };
    let log = log.ok_or_else(|| missing_log_error(path))?;
    let bodies = if is_dropped(&log) {
        tracing::warn!(path = %path.display(), "the redo log was dropped: what was stored last is gone");
        Vec::new()
    } else {
        read_record_bodies(&log, follows, &state, path)?
    };
    // Decode everything before anything is changed.
    for body in &bodies {
        changes::decode_changes(body)?;
    }
    Ok(PendingLog { is_required: true, bodies })
}

/// Refuses a log whose data file is missing: there is nothing to apply it to.
///
/// # Errors
/// `STORE_CORRUPT`; `FILE_UNUSABLE` where it cannot be read.
pub(in crate::store) fn refuse_orphan_log(path: &Path, options: &Options) -> Result<()> {
    let log = read_log_start(path, 0, options)?.unwrap_or_default();
    let is_empty =
        matches!(read_record(&log), ParsedRecord::Nothing | ParsedRecord::Record(LogId::NONE, _));
    if is_dropped(&log) || is_empty {
        return Ok(());
    }
    let log = redo_log_path(path);
    let message = format!(
        "`{}` is the log of a database that is not beside it: `{}` is missing",
        log.display(),
        path.display()
    );
    Err(Error::new(Code::StoreCorrupt, message)
        .with_context("path", path.display().to_string())
        .with_context("redo", log.display().to_string())
        .with_action("Put {path} back beside its log, both from the same moment; to begin an empty database, move {redo} away"))
}

/// Refuses a file that lacks what is in its log.
pub(in crate::store) fn refuse_incomplete_file(
    transaction: &ReadTransaction,
    path: &Path,
) -> Result<()> {
    if LogState::read(transaction)?.following_log.is_none() {
        return Ok(());
    }
    let path = path.display().to_string();
    let message = format!("`{path}` lacks what is in its redo log: it is no backup of midex");
    Err(Error::new(Code::FileUnusable, message).with_context("path", path).with_action(
        "Run `midex backup` with the --data-dir in which {path} lies beside its log, and use the file that it makes",
    ))
}

/// Refuses to replace a data file beside which there is a log: the next opening would find it beside another file.
pub(in crate::store) fn refuse_present_log(path: &Path) -> Result<()> {
    let log = redo_log_path(path);
    if std::fs::symlink_metadata(&log).is_err() {
        return Ok(());
    }
    let message = format!("`{}` cannot be removed", log.display());
    Err(Error::new(Code::FileUnusable, message).with_context("path", log.display().to_string()))
}

/// Accepts a log that the data file does not need: an empty one, or one whose content the data file has. Refuses any
/// other.
fn accept_leftover_log(log: &[u8], state: &LogState, path: &Path) -> Result<()> {
    match read_record(log) {
        _ if is_dropped(log) => Ok(()),
        ParsedRecord::Nothing => Ok(()),
        ParsedRecord::Record(id, _) if state.knows_log(id) => Ok(()),
        found => Err(foreign_log_error(&found, path)),
    }
}

/// The bodies of the records of the log that the data file names.
fn read_record_bodies(
    log: &[u8],
    FollowingLog { id, bytes }: FollowingLog,
    state: &LogState,
    path: &Path,
) -> Result<Vec<Vec<u8>>> {
    let first = read_record(log);
    let is_known = matches!(first, ParsedRecord::Record(first, _) if state.knows_log(first));
    if is_known || matches!(first, ParsedRecord::Nothing | ParsedRecord::Garbage) {
        check_length(log, bytes, path)?;
    }
    if !is_known {
        return Err(foreign_log_error(&first, path));
    }
    let (mut bodies, mut next_place, mut rest) = (Vec::new(), RecordPlace::default(), log);
    while let ParsedRecord::Record(record_id, Some((place, body))) = read_record(rest)
        && (record_id, place) == (id, next_place)
    {
        bodies.push(body.to_vec());
        let record = padded_length(HEADER_BYTES + body.len());
        next_place = next_place.place_after(record);
        rest = rest.get(record..).unwrap_or_default();
    }
    // Each record is durable before the next one is written. So an intact record after a gap, or at a wrong place,
    // proves a loss.
    let is_intact_record = |offset: usize| matches!(read_record(&rest[offset..]), ParsedRecord::Record(of, Some(_)) if of == id);
    if (0..rest.len()).step_by(SECTOR_BYTES).any(is_intact_record) {
        return Err(unfit_log_error(
            path,
            "is damaged: a record before its last one cannot be read",
        ));
    }
    let is_untouched = match read_record(rest) {
        // An intact record of another id is left over from before a fold.
        ParsedRecord::Record(_, whole) => whole.is_some(),
        _ => rest.iter().take(PAGE_BYTES).all(|byte| *byte == 0),
    };
    if !is_untouched {
        // A torn record and a damaged one look alike, so a copy of the log is kept for the user.
        let problem = "ends with a record that cannot be read: the machine stopped while it was written, and then nothing is lost, or it was damaged";
        let _ = keep_damaged_copy(&redo_log_path(path), unfit_log_error(path, problem));
    }
    Ok(bodies)
}

fn check_length(log: &[u8], bytes: u64, path: &Path) -> Result<()> {
    if (log.len() as u64) < bytes {
        let problem = format!("was cut from {bytes} to {} bytes", log.len());
        return Err(unfit_log_error(path, &problem));
    }
    Ok(())
}

fn is_dropped(log: &[u8]) -> bool {
    log.trim_ascii() == DROPPED_LOG_CONTENT
}

/// The first page of the log beside `path`, or its first `max_bytes` bytes if that is more. `None` if there is no log.
fn read_log_start(path: &Path, max_bytes: u64, options: &Options) -> Result<Option<Vec<u8>>> {
    let log = redo_log_path(path);
    check_regular(&log)?;
    let mut bytes = Vec::new();
    let result = options
        .call_hook_before(FileOperation::Read)
        .and_then(|()| File::open(&log))
        .and_then(|file| file.take(max_bytes.max(PAGE_BYTES as u64)).read_to_end(&mut bytes));
    match result {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_unusable_error(&log, &error)),
    }
}

fn foreign_log_error(record: &ParsedRecord<'_>, path: &Path) -> Error {
    match record {
        ParsedRecord::TooNew(version) => {
            let message = format!(
                "`{}` was written by a later version: its records have the version {version}",
                redo_log_path(path).display()
            );
            Error::new(Code::StoreTooNew, message)
        }
        ParsedRecord::Record(..) => {
            unfit_log_error(path, "belongs to another database, or to this one at another moment")
        }
        ParsedRecord::Nothing => unfit_log_error(path, "is damaged: it lacks its first record"),
        ParsedRecord::Garbage => unfit_log_error(path, "does not begin as a log does"),
    }
}

/// The error of a log that does not fit the data file. Nothing of the log was applied.
fn unfit_log_error(path: &Path, problem: &str) -> Error {
    log_mismatch_error(path, &format!("`{}` {problem}", redo_log_path(path).display()))
}

fn missing_log_error(path: &Path) -> Error {
    let log = redo_log_path(path);
    log_mismatch_error(
        path,
        &format!(
            "`{}` is missing, without which `{}` lacks what was stored last",
            log.display(),
            path.display()
        ),
    )
}

fn log_mismatch_error(path: &Path, message: &str) -> Error {
    Error::new(Code::StoreCorrupt, message)
        .with_context("path", path.display().to_string())
        .with_action("Restore {path} and {redo} together, both from the same moment; to go on with what {path} holds alone, write the one word `dropped` into {redo}")
}

impl PendingLog {
    /// Whether the data file names a log, so that [`PendingLog::fold`] must be called.
    pub(in crate::store) fn must_be_folded(&self) -> bool {
        self.is_required
    }

    /// The disk space that applying the log may need in the data file.
    pub(in crate::store) fn fold_space_needed(&self) -> u64 {
        let bytes = self.bodies.iter().map(|body| body.len() as u64);
        bytes.sum::<u64>() * ROOM_PER_LOG_BYTE
    }

    /// Applies the changes to the data file, which then needs no log. If they are not to be durable, they are committed
    /// in memory only, until the next durable commit.
    pub(in crate::store) fn fold(&self, database: &Database, is_durable: bool) -> Result<()> {
        let mut transaction = database.begin_write().map_err(redb_error)?;
        transaction.set_quick_repair(is_durable);
        if !is_durable {
            let result = transaction.set_durability(Durability::None);
            result.map_err(redb_error)?;
        }
        let mut executions = transaction.open_table(EXECUTIONS_TABLE).map_err(redb_error)?;
        let mut journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
        let mut contents = transaction.open_table(CONTENT_TABLE).map_err(redb_error)?;
        let mut refusals = transaction.open_table(REFUSALS_TABLE).map_err(redb_error)?;
        for body in &self.bodies {
            for change in changes::decode_changes(body)? {
                match change {
                    LogChange::Row(key, row) => journal.insert(key, row).map(drop),
                    LogChange::Snapshot(id, snapshot) => executions.insert(id, snapshot).map(drop),
                    LogChange::Content(digest, bytes) => contents.insert(digest, bytes).map(drop),
                    LogChange::Open(id, due) => {
                        let mut open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
                        open.insert(id, due).map(drop)
                    }
                    LogChange::Fork(source, fork) => {
                        let mut forks = transaction.open_table(FORKS_TABLE).map_err(redb_error)?;
                        forks.insert((source, fork), ()).map(drop)
                    }
                    LogChange::Ended(id) => {
                        let mut open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
                        open.remove(id).map(drop)
                    }
                    LogChange::Refusal(key, refusal) => refusals.insert(key, refusal).map(drop),
                    removal => {
                        let tables = (&mut executions, &mut journal, &mut contents);
                        batch::apply_removal(&transaction, tables, removal)?;
                        Ok(())
                    }
                }
                .map_err(redb_error)?;
            }
            batch::remove_old_refusals(&mut refusals)?;
        }
        drop((executions, journal, contents, refusals));
        record_following_log(&transaction, None)?;
        transaction.commit().map_err(redb_error)
    }
}
