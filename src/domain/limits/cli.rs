//! The limits of single commands of the command line.

use std::time::Duration;

// Not indented, for it is the whole of the rest.
limits! {
/// Free disk space below which `midex doctor` warns.
pub const FREE_BYTES_LOW: u64 = 256 << 20;
/// Largest value of `--agent-timeout`.
pub const AGENT_COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Time that an `--agent` command gets to exit before it is killed.
pub const AGENT_COMMAND_GRACE: Duration = Duration::from_secs(5);
/// Bytes read from the output of an `--agent` command. More than an output may have, since other text may surround
/// it.
pub const AGENT_COMMAND_OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Longest line of an `--agent` command's stderr; a longer one is split.
pub const AGENT_COMMAND_LINE_BYTES_MAX: usize = 8 << 10;
/// Bytes parsed in search of JSON in the output of an `--agent` command.
pub const AGENT_COMMAND_SCAN_BYTES_MAX: usize = 64 << 20;
/// Attempts of an `--agent` command at one step, while its output is refused.
pub const AGENT_COMMAND_TRIES_MAX: u32 = 3;
/// Refresh interval of the progress line of `midex run`.
pub const RUN_PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Shortest refresh interval of `midex show --watch`.
pub const WATCH_EVERY_MIN: Duration = Duration::from_millis(100);
/// Longest polling interval of `midex show --watch` for a store without a running server, while nothing changes.
pub const WATCH_PAUSE_MAX: Duration = Duration::from_secs(16);
/// Lines in the history of a prompt.
pub const PROMPT_HISTORY_MAX: usize = 1_000;
/// Largest configuration file of a host that `midex install` edits or `midex doctor` reads.
pub const HOST_FILE_BYTES_MAX: u64 = 16 << 20;
/// Largest value of `--seconds` of `midex bench`.
pub const BENCH_SECONDS_MAX: Duration = Duration::from_secs(60 * 60);
/// Attempts of `midex bench` to remove its files, while an interrupted part still writes some.
pub const BENCH_REMOVALS_MAX: u32 = 20;
/// Concurrent clients that `midex bench` uses for a store without group commit.
pub const BENCH_SINGLE_IN_FLIGHT_MAX: usize = 256;
/// Executions that `midex bench` stores before it measures.
pub const BENCH_STORED_MAX: u32 = 10_000_000;
/// Pages of executions searched for a partial id, most recently changed first.
pub const NAMED_PAGES_MAX: usize = 20;
/// Executions that `midex list` counts beyond those that it shows.
pub const LISTED_MORE_MAX: usize = 1_000;
/// Executions named when a partial id is ambiguous.
pub const NAMED_SHOWN_MAX: usize = 5;
/// Executions, signals or steps offered in a selection at the terminal.
pub const PICKED_MAX: usize = 20;
/// Attempts at a selection at the terminal before the command gives up.
pub const PICK_ATTEMPTS_MAX: u32 = 5;
/// Timeout of shell completion; beyond it nothing is offered.
pub const COMPLETE_WITHIN: Duration = Duration::from_millis(90);
/// Executions, steps or signals offered by shell completion.
pub const COMPLETIONS_MAX: usize = 50;
/// Longest list of input flags repeated in a suggested command.
pub const FLAGS_TOLD_BYTES_MAX: usize = 4096;
/// Bytes that a hook reads from the end of its session's transcript.
pub const HOOK_TRANSCRIPT_BYTES_MAX: u64 = 8 << 20;
/// Failed executions that `midex hook` looks for in a transcript, the one that moved last first.
pub const HOOK_FAILED_TOLD_MAX: usize = 3;
}
