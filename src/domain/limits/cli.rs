//! The limits of single commands of the command line.

use std::time::Duration;

// Not indented, for it is the whole of the rest.
limits! {
/// The free bytes below which `midex doctor` warns.
pub const FREE_BYTES_LOW: u64 = 256 << 20;
/// The longest `--agent-timeout`.
pub const AGENT_COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a command of `--agent` that was told to end may take before it is killed.
pub const AGENT_COMMAND_GRACE: Duration = Duration::from_secs(5);
/// What is read of the output of a command of `--agent`: more than an output may have, for it may stand among other words.
pub const AGENT_COMMAND_OUTPUT_BYTES_MAX: usize = 8 << 20;
/// The longest line of stderr of a command of `--agent` that is shown in one; the rest follows as another.
pub const AGENT_COMMAND_LINE_BYTES_MAX: usize = 8 << 10;
/// How many bytes of an answer of a command of `--agent` are read in search of JSON that turn out to be none.
pub const AGENT_COMMAND_SCAN_BYTES_MAX: usize = 64 << 20;
/// How often a command of `--agent` is asked for one step, where its output cannot be handed in.
pub const AGENT_COMMAND_TRIES_MAX: u32 = 3;
/// How often `midex run` redraws its line of progress.
pub const RUN_PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two drawings of `midex show --watch`.
pub const WATCH_EVERY_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two looks of `midex show --watch` into a store that no server owns, where the first found nothing
/// new.
pub const WATCH_PAUSE_MAX: Duration = Duration::from_secs(16);
/// Lines that can be had again at a prompt.
pub const PROMPT_HISTORY_MAX: usize = 1_000;
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
/// Pages of executions that a part of an id is looked for in, the ones that moved last first.
pub const NAMED_PAGES_MAX: usize = 20;
/// Executions that `midex list` counts past those that it shows; where there are more it says so.
pub const LISTED_MORE_MAX: usize = 1_000;
/// Executions that are named where a part of an id fits several.
pub const NAMED_SHOWN_MAX: usize = 5;
/// Executions, signals or steps that a terminal is offered to pick from.
pub const PICKED_MAX: usize = 20;
/// How often a terminal is asked again which one is meant, where the answer fits none.
pub const PICK_ATTEMPTS_MAX: u32 = 5;
/// How long the completion of a word may look for what there is; past it nothing is offered.
pub const COMPLETE_WITHIN: Duration = Duration::from_millis(90);
/// Executions, and of them steps and signals, that the completion of a word offers.
pub const COMPLETIONS_MAX: usize = 50;
/// The longest flags of inputs that are told again in a command: more nobody would type.
pub const FLAGS_TOLD_BYTES_MAX: usize = 4096;
/// What a hook reads of the end of its session's transcript.
pub const HOOK_TRANSCRIPT_BYTES_MAX: u64 = 8 << 20;
}
