//! Limits of what steps offer their client to do next.

limits! {
/// Branches that one step offers its client.
pub const STEP_BRANCHES_MAX: usize = 32;
/// Longest pattern of a branch that a step offers.
pub const BRANCH_PATTERN_BYTES_MAX: usize = 200;
/// Calls that one output may suggest.
pub const SUGGESTIONS_MAX: usize = 16;
/// The suggestions of one output, as JSON text.
pub const SUGGESTIONS_BYTES_MAX: usize = 16 << 10;
/// The highest priority of a suggestion, and below 0 the lowest.
pub const OPTION_PRIORITY_MAX: u32 = 1000;
/// The options of one step together, as JSON text; those past it are left out.
pub const STEP_OPTIONS_BYTES_MAX: usize = 64 << 10;
/// Longest text that says why something could not be offered; the rest is cut.
pub const LEFT_OUT_BYTES_MAX: usize = 500;
/// Options that the refusal of a choice lists.
pub const CHOICES_LISTED_MAX: usize = 50;
/// Steps of an execution whose options stand at once; the oldest ones go.
pub const OFFERS_MAX: usize = 8;
}
