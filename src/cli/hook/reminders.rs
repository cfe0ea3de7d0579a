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
    let previous = fs::read_to_string(&file).unwrap_or_default();
    let reminded: BTreeSet<_> = previous.lines().collect();
    let is_new = |step: &String| !reminded.contains(&**step);
    let new_steps: Vec<_> = steps.into_iter().filter(is_new).collect();
    if !new_steps.is_empty() {
        let lines = previous.lines().chain(new_steps.iter().map(String::as_str));
        let lines: Vec<_> = lines.take(limits::HOOK_STEPS_KEPT_MAX).collect();
        let result = write_session_file(&directory, &file, &(lines.join("\n") + "\n"));
        result.map_err(|error| {
            let message =
                format!("`{}` cannot be written: {}", file.display(), describe_io_error(&error));
            Error::new(Code::FileUnusable, message)
        })?;
    }
    Ok(new_steps)
}

/// Writes the file of a session, and deletes the oldest files beyond [`limits::HOOK_SESSIONS_MAX`].
fn write_session_file(directory: &Path, file: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(file, text)?;
    let modified_at =
        |entry: &DirEntry| entry.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut files: Vec<_> = fs::read_dir(directory)?.flatten().collect();
    files.sort_by_key(modified_at);
    let excess = files.len().saturating_sub(limits::HOOK_SESSIONS_MAX);
    files[..excess].iter().try_for_each(|file| fs::remove_file(file.path()))
}
