//! Limits of control flow: visits, repeats, fan-outs, hooks and compensations.

use std::time::Duration;

limits! {
/// Attempts that a definition may ask for with `repeat`.
pub const REPEAT_ATTEMPTS_MAX: u32 = 10_000;
/// Attempts of a step whose `repeat` does not say how many.
pub const REPEAT_ATTEMPTS_DEFAULT: u32 = 100;
/// The pause between attempts where `repeat` does not say.
pub const REPEAT_EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// Visits of one step that a definition may allow.
pub const VISITS_MAX: u32 = 10_000;
/// Visits of one step where neither the step nor the workflow says how many.
pub const VISITS_DEFAULT: u32 = 100;
/// Visits of all steps of one execution together that a definition may allow.
pub const EXECUTION_VISITS_MAX: u32 = 1_000_000;
/// Fields that an `output_contract` names.
pub const CONTRACT_FIELDS_MAX: usize = 200;
/// The longest duration a definition may name.
pub const SPAN_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Characters of a text that is no duration that its refusal repeats.
pub const SPAN_SHOWN_CHARS: usize = 40;
/// How often the steps of one execution may be entered together where the workflow does not say.
pub const EXECUTION_VISITS_DEFAULT: u32 = 100_000;
/// Steps that need nobody and follow each other in one transition.
pub const STEPS_AT_ONCE_MAX: usize = 2_000;
/// Visits that an execution remembers because `compensate` would take their effects back.
pub const COMPENSATIONS_MAX: usize = 10_000;
/// Executions below each other: children of children.
pub const CHILD_DEPTH_MAX: u32 = 8;
/// Open executions below one root; before one more is begun the root is paused with `budget`.
pub const DESCENDANTS_OPEN_MAX: usize = 2_000;
/// How long a read of a child that its parent announced waits for its beginning.
pub const CHILD_BEGIN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Children whose begin failed, or was held back, that a process remembers: a read of one says why it is not there.
pub const CHILDREN_NOT_BEGUN_KEPT_MAX: usize = 1_000;
/// Open gates of an execution for which a text has a command each.
pub const GATES_NAMED_MAX: usize = 8;
/// Failures that a step which handles them is told of.
pub const FAILURES_TOLD_MAX: usize = 8;
/// How much of the message of each of them.
pub const FAILURE_TOLD_BYTES_MAX: usize = 1_000;
/// Children of one execution that are told at once what became of it.
pub const ORDERS_AT_ONCE_MAX: usize = 64;
/// Children that the status of an execution names.
pub const CHILDREN_SHOWN_MAX: usize = 100;
/// How long one attempt of a hook may take where it does not say.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// Items of one `foreach`.
pub const FOREACH_ITEMS_MAX: usize = 10_000;
/// How long a step without a `timeout` may stay open that runs although the execution fails, where the workflow has a
/// `timeout` that is over by then.
pub const AFTERMATH_STEP_MAX: Duration = Duration::from_secs(5 * 60);
/// Items of one `foreach` that a transition begins; where they end as they are entered, the next one goes on.
pub const ITEMS_AT_ONCE_MAX: usize = 1_000;
/// Events of one transition.
pub const EVENTS_PER_ROW_MAX: usize = 1 << 16;
/// The inputs of an execution, as a step is shown them, as JSON text; longer ones are shortened.
pub const INPUTS_SHOWN_BYTES_MAX: usize = 4 << 10;
/// What an item of a `foreach` is shown of its own value, as JSON text; a longer one is shortened.
pub const ITEM_SHOWN_BYTES_MAX: usize = 8 << 10;
/// Longer outputs, and inputs, are sent with the first item of a `foreach`, and only named or shortened after that.
pub const SENT_ONCE_BYTES_MIN: usize = 300;
/// The description of a workflow in the short form of `workflow.list`; a longer one is cut.
pub const BRIEF_CHARS_MAX: usize = 110;
/// What one reply or resource holds; what is longer has pages or an address.
pub const ANSWER_BYTES_MAX: usize = 25_000;
/// What a host is told that a reply may hold which has all that a step needs.
pub const ANSWER_WHOLE_CHARS_MAX: usize = 500_000;
}
