//! How commands print: results to stdout, everything else to stderr.

use std::{
    fmt,
    io::{self, Write},
};

use serde_json::Value;

use super::{screen::Screen, value::json_text};
use midex_domain::error::{Code, Error, Result, describe_io_error};

/// The format and the destination of a command's result.
pub struct Output<'a> {
    pub(super) is_json: bool,
    writer: &'a mut (dyn Write + 'static),
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = &self.is_json;
        f.debug_struct("Output").field("json", json).finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    /// Output to `writer`, as JSON or as text for people.
    pub fn new(is_json: bool, writer: &'a mut (dyn Write + 'static)) -> Self {
        Self { is_json, writer }
    }

    /// Prints a value as indented JSON, or the text for people.
    pub(super) fn print(
        &mut self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.is_json {
            self.write_unchanged(json_text(&json(), true) + "\n")
        } else {
            self.write_unchanged(text())
        }
    }

    /// Prints a list: as JSON one row per line, or the text for people.
    pub(super) fn print_rows(
        &mut self,
        json: impl FnOnce() -> Vec<Value>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if !self.is_json {
            return self.write_unchanged(text());
        }
        let line = |row: &Value| json_text(row, false) + "\n";
        self.write_unchanged(json().iter().map(line).collect::<String>())
    }

    /// Prints the reply of a tool: as JSON, or its message.
    pub(super) fn print_reply(&mut self, reply: &Value) -> Result<()> {
        let message = || {
            let message = reply["message"].as_str().unwrap_or_default();
            Screen::stdout().indent_block(None, "", message)
        };
        self.print(|| reply.clone(), message)
    }

    /// Writes text or bytes unchanged.
    pub(super) fn write_unchanged(&mut self, text: impl AsRef<[u8]>) -> Result<()> {
        let result = self.writer.write_all(text.as_ref());
        match result.and_then(|()| self.writer.flush()) {
            // A reader that closes the pipe early, such as `head`, is not an error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(unwritable_output_error),
        }
    }
}

/// The error of a failed write to stdout.
pub(super) fn unwritable_output_error(error: io::Error) -> Error {
    let full_disk_errors = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    let (message, action) = if full_disk_errors.contains(&error.kind()) {
        (
            "the output cannot be written: no room is left where standard output goes".to_owned(),
            "Free room on the disk of the file that the output goes to, or send it elsewhere; the command itself has done its work",
        )
    } else {
        (
            format!("the output cannot be written: {}", describe_io_error(&error)),
            "Send the output to a file or a program that takes it; the command itself has done its work",
        )
    };
    Error::new(Code::FileUnusable, message)
        .with_context("path", "stdout")
        .with_action(action)
        .with_source(error)
}
