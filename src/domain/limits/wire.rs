//! Limits of what goes between clients, relays and services.

use std::time::Duration;

limits! {
/// Longest frame (one line) of a stdio client; a longer one gets an error answer.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Values in one frame or body of a client, however short: parsed, each takes some 100 bytes of memory.
pub const FRAME_VALUES_MAX: usize = 1_000_000;
/// Where the id of an oversized frame is looked for.
pub const FRAME_ID_WITHIN_BYTES: usize = 4 << 10;
/// A client that takes nothing for this long while it is owed more than it may be is given up.
pub const CLIENT_STALL_MAX: Duration = Duration::from_secs(15 * 60);
/// The buffer between a client and the server in its own process.
pub const CLIENT_PIPE_BYTES: usize = 256 << 10;
/// Frames of a client that were read and not yet handed to the service.
pub const READ_AHEAD_FRAMES_MAX: usize = 64;
/// Replies written with one call.
pub const WRITE_BYTES_MAX: usize = 256 << 10;
/// Bytes for one side of a relay that wait to be written; past it nothing more is read for it.
pub const RELAY_BACKLOG_BYTES_MAX: usize = 256 << 10;
/// How long the last replies may take to be written after a client has gone.
pub const LAST_FLUSH_MAX: Duration = Duration::from_millis(50);
/// Characters of a service's own words that the message of a failed call repeats.
pub const CALL_ERROR_WORDS_CHARS_MAX: usize = 1000;
/// Characters of an unknown name that its refusal repeats.
pub const NAME_SHOWN_CHARS: usize = 80;
}
