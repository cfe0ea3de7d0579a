//! Limits of what goes between clients, relays and services.

use std::time::Duration;

limits! {
/// Longest name of a tool that every host accepts.
pub const TOOL_NAME_BYTES_MAX: usize = 64;
/// How long a call that continues a session waits while the server works.
pub const SESSION_WAIT: Duration = Duration::from_secs(25);
/// Workflows whose own tools are listed, in the order of their names; each has at most six.
pub const EXPOSED_WORKFLOWS_MAX: usize = 20;
/// Other open steps that a prompt of an orchestrator names; further ones are counted.
pub const OTHER_STEPS_SHOWN_MAX: usize = 8;
/// Longest frame (one line) of a stdio client; a longer one gets an error answer.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// JSON values in one frame or request body of a client. A parsed value takes about 100 bytes of memory.
pub const FRAME_VALUES_MAX: usize = 1_000_000;
/// Bytes of an oversized frame in which its id is searched.
pub const FRAME_ID_WITHIN_BYTES: usize = 4 << 10;
/// Time after which a client that reads nothing, while its reply buffer is full, is disconnected.
pub const CLIENT_STALL_MAX: Duration = Duration::from_secs(15 * 60);
/// Buffer between a client and the server in the same process.
pub const CLIENT_PIPE_BYTES: usize = 256 << 10;
/// Frames read from a client ahead of the service.
pub const READ_AHEAD_FRAMES_MAX: usize = 64;
/// Size of the log file in the well-known directory; further lines are dropped.
pub const LOG_FILE_BYTES_MAX: u64 = 10 << 20;
/// Bytes of replies written with one system call.
pub const WRITE_BYTES_MAX: usize = 256 << 10;
/// Bytes buffered for one side of a relay; when the buffer is full, reading from the other side stops.
pub const RELAY_BACKLOG_BYTES_MAX: usize = 256 << 10;
/// Time for writing the last replies after a client has disconnected.
pub const LAST_FLUSH_MAX: Duration = Duration::from_millis(50);
/// Characters of a service's error message repeated in the message of a failed call.
pub const CALL_ERROR_WORDS_CHARS_MAX: usize = 1000;
/// Characters of an unknown name repeated in its error.
pub const NAME_SHOWN_CHARS: usize = 80;
/// Pages read of a list of the server of an embedding program, to find out which names are its own.
pub const OWN_LIST_PAGES_MAX: usize = 100;
/// Tokens that the model of a client may use for a turn that the client samples.
pub const SAMPLED_TOKENS_MAX: u32 = 16_000;
/// Resources that one client, or one `subscriptions/listen`, may subscribe to.
pub const SUBSCRIPTION_ADDRESSES_MAX: usize = 1000;
/// Total size of the addresses of one client's subscriptions.
pub const SUBSCRIPTION_BYTES_MAX: usize = 256 << 10;
/// Shortest time from the notifications of one client to its next ones: what changes meanwhile is reported together.
pub const NOTICES_EVERY: Duration = Duration::from_millis(20);
}
