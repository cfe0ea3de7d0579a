//! Limits of what reading definitions costs: one file, and one directory of them.

use std::time::Duration;

limits! {
/// Timeout for reading one file that a client, a project or a user names.
pub const FILE_READ_WITHIN: Duration = Duration::from_secs(5);
/// Total size of the definition files in one directory and its subdirectories.
pub const DEFINITION_SOURCE_BYTES_MAX: u64 = 16 << 20;
/// Values in all definitions of one directory, including inherited ones; a long text counts as several. A value takes
/// about 200 bytes of memory.
pub const DEFINITION_SOURCE_VALUES_MAX: usize = 500_000;
/// Timeout for checking the definition files of one directory.
pub const DEFINITION_SOURCE_WITHIN: Duration = Duration::from_secs(10);
/// Time that the start of a workflow waits for a project's definitions before it checks whether it needs them.
pub const DEFINITIONS_AWAITED: Duration = Duration::from_millis(100);
/// Threads that read the definitions of one project at once, for all callers together.
pub const DEFINITIONS_LOOKS_MAX: usize = 8;
/// Files of a project parsed to find out whether one has the name of a workflow.
pub const DEFINITION_NAMES_READ_MAX: usize = 20;
/// Bytes of one key shown in the path of a finding.
pub const PATH_KEY_BYTES_MAX: usize = 1000;
/// Keys of one mapping up to which keys of other workflow systems are recognized in it.
pub const KEYS_RECOVERED_MAX: usize = 500;
/// Findings of one file for which the intended word is searched.
pub const FINDINGS_WORDED_MAX: usize = 200;
/// Edits offered with one finding; a finding that needs more leaves the change to the author.
pub const FINDING_EDITS_MAX: usize = 500;
}
