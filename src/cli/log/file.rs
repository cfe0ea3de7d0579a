//! The log file of a server: JSON lines, up to a size.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;
use serde_json::json;

use midex_domain::limits;

/// A log file that takes no more lines once it has [`limits::LOG_FILE_BYTES_MAX`] bytes.
#[derive(Debug)]
pub(super) struct JsonLogFile {
    file: File,
    free_bytes: u64,
}

impl JsonLogFile {
    /// Opens the file, and creates it with its directory if need be, for the current user alone.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        // The directory may be one of a cloned repository, so a link is not followed.
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600).custom_flags(flags);
        let file = options.open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, free_bytes: limits::LOG_FILE_BYTES_MAX.saturating_sub(length) })
    }
}

impl Write for JsonLogFile {
    /// Writes whole lines, or drops them. Reports of the queue are no JSON, and are wrapped.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).lines() {
            let is_json = line.starts_with('{');
            let report = || json!({ "level": "WARN", "message": line }).to_string();
            let line = if is_json { line.to_owned() } else { report() } + "\n";
            let length = line.len() as u64;
            if length > self.free_bytes {
                // A shorter line that still fits would make the log look complete.
                self.free_bytes = 0;
                break;
            }
            self.free_bytes -= length;
            self.file.write_all(line.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
