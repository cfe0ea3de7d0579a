//! Limits of control flow: visits, repeats, fan-outs, hooks and compensations; and of the removal and the backup of
//! executions.

use std::time::Duration;

limits! {
/// Largest `factor` of `retry`.
pub const RETRY_FACTOR_MAX: u32 = 10;
/// Default `factor` of `retry`.
pub const RETRY_FACTOR_DEFAULT: u32 = 2;
/// Characters of the title of a visit; a longer one is cut.
pub const TITLE_CHARS_MAX: usize = 200;
/// Bars of one timeline; beyond it the oldest of a step are merged into one.
pub const TIMELINE_BARS_MAX: usize = 1_000;
/// Characters of a name, a title or an error in a timeline; a longer one is cut.
pub const TIMELINE_TEXT_CHARS_MAX: usize = 300;
/// Largest number of attempts of `repeat`.
pub const REPEAT_ATTEMPTS_MAX: u32 = 10_000;
/// Default number of attempts of `repeat`.
pub const REPEAT_ATTEMPTS_DEFAULT: u32 = 100;
/// Default interval between attempts of `repeat`.
pub const REPEAT_EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// Largest visit limit of one step.
pub const VISITS_MAX: u32 = 10_000;
/// Default visit limit of one step.
pub const VISITS_DEFAULT: u32 = 100;
/// Largest limit of the visits of all steps of one execution.
pub const EXECUTION_VISITS_MAX: u32 = 1_000_000;
/// Fields in one `output_contract`.
pub const CONTRACT_FIELDS_MAX: usize = 200;
/// Longest duration in a definition.
pub const SPAN_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Characters of an invalid duration repeated in its error.
pub const SPAN_SHOWN_CHARS: usize = 40;
/// Default limit of the visits of all steps of one execution.
pub const EXECUTION_VISITS_DEFAULT: u32 = 100_000;
/// Consecutive steps without waiting (branches, `set`, …) in one transition.
pub const STEPS_AT_ONCE_MAX: usize = 2_000;
/// Visits that one execution remembers for `compensate`.
pub const COMPENSATIONS_MAX: usize = 10_000;
/// Nesting depth of child executions.
pub const CHILD_DEPTH_MAX: u32 = 8;
/// Longest goal of a workflow that is to be written.
pub const GOAL_CHARS_MAX: usize = 20_000;
/// Corrections of a manifest before a person is asked.
pub const REPAIRS_DEFAULT: u32 = 5;
/// Most corrections of a manifest before a person is asked that a caller may allow.
pub const REPAIRS_MAX: u32 = 20;
/// Workflows that `allow` of a step may name.
pub const CHILD_CHOICES_MAX: usize = 100;
/// Open executions below one root. The root is paused with `budget` before it starts another one.
pub const DESCENDANTS_OPEN_MAX: usize = 2_000;
/// Executions that one question for the next turn looks at: the execution itself and its children.
pub const TURN_EXECUTIONS_MAX: usize = 200;
/// Longest wait of `workflow.cancel` for the end of the run.
pub const CANCEL_WAIT_MAX: Duration = Duration::from_secs(5);
/// Shortest time after which a client of a task is told to ask again.
pub const TASK_POLL_MIN: Duration = Duration::from_secs(1);
/// Time after which a client of a task that waits for somebody is told to ask again.
pub const TASK_POLL_IDLE: Duration = Duration::from_secs(5);
/// Longest time after which a client of a task that waits for a time is told to ask again.
pub const TASK_POLL_MAX: Duration = Duration::from_secs(60);
/// Time that a read of a child execution waits for it to start.
pub const CHILD_BEGIN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Child executions that failed to start, or were held back, for which a process remembers the reason.
pub const CHILDREN_NOT_BEGUN_KEPT_MAX: usize = 1_000;
/// Open gates of an execution for which a message names a command each.
pub const GATES_NAMED_MAX: usize = 8;
/// Failures shown to a step that handles failures.
pub const FAILURES_TOLD_MAX: usize = 8;
/// Bytes shown of the message of each failure that a step handles.
pub const FAILURE_TOLD_BYTES_MAX: usize = 1_000;
/// Child executions that are sent a message at once when their parent ends.
pub const ORDERS_AT_ONCE_MAX: usize = 64;
/// Child executions listed in the status of an execution.
pub const CHILDREN_SHOWN_MAX: usize = 100;
/// Default timeout of one attempt of a hook.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// Items of one `foreach`.
pub const FOREACH_ITEMS_MAX: usize = 10_000;
/// Largest `enough` and `tolerate` of a `foreach`.
pub const FOREACH_ITEMS_COUNT_MAX: u32 = 10_000;
/// Longest time that a step without a `timeout` stays open while its execution fails, if the `timeout` of the
/// workflow has passed.
pub const AFTERMATH_STEP_MAX: Duration = Duration::from_secs(5 * 60);
/// Items of one `foreach` started in one transition. If they all end in it, the next transition starts more.
pub const ITEMS_AT_ONCE_MAX: usize = 1_000;
/// Events of one transition.
pub const EVENTS_PER_ROW_MAX: usize = 1 << 16;
/// Size of the execution's inputs shown with a step, as JSON text; longer ones are shortened.
pub const INPUTS_SHOWN_BYTES_MAX: usize = 4 << 10;
/// Size of the item's own value shown with an item of a `foreach`, as JSON text; a longer one is shortened.
pub const ITEM_SHOWN_BYTES_MAX: usize = 8 << 10;
/// Size above which outputs and inputs are sent only with the first item of a `foreach`. Later items only name or
/// shorten them.
pub const SENT_ONCE_BYTES_MIN: usize = 300;
/// Longest description of a workflow in the brief form of `workflow.list`; a longer one is cut.
pub const BRIEF_CHARS_MAX: usize = 110;
/// Time that a lifecycle method of an activity may take; then it is dropped.
pub const ACTIVITY_HOOK_MAX: Duration = Duration::from_secs(10);
/// Bytes of journal rows that one slice of a sweep for unused contents reads.
pub const SWEEP_SLICE_BYTES: usize = 128 << 10;
/// Contents that one sweep considers; further ones are left to the next sweep.
pub const SWEEP_CANDIDATES_MAX: usize = 10_000;
/// Contents that a sweep frees in one transaction.
pub const SWEEP_FREED_TOGETHER_MAX: usize = 200;
/// Pause after a deletion before a sweep, which more deletions may share.
pub const SWEEP_DELAY: Duration = Duration::from_secs(1);
/// Pause between the slices of a sweep.
pub const SWEEP_PAUSE: Duration = Duration::from_millis(2);
/// Labels of one execution.
pub const LABELS_MAX: usize = 16;
/// Longest name of a label.
pub const LABEL_NAME_BYTES_MAX: usize = 63;
/// Longest value of a label.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
/// Characters of the reason of an execution's state, with the message of its failure, that lists search.
pub const SEARCHED_REASON_CHARS: usize = 400;
/// Journal rows that one step of the index reads.
pub const INDEXED_ROWS_MAX: usize = 2_000;
/// Executions whose summaries one step of the index writes.
pub const INDEXED_TOGETHER_MAX: usize = 64;
/// Journal rows without summaries from which on the index follows at once. Fewer wait for the next interval.
pub const INDEX_LAG_MAX: u64 = 500;
/// How often the index is checked against the journal.
pub const INDEX_CHECKED_EVERY: Duration = Duration::from_secs(5);
/// How often the index follows the journal to its last row.
pub const INDEX_COMPLETED_EVERY: Duration = Duration::from_secs(60);
/// Entries of the index that one page of a list reads.
pub const LIST_INDEX_READS_MAX: usize = 8_000;
/// First rows of executions that one page of a list searches for a text.
pub const LIST_TEXTS_SEARCHED_MAX: usize = 400;
/// How far a clock may have been set back before a list by time misses executions.
pub const LIST_CLOCK_SLACK: Duration = Duration::from_secs(3_600);
/// Characters of the text that a list searches for.
pub const LIST_TEXT_CHARS_MAX: usize = 200;
/// Executions that a prune removes at once.
pub const PRUNED_TOGETHER_MAX: usize = 32;
/// Summaries of executions on one page, for those who read all of them.
pub const SUMMARIES_LISTED_MAX: usize = 5_000;
/// Executions that have ended after which the retention is applied before its time.
pub const RETENTION_ENDED_MIN: usize = 500;
/// Executions that may end after those at whose end the retention is applied again; beyond it, starts are delayed.
pub const RETENTION_BACKLOG_MAX: usize = 2_000;
/// Longest delay of a start by the retention.
pub const RETENTION_DELAYS_START_MAX: Duration = Duration::from_secs(1);
/// Completed executions of a workflow from which its durations are worked out, the latest ones.
pub const DURATIONS_MAX: usize = 1_000;
/// Days whose starts tell how fast a store grows.
pub const GROWTH_DAYS: u32 = 7;
/// Transitions of one execution from which on its size is warned of.
pub const EVENTS_WARNED: u64 = 10_000;
/// Size of the data file from which on it is warned of.
pub const FILE_BYTES_WARNED: u64 = 10 << 30;
/// Time for which one call removes executions; further calls remove the rest.
pub const PRUNE_CALL_MAX: Duration = Duration::from_secs(5);
/// Smallest age at which a retention removes executions, and smallest value of `--backup-every`.
pub const AGE_MIN: Duration = Duration::from_secs(60);
/// How often the retention is applied.
pub const RETENTION_EVERY: Duration = Duration::from_secs(60);
/// How long a deleted execution is known as deleted, and its id cannot be used again.
pub const TOMBSTONE_KEPT: Duration = Duration::from_secs(7 * 86_400);
/// Tombstones of deleted executions that are kept; beyond it the oldest are removed early.
pub const TOMBSTONES_MAX: usize = 100_000;
/// Tombstones that one transaction removes.
pub const TOMBSTONES_REMOVED_TOGETHER_MAX: usize = 500;
/// Bytes of keys and values that a copy of the database writes in one transaction.
pub const COPY_PORTION_BYTES: usize = 4 << 20;
/// Time that a backup of a store in use works before it pauses.
pub const BACKUP_SLICE: Duration = Duration::from_millis(10);
/// How many times as long as it has worked a backup pauses.
pub const BACKUP_PAUSE_FACTOR: u32 = 4;
/// Longest pause of a backup.
pub const BACKUP_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a server looks whether a backup is due.
pub const BACKUP_LOOK_EVERY: Duration = Duration::from_secs(60);
/// Default number of backups that are kept, as set by `--backup-keep`.
pub const BACKUPS_KEPT_DEFAULT: u32 = 7;
/// Largest value of `--backup-keep`.
pub const BACKUPS_KEPT_MAX: u32 = 10_000;
/// How long after its time limit an activity that is still running is logged.
pub const ACTIVITY_STOP_MAX: Duration = Duration::from_secs(1);
/// Largest metadata that an activity reports with one attempt, as JSON text.
pub const ACTIVITY_METADATA_BYTES_MAX: usize = 4 << 10;
/// Longest schema of the input of an activity that the prompt for authors repeats.
pub const ACTIVITY_SCHEMA_SHOWN_BYTES_MAX: usize = 500;
/// Longest text of the progress of an activity.
pub const PROGRESS_TEXT_BYTES_MAX: usize = 200;
/// Target size of one reply or resource; longer content is paged, or has an address of its own.
pub const ANSWER_BYTES_MAX: usize = 25_000;
/// Largest reply announced to hosts for tools whose replies must not be moved into a file.
pub const ANSWER_WHOLE_CHARS_MAX: usize = 500_000;
/// Bytes of one entry of a bundle: its manifest, a journal or a content.
pub const BUNDLE_ENTRY_BYTES_MAX: u64 = 256 << 20;
/// Size of the contents of an import at which they are stored.
pub const IMPORT_BATCH_BYTES: usize = 8 << 20;
/// Keys whose values one export replaces.
pub const REDACTED_KEYS_MAX: usize = 100;
}
