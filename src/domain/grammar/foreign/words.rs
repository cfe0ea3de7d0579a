//! The foreign words themselves.

use super::{
    Bare,
    Counterpart::{Counted, Flag, Inside, Key, KeyOrWords, Kind, OneMore, Words},
    Foreign, Value, Word,
};

const MANIFEST: &str = "a workflow manifest";
const STEP: &str = "a step";
const PHASE: &str = "a phase";
const ENTRY: &str = "an input";
const VALIDATE: &str = "`validate`";
const ARM: &str = "an arm of a branch";
const FOREACH: &str = "`foreach`";
const GATE: &str = "`gate`";
const WAIT: &str = "`wait`";
const RETRY: &str = "`retry`";
const REPEAT: &str = "`repeat`";
const FAIL: &str = "`fail`";
const INPUT: &str = "`input`";
const EXTRACT: &str = "`extract`";
const LIMITS: &str = "`limits`";

const NO_MODEL: &str = "remove it: which model acts is for the client to choose";
const NO_ENVIRONMENT: &str =
    "remove it: expressions read a variable that the configuration lists as `env.NAME`";
const NO_OUTPUT_NAME: &str = "remove it: what follows reads its output as `steps.{id}`";
const LOOP: &str = "a `branch` after the step leads back to it: `- { if: CONDITION, next: {id} }` and `- { next: $end }`";

const fn word(place: &'static str, words: &'static str, meant: super::Counterpart) -> Foreign {
    Foreign {
        place,
        words,
        beside: &[],
        meant,
    }
}

