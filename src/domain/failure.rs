//! The failures that midex itself gives steps and executions; their codes stand in the table of `error::failure`.

pub use crate::error::FailureCode;
use crate::limits;

/// A failure's message, cut to its limit.
pub(crate) fn truncate_message(message: &str) -> String {
    truncate_to_bytes(message, limits::FAILURE_MESSAGE_BYTES_MAX)
}

/// At most `bytes_max` bytes of `text`, cut between characters.
pub(crate) fn truncate_to_bytes(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
