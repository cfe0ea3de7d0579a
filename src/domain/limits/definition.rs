//! Limits of what reading definitions costs: one file, and one directory of them.

use std::time::Duration;

limits! {
/// How long the reading of one file may take that a client, a project or a user names.
pub const FILE_READ_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of all definition files of one directory and those below it.
pub const DEFINITION_SOURCE_BYTES_MAX: u64 = 16 << 20;
/// Values of all definitions of one directory, with those that they inherit; a long text counts as several. A value takes some
/// 200 bytes of memory.
pub const DEFINITION_SOURCE_VALUES_MAX: usize = 500_000;
/// How long the files of one directory of definitions may take to be checked.
pub const DEFINITION_SOURCE_WITHIN: Duration = Duration::from_secs(10);
/// How long the start of a workflow waits for the definitions of a project before it looks whether it needs any of them.
pub const DEFINITIONS_AWAITED: Duration = Duration::from_millis(100);
/// Threads that read the definitions of one project at once, for all its callers.
pub const DEFINITIONS_LOOKS_MAX: usize = 8;
/// Files of a project that are parsed to learn whether one of them has the name of a workflow.
pub const DEFINITION_NAMES_READ_MAX: usize = 20;
/// What the path of a finding shows of one key.
pub const PATH_KEY_BYTES_MAX: usize = 1000;
/// Keys of one mapping among which words of other systems are looked for.
pub const KEYS_RECOVERED_MAX: usize = 500;
/// Findings of one file for which the word that was meant is looked for.
pub const FINDINGS_WORDED_MAX: usize = 200;
/// Places of a text that one finding offers to edit; a finding with more leaves the change to the author.
pub const FINDING_EDITS_MAX: usize = 500;
}