/// Keys.
pub(super) const KEYS: &[Foreign] = &[
    // The workflow.
    word(
        MANIFEST,
        "name id workflow_name workflow_id",
        Key(&["workflow", "title"]),
    ),
    word(
        MANIFEST,
        "desc summary about purpose goal",
        Key(&["description"]),
    ),
    word(
        MANIFEST,
        "output outputs result results return returns final_outputs",
        Key(&["final_output"]),
    ),
    word(
        MANIFEST,
        "input parameters params arguments args",
        Key(&["inputs"]),
    ),
    word(
        MANIFEST,
        "vars variables state context globals",
        Key(&["memory"]),
    ),
    word(
        MANIFEST,
        "jobs tasks nodes stages phases states activities actions",
        Key(&["steps"]),
    ),
    word(MANIFEST, "timeout_minutes", Counted("timeout", "m")),
    word(MANIFEST, "timeout_seconds", Counted("timeout", "s")),
    word(
        MANIFEST,
        "execution_timeout workflow_timeout max_duration deadline",
        Key(&["timeout"]),
    ),
    word(MANIFEST, "max_steps", Inside("limits", "max_steps")),
    word(
        MANIFEST,
        "max_visits max_iterations",
        Inside("limits", "max_visits"),
    ),
    word(
        MANIFEST,
        "on trigger triggers schedule events",
        Words(
            "remove it: an execution begins when it is started, with `workflow.start` or `midex run`",
        ),
    ),
    word(MANIFEST, "env environment", Words(NO_ENVIRONMENT)),
    word(
        MANIFEST,
        "agents roles personas",
        Words("remove it: an agent is a file `agents/NAME.md`, and a step names it with `agent`"),
    ),
    word(
        MANIFEST,
        "tools",
        Words("remove it: a step names a tool of the client with `tool`"),
    ),
    word(MANIFEST, "model llm temperature", Words(NO_MODEL)),
    word(
        MANIFEST,
        "edges connections transitions links",
        Words(
            "remove it: steps say their order themselves, with `depends_on`, `next` and `branch`",
        ),
    ),
    word(
        MANIFEST,
        "start start_at entry_point initial initial_step",
        Words("remove it: an execution begins with the first step of the list"),
    ),
    word(
        MANIFEST,
        "api_version kind schema_version spec_version",
        Words("remove it: a manifest has no such header"),
    ),
    word(
        MANIFEST,
        "retry retries max_retries on_error",
        Words("say it of each step that it is about: `retry`, `on_error`"),
    ),
    // A step: what it is called, who acts, what it waits for.
    word(STEP, "name", Key(&["id", "description"])),
    word(STEP, "step step_id key task_id node phase", Key(&["id"])),
    word(
        STEP,
        "title label display_name summary desc comment",
        Key(&["description"]),
    ),
    word(
        STEP,
        "prompt task instruction text content system_prompt message action do goal",
        Key(&["guidance", "instructions"]),
    ),
    Foreign {
        beside: &["agent", "tool", "input", "extract"],
        ..word(STEP, "guidance", Key(&["instructions"]))
    },
    word(
        STEP,
        "role persona actor assistant agent_name agent_type assignee",
        Key(&["agent"]),
    ),
    word(STEP, "tool_name mcp_tool mcp", Key(&["tool"])),
    word(
        STEP,
        "condition cond run_if only_if guard where",
        Key(&["if"]),
    ),
    word(
        STEP,
        "needs depends dependencies requires after run_after upstream parents",
        Key(&["depends_on"]),
    ),
    word(
        STEP,
        "then goto to next_step on_success transition",
        Key(&["next"]),
    ),
    word(
        STEP,
        "end is_end terminal",
        Flag(true, "next", Word::Text("$end")),
    ),
    word(STEP, "trigger_rule run_on", Key(&["run_when"])),
    // What it works on and what comes of it.
    word(
        STEP,
        "inputs args arguments params parameters variables vars context",
        Key(&["with"]),
    ),
    word(
        STEP,
        "output outputs schema output_schema result_schema response_schema response response_format output_format returns",
        KeyOrWords("result", NO_OUTPUT_NAME),
    ),
    word(
        STEP,
        "register save_as store_as output_as output_var output_key result_key save_to as",
        Words(NO_OUTPUT_NAME),
    ),
    word(STEP, "env environment", Words(NO_ENVIRONMENT)),
    word(STEP, "model llm temperature max_tokens", Words(NO_MODEL)),
    word(
        STEP,
        "runs_on container image working_directory",
        Words("remove it: the work is done where the client is"),
    ),
    word(
        STEP,
        "tools allowed_tools",
        Words("remove it: the client has its own tools; a step that is one call says `tool: NAME`"),
    ),
    word(STEP, "sample example_output", Key(&["example"])),
    // Other kinds.
    word(
        STEP,
        "uses",
        Kind("there are no ready-made actions: say what is to be done with `guidance: TEXT`"),
    ),
    word(
        STEP,
        "command cmd script shell bash exec",
        Kind(
            "the model runs it with the tools of its client: `guidance: Run … and say what came of it`",
        ),
    ),
    word(
        STEP,
        "parallel concurrent fork fan_out",
        Kind(
            "put its steps into the list: one with `depends_on: []` does not wait for the one above it",
        ),
    ),
    word(
        STEP,
        "switch choice choices conditions cases match router decision conditional",
        Key(&["branch"]),
    ),
    word(
        STEP,
        "loop for_each each map iterate with_items",
        Key(&["foreach"]),
    ),
    Foreign {
        beside: &["activity", "run"],
        ..word(STEP, "until repeat_until", Inside("repeat", "until"))
    },
    word(
        STEP,
        "while until repeat_until do_while loop_until",
        Words(LOOP),
    ),
    word(STEP, "sleep delay pause timer for", Inside("wait", "for")),
    word(STEP, "wait_until", Inside("wait", "until")),
    word(
        STEP,
        "signal wait_signal wait_for_signal wait_for_event event",
        Inside("wait", "signal"),
    ),
    word(
        STEP,
        "approval approve human_approval confirm confirmation interrupt human",
        Key(&["gate"]),
    ),
    word(STEP, "ask_user user_input form", Key(&["input"])),
    word(STEP, "assign set_memory memory", Key(&["set"])),
    word(STEP, "throw raise error abort", Key(&["fail"])),
    // When it fails, and how often.
    word(
        STEP,
        "retries max_retries retry_count num_retries",
        OneMore(Some("retry"), "max_attempts"),
    ),
    word(
        STEP,
        "attempts max_attempts",
        Inside("retry", "max_attempts"),
    ),
    word(
        STEP,
        "backoff retry_delay retry_interval",
        Inside("retry", "backoff"),
    ),
    word(
        STEP,
        "retry_policy retry_strategy retry_options",
        Key(&["retry"]),
    ),
    word(
        STEP,
        "timeout_minutes timeout_mins",
        Counted("timeout", "m"),
    ),
    word(
        STEP,
        "timeout_seconds timeout_secs timeout_sec",
        Counted("timeout", "s"),
    ),
    word(STEP, "timeout_ms", Counted("timeout", "ms")),
    word(
        STEP,
        "start_to_close_timeout execution_timeout step_timeout time_limit max_duration deadline",
        Key(&["timeout"]),
    ),
    word(
        STEP,
        "continue_on_error continue_on_fail continue_on_failure ignore_error ignore_errors allow_failure",
        Flag(true, "on_error", Word::Text("continue")),
    ),
    word(
        STEP,
        "catch on_failure on_fail fallback error_handler",
        Key(&["on_error"]),
    ),
    word(
        STEP,
        "max_iterations max_loops max_turns",
        Key(&["max_visits"]),
    ),
    // Front matter.
    word(PHASE, "id name step title", Key(&["phase", "description"])),
    word(
        PHASE,
        "needs depends dependencies after",
        Key(&["dependsOn"]),
    ),
    word(PHASE, "role persona actor", Key(&["agent"])),
    word(PHASE, "desc summary", Key(&["description"])),
    // Inputs.
    word(ENTRY, "label title display_name", Key(&["name"])),
    word(
        ENTRY,
        "desc help prompt question",
        Key(&["description", "hint"]),
    ),
    word(
        ENTRY,
        "options values choices allowed allowed_values one_of",
        Key(&["enum"]),
    ),
    word(ENTRY, "kind data_type", Key(&["type"])),
    word(ENTRY, "default_value", Key(&["default"])),
    word(ENTRY, "required", Flag(false, "optional", Word::True)),
    word(ENTRY, "nullable", Key(&["optional"])),
    word(ENTRY, "pattern regex regexp", Inside("validate", "pattern")),
    word(ENTRY, "min minimum min_value", Inside("validate", "min")),
    word(ENTRY, "max maximum max_value", Inside("validate", "max")),
    word(ENTRY, "min_length", Inside("validate", "min_length")),
    word(ENTRY, "max_length", Inside("validate", "max_length")),
    word(VALIDATE, "minimum min_value", Key(&["min"])),
    word(VALIDATE, "maximum max_value", Key(&["max"])),
    word(VALIDATE, "regex regexp", Key(&["pattern"])),
    word(VALIDATE, "options values choices one_of", Key(&["enum"])),
    // What stands below the keys of a step.
    word(
        ARM,
        "condition cond when expression expr test match case",
        Key(&["if"]),
    ),
    word(ARM, "then goto to target step next_step do", Key(&["next"])),
    word(ARM, "else otherwise default fallback", Key(&["next"])),
    word(
        FOREACH,
        "items over list collection values each array of from",
        Key(&["in"]),
    ),
    word(
        FOREACH,
        "var variable item item_name alias name",
        Key(&["as"]),
    ),
    word(FOREACH, "steps step body run task action", Key(&["do"])),
    word(
        FOREACH,
        "concurrency max_parallel max_concurrency parallelism workers batch_size",
        Key(&["parallel"]),
    ),
    word(
        GATE,
        "message prompt question text title description reason",
        Key(&["ask"]),
    ),
    word(
        GATE,
        "timeout ttl expiry expires_in deadline",
        Key(&["expires"]),
    ),
    word(GATE, "reviewers users assignees who", Key(&["approvers"])),
    word(WAIT, "duration time delay sleep timeout", Key(&["for"])),
    word(WAIT, "seconds", Counted("for", "s")),
    word(WAIT, "minutes", Counted("for", "m")),
    word(WAIT, "hours", Counted("for", "h")),
    word(WAIT, "at date timestamp datetime", Key(&["until"])),
    word(WAIT, "event name message signal_name", Key(&["signal"])),
    word(
        RETRY,
        "attempts max times count tries max_tries limit maximum_attempts",
        Key(&["max_attempts"]),
    ),
    word(RETRY, "retries max_retries", OneMore(None, "max_attempts")),
    word(
        RETRY,
        "delay interval initial_interval initial_delay base_delay wait pause",
        Key(&["backoff"]),
    ),
    word(
        RETRY,
        "max_delay max_interval maximum_interval",
        Key(&["max_backoff"]),
    ),
    word(
        RETRY,
        "backoff_coefficient backoff_rate multiplier factor exponential strategy",
        Words("remove it: each pause is twice the one before it, up to `max_backoff`"),
    ),
    word(RETRY, "retry_on errors error_equals codes", Key(&["on"])),
    word(REPEAT, "condition", Key(&["until"])),
    word(REPEAT, "interval delay", Key(&["every"])),
    word(
        REPEAT,
        "max times attempts max_iterations",
        Key(&["max_attempts"]),
    ),
    word(FAIL, "error reason msg text description", Key(&["message"])),
    word(FAIL, "name type error_code status", Key(&["code"])),
    word(
        INPUT,
        "inputs fields names ask variables",
        Key(&["properties"]),
    ),
    word(EXTRACT, "inputs fields into names", Key(&["properties"])),
    word(EXTRACT, "text source input content", Key(&["from"])),
    word(LIMITS, "max_iterations max_loops", Key(&["max_visits"])),
];

