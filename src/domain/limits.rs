//! Every limit of midex, with its figure. A queue, batch, file, output, loop or connection that is
//! not bounded here is a defect. Sizes are bytes unless the name says otherwise.

mod figure;

use std::time::Duration;

pub use self::{
    catalog::*,
    cli::*,
    dashboard::*,
    database::*,
    definition::*,
    figure::{Figure, Limit},
    flow::*,
    offer::*,
    wire::*,
};

/// Makes of each limit a constant, and of all of them `listed`.
macro_rules! limits {
    ($($(#[doc = $line:literal])+ pub const $name:ident: $kind:ty = $value:expr;)+) => {
        $($(#[doc = $line])+ pub const $name: $kind = $value;)+

        /// Those of this file, in its order.
        pub(super) fn listed() -> Vec<$crate::limits::Limit> {
            vec![$($crate::limits::Limit {
                name: stringify!($name),
                figure: $crate::limits::Figure::from($name),
                documentation: concat!($($line),+),
            }),+]
        }
    };
}

// After the macro, for it is used there.
mod catalog;
mod cli;
mod dashboard;
mod database;
mod definition;
mod flow;
mod offer;
mod wire;

/// Every limit there is, in the order of the files.
pub fn all() -> Vec<Limit> {
    [
        listed(),
        catalog::listed(),
        cli::listed(),
        dashboard::listed(),
        database::listed(),
        definition::listed(),
        flow::listed(),
        offer::listed(),
        wire::listed(),
    ]
    .concat()
}

// Not indented, for it is the whole of the rest.
limits! {
/// Longest execution id.
pub const EXECUTION_ID_BYTES_MAX: usize = 200;
/// Longest workflow name.
pub const WORKFLOW_NAME_BYTES_MAX: usize = 200;
/// Longest agent name.
pub const AGENT_NAME_BYTES_MAX: usize = 100;
/// Longest step id.
pub const STEP_ID_BYTES_MAX: usize = 100;

/// Longest continuation token accepted; real ones have fewer than 700 bytes.
pub const TOKEN_BYTES_MAX: usize = 2048;
/// Default lifetime of a continuation token, as set by `--token-ttl` (24 hours).
pub const TOKEN_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Smallest value of `--token-ttl`.
pub const TOKEN_TTL_MIN: Duration = Duration::from_secs(1);
/// Largest value of `--token-ttl`.
pub const TOKEN_TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Renewed tokens of one visit that are remembered, so that they are not mistaken for forged ones.
pub const SUPERSEDED_TOKENS_MAX: usize = 16;

/// Largest step output, as JSON text.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Largest `inputs` object of a start, as JSON text.
pub const INPUTS_BYTES_MAX: usize = 1 << 20;
/// Longest message of a reported failure; a longer one is cut.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 8 << 10;
/// Longest code of a reported failure; a longer one is cut.
pub const FAILURE_CODE_BYTES_MAX: usize = 100;
/// Values up to this size are stored in the journal row; larger ones are stored once, by digest.
pub const INLINE_BYTES_MAX: usize = 4 << 10;
/// Deepest nesting of a JSON value that a caller sends. A frame may hold 127 levels (its parser's own
/// limit), some of which are the call around the value.
pub const JSON_DEPTH_MAX: usize = 100;
/// Invalid outputs of one step; the last one fails the step.
pub const OUTPUT_ATTEMPTS_MAX: u32 = 5;
/// Largest content of one artifact.
pub const ARTIFACT_BYTES_MAX: usize = 2 << 20;
/// Largest metadata of one artifact, as JSON text, since it is stored in the journal row.
pub const ARTIFACT_METADATA_BYTES_MAX: usize = 4 << 10;
/// Longest name and media type of an artifact, in characters.
pub const ARTIFACT_NAME_CHARS_MAX: usize = 200;
/// Artifacts of one output.
pub const OUTPUT_ARTIFACTS_MAX: usize = 200;
/// Artifacts of one execution.
pub const ARTIFACTS_MAX: u32 = 10_000;
/// Default number of bytes of an artifact in one read.
pub const ARTIFACT_SHOWN_BYTES_DEFAULT: usize = 16 << 10;
/// Largest number of bytes of an artifact in one read.
pub const ARTIFACT_SHOWN_BYTES_MAX: usize = 1 << 20;
/// Size of the decisions of previous steps shown with a step, as JSON text.
pub const PREVIOUS_BYTES_MAX: usize = 8 << 10;
/// Largest final output shown in the status of an execution, as JSON text; a longer one is shortened.
pub const FINAL_OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Longest reason for a change of state.
pub const REASON_CHARS_MAX: usize = 2000;
/// Default number of executions in one page.
pub const LIST_LIMIT_DEFAULT: usize = 50;
/// Largest number of executions in one page.
pub const LIST_LIMIT_MAX: usize = 200;
/// Tools, resources or templates in one page of a list. All tools fit on one page, since some clients read only the
/// first.
pub const LIST_PAGE_MAX: usize = 200;
/// Time that a client may cache what changes only with the server: tools, templates, limits.
pub const KEPT_WITH_SERVER: Duration = Duration::from_secs(5 * 60);
/// Time that a client may cache what never changes: the content of an artifact named by its id.
pub const KEPT_FOR_GOOD: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest text that a reply repeats in its instructions beside its own field.
pub const REPEATED_BYTES_MAX: usize = 100;
/// Workflows listed by one read of `available_workflows`.
pub const WORKFLOWS_LISTED_MAX: usize = 200;
/// Size of the reply of `execution.resume` without arguments, as JSON text (about 2,500 tokens of a model).
pub const RESUME_BYTES_MAX: usize = 5000;
/// Longest name of an Agent Skill. Definitions with longer names are not offered as skills.
pub const SKILL_NAME_BYTES_MAX: usize = 64;
/// Longest description of an Agent Skill; a longer one is cut.
pub const SKILL_DESCRIPTION_CHARS_MAX: usize = 1024;
/// Open executions examined by `execution.resume` without arguments, most recently changed first.
pub const RESUME_EXECUTIONS_MAX: usize = 20;
/// Further steps whose decisions are shown to a person or an `--agent` command, the latest ones. The direct
/// dependencies are always shown.
pub const PERSON_DECIDED_MAX: usize = 8;
/// Steps of one execution whose decisions `execution.resume` without arguments shows, the latest ones.
pub const RESUME_DECIDED_MAX: usize = 4;
/// Size of an execution's inputs in the reply of `execution.resume` without arguments.
pub const RESUME_INPUTS_BYTES_MAX: usize = 400;
/// Size of one execution's previous decisions in the reply of `execution.resume` without arguments.
pub const RESUME_PREVIOUS_BYTES_MAX: usize = 600;
/// Bytes read in one slice of a store check, which then takes about 5 ms.
pub const EXAMINED_BYTES_MAX: usize = 128 << 10;
/// Bytes that a small entry counts for in a slice of a store check.
pub const EXAMINED_ENTRY_BYTES_MIN: usize = 512;
/// Executions in one slice of a store check.
pub const EXAMINED_IDS_MAX: usize = 32;
/// Delay after which an open execution whose timer has passed counts as overdue.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(10);
/// Longest output of `midex hook session-start`.
pub const HOOK_BYTES_MAX: usize = 5000;
/// Longest line in the output of `midex hook session-start`.
pub const HOOK_LINE_CHARS_MAX: usize = 600;
/// Timeout of a hook, since its host waits for it.
pub const HOOK_WITHIN: Duration = Duration::from_secs(2);
/// Largest event that a hook reads from its host.
pub const HOOK_INPUT_BYTES_MAX: u64 = 1 << 20;
/// Time that a hook waits for the end of its host's event.
pub const HOOK_INPUT_WITHIN: Duration = Duration::from_millis(300);
/// Open steps named in one reminder of `midex hook stop`.
pub const HOOK_STEPS_TOLD_MAX: usize = 3;
/// Steps remembered for one session, so that no reminder is repeated.
pub const HOOK_STEPS_KEPT_MAX: usize = 1000;
/// Sessions of hosts whose reminders are remembered.
pub const HOOK_SESSIONS_MAX: usize = 256;
/// Size above which an output is read on a separate thread.
pub const OUTPUT_INLINE_READ_BYTES_MAX: usize = 64 << 10;
/// Characters of an unknown address repeated in its error.
pub const ADDRESS_SHOWN_CHARS: usize = 200;
/// Longest project path that a caller may send.
pub const PROJECT_CHARS_MAX: usize = 4096;
/// Longest wait of one call of `execution.wait`.
pub const WAIT_MAX: Duration = Duration::from_secs(25);
/// Violations listed in one error; further ones are counted.
pub const VIOLATIONS_MAX: usize = 50;
/// Characters shown of a violation's path, property name or list of options.
pub const VIOLATION_PART_CHARS_MAX: usize = 1000;

/// Inputs declared by one workflow.
pub const INPUTS_DECLARED_MAX: usize = 100;
/// Longest name of an input.
pub const INPUT_NAME_BYTES_MAX: usize = 100;
/// Options of one input.
pub const INPUT_ENUM_MAX: usize = 1000;
/// Longest pattern of an input.
pub const INPUT_PATTERN_BYTES_MAX: usize = 1000;
/// Characters of an input's declaration repeated in an error; the rest is cut.
pub const INPUT_WORDS_CHARS_MAX: usize = 500;
/// Environment variables that input defaults may use.
pub const ENV_NAMES_MAX: usize = 1000;

/// Steps in one workflow.
pub const STEPS_MAX: usize = 500;
/// Length of a chain of `extends`.
pub const EXTENDS_DEPTH_MAX: usize = 8;
/// Dependencies of one step.
pub const DEPENDENCIES_MAX: usize = STEPS_MAX;
/// Tags of a definition.
pub const TAGS_MAX: usize = 20;
/// Longest tag.
pub const TAG_BYTES_MAX: usize = 50;
/// Entries of the metadata of a workflow.
pub const METADATA_ENTRIES_MAX: usize = 32;
/// Longest name and longest text in the metadata of a workflow, since lists of workflows repeat them.
pub const METADATA_TEXT_BYTES_MAX: usize = 500;
/// Longest version of a definition.
pub const VERSION_BYTES_MAX: usize = 50;
/// Longest description of a workflow, step or agent.
pub const DESCRIPTION_BYTES_MAX: usize = 2000;
/// Longest description of an agent written for a host; [`DESCRIPTION_BYTES_MAX`] of it are kept.
pub const HOST_DESCRIPTION_BYTES_MAX: usize = 64 << 10;
/// Largest definition file (workflow or agent).
pub const DEFINITION_BYTES_MAX: u64 = 1 << 20;
/// Largest configuration file (`midex.toml`).
pub const CONFIG_BYTES_MAX: u64 = 64 << 10;
/// Definition files read from one directory.
pub const DEFINITION_FILES_MAX: usize = 2000;
/// Depth of subdirectories searched for definitions.
pub const DEFINITION_DIRECTORY_DEPTH_MAX: usize = 8;
/// Directory entries examined in search of definition files.
pub const DEFINITION_ENTRIES_MAX: usize = 20_000;
/// Files and directories watched for changes, in all definition directories together.
pub const DEFINITION_STAMPS_MAX: usize = 50_000;
/// Attempts of a writer to lock a definition directory that another process holds.
pub const WRITE_LOCK_TRIES_MAX: u32 = 1000;
/// Interval between two attempts to lock a definition directory.
pub const WRITE_LOCK_LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval at which definition files are checked for changes.
pub const DEFINITIONS_LOOK_EVERY: Duration = Duration::from_millis(500);
/// Changed definitions named in one log line; further ones are counted.
pub const CHANGES_LOGGED_MAX: usize = 10;
/// YAML events (values, keys, ends) of one definition file.
pub const YAML_EVENTS_MAX: usize = 50_000;
/// Nesting depth of one definition file. Each level takes about 40 KiB of stack in a build without optimization, and
/// a worker thread has 2 MiB.
pub const YAML_DEPTH_MAX: usize = 32;
/// YAML events of one definition file that aliases may repeat.
pub const YAML_ALIAS_EVENTS_MAX: usize = 20_000;
/// Aliases of one definition file.
pub const YAML_ALIASES_MAX: usize = 1000;
/// Findings listed for one file; further ones are counted.
pub const FINDINGS_MAX: usize = 100;

/// Longest text of one expression.
pub const EXPRESSION_BYTES_MAX: usize = 8 << 10;
/// Tokens in one expression.
pub const EXPRESSION_PARTS_MAX: usize = 1000;
/// Deepest nesting of one expression.
pub const EXPRESSION_DEPTH_MAX: usize = 32;
/// Operations in one evaluation of an expression. Expressions have no loops, so valid ones stay below it.
pub const EXPRESSION_FUEL_MAX: u64 = 20_000;
/// Work of one evaluation of an expression, in bytes: the bytes of text, and 24 for each value, that are read or
/// created.
pub const EXPRESSION_WORK_BYTES_MAX: usize = 64 << 20;
/// Expressions in one template: the arguments of a step, or the values that it sets.
pub const TEMPLATE_EXPRESSIONS_MAX: usize = 1000;
/// Size of the evaluated expressions of one template, as JSON text.
pub const TEMPLATE_RESULT_BYTES_MAX: usize = 8 << 20;

/// Steps of one validation against a JSON Schema, which take about 200 ms. A step examines a schema, or a part of a
/// long text or list.
pub const SCHEMA_STEPS_MAX: u64 = 2_000_000;
/// Steps of one validation against a JSON Schema on a thread on which other calls wait.
pub const SCHEMA_STEPS_INLINE_MAX: u64 = 50_000;
/// Steps for validating an example when a definition is loaded, regardless of its size.
pub const SCHEMA_STEPS_EXAMPLE: u64 = 5000;
/// Further steps for validating an example, for each value in the schema and in the example.
pub const SCHEMA_STEPS_PER_VALUE: u64 = 100;
/// Nesting depth of schemas in one validation, including those for parts of the value.
pub const SCHEMA_DEPTH_MAX: usize = 600;
/// Nesting depth of schemas for one value, including referenced ones.
pub const SCHEMA_CHAIN_MAX: usize = 50;
/// Results of references cached in one validation; beyond it they are validated again.
pub const SCHEMA_KNOWN_MAX: usize = 200_000;
/// Characters of the options of an `enum` shown in a violation; further options are counted.
pub const SCHEMA_OPTIONS_SHOWN_CHARS: usize = 500;
/// Options of an `enum` compared with a text to suggest the intended one.
pub const SCHEMA_OPTIONS_COMPARED_MAX: usize = 200;
/// Longest text compared with the options of an `enum`.
pub const SCHEMA_OPTION_COMPARED_CHARS_MAX: usize = 60;
/// Memory of one validation against a JSON Schema beyond the value itself: the cache, regular expressions,
/// violations, and 16 bytes for each item of a list with `uniqueItems`.
pub const SCHEMA_MEMORY_BYTES_MAX: usize = 64 << 20;
/// Regular expressions of one definition.
pub const SCHEMA_PATTERNS_MAX: usize = 200;
/// Longest regular expression of a schema.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 1000;
/// Memory of one compiled regular expression of a schema.
pub const SCHEMA_PATTERN_MEMORY_BYTES_MAX: usize = 1 << 20;
/// Cache of one regular expression of a schema; when it is full, it is cleared.
pub const SCHEMA_PATTERN_CACHE_BYTES_MAX: usize = 128 << 10;
/// Memory of all compiled regular expressions of one definition.
pub const SCHEMA_PATTERNS_MEMORY_BYTES_MAX: usize = 4 << 20;

/// Long-running decisions made at once; further ones wait.
pub const LONG_DECISIONS_MAX: usize = 2;

/// Transitions in one commit.
pub const BATCH_TRANSITIONS_MAX: usize = 1024;
/// Size at which a commit takes no further transition.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Free space preallocated at the end of the data file. The file doubles when it grows, up to this step.
pub const ROOM_AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Jobs queued for the store's writer.
pub const WRITER_QUEUE_MAX: usize = 8192;
/// Duration of a commit from which the writer waits for callers whose jobs are about to arrive.
pub const ADAPTIVE_WAIT_COMMIT_MIN: Duration = Duration::from_micros(200);
/// Longest wait of the store's writer for callers whose jobs are about to arrive.
pub const ADAPTIVE_WAIT_MAX: Duration = Duration::from_millis(1);
/// A snapshot up to this size is written as often as `snapshot_every` says; a larger one only when the journal rows
/// since the previous one are larger.
pub const SNAPSHOT_BYTES_FREE: usize = 4 << 10;
/// Largest value of `snapshot_every`.
pub const SNAPSHOT_EVERY_MAX: u32 = 1024;
/// Page cache of redb.
pub const STORE_CACHE_BYTES: usize = 8 << 20;
/// Durable commits to the data file after which a redo log is started. A process that stores little needs none.
pub const REDO_AFTER_COMMITS: u64 = 16;
/// Initial size of a redo log.
pub const REDO_BYTES_MIN: u64 = 1 << 20;
/// Largest size of a redo log, which grows fourfold each time that it is full. At most this much is applied to the
/// data file at once, or when the store is opened after a crash.
pub const REDO_BYTES_MAX: u64 = 16 << 20;
/// Idle time after which a redo log is applied to the data file, since its changes take memory until then.
pub const REDO_IDLE: Duration = Duration::from_secs(5);
/// File size from which each commit to the data file also saves its allocator state, so that opening after a crash is
/// instant. Commits covered by a redo log always save it.
pub const QUICK_REPAIR_FILE_BYTES: u64 = 256 << 20;
/// File size below which every page is checked when the store is opened, even after a clean close.
pub const CHECKED_FILE_BYTES_MAX: u64 = 4 << 20;
/// Refused calls kept for telemetry; the oldest are dropped.
pub const REFUSALS_KEPT_MAX: u64 = 1000;
/// Refused calls queued for writing; further ones are dropped.
pub const REFUSALS_QUEUED_MAX: usize = 256;

/// Calls in progress in the engine; further ones wait.
pub const CALLS_IN_FLIGHT_MAX: usize = 4096;
/// Attempts to deliver a call to an actor, each time a new one, before the caller gets an error. One more than
/// [`WAKE_FAILURES_MAX`], so that the error of an execution that cannot be loaded is seen.
pub const CALL_ATTEMPTS_MAX: u32 = WAKE_FAILURES_MAX + 1;
/// Attempts to deliver a call to actors that are stopping, before the caller gets the error that the server is busy.
/// Each of these actors has answered other calls.
pub const CALL_DELIVERIES_MAX: u32 = 10_000;
/// Consecutive failures of an execution's actor, without a reply in between, after which it is not started again.
pub const WAKE_FAILURES_MAX: u32 = 3;
/// Idle time after which the actor of an execution is stopped.
pub const IDLE_MAX: Duration = Duration::from_secs(45);
/// Interval of the check for idle actors.
pub const IDLE_SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Time that a shutdown waits for actors to finish their calls.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Default number of telemetry events in one reply.
pub const TELEMETRY_LIMIT_DEFAULT: usize = 100;
/// Latest transitions and refusals searched for one reply of telemetry; older events are not found.
pub const TELEMETRY_SCANNED_MAX: usize = 100_000;
/// Largest number of telemetry events in one reply.
pub const TELEMETRY_LIMIT_MAX: usize = 1000;
/// Forks of an execution that its status lists.
pub const FORKS_SHOWN_MAX: usize = 100;
/// Bytes of one value in a comparison of two executions; longer values are cut.
pub const DIFF_VALUE_BYTES_MAX: usize = 400;
/// Bytes of the listed changes of one value, and characters of the changed lines of a text; the rest is counted or cut.
pub const DIFF_LIST_BYTES_MAX: usize = 4 << 10;
/// Bytes of a text that is compared line by line; a longer text is shown as a value.
pub const DIFF_TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of steps after which a page of a comparison ends.
pub const DIFF_PAGE_BYTES_MAX: usize = 8 << 10;
/// Steps whose different durations a comparison lists.
pub const DIFF_TIMES_MAX: usize = 10;
/// Journal rows examined for one page of executions; the next page continues from there. Up to this many open
/// executions are found by their index.
pub const LIST_SCANNED_MAX: usize = 100_000;
/// Bytes of outputs in one `step_history`; further outputs are given by digest and size.
pub const HISTORY_OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Projects whose allowed environment variables are kept at once; beyond it, one project has none until its next
/// client connects.
pub const ENVIRONMENTS_MAX: usize = 1024;

/// Sets of definitions kept loaded for executions whose callers have disconnected.
pub const DEFINITIONS_KEPT_MAX: usize = 8;

/// Time that a call waits until its process owns the data directory.
pub const OWNED_WITHIN: Duration = Duration::from_secs(10);
/// Longest interval between attempts to open the store while nobody calls.
pub const OWN_RETRY_MAX: Duration = Duration::from_secs(5);
/// Attempts to reach the owner of the data directory, or to own it, before the error `STORE_BUSY`.
pub const OWNER_LOOKS_MAX: u32 = 90;
/// First interval between two attempts to reach an owner; it doubles each time.
pub const OWNER_LOOK_EVERY_MIN: Duration = Duration::from_millis(5);
/// Longest interval between two attempts to reach an owner.
pub const OWNER_LOOK_EVERY_MAX: Duration = Duration::from_millis(50);
/// Silence of an owner, while a call waits for it, after which its relay sends a ping.
pub const OWNER_SILENT_MAX: Duration = Duration::from_secs(2);
/// Time for an owner to answer a ping; beyond it, waiting calls get the error `STORE_BUSY`.
pub const OWNER_ALIVE_MAX: Duration = Duration::from_secs(3);
/// Interval at which an owner checks that its control socket still exists.
pub const CONTROL_SOCKET_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time without an owner after which a process answers, on its own, calls that need no store.
pub const LOCAL_ANSWER_AFTER: Duration = Duration::from_millis(15);
/// Time for which a process that handed over its data directory leaves it to the process that asked. That one looks
/// at least every [`OWNER_LOOK_EVERY_MAX`].
pub const HAND_OVER_PAUSE: Duration = Duration::from_millis(250);

/// Relays of other processes connected to the control socket at once, in addition to [`CONTROL_CLIENTS_MAX`]; further
/// ones are refused.
pub const RELAYS_MAX: usize = 256;
/// Clients connected to the control socket at once. A further one replaces the one that has been silent longest since
/// it connected; if all have sent their first line, it waits.
pub const CONTROL_CLIENTS_MAX: usize = 64;
/// Time for clients of the control socket to finish when the server shuts down.
pub const CONTROL_GRACE: Duration = Duration::from_millis(300);
/// Bytes of log lines buffered while nobody reads stderr; further lines are dropped and counted.
pub const LOG_BYTES_MAX: usize = 256 << 10;
/// Log lines of one kind written in each [`LOG_KIND_SPAN`]; further ones are counted.
pub const LOG_LINES_OF_A_KIND_MAX: usize = 50;
/// Period for which log lines of one kind are counted.
pub const LOG_KIND_SPAN: Duration = Duration::from_secs(10);
/// Time for writing the last log lines when the process exits.
pub const LOG_FLUSH_MAX: Duration = Duration::from_millis(200);
/// Time for sending the replies of waiting calls after a signal.
pub const SIGNAL_GRACE: Duration = Duration::from_millis(100);
/// Longest first line on the control socket: the allowed environment variables, or the owner's list of clients.
pub const CONTROL_PREAMBLE_BYTES_MAX: u64 = 256 << 10;
/// Time for a client of the control socket to send its first line.
pub const CONTROL_PREAMBLE_MAX: Duration = Duration::from_secs(5);
/// Time that a client of the control socket may be silent before another one may replace it.
pub const CONTROL_SILENT_MIN: Duration = Duration::from_millis(100);
/// Calls of one stdio client in progress or with an unread reply; beyond it, reading stops.
pub const CLIENT_CALLS_MAX: usize = 4096;
/// Bytes of one stdio client's calls in progress and unread replies; beyond it, reading stops.
pub const CLIENT_UNSENT_BYTES_MAX: usize = 128 << 20;
/// Concurrent `subscriptions/listen` calls of one stdio client, and its watched tasks (protocol version 2025-11-25).
pub const LISTENS_MAX: usize = 64;
/// Concurrent `subscriptions/listen` calls of all stateless HTTP clients.
pub const HTTP_LISTENS_MAX: usize = 512;
/// Time that one call waits for the user's answer to a question in the client.
pub const QUESTION_MAX: Duration = Duration::from_secs(600);
/// Questions to the user in one call.
pub const QUESTIONS_PER_CALL_MAX: usize = 10;
/// Interval of progress notifications for a call in progress.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Time for pending replies after the end of input.
pub const EOF_GRACE: Duration = Duration::from_millis(500);
/// Time for an orderly close after the end of input and its pending replies. Nothing is lost if it is cut short; the
/// next start only has to check the store.
pub const EOF_CLOSE_MAX: Duration = Duration::from_millis(300);
/// Shortest interval between attempts to open a store that was busy, or to reopen one that failed.
pub const STORE_RETRY_EVERY: Duration = Duration::from_millis(250);

/// Servers that may shut down one after another during one call of a command.
pub const LINK_ATTEMPTS_MAX: u32 = 40;
/// Interval at which a command that follows all executions, or a store without a running server, checks for changes.
pub const TAIL_EVERY: Duration = Duration::from_secs(1);
/// Time that a command that follows one execution waits for a change before it checks for refused calls, which change
/// nothing.
pub const TAIL_WAIT_S: u32 = 5;
/// Consecutive temporary failures before a command that follows executions gives up.
pub const TAIL_FAILURES_MAX: u32 = 5;
/// Largest file of outputs for `midex run`.
pub const OUTPUTS_FILE_BYTES_MAX: usize = 64 << 20;
/// Outputs read before their step is open.
pub const OUTPUTS_WAITING_MAX: usize = 2 * STEPS_MAX;
/// Time that a command which reads outputs keeps its own store open before it lets other processes have it.
pub const OUTPUT_LINE_GRACE: Duration = Duration::from_millis(200);

/// Concurrent HTTP connections. Beyond it, clients wait until another connection is closed.
pub const HTTP_CONNECTIONS_MAX: usize = 2048;
/// Calls of all HTTP clients in progress, including those of disconnected clients; further ones are refused as busy.
pub const HTTP_CALLS_MAX: usize = 4096;
/// Calls in progress of one HTTP session.
pub const HTTP_SESSION_CALLS_MAX: usize = 256;
/// HTTP streams that are open for server notifications.
pub const HTTP_STREAMS_MAX: usize = 512;
/// Bytes of calls in progress and unread large replies of all HTTP clients. Beyond it, calls are refused as busy.
pub const HTTP_BYTES_MAX: usize = 256 << 20;
/// HTTP sessions (protocol versions with `initialize`). Beyond it, the least recently used one without calls in
/// progress ends.
pub const HTTP_SESSIONS_MAX: usize = 1000;
/// Idle time after which an HTTP session ends.
pub const HTTP_SESSION_IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// Time for which the events of a cancelled call of an HTTP session are kept. A lost reply can be fetched by sending
/// the same call again.
pub const HTTP_EVENTS_KEPT_MAX: Duration = Duration::from_secs(5);
/// Largest request head (request line and headers) over HTTP.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 << 10;
/// Time for an HTTP client to send the head of its next request. It is also the longest that a silent client keeps
/// another one waiting for its connection, so it is shorter than the time that clients wait for an answer.
pub const HTTP_HEAD_MAX: Duration = Duration::from_secs(30);
/// Time for an HTTP client to send the body of a request.
pub const HTTP_BODY_MAX: Duration = Duration::from_secs(30);
/// Bytes of an oversized request body that are read and discarded, so that its client receives the error.
pub const HTTP_DROPPED_BYTES_MAX: usize = 128 << 20;
/// Time after which an HTTP client that reads nothing of its reply is disconnected.
pub const HTTP_STALL_MAX: Duration = Duration::from_secs(30);
/// Interval of the check for idle HTTP sessions.
pub const HTTP_SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Time that a request waits for capacity that others have to release.
pub const HTTP_ROOM_MAX: Duration = Duration::from_secs(1);
/// Time for calls to be answered at shutdown, and then for connections to close.
pub const HTTP_GRACE: Duration = Duration::from_millis(500);
/// Shortest bearer token.
pub const BEARER_TOKEN_BYTES_MIN: usize = 16;
/// Longest bearer token.
pub const BEARER_TOKEN_BYTES_MAX: usize = 4096;
/// File descriptors reserved for other uses than HTTP connections: the store, the control socket, watched files.
pub const HTTP_FILES_BESIDES: usize = 256;
/// HTTP connections that are accepted however few file descriptors the process may open.
pub const HTTP_CONNECTIONS_MIN: usize = 16;
/// HTTP connections waiting to be accepted. Beyond it the system drops them, and their clients try again after a
/// second.
pub const HTTP_BACKLOG: u32 = 1024;
/// Reads of histories and telemetry at once. Each may occupy a processor for milliseconds, and one stays free for
/// short calls.
pub const LARGE_READS_MAX: usize = 1;
/// Longest guidance, question or message of a step in a manifest.
pub const STEP_TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest name of a tool, activity, signal, approver, property or failure class in a definition.
pub const WORD_BYTES_MAX: usize = 200;
/// Names in one list of a step: properties, approvers, failure classes.
pub const WORDS_MAX: usize = 100;
/// Memory entries that a workflow declares, or that one step sets.
pub const MEMORY_ENTRIES_MAX: usize = 100;
/// Longest name of a memory entry.
pub const MEMORY_NAME_BYTES_MAX: usize = 100;
/// Arms of one branch.
pub const BRANCH_ARMS_MAX: usize = 50;
/// Largest number of concurrent items of a `foreach`.
pub const FOREACH_PARALLEL_MAX: u32 = 100;
/// Default number of concurrent items of a `foreach`.
pub const FOREACH_PARALLEL_DEFAULT: u32 = 4;
/// Largest number of attempts of `retry`.
pub const RETRY_ATTEMPTS_MAX: u32 = 100;
/// Default number of attempts of `retry`.
pub const RETRY_ATTEMPTS_DEFAULT: u32 = 3;
/// Default pause of `retry` before the second attempt.
pub const RETRY_BACKOFF_DEFAULT: Duration = Duration::from_secs(1);
/// Default maximum pause of `retry` between attempts.
pub const RETRY_BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(60);
/// Telemetry ids reserved for one transition, since each of its events yields at most two telemetry events.
pub const TELEMETRY_IDS_PER_ROW: u64 = 2 << 16;
/// Characters of an item shown in a failure.
pub const ITEM_SHOWN_CHARS: usize = 60;
/// Largest value of a memory entry, as JSON text.
pub const MEMORY_VALUE_BYTES_MAX: usize = 1 << 20;
/// Largest payload of a signal, as JSON text.
pub const SIGNAL_BYTES_MAX: usize = 1 << 20;
/// Longest name of a signal.
pub const SIGNAL_NAME_BYTES_MAX: usize = 128;
/// Longest name of the person who answers a gate.
pub const PERSON_BYTES_MAX: usize = 200;
/// Longest comment of a person on a gate or on interrupted work.
pub const COMMENT_BYTES_MAX: usize = 4000;
/// Signals kept for one execution while no step waits for them.
pub const SIGNALS_KEPT_MAX: usize = 100;
/// Times that one decision may ask for values from the store.
pub const LOOKUPS_MAX: usize = 1000;
/// Small values that an execution in memory keeps loaded.
pub const VALUES_KEPT_MAX: usize = 2048;
/// Cache of recently used large values (lists, inputs, outputs) of all executions, counted as JSON text. Parsed, a
/// value may take several times as much memory.
pub const CONTENTS_HELD_BYTES_MAX: usize = 8 << 20;
/// Concurrent attempts of server steps; further ones wait in order.
pub const ATTEMPTS_AT_ONCE_MAX: usize = 256;
/// Time that a shutdown lets running attempts finish before it cancels them.
pub const ATTEMPTS_GRACE: Duration = Duration::from_secs(2);
/// First pause before the result of an attempt is delivered again to an execution that could not take it; it doubles
/// each time.
pub const OUTCOME_RETRY_MIN: Duration = Duration::from_millis(50);
/// Longest pause before the result of an attempt is delivered again.
pub const OUTCOME_RETRY_MAX: Duration = Duration::from_secs(5);
/// Failed deliveries of an attempt's result, because of internal errors, after which the attempt counts as failed.
pub const OUTCOME_FAULTS_MAX: u32 = 5;
/// Executions that are advanced by timers at once; further ones wait in order.
pub const TICKS_AT_ONCE_MAX: usize = 512;
/// First pause before a failed timer of an execution is tried again; it doubles each time.
pub const TICK_RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause before a failed timer of an execution is tried again.
pub const TICK_RETRY_MAX: Duration = Duration::from_secs(60);
/// Interval at which the clock is checked while a timer is pending, since it may be set, and the machine may sleep.
pub const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(10);
/// Largest forward jump of the clock that is trusted. A larger one may be an error that is corrected later.
pub const CLOCK_JUMP_MAX: Duration = Duration::from_secs(86_400);
/// Shortest secret that is redacted in outputs and messages; a shorter one could be part of any text.
pub const SECRET_COVERED_BYTES_MIN: usize = 8;
/// Calls of earlier visits of one step whose repetition is still answered.
pub const PAST_CALLS_MAX: usize = 256;
}
