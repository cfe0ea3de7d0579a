//! Limits of a store in a database that several servers share.

use std::time::Duration;

limits! {
/// Connections of one server that read at once.
pub const DATABASE_READERS_MAX: usize = 8;
/// How long a connection to the database may take to open.
pub const DATABASE_CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unconfirmed before the connection to the database ends.
pub const DATABASE_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Commits of one batch.
pub const DATABASE_BATCH_MAX: usize = 512;
/// Requests that wait for the next batch; further callers wait.
pub const DATABASE_QUEUE_MAX: usize = 4_096;
/// How long a transaction may take before its connection counts as lost.
pub const DATABASE_TRANSACTION_MAX: Duration = Duration::from_secs(10);
/// How often a transaction is repeated that was refused only because others ran beside it.
pub const DATABASE_REPEATS_MAX: u32 = 5;
/// Rows that are read at once when all rows are searched.
pub const DATABASE_ROWS_TOGETHER_MAX: usize = 1_000;
/// How often the tables are looked for while another server creates them.
pub const DATABASE_LOOKS_MAX: u32 = 5;
/// Pause between two looks.
pub const DATABASE_LOOK_EVERY: Duration = Duration::from_millis(100);
}
