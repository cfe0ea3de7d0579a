//! Records which open steps an agent was reminded of, per session of its host. A reminder at the end of every turn
//! would be a nuisance if the user only has a question.
//!
//! There is one small file per session in `hooks/` of the data directory. If it is lost, a reminder is repeated.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry},
    io,
    path::Path,
};

use midex_domain::{
    document::Digest,
    error::{Code, Error, Result, describe_io_error},
    limits,
};

/// The steps that this session was not reminded of yet. They are recorded as reminded.
pub(super) fn filter_new_reminders(
    data_dir: &Path,
    session: &str,
    steps: Vec<String>,
) -> Result<Vec<String>> {
    let directory = data_dir.join("hooks");
    let file = directory.join(Digest::compute(session.as_bytes()).to_string());
    let before = fs::read_to_string(&file).unwrap_or_default();
    let said: BTreeSet<_> = before.lines().collect();
    let is_new = |step: &String| !said.contains(&**step);
    let new: Vec<_> = steps.into_iter().filter(is_new).collect();
    if !new.is_empty() {
        let lines = before.lines().chain(new.iter().map(String::as_str));
        let lines: Vec<_> = lines.take(limits::HOOK_STEPS_KEPT_MAX).collect();
        let kept = write_session_file(&directory, &file, &(lines.join("\n") + "\n"));
        kept.map_err(|error| {
            let message =
                format!("`{}` cannot be written: {}", file.display(), describe_io_error(&error));
            Error::new(Code::FileUnusable, message)
        })?;
    }
    Ok(new)
}

/// Writes the file of a session, and deletes the oldest files beyond [`limits::HOOK_SESSIONS_MAX`].
fn write_session_file(directory: &Path, file: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(file, text)?;
    let written = |entry: &DirEntry| entry.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut files: Vec<_> = fs::read_dir(directory)?.flatten().collect();
    files.sort_by_key(written);
    let old = files.len().saturating_sub(limits::HOOK_SESSIONS_MAX);
    files[..old].iter().try_for_each(|file| fs::remove_file(file.path()))
}