const fn values(keys: &'static [&'static str], words: &'static str, meant: &'static str) -> Value {
    Value { keys, words, meant }
}

const TARGETS: &[&str] = &["next"];
const ROOT: &[&str] = &["root"];
const FILTER: &[&str] = &["filter"];

/// Values. `root`, `filter` and `kind` are no keys: the first name of a path in an expression, what follows `|` in one, and the
/// kind of a step that says it under `type`.
pub(super) const VALUES: &[Value] = &[
    values(
        &["on_error"],
        "ignore skip pass resume proceed none warn",
        "continue",
    ),
    values(
        &["on_error"],
        "abort stop raise throw halt error exit",
        "fail",
    ),
    values(TARGETS, "end done finish exit stop complete none", "$end"),
    values(
        &["run_when"],
        "success on_success all_success passed completed",
        "succeeded",
    ),
    values(
        &["run_when", "if", "when"],
        "failure on_failure on_error one_failed",
        "failed",
    ),
    values(&["if", "when"], "failed", "failed"),
    values(&["if", "when"], "success on_success succeeded", "succeeded"),
    values(&["run_when", "if", "when"], "always all_done", "finished"),
    values(&["complexity"], "low easy small trivial", "simple"),
    values(&["complexity"], "medium normal intermediate", "moderate"),
    values(&["complexity"], "complex hard large difficult", "high"),
    values(&["type"], "str text varchar", "string"),
    values(&["type"], "int long", "integer"),
    values(&["type"], "float double decimal", "number"),
    values(&["type"], "bool", "boolean"),
    values(&["type"], "list tuple", "array"),
    values(&["type"], "dict map mapping json", "object"),
    values(&["kind"], "agent persona role", "agent"),
    values(
        &["kind"],
        "guidance prompt llm task model manual",
        "guidance",
    ),
    values(&["kind"], "tool tool_call mcp", "tool"),
    values(&["kind"], "input user_input form", "input"),
    values(
        &["kind"],
        "branch condition conditional switch choice router",
        "branch",
    ),
    values(&["kind"], "foreach loop map", "foreach"),
    values(&["kind"], "gate approval human human_approval", "gate"),
    values(&["kind"], "wait sleep delay timer signal", "wait"),
    values(&["kind"], "set assign", "set"),
    values(&["kind"], "fail error", "fail"),
    values(&["kind"], "extract", "extract"),
    values(&["kind"], "activity function", "activity"),
    values(ROOT, "input params parameters args arguments", "inputs"),
    values(ROOT, "step nodes jobs needs tasks outputs", "steps"),
    values(ROOT, "vars variables state context ctx", "memory"),
    values(FILTER, "len size count", "length"),
    values(FILTER, "str to_string", "string"),
    values(FILTER, "parse_int", "int"),
    values(FILTER, "parse_float number", "float"),
    values(FILTER, "strip", "trim"),
    values(FILTER, "to_json json dump", "tojson"),
    values(FILTER, "from_json parse_json", "fromjson"),
    values(FILTER, "lowercase to_lower to_lower_case", "lower"),
    values(FILTER, "uppercase to_upper to_upper_case", "upper"),
];

const fn bare(
    place: &'static str,
    key: &'static str,
    entries: &'static [(&'static str, Option<&'static str>)],
) -> Bare {
    Bare {
        place,
        key,
        entries,
    }
}

/// Values alone in place of mappings.
pub(super) const BARE: &[Bare] = &[
    bare(STEP, "retry", &[("max_attempts", None)]),
    bare(STEP, "wait", &[("for", None)]),
    bare(STEP, "input", &[("properties", None)]),
    bare(STEP, "repeat", &[("until", None)]),
    bare(STEP, "foreach", &[("in", None)]),
    bare(STEP, "fail", &[("code", Some("FAILED")), ("message", None)]),
    bare(
        ENTRY,
        "default",
        &[("from", Some("literal")), ("value", None)],
    ),
];
