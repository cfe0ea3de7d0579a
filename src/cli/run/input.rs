//! Reads files before a workflow runs, and lines of standard input while it runs.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Stdin};

use crate::link::ServerLink;
use midex_domain::{
    error::{Code, Error, Result, describe_io_error},
    limits,
};

/// Reads a text of at most `bytes_max` bytes. A person named the file, so a pipe such as `/dev/stdin` is read to its end.
///
/// # Errors
/// `FILE_UNUSABLE` if it cannot be read or is not UTF-8; `LIMIT_EXCEEDED`.
pub(crate) fn read_file(path: &Path, bytes_max: usize) -> Result<String> {
    let path_text = path.display().to_string();
    let mut bytes = Vec::new();
    let result =
        File::open(path).and_then(|file| file.take(bytes_max as u64 + 1).read_to_end(&mut bytes));
    result.map_err(|error| {
        unusable_file_error(
            path,
            format!("{path_text} cannot be read: {}", describe_io_error(&error)),
        )
        .with_source(error)
    })?;
    if bytes.len() > bytes_max {
        return Err(too_long_error(&path_text, bytes_max));
    }
    String::from_utf8(bytes).map_err(|error| {
        unusable_file_error(path, format!("{path_text} is not UTF-8")).with_source(error)
    })
}

pub(super) fn unusable_file_error(path: &Path, message: String) -> Error {
    Error::new(Code::FileUnusable, message)
        .with_context("path", path.display().to_string())
        .with_action("Name a file that can be read; nothing was started")
}

fn too_long_error(source: &str, bytes_max: usize) -> Error {
    let limit = format!("at most {bytes_max} bytes");
    Error::new(Code::LimitExceeded, format!("{source} is too long: {limit}"))
        .with_context("limit", limit)
}

/// Standard input, line by line.
pub(crate) struct StdinLines {
    reader: BufReader<Stdin>,
    number: usize,
}

impl StdinLines {
    pub(crate) fn stdin() -> Self {
        Self { reader: BufReader::new(tokio::io::stdin()), number: 0 }
    }

    /// The number of the last line that was read, from 1.
    pub(super) fn line_number(&self) -> usize {
        self.number
    }

    /// Reads the next line; `None` at the end. If no line arrives within [`limits::OUTPUT_LINE_GRACE`], the embedded
    /// server releases the store while waiting.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` past [`limits::FRAME_BYTES_MAX`]; `FILE_UNUSABLE`.
    pub(crate) async fn next_line(&mut self, link: &mut ServerLink<'_>) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.reader).take(limits::FRAME_BYTES_MAX as u64 + 1);
        let mut read_future = Box::pin(limited.read_until(b'\n', &mut bytes));
        let result = tokio::select! {
            read = &mut read_future => read,
            () = tokio::time::sleep(limits::OUTPUT_LINE_GRACE) => {
                link.release_store().await?;
                read_future.await
            }
        };
        result.map_err(|error| {
            let message = format!("standard input cannot be read: {}", describe_io_error(&error));
            unusable_file_error(&PathBuf::from("stdin"), message).with_source(error)
        })?;
        self.number += 1;
        if bytes.len() > limits::FRAME_BYTES_MAX {
            let source = format!("standard input:{}", self.number);
            return Err(too_long_error(&source, limits::FRAME_BYTES_MAX));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_size_is_limited() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "12345").expect("a file");
        assert_eq!(read_file(file.path(), 5).expect("a text"), "12345");
        let error = read_file(file.path(), 4).expect_err("too long");
        assert_eq!(error.code(), Code::LimitExceeded);
        std::fs::write(file.path(), [0xff]).expect("a file");
        let error = read_file(file.path(), 4).expect_err("no text");
        assert_eq!(error.code(), Code::FileUnusable);
    }
}
