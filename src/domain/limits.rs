//! Every limit of midex, with its figure. A queue, batch, file, output, loop or connection that is
//! not bounded here is a defect. Sizes are bytes unless the name says otherwise.

mod figure;

use std::time::Duration;

pub use self::{
    catalog::*,
    cli::*,
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

/// Longest continuation token a caller may send; a real one is under 700 bytes.
pub const TOKEN_BYTES_MAX: usize = 2048;
/// How long a continuation token lives unless `--token-ttl` says otherwise (24 hours).
pub const TOKEN_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest `--token-ttl` accepted.
pub const TOKEN_TTL_MIN: Duration = Duration::from_secs(1);
/// The longest `--token-ttl` accepted.
pub const TOKEN_TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Renewed tokens of one visit that are still told apart from forgeries.
pub const SUPERSEDED_TOKENS_MAX: usize = 16;

/// Largest step output, as JSON text.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Largest `inputs` object of a start, as JSON text.
pub const INPUTS_BYTES_MAX: usize = 1 << 20;
/// Longest message of a reported failure; the rest is cut.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 8 << 10;
/// Longest code of a reported failure; the rest is cut.
pub const FAILURE_CODE_BYTES_MAX: usize = 100;
/// Values up to this size lie in the journal row; larger ones are stored once, by digest.
pub const INLINE_BYTES_MAX: usize = 4 << 10;
/// Deepest nesting of a JSON value that a caller sends. A frame may hold 127 levels (its parser's own
/// limit), some of which are the call around the value.
pub const JSON_DEPTH_MAX: usize = 100;
/// Outputs that break the step's schema before the step fails (the last of them ends it).
pub const OUTPUT_ATTEMPTS_MAX: u32 = 5;
/// Largest content of one artifact.
pub const ARTIFACT_BYTES_MAX: usize = 2 << 20;
/// Largest metadata of one artifact, as JSON text: it lies in the journal row.
pub const ARTIFACT_METADATA_BYTES_MAX: usize = 4 << 10;
/// Longest name and media type of an artifact, in characters.
pub const ARTIFACT_NAME_CHARS_MAX: usize = 200;
/// Artifacts of one output.
pub const OUTPUT_ARTIFACTS_MAX: usize = 200;
/// Artifacts of one execution.
pub const ARTIFACTS_MAX: u32 = 10_000;
/// Bytes of an artifact shown at once where nothing else is asked for.
pub const ARTIFACT_SHOWN_BYTES_DEFAULT: usize = 16 << 10;
/// Bytes of an artifact shown at once, at most.
pub const ARTIFACT_SHOWN_BYTES_MAX: usize = 1 << 20;
/// What the steps before decided, as one step is shown it, as JSON text.
pub const PREVIOUS_BYTES_MAX: usize = 8 << 10;
/// The final output of an execution, as its status shows it, as JSON text; a longer one is shortened.
pub const FINAL_OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Longest reason that may be given for a change of state.
pub const REASON_CHARS_MAX: usize = 2000;
/// Executions listed where nothing else is asked for.
pub const LIST_LIMIT_DEFAULT: usize = 50;
/// Executions listed at once, at most.
pub const LIST_LIMIT_MAX: usize = 200;
/// Tools, resources or templates in one page of a list. Every tool fits on one page: some clients read no other.
pub const LIST_PAGE_MAX: usize = 200;
/// How long a client may keep what cannot change while the server lives: tools, templates, limits.
pub const KEPT_WITH_SERVER: Duration = Duration::from_secs(5 * 60);
/// How long a client may keep what never changes: the content of an artifact that is named by its id.
pub const KEPT_FOR_GOOD: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest text that a reply may show twice: in its instructions, and in a field of its own.
pub const REPEATED_BYTES_MAX: usize = 100;
/// Workflows that one read of `available_workflows` lists, whether it asks for fewer or not.
pub const WORKFLOWS_LISTED_MAX: usize = 200;
/// What `execution.resume` without arguments tells, as JSON text. Tokens of ours are dense text: this is at
/// most some 2,500 tokens of a model's.
pub const RESUME_BYTES_MAX: usize = 5000;
/// Longest name of a skill (Agent Skills): a definition with a longer one is served as none.
pub const SKILL_NAME_BYTES_MAX: usize = 64;
/// Longest description of a skill (Agent Skills); a longer one is cut.
pub const SKILL_DESCRIPTION_CHARS_MAX: usize = 1024;
/// Open executions that `execution.resume` without arguments looks at, the ones that moved last.
pub const RESUME_EXECUTIONS_MAX: usize = 20;
/// Steps whose decisions a person, or a command that does a step, is told of besides those that the step follows: the latest.
pub const PERSON_DECIDED_MAX: usize = 8;
/// Steps whose decisions `execution.resume` without arguments tells of one execution, the latest ones.
pub const RESUME_DECIDED_MAX: usize = 4;
/// What an execution was started with, as `execution.resume` without arguments tells it.
pub const RESUME_INPUTS_BYTES_MAX: usize = 400;
/// What the steps before decided, as `execution.resume` without arguments tells it of one execution.
pub const RESUME_PREVIOUS_BYTES_MAX: usize = 600;
/// What one slice of an examination of the store reads, so that it takes some 5 ms.
pub const EXAMINED_BYTES_MAX: usize = 128 << 10;
/// What a small entry counts for in it.
pub const EXAMINED_ENTRY_BYTES_MIN: usize = 512;
/// Executions in one slice.
pub const EXAMINED_IDS_MAX: usize = 32;
/// How long after its time an open execution counts as overdue.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(10);
/// What `midex hook session-start` prints.
pub const HOOK_BYTES_MAX: usize = 5000;
/// One line of it.
pub const HOOK_LINE_CHARS_MAX: usize = 600;
/// How long a hook takes at most: a host waits for it.
pub const HOOK_WITHIN: Duration = Duration::from_secs(2);
/// What a hook reads of its host's event.
pub const HOOK_INPUT_BYTES_MAX: u64 = 1 << 20;
/// How long a hook waits for the end of its host's event.
pub const HOOK_INPUT_WITHIN: Duration = Duration::from_millis(300);
/// Open steps that one reminder of `midex hook stop` names.
pub const HOOK_STEPS_TOLD_MAX: usize = 3;
/// Steps that are kept of one session, so that no reminder of them is repeated.
pub const HOOK_STEPS_KEPT_MAX: usize = 1000;
/// Sessions of hosts of which is kept what they were reminded of.
pub const HOOK_SESSIONS_MAX: usize = 256;
/// Outputs larger than this are read aside from the workers.
pub const OUTPUT_INLINE_READ_BYTES_MAX: usize = 64 << 10;
/// An address that names nothing is shown up to here.
pub const ADDRESS_SHOWN_CHARS: usize = 200;
/// Longest name of a project that a caller may give.
pub const PROJECT_CHARS_MAX: usize = 4096;
/// Longest wait of one `execution.wait`.
pub const WAIT_MAX: Duration = Duration::from_secs(25);
/// Violations named in one refusal; more are counted, not listed.
pub const VIOLATIONS_MAX: usize = 50;
/// Longest place, name of a property and list of options that a violation repeats, in characters.
pub const VIOLATION_PART_CHARS_MAX: usize = 1000;

/// Inputs that one workflow declares.
pub const INPUTS_DECLARED_MAX: usize = 100;
/// Longest name of an input.
pub const INPUT_NAME_BYTES_MAX: usize = 100;
/// Values that one input may be limited to.
pub const INPUT_ENUM_MAX: usize = 1000;
/// Longest pattern of an input.
pub const INPUT_PATTERN_BYTES_MAX: usize = 1000;
/// What a refusal repeats of an input's declaration, in characters; the rest is cut.
pub const INPUT_WORDS_CHARS_MAX: usize = 500;
/// Environment variables that defaults of inputs may be taken from.
pub const ENV_NAMES_MAX: usize = 1000;

/// Steps in one workflow.
pub const STEPS_MAX: usize = 500;
/// Workflows that a manifest may stand on by `extends`, one above the other.
pub const EXTENDS_DEPTH_MAX: usize = 8;
/// Dependencies of one step.
pub const DEPENDENCIES_MAX: usize = STEPS_MAX;
/// Tags of a definition.
pub const TAGS_MAX: usize = 20;
/// Longest tag.
pub const TAG_BYTES_MAX: usize = 50;
/// Entries of the metadata of a workflow.
pub const METADATA_ENTRIES_MAX: usize = 32;
/// Longest name and longest text in the metadata of a workflow: lists of workflows repeat them.
pub const METADATA_TEXT_BYTES_MAX: usize = 500;
/// Longest version of a definition.
pub const VERSION_BYTES_MAX: usize = 50;
/// Longest description of a workflow, step or agent.
pub const DESCRIPTION_BYTES_MAX: usize = 2000;
/// The longest description of an agent that is written for a host; of it [`DESCRIPTION_BYTES_MAX`] are kept.
pub const HOST_DESCRIPTION_BYTES_MAX: usize = 64 << 10;
/// Largest definition file (workflow or agent).
pub const DEFINITION_BYTES_MAX: u64 = 1 << 20;
/// Largest configuration file (`midex.toml`).
pub const CONFIG_BYTES_MAX: u64 = 64 << 10;
/// Definition files read from one directory.
pub const DEFINITION_FILES_MAX: usize = 2000;
/// Deepest nesting of directories that definitions are looked for in.
pub const DEFINITION_DIRECTORY_DEPTH_MAX: usize = 8;
/// Directory entries looked at in search of definition files.
pub const DEFINITION_ENTRIES_MAX: usize = 20_000;
/// Files and directories that are looked at for changes, in all directories of definitions together.
pub const DEFINITION_STAMPS_MAX: usize = 50_000;
/// Looks of a writer at the lock of a directory of definitions that another process has; past them it is told so.
pub const WRITE_LOCK_TRIES_MAX: u32 = 1000;
/// How often a writer looks whether the lock of a directory of definitions is free.
pub const WRITE_LOCK_LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often the files of definitions are looked at for changes.
pub const DEFINITIONS_LOOK_EVERY: Duration = Duration::from_millis(500);
/// Names of changed definitions in one line of the log; more are counted, not named.
pub const CHANGES_LOGGED_MAX: usize = 10;
/// YAML events (values, keys, ends) of one definition file.
pub const YAML_EVENTS_MAX: usize = 50_000;
/// Deepest nesting of one definition file. Each level costs the reader stack, some 40 KiB of it in a
/// build without optimisation, and a worker has 2 MiB.
pub const YAML_DEPTH_MAX: usize = 32;
/// YAML events of one definition file that aliases may repeat.
pub const YAML_ALIAS_EVENTS_MAX: usize = 20_000;
/// Aliases of one definition file.
pub const YAML_ALIASES_MAX: usize = 1000;
/// Findings reported for one file; more are counted, not listed.
pub const FINDINGS_MAX: usize = 100;

/// Longest text of one expression.
pub const EXPRESSION_BYTES_MAX: usize = 8 << 10;
/// Words, values and signs of one expression.
pub const EXPRESSION_PARTS_MAX: usize = 1000;
/// Deepest nesting of one expression.
pub const EXPRESSION_DEPTH_MAX: usize = 32;
/// Operations of one evaluation of an expression. There are no loops: this is more than the parts of any come to.
pub const EXPRESSION_FUEL_MAX: u64 = 20_000;
/// Work of one evaluation of an expression: bytes of text, and 24 for each value, every time one is taken in, gone
/// through or made.
pub const EXPRESSION_WORK_BYTES_MAX: usize = 64 << 20;
/// Expressions in one value that holds them: the arguments of a step, or what it sets.
pub const TEMPLATE_EXPRESSIONS_MAX: usize = 1000;
/// What the expressions of one value may come to together, as JSON text.
pub const TEMPLATE_RESULT_BYTES_MAX: usize = 8 << 20;

/// Steps of one evaluation of a value against a JSON Schema: looks at a schema, parts of long texts and lists. They take
/// some 200 ms.
pub const SCHEMA_STEPS_MAX: u64 = 2_000_000;
/// Steps of an evaluation against a JSON Schema that may be made where other calls wait for it.
pub const SCHEMA_STEPS_INLINE_MAX: u64 = 50_000;
/// Steps of the evaluation of an example at load, whatever its size.
pub const SCHEMA_STEPS_EXAMPLE: u64 = 5000;
/// Steps of the evaluation of an example at load for each value in the schema and in what is held to it.
pub const SCHEMA_STEPS_PER_VALUE: u64 = 100;
/// Schemas that lie inside each other in one evaluation, those of the parts of a value included.
pub const SCHEMA_DEPTH_MAX: usize = 600;
/// Schemas that lie inside each other for one value, those that references lead to included.
pub const SCHEMA_CHAIN_MAX: usize = 50;
/// What one evaluation remembers of values that were held to what a reference leads to; past it they are held to it again.
pub const SCHEMA_KNOWN_MAX: usize = 200_000;
/// What a violation names of the options of an `enum`, in characters; those past it are counted.
pub const SCHEMA_OPTIONS_SHOWN_CHARS: usize = 500;
/// Most options of an `enum` that a text is compared with to say which of them was meant.
pub const SCHEMA_OPTIONS_COMPARED_MAX: usize = 200;
/// Longest text, in characters, that is compared with the options of an `enum`.
pub const SCHEMA_OPTION_COMPARED_CHARS_MAX: usize = 60;
/// Memory of one evaluation against a JSON Schema beyond the value, in bytes: what it remembers, what its regular
/// expressions build, its violations, and 16 for each item of a list whose items are to be different.
pub const SCHEMA_MEMORY_BYTES_MAX: usize = 64 << 20;
/// Regular expressions of one definition.
pub const SCHEMA_PATTERNS_MAX: usize = 200;
/// Longest regular expression of a schema.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 1000;
/// Memory of one regular expression of a schema, compiled, in bytes.
pub const SCHEMA_PATTERN_MEMORY_BYTES_MAX: usize = 1 << 20;
/// What a regular expression of a schema remembers of the text before it begins anew, in bytes.
pub const SCHEMA_PATTERN_CACHE_BYTES_MAX: usize = 128 << 10;
/// Memory of all regular expressions of one definition, compiled, in bytes.
pub const SCHEMA_PATTERNS_MEMORY_BYTES_MAX: usize = 4 << 20;

/// Decisions that may take long, made at once; those past it wait.
pub const LONG_DECISIONS_MAX: usize = 2;

/// Transitions committed together.
pub const BATCH_TRANSITIONS_MAX: usize = 1024;
/// Bytes after which a batch takes no further transition.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Room kept free ahead of the data file, at most: it doubles when it grows, up to some size.
pub const ROOM_AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Jobs waiting for the store's writer.
pub const WRITER_QUEUE_MAX: usize = 8192;
/// A commit slower than this makes the writer wait for callers it knows to be on their way.
pub const ADAPTIVE_WAIT_COMMIT_MIN: Duration = Duration::from_micros(200);
/// The longest that the store's writer waits for callers it knows to be on their way.
pub const ADAPTIVE_WAIT_MAX: Duration = Duration::from_millis(1);
/// A snapshot up to this size is written as often as `snapshot_every` asks; a larger one only when
/// the journal rows since the last one outweigh it.
pub const SNAPSHOT_BYTES_FREE: usize = 4 << 10;
/// Largest `snapshot_every`.
pub const SNAPSHOT_EVERY_MAX: u32 = 1024;
/// Pages redb keeps in memory.
pub const STORE_CACHE_BYTES: usize = 8 << 20;
/// Commits to the data file, each durable there, before a redo log is begun beside it: a process that stores little needs none.
pub const REDO_AFTER_COMMITS: u64 = 16;
/// The length of a redo log when it is begun.
pub const REDO_BYTES_MIN: u64 = 1 << 20;
/// The length up to which a redo log grows fourfold each time that it is full: so much is put into the data file at once, or at the next
/// opening after a crash.
pub const REDO_BYTES_MAX: u64 = 16 << 20;
/// How long after its last record a redo log is put into the data file: what it held back from there takes memory.
pub const REDO_IDLE: Duration = Duration::from_secs(5);
/// From this file size on each commit to the data file saves what makes a restart after a crash instant; one that a redo log
/// follows saves it always.
pub const QUICK_REPAIR_FILE_BYTES: u64 = 256 << 20;
/// Below this file size every page is checked at each opening, after a clean close too.
pub const CHECKED_FILE_BYTES_MAX: u64 = 4 << 20;
/// Refused calls kept for telemetry; the oldest go first.
pub const REFUSALS_KEPT_MAX: u64 = 1000;
/// Refused calls waiting to be written; more are dropped.
pub const REFUSALS_QUEUED_MAX: usize = 256;

/// Calls the engine works on at once; further ones wait.
pub const CALLS_IN_FLIGHT_MAX: usize = 4096;
/// How often a call is sent to an actor, each time a fresh one, before the caller is told that it could
/// not be reached. One more than [`WAKE_FAILURES_MAX`], so that an execution that cannot be woken says so.
pub const CALL_ATTEMPTS_MAX: u32 = WAKE_FAILURES_MAX + 1;
/// How often a call is brought to an actor that turns out to be on its way out, before the caller is told that the
/// server is busy. Each time that actor has answered somebody else.
pub const CALL_DELIVERIES_MAX: u32 = 10_000;
/// An execution whose actor dies this often in a row, without an answer between, is not woken again.
pub const WAKE_FAILURES_MAX: u32 = 3;
/// An actor nobody asked for this long goes to sleep.
pub const IDLE_MAX: Duration = Duration::from_secs(45);
/// How often idle actors are looked for.
pub const IDLE_SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a shutdown waits for actors to finish what they were asked.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Telemetry events returned when no `limit` is given (100).
pub const TELEMETRY_LIMIT_DEFAULT: usize = 100;
/// Transitions and refusals looked at for one answer, the latest ones: what is rarer is not found.
pub const TELEMETRY_SCANNED_MAX: usize = 100_000;
/// Telemetry events returned at most.
pub const TELEMETRY_LIMIT_MAX: usize = 1000;

/// Journal rows looked at for one page of executions; the next page goes on from there. Up to this many open
/// executions are listed by their index.
pub const LIST_SCANNED_MAX: usize = 100_000;

/// Bytes of outputs that one `step_history` shows; outputs past it are named by digest and size.
pub const HISTORY_OUTPUT_BYTES_MAX: usize = 8 << 20;

/// Projects whose allowed environment is known at once; past it one of them sees none until its next client comes.
pub const ENVIRONMENTS_MAX: usize = 1024;

/// Sets of definitions that are kept loaded for executions that look up workflows while no caller has them.
pub const DEFINITIONS_KEPT_MAX: usize = 8;

/// How long a call waits until its process owns the data directory.
pub const OWNED_WITHIN: Duration = Duration::from_secs(10);
/// The longest pause of a process that could not open the store, where nobody calls.
pub const OWN_RETRY_MAX: Duration = Duration::from_secs(5);
/// How often a process looks for the owner of its data directory, or for the directory to be free, before it says that
/// the store is busy.
pub const OWNER_LOOKS_MAX: u32 = 90;
/// The first pause between two looks for an owner; each further one is twice as long.
pub const OWNER_LOOK_EVERY_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two looks for an owner.
pub const OWNER_LOOK_EVERY_MAX: Duration = Duration::from_millis(50);
/// How long an owner that a call waits for may be silent before its relay pings it.
pub const OWNER_SILENT_MAX: Duration = Duration::from_secs(2);
/// How long an owner may take to answer that ping; then it counts as stopped, and waiting calls are answered `STORE_BUSY`.
pub const OWNER_ALIVE_MAX: Duration = Duration::from_secs(3);
/// How often an owner looks whether its control socket is still there.
pub const CONTROL_SOCKET_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long nobody may own the directory before a process answers by itself what needs no store.
pub const LOCAL_ANSWER_AFTER: Duration = Duration::from_millis(15);
/// How long a process that handed its directory over leaves it to the one that asked, which looks for it every
/// [`OWNER_LOOK_EVERY_MAX`] at least.
pub const HAND_OVER_PAUSE: Duration = Duration::from_millis(250);

/// Relays of other processes at the control socket at once, beside [`CONTROL_CLIENTS_MAX`]; further ones are refused.
pub const RELAYS_MAX: usize = 256;
/// Clients of the control socket at once. Past it, the one that has been silent longest since it came makes room; where
/// all have said who they are, further ones wait to be let in.
pub const CONTROL_CLIENTS_MAX: usize = 64;
/// How long clients of the control socket may finish when the server ends.
pub const CONTROL_GRACE: Duration = Duration::from_millis(300);
/// Lines of the log that wait for somebody to read stderr; those past it are dropped and counted.
pub const LOG_BYTES_MAX: usize = 256 << 10;
/// Lines of one kind that are logged in each [`LOG_KIND_SPAN`]; those past it are counted.
pub const LOG_LINES_OF_A_KIND_MAX: usize = 50;
/// The span of time in which lines of one kind are counted.
pub const LOG_KIND_SPAN: Duration = Duration::from_secs(10);
/// At the end of the process, how long the last lines of the log may take to be written.
pub const LOG_FLUSH_MAX: Duration = Duration::from_millis(200);
/// After a signal, how long the replies to those who waited may take to leave.
pub const SIGNAL_GRACE: Duration = Duration::from_millis(100);
/// Longest first line at the control socket: it holds the values of the allowed environment variables, or the owner's list
/// of its clients.
pub const CONTROL_PREAMBLE_BYTES_MAX: u64 = 256 << 10;
/// How long a client of the control socket may take over its first line.
pub const CONTROL_PREAMBLE_MAX: Duration = Duration::from_secs(5);
/// How long a client of the control socket may be silent before it makes room for another one.
pub const CONTROL_SILENT_MIN: Duration = Duration::from_millis(100);
/// Calls of one stdio client that are being worked on or whose reply it has not taken; past this, reading stops.
pub const CLIENT_CALLS_MAX: usize = 4096;
/// Bytes of calls of one stdio client in work and of replies it has not taken; past this, reading stops.
pub const CLIENT_UNSENT_BYTES_MAX: usize = 128 << 20;
/// Addresses that one client, or one of its listens, is told about.
pub const SUBSCRIPTION_ADDRESSES_MAX: usize = 1000;
/// Bytes of those addresses together.
pub const SUBSCRIPTION_BYTES_MAX: usize = 256 << 10;
/// Listens (`subscriptions/listen`) of one client over a pair of streams at once.
pub const LISTENS_MAX: usize = 64;
/// Listens of all stateless clients over HTTP together.
pub const HTTP_LISTENS_MAX: usize = 512;
/// How long one call waits for the user's answer to a question that the client shows.
pub const QUESTION_MAX: Duration = Duration::from_secs(600);
/// Questions that one call may put to the user.
pub const QUESTIONS_PER_CALL_MAX: usize = 10;
/// How often a caller who asks for it is told that its call is still being worked on.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// After end of input, how long pending replies may take.
pub const EOF_GRACE: Duration = Duration::from_millis(500);
/// After the end of input and its pending replies, how long an orderly close may take. The journal has everything: a
/// close that is cut short costs the next start a look at it, nothing else.
pub const EOF_CLOSE_MAX: Duration = Duration::from_millis(300);
/// How often a server that found the store busy looks again, at most; and how often a store that has failed
/// opens its file again, at most.
pub const STORE_RETRY_EVERY: Duration = Duration::from_millis(250);

/// Servers that may go away one after another while a command asks one question.
pub const LINK_ATTEMPTS_MAX: u32 = 40;
/// How often a command that follows executions looks at all of them, or at a store that no server owns.
pub const TAIL_EVERY: Duration = Duration::from_secs(1);
/// How long a command that follows a single execution waits for it to move before it looks at what else was told
/// of it: refused calls move nothing.
pub const TAIL_WAIT_S: u32 = 5;
/// Looks that may fail for a passing reason, one after another, before a command that follows executions gives up.
/// Each is patient itself.
pub const TAIL_FAILURES_MAX: u32 = 5;
/// Largest file of outputs that a command takes.
pub const OUTPUTS_FILE_BYTES_MAX: usize = 64 << 20;
/// Outputs that were read before their step was open, at most.
pub const OUTPUTS_WAITING_MAX: usize = 2 * STEPS_MAX;
/// How long a command that reads outputs keeps a store of its own open before it lets others have it meanwhile.
pub const OUTPUT_LINE_GRACE: Duration = Duration::from_millis(200);

/// Connections of HTTP clients at once. Past it, one that keeps the server waiting goes; where none does, the new
/// one is refused.
pub const HTTP_CONNECTIONS_MAX: usize = 2048;
/// Calls of all HTTP clients in work at once, those included whose client has gone; past it, refused as busy.
pub const HTTP_CALLS_MAX: usize = 4096;
/// Calls of one session over HTTP in work at once.
pub const HTTP_SESSION_CALLS_MAX: usize = 256;
/// Streams of HTTP clients that are open for what they did not ask for.
pub const HTTP_STREAMS_MAX: usize = 512;
/// Bytes of calls in work and of replies not taken, of all HTTP clients together. Past it, whoever keeps the server
/// waiting is cut off; where nobody does, refused as busy.
pub const HTTP_BYTES_MAX: usize = 256 << 20;
/// Sessions of the initialize era. Past it, the one used least lately that waits for nothing ends.
pub const HTTP_SESSIONS_MAX: usize = 1000;
/// A session that nobody uses for this long ends.
pub const HTTP_SESSION_IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long the events of a cancelled call of a session are kept. An answer that was lost on its way is had by sending
/// the same call again.
pub const HTTP_EVENTS_KEPT_MAX: Duration = Duration::from_secs(5);
/// Largest head of an HTTP request.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 << 10;
/// How long an HTTP client may take over the head of its next request.
pub const HTTP_HEAD_MAX: Duration = Duration::from_secs(60);
/// How long an HTTP client may take over the body of a request.
pub const HTTP_BODY_MAX: Duration = Duration::from_secs(30);
/// Bytes of an oversized body that are read and dropped, so that its sender hears that it is too large.
pub const HTTP_DROPPED_BYTES_MAX: usize = 128 << 20;
/// An HTTP client that takes nothing of a reply for this long is cut off.
pub const HTTP_STALL_MAX: Duration = Duration::from_secs(30);
/// How often HTTP clients that take nothing, and sessions that nobody uses, are looked for.
pub const HTTP_SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long a request waits for room that somebody else has to give back.
pub const HTTP_ROOM_MAX: Duration = Duration::from_secs(1);
/// When the server ends: how long calls may take to be answered, and connections to close after that.
pub const HTTP_GRACE: Duration = Duration::from_millis(500);
/// Shortest bearer token.
pub const BEARER_TOKEN_BYTES_MIN: usize = 16;
/// Longest bearer token.
pub const BEARER_TOKEN_BYTES_MAX: usize = 4096;
/// Files that a server may have open besides the connections of its HTTP clients: its store, the control socket's
/// callers, what it watches.
pub const HTTP_FILES_BESIDES: usize = 256;
/// Connections that were cut to make room and have not let go of their files yet; past it nobody else is let in.
pub const HTTP_CUT_MAX: usize = 64;
/// Connections of HTTP clients that there are room for, however few files the process may have open.
pub const HTTP_CONNECTIONS_MIN: usize = 16;
/// Connections of HTTP clients that wait to be let in. Past it the system drops them, and their clients try again after a second.
pub const HTTP_BACKLOG: u32 = 1024;
/// How often a request that waits for room looks for somebody who could make some.
pub const HTTP_ROOM_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Histories and telemetry being read at once: each may take many milliseconds of a processor, and short calls
/// shall find one free.
pub const LARGE_READS_MAX: usize = 1;
/// Longest text of guidance, question or message that a step of a manifest has.
pub const STEP_TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest name of a tool, activity, signal, approver, property or failure class in a definition.
pub const WORD_BYTES_MAX: usize = 200;
/// Names that one key of a step may list: properties, approvers, failure classes.
pub const WORDS_MAX: usize = 100;
/// Entries of memory that a workflow begins with, or that one step sets.
pub const MEMORY_ENTRIES_MAX: usize = 100;
/// Longest name of an entry of memory.
pub const MEMORY_NAME_BYTES_MAX: usize = 100;
/// Arms of one branch.
pub const BRANCH_ARMS_MAX: usize = 50;
/// Items of a `foreach` that are open at once.
pub const FOREACH_PARALLEL_MAX: u32 = 100;
/// Items of a `foreach` that are open at once where the definition does not say.
pub const FOREACH_PARALLEL_DEFAULT: u32 = 4;
/// Attempts that a definition may ask for with `retry`.
pub const RETRY_ATTEMPTS_MAX: u32 = 100;
/// Attempts of a step whose `retry` does not say how many.
pub const RETRY_ATTEMPTS_DEFAULT: u32 = 3;
/// The pause before the second attempt where `retry` does not say.
pub const RETRY_BACKOFF_DEFAULT: Duration = Duration::from_secs(1);
/// The longest pause between attempts where `retry` does not say.
pub const RETRY_BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(60);
/// Ids of telemetry that belong to one transition: no event has more than two things to tell.
pub const TELEMETRY_IDS_PER_ROW: u64 = 2 << 16;
/// Characters of an item that a failure shows.
pub const ITEM_SHOWN_CHARS: usize = 60;
/// Bytes of JSON of one value in memory.
pub const MEMORY_VALUE_BYTES_MAX: usize = 1 << 20;
/// Bytes of JSON that come with a signal.
pub const SIGNAL_BYTES_MAX: usize = 1 << 20;
/// Bytes of a signal's name.
pub const SIGNAL_NAME_BYTES_MAX: usize = 128;
/// Bytes of the name of whoever answers a gate.
pub const PERSON_BYTES_MAX: usize = 200;
/// Bytes of what a person says with the answer to a gate, or of work that was cut off.
pub const COMMENT_BYTES_MAX: usize = 4000;
/// Signals that an execution keeps while nothing waits for them.
pub const SIGNALS_KEPT_MAX: usize = 100;
/// How often one decision or one view may ask for values from the store.
pub const LOOKUPS_MAX: usize = 1000;
/// Small values that an execution that is awake keeps at hand.
pub const VALUES_KEPT_MAX: usize = 2048;
/// Bytes of JSON of values of all executions that are held parsed because they were asked for lately: lists, inputs,
/// large outputs. Parsed, a value may take some times as much.
pub const CONTENTS_HELD_BYTES_MAX: usize = 8 << 20;
/// Attempts of steps that the server does itself that are in work at once; those past it wait in order.
pub const ATTEMPTS_AT_ONCE_MAX: usize = 256;
/// How long a shutdown lets attempts in work come to their end before it breaks them off.
pub const ATTEMPTS_GRACE: Duration = Duration::from_secs(2);
/// The first pause before what came of an attempt is told again to an execution that could not take it in; it doubles
/// from there on.
pub const OUTCOME_RETRY_MIN: Duration = Duration::from_millis(50);
/// The longest pause before what came of an attempt is told again.
pub const OUTCOME_RETRY_MAX: Duration = Duration::from_secs(5);
/// Where an execution cannot take in what an attempt brought, for a fault of the server's own, and has tried this often,
/// the attempt counts as failed.
pub const OUTCOME_FAULTS_MAX: u32 = 5;
/// Executions that are moved at once because something is due; those past it wait in order.
pub const TICKS_AT_ONCE_MAX: usize = 512;
/// The first pause before an execution that could not be moved when something was due is tried again; it doubles from
/// there on.
pub const TICK_RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest pause before an execution that could not be moved when something was due is tried again.
pub const TICK_RETRY_MAX: Duration = Duration::from_secs(60);
/// How often the clock is looked at while something will be due: it may be set, and the machine may sleep.
pub const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(10);
/// A clock that is ahead by more than this may be wrong: time goes back with it once it is set right.
pub const CLOCK_JUMP_MAX: Duration = Duration::from_secs(86_400);
/// A secret of at least this length is covered where what it was given to repeats it; a shorter one could be a part of
/// any text.
pub const SECRET_COVERED_BYTES_MIN: usize = 8;
/// Calls that ended items of earlier visits of one step and whose repeat is still answered.
pub const PAST_CALLS_MAX: usize = 256;
}
