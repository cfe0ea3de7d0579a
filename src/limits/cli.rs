//! The limits of single commands of the command line.

use std::time::Duration;

// Not indented, for it is the whole of the rest.
limits! {
/// Largest configuration file of a host that `midex install` changes and `midex doctor` reads.
pub const HOST_FILE_BYTES_MAX: u64 = 16 << 20;
/// The longest `--seconds` of `midex bench`.
pub const BENCH_SECONDS_MAX: Duration = Duration::from_secs(60 * 60);
/// How often `midex bench` tries to remove its files, where an interrupted part still makes some.
pub const BENCH_REMOVALS_MAX: u32 = 20;
/// Clients of a store without group commit that `midex bench` measures at once; more of them only wait longer.
pub const BENCH_SINGLE_IN_FLIGHT_MAX: usize = 256;
/// Executions that `midex bench` stores before it measures, at most.
pub const BENCH_STORED_MAX: u32 = 10_000_000;
}
