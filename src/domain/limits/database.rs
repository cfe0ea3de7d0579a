//! Limits of a store in a database that several servers share.

use std::time::Duration;

limits! {
/// How long a server owns shards without a renewal, if nothing else is set.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(10);
/// The shortest lease that can be set.
pub const LEASE_MIN: Duration = Duration::from_millis(400);
/// The longest lease that can be set.
pub const LEASE_MAX: Duration = Duration::from_secs(300);
/// Connections of one server that read at once.
pub const DATABASE_READERS_MAX: usize = 8;
/// How long a connection to the database may take to open.
pub const DATABASE_CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unconfirmed before the connection to the database ends.
pub const DATABASE_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Commits of one batch, and requests that the writer has taken and not begun.
pub const DATABASE_BATCH_MAX: usize = 512;
/// Batches that one server writes at once, each of other shards.
pub const DATABASE_LANES: usize = 2;
/// A snapshot of an execution is written at most every so many transitions: reading the rows after it is cheap, and a snapshot
/// costs the database more than the row.
pub const DATABASE_SNAPSHOT_EVERY: u32 = 8;
/// Requests that wait for the next batch; further callers wait.
pub const DATABASE_QUEUE_MAX: usize = 4_096;
/// How long a transaction may take before its connection counts as lost.
pub const DATABASE_TRANSACTION_MAX: Duration = Duration::from_secs(10);
/// How long the transaction of a migration may be without a statement before the database ends it.
pub const MIGRATION_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often a transaction is repeated that was refused only because others ran beside it.
pub const DATABASE_REPEATS_MAX: u32 = 5;
/// Rows that are read at once when all rows are searched, and records that a migration stores with one statement.
pub const DATABASE_ROWS_TOGETHER_MAX: usize = 1_000;
/// How often the tables are looked for while another server creates them.
pub const DATABASE_LOOKS_MAX: u32 = 5;
/// Pause between two looks for tables that another server creates.
pub const DATABASE_LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a server looks for a new version of the published definitions.
pub const PUBLICATIONS_FOLLOWED_EVERY: Duration = Duration::from_secs(5);
/// Versions of the published definitions that the database keeps.
pub const PUBLICATIONS_KEPT: u64 = 10;
/// Size of the published definitions of one version.
pub const PUBLICATION_BYTES_MAX: usize = 64 << 20;
/// Files of the published definitions of one version.
pub const PUBLICATION_FILES_MAX: usize = 5_000;
/// How far the clocks of servers may be apart: lists are ordered by them, and waits on other servers rely on them.
pub const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(5);
/// Latency of the database from which on midex warns.
pub const DATABASE_LATENCY_WARNED: Duration = Duration::from_millis(20);
/// Size of a file of passwords.
pub const DATABASE_PASSWORDS_BYTES_MAX: u64 = 64 << 10;
/// How long a call waits until a server owns its execution. Longer than a hand-over takes, and shorter than the default lease.
pub const OWNER_AWAITED_MAX: Duration = Duration::from_secs(5);
/// Pause between two looks for the owner of an execution.
pub const OWNER_LOOKED_FOR_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether a server that does not answer owns the execution still.
pub const OWNER_CHECKED_EVERY: Duration = Duration::from_secs(1);
/// How long a connection to another server may take to open.
pub const PEER_CONNECT_MAX: Duration = Duration::from_secs(2);
/// Connections from other servers.
pub const PEER_CONNECTIONS_MAX: usize = 1_024;
/// How long the answer of another server may take.
pub const PEER_ANSWER_MAX: Duration = Duration::from_secs(30);
/// How often the database is asked for executions that other servers have moved, while there are listeners.
pub const OTHER_SERVERS_FOLLOWED_EVERY: Duration = Duration::from_millis(500);
/// How often a wait that has no time limit reads an execution of another server.
pub const OTHER_SERVERS_READ_EVERY: Duration = Duration::from_secs(25);
/// How many ids are generated to find one that this server owns.
pub const OWNED_ID_TRIES_MAX: usize = 64;
/// Executions of other servers that are listed at once as moved.
pub const MOVED_ELSEWHERE_MAX: usize = 10_000;
/// Telemetry ids reserved for one transition in a database, whose keys leave no room for more.
pub const TELEMETRY_IDS_PER_SHARED_ROW: u64 = 1 << 11;
}
