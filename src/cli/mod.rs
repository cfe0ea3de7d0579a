//! The commands, one file each. They parse nothing and own nothing: arguments come in, text goes out
//! to the writer they are given, and what they return is the exit code.

pub mod diagnostic;
pub mod list;
pub mod validate;

use std::io;

use crate::error::{Code, Error};

/// The exit code of a command that did its work.
pub const EXIT_OK: u8 = 0;
/// The exit code of a command whose answer is "no": there are findings, say.
pub const EXIT_FINDINGS: u8 = 1;

/// What became of writing to stdout.
fn unwritable(error: io::Error) -> Error {
    let message = format!("the output cannot be written: {}", error.kind());
    Error::new(Code::FileUnusable, message)
        .with("path", "stdout")
        .because(error)
}

/// What a file says, or is called, must not steer the terminal it is shown on.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
