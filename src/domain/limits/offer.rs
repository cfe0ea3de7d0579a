//! Limits of what steps offer their client to do next.

limits! {
/// Branches that one step offers to its client.
pub const STEP_BRANCHES_MAX: usize = 32;
/// Longest pattern of a branch.
pub const BRANCH_PATTERN_BYTES_MAX: usize = 200;
/// Calls suggested in one output.
pub const SUGGESTIONS_MAX: usize = 16;
/// Size of the suggestions in one output, as JSON text.
pub const SUGGESTIONS_BYTES_MAX: usize = 16 << 10;
/// Highest priority of a suggestion; its negative is the lowest.
pub const OPTION_PRIORITY_MAX: u32 = 1000;
/// Size of the options of one step, as JSON text; further options are omitted.
pub const STEP_OPTIONS_BYTES_MAX: usize = 64 << 10;
/// Longest explanation of why an option was omitted; the rest is cut.
pub const LEFT_OUT_BYTES_MAX: usize = 500;
/// Options listed in the error for an invalid choice.
pub const CHOICES_LISTED_MAX: usize = 50;
/// Steps of one execution whose options are kept; the oldest are dropped.
pub const OFFERS_MAX: usize = 8;
}
