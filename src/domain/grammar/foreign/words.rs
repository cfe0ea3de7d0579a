//! The foreign words themselves.

use super::{
    BareScalar,
    Counterpart::{Counted, Flag, Inside, Key, KeyOrWords, Kind, OneMore, TextOrWords, Words},
    Entries, ForeignKeys, Value,
};

const NO_MODEL_ADVICE: &str = "remove it: which model acts is for the client to choose";
const NO_ENVIRONMENT_ADVICE: &str =
    "remove it: expressions read a variable that the configuration lists as `env.NAME`";
const NO_OUTPUT_NAME_ADVICE: &str = "remove it: what follows reads its output as `steps.{id}`";
const LOOP_ADVICE: &str = "a `branch` after the step leads back to it: `- { if: CONDITION, next: {id} }` and `- { next: $end }`";

const NESTED_STEPS_ADVICE: &str = "steps hold no steps: put these into the list, and lead to them with a `branch` before them: `- { if: CONDITION, next: STEP }`";
const ERROR_HANDLER_ADVICE: &str = "write what is tried in the step itself, and beside it `on_error: STEP` with the step that handles its failure";
const NOTHING_TO_SET_ADVICE: &str =
    "remove it: nothing here acts on it, and nothing need be set for it";
const NO_CALL_ADVICE: &str =
    "`run: CATALOG OPERATION` calls an operation of an imported catalog; else say it in `guidance`";

const fn word(words: &'static str, meant: super::Counterpart) -> ForeignKeys {
    ForeignKeys {
        words,
        beside: &[],
        meant,
    }
}

/// The foreign keys of each mapping, as messages call it.
pub(super) const FOREIGN_KEYS: &[(&str, &[ForeignKeys])] = &[
    ("a workflow manifest", MANIFEST),
    ("a step", STEP),
    ("a phase", PHASE),
    ("an input", FOREIGN_INPUT_KEYS),
    ("`validate`", VALIDATE),
    ("an arm of a branch", ARM),
    ("`foreach`", FOREACH),
    ("`gate`", GATE),
    ("`wait`", WAIT),
    ("`retry`", RETRY),
    ("`repeat`", REPEAT),
    ("`fail`", FAIL),
    ("`input`", INPUT),
    ("`extract`", EXTRACT),
    ("`limits`", LIMITS),
];

const MANIFEST: &[ForeignKeys] = &[
    word(
        "name id workflow_name workflow_id",
        Key(&["workflow", "title"]),
    ),
    word("desc summary about purpose goal", Key(&["description"])),
    word(
        "output outputs result results return returns final_outputs",
        Key(&["final_output"]),
    ),
    word("input parameters params arguments args", Key(&["inputs"])),
    word("vars variables state context globals", Key(&["memory"])),
    word(
        "jobs tasks nodes stages phases states activities actions dag templates pipeline",
        Key(&["steps"]),
    ),
    word("timeout_minutes", Counted("timeout", "m")),
    word("timeout_seconds", Counted("timeout", "s")),
    word(
        "execution_timeout workflow_timeout max_duration deadline",
        Key(&["timeout"]),
    ),
    word("max_steps", Inside("limits", "max_steps")),
    word("max_visits max_iterations", Inside("limits", "max_visits")),
    word(
        "on trigger triggers schedule events cron cron_schedule",
        Words(
            "remove it: an execution begins when it is started, with `workflow.start` or `midex run`; what a start gives stands under `inputs` at the top",
        ),
    ),
    word("env environment", Words(NO_ENVIRONMENT_ADVICE)),
    word(
        "agents roles personas",
        Words("remove it: an agent is a file `agents/NAME.md`, and a step names it with `agent`"),
    ),
    word(
        "tools",
        Words("remove it: a step names a tool of the client with `tool`"),
    ),
    word("model llm temperature", Words(NO_MODEL_ADVICE)),
    word(
        "edges conditional_edges connections transitions links",
        Words(
            "remove it: steps say their order themselves, with `depends_on`, `next` and `branch`",
        ),
    ),
    word(
        "start start_at entry_point initial initial_step",
        Words("remove it: an execution begins with the first step of the list"),
    ),
    word(
        "on_exit finally",
        Words(
            "remove it: a step with `run_when: finished` runs at both ends, and those of `on_failure` at a failure",
        ),
    ),
    word(
        "concurrency permissions defaults namespace task_queue queue checkpointer checkpoint end_at finish_point",
        Words(NOTHING_TO_SET_ADVICE),
    ),
    word("recursion_limit", Inside("limits", "max_steps")),
    word(
        "api_version kind schema_version spec_version",
        Words("remove it: a manifest has no such header"),
    ),
    word(
        "retry retries max_retries on_error",
        Words("say it of each step that it is about: `retry`, `on_error`"),
    ),
];

const STEP: &[ForeignKeys] = &[
    // A step: what it is called, who acts, what it waits for.
    word("name", Key(&["id", "description"])),
    word("step step_id key task_id node phase", Key(&["id"])),
    word(
        "title label display_name summary desc comment",
        Key(&["description"]),
    ),
    word(
        "prompt task instruction text content system_prompt message action do goal",
        Key(&["guidance", "instructions"]),
    ),
    ForeignKeys {
        beside: &["agent", "tool", "input", "extract"],
        ..word("guidance", Key(&["instructions"]))
    },
    word(
        "role persona actor assistant agent_name agent_type assignee",
        Key(&["agent"]),
    ),
    word("tool_name mcp_tool mcp", Key(&["tool"])),
    word("condition cond run_if only_if guard where", Key(&["if"])),
    word(
        "needs depends dependencies requires after run_after upstream parents",
        Key(&["depends_on"]),
    ),
    word("goto to next_step transition", Key(&["next"])),
    word("then on_success", TextOrWords("next", NESTED_STEPS_ADVICE)),
    word("else otherwise", Kind(NESTED_STEPS_ADVICE)),
    word("try", Kind(ERROR_HANDLER_ADVICE)),
    word(
        "strategy matrix",
        Words("write `foreach: { in: [ … ], do: … }`: the step is done for each item, `item`"),
    ),
    word("url endpoint method headers", Words(NO_CALL_ADVICE)),
    word("position type_version ui", Words(NOTHING_TO_SET_ADVICE)),
    word("end is_end terminal", Flag(true, "next", "$end")),
    word("trigger_rule run_on", Key(&["run_when"])),
    // What it works on and what comes of it.
    word(
        "inputs args arguments params parameters variables vars context",
        Key(&["with"]),
    ),
    word(
        "output outputs schema output_schema result_schema response_schema response response_format output_format returns",
        KeyOrWords("result", NO_OUTPUT_NAME_ADVICE),
    ),
    word(
        "register save_as store_as output_as output_var output_key result_key save_to as",
        Words(NO_OUTPUT_NAME_ADVICE),
    ),
    word("env environment", Words(NO_ENVIRONMENT_ADVICE)),
    word("model llm temperature max_tokens", Words(NO_MODEL_ADVICE)),
    word(
        "runs_on container image working_directory",
        Words("remove it: the work is done where the client is"),
    ),
    word(
        "tools allowed_tools",
        Words("remove it: the client has its own tools; a step that is one call says `tool: NAME`"),
    ),
    word("sample example_output", Key(&["example"])),
    // Other kinds.
    word(
        "uses",
        Kind(
            "there are no ready-made actions: say what is to be done with `guidance: TEXT`; another workflow is `workflow: NAME`",
        ),
    ),
    word(
        "child_workflow sub_workflow call_workflow",
        Key(&["workflow"]),
    ),
    word(
        "suspend",
        Kind("a person goes on with `gate: TEXT`, another program with `wait: { signal: NAME }`"),
    ),
    word(
        "command cmd script shell bash exec",
        Kind(
            "the model runs it with the tools of its client: `guidance: Run … and say what came of it`",
        ),
    ),
    word(
        "parallel concurrent fork fan_out",
        Kind(
            "put its steps into the list: one with `depends_on: []` does not wait for the one above it",
        ),
    ),
    word(
        "switch choice choices conditions cases match router decision conditional",
        Key(&["branch"]),
    ),
    word(
        "loop for_each each map iterate with_items with_param with_list with_sequence",
        Key(&["foreach"]),
    ),
    ForeignKeys {
        beside: &["activity", "run"],
        ..word("until repeat_until", Inside("repeat", "until"))
    },
    word(
        "while until repeat_until do_while loop_until",
        Words(LOOP_ADVICE),
    ),
    word("sleep delay pause timer for", Inside("wait", "for")),
    word("wait_until", Inside("wait", "until")),
    word(
        "signal wait_signal wait_for_signal wait_for_event wait_condition event",
        Inside("wait", "signal"),
    ),
    word(
        "approval approve human_approval confirm confirmation interrupt human",
        Key(&["gate"]),
    ),
    word("ask_user user_input form", Key(&["input"])),
    word("assign set_memory memory", Key(&["set"])),
    word("throw raise error abort", Key(&["fail"])),
    // When it fails, and how often.
    word(
        "retries max_retries retry_count num_retries",
        OneMore(Some("retry"), "max_attempts"),
    ),
    word(
        "attempts max_attempts max_tries",
        Inside("retry", "max_attempts"),
    ),
    word(
        "retry_on_fail retry_on_failure",
        Words("write `retry: { max_attempts: 3 }`"),
    ),
    word(
        "backoff retry_delay retry_interval",
        Inside("retry", "backoff"),
    ),
    word("retry_policy retry_strategy retry_options", Key(&["retry"])),
    word("timeout_minutes timeout_mins", Counted("timeout", "m")),
    word(
        "timeout_seconds timeout_secs timeout_sec active_deadline_seconds",
        Counted("timeout", "s"),
    ),
    word("timeout_ms", Counted("timeout", "ms")),
    word(
        "start_to_close_timeout execution_timeout step_timeout time_limit max_duration deadline",
        Key(&["timeout"]),
    ),
    word(
        "continue_on_error continue_on_fail continue_on_failure ignore_error ignore_errors allow_failure",
        Flag(true, "on_error", "continue"),
    ),
    word(
        "catch on_failure on_fail fallback error_handler",
        TextOrWords("on_error", ERROR_HANDLER_ADVICE),
    ),
    word("max_iterations max_loops max_turns", Key(&["max_visits"])),
];

const PHASE: &[ForeignKeys] = &[
    word("id name step title", Key(&["phase", "description"])),
    word("needs depends dependencies after", Key(&["dependsOn"])),
    word("role persona actor", Key(&["agent"])),
    word("desc summary", Key(&["description"])),
];

const FOREIGN_INPUT_KEYS: &[ForeignKeys] = &[
    word("label title display_name", Key(&["name"])),
    word("desc help prompt question", Key(&["description", "hint"])),
    word(
        "options values choices allowed allowed_values one_of",
        Key(&["enum"]),
    ),
    word("kind data_type", Key(&["type"])),
    word("default_value", Key(&["default"])),
    word("required", Flag(false, "optional", "true")),
    word("nullable", Key(&["optional"])),
    word("pattern regex regexp", Inside("validate", "pattern")),
    word("min minimum min_value", Inside("validate", "min")),
    word("max maximum max_value", Inside("validate", "max")),
    word("min_length", Inside("validate", "min_length")),
    word("max_length", Inside("validate", "max_length")),
];

const VALIDATE: &[ForeignKeys] = &[
    word("minimum min_value", Key(&["min"])),
    word("maximum max_value", Key(&["max"])),
    word("regex regexp", Key(&["pattern"])),
    word("options values choices one_of", Key(&["enum"])),
];

const ARM: &[ForeignKeys] = &[
    word(
        "condition cond when expression expr test match case",
        Key(&["if"]),
    ),
    word("then goto to target step next_step do", Key(&["next"])),
    word("else otherwise default fallback", Key(&["next"])),
];

const FOREACH: &[ForeignKeys] = &[
    word(
        "items over list collection values each array of from",
        Key(&["in"]),
    ),
    word("var variable item item_name alias name", Key(&["as"])),
    word("steps step body run task action", Key(&["do"])),
    word(
        "concurrency max_parallel max_concurrency parallelism workers batch_size",
        Key(&["parallel"]),
    ),
];

const GATE: &[ForeignKeys] = &[
    word(
        "message prompt question text title description reason",
        Key(&["ask"]),
    ),
    word("timeout ttl expiry expires_in deadline", Key(&["expires"])),
    word("reviewers users assignees who", Key(&["approvers"])),
];

const WAIT: &[ForeignKeys] = &[
    word("duration time delay sleep timeout", Key(&["for"])),
    word("seconds", Counted("for", "s")),
    word("minutes", Counted("for", "m")),
    word("hours", Counted("for", "h")),
    word("at date timestamp datetime", Key(&["until"])),
    word("event name message signal_name", Key(&["signal"])),
];

const RETRY: &[ForeignKeys] = &[
    word(
        "attempts max times count tries max_tries limit maximum_attempts",
        Key(&["max_attempts"]),
    ),
    word("retries max_retries", OneMore(None, "max_attempts")),
    word(
        "delay interval initial_interval initial_delay base_delay wait pause",
        Key(&["backoff"]),
    ),
    word(
        "max_delay max_interval maximum_interval",
        Key(&["max_backoff"]),
    ),
    word(
        "backoff_coefficient backoff_rate multiplier factor exponential strategy",
        Words("remove it: each pause is twice the one before it, up to `max_backoff`"),
    ),
    word("retry_on errors error_equals codes", Key(&["on"])),
];

const REPEAT: &[ForeignKeys] = &[
    word("condition", Key(&["until"])),
    word("interval delay", Key(&["every"])),
    word("max times attempts max_iterations", Key(&["max_attempts"])),
];

const FAIL: &[ForeignKeys] = &[
    word("error reason msg text description", Key(&["message"])),
    word("name type error_code status", Key(&["code"])),
];

const INPUT: &[ForeignKeys] = &[word(
    "inputs fields names ask variables",
    Key(&["properties"]),
)];

const EXTRACT: &[ForeignKeys] = &[
    word("inputs fields into names", Key(&["properties"])),
    word("text source input content", Key(&["from"])),
];

const LIMITS: &[ForeignKeys] = &[word("max_iterations max_loops", Key(&["max_visits"]))];

const fn values(keys: &'static [&'static str], words: &'static str, meant: &'static str) -> Value {
    Value { keys, words, meant }
}

const TARGETS: &[&str] = &["next"];
const SCHEMA_KEYWORD_PLACE: &[&str] = &["keyword"];
const PATH_ROOT_PLACE: &[&str] = &["root"];
const FILTER_NAME_PLACE: &[&str] = &["filter"];

/// Values. `keyword`, `root`, `filter` and `kind` are no keys: a keyword of JSON Schema, the first name of a path in an
/// expression, what follows `|` in one, and the kind of a step that says it under `type`.
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
    values(
        &["run_when", "if", "when"],
        "always all_done !cancelled",
        "finished",
    ),
    values(&["complexity"], "low easy small trivial", "simple"),
    values(&["complexity"], "medium normal intermediate", "moderate"),
    values(&["complexity"], "complex hard large difficult", "high"),
    values(&["type"], "str text varchar", "string"),
    values(&["type"], "int long", "integer"),
    values(&["type"], "float double decimal", "number"),
    values(&["type"], "bool", "boolean"),
    values(&["type"], "list tuple", "array"),
    values(&["type"], "dict map mapping json", "object"),
    values(SCHEMA_KEYWORD_PLACE, "min", "minimum"),
    values(SCHEMA_KEYWORD_PLACE, "max", "maximum"),
    values(SCHEMA_KEYWORD_PLACE, "regex", "pattern"),
    values(SCHEMA_KEYWORD_PLACE, "values choices options", "enum"),
    values(SCHEMA_KEYWORD_PLACE, "oneof", "oneOf"),
    values(SCHEMA_KEYWORD_PLACE, "fields props", "properties"),
    values(SCHEMA_KEYWORD_PLACE, "example", "examples"),
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
    values(
        PATH_ROOT_PLACE,
        "input params parameters args arguments",
        "inputs",
    ),
    values(
        PATH_ROOT_PLACE,
        "step nodes jobs needs tasks outputs",
        "steps",
    ),
    values(
        PATH_ROOT_PLACE,
        "vars variables state context ctx",
        "memory",
    ),
    values(FILTER_NAME_PLACE, "len size count", "length"),
    values(FILTER_NAME_PLACE, "str to_string", "string"),
    values(FILTER_NAME_PLACE, "parse_int", "int"),
    values(FILTER_NAME_PLACE, "parse_float number", "float"),
    values(FILTER_NAME_PLACE, "strip", "trim"),
    values(FILTER_NAME_PLACE, "to_json json dump", "tojson"),
    values(FILTER_NAME_PLACE, "from_json parse_json", "fromjson"),
    values(
        FILTER_NAME_PLACE,
        "lowercase to_lower to_lower_case",
        "lower",
    ),
    values(
        FILTER_NAME_PLACE,
        "uppercase to_upper to_upper_case",
        "upper",
    ),
];

/// Filters of Jinja's that no expression needs here.
pub(super) const FILTERS: &[(&str, &str)] = &[
    (
        "list safe escape e forceescape",
        "leave it out: the value is what it gives",
    ),
    (
        "select reject",
        "write `selectattr('FIELD')` or `rejectattr('FIELD')`: the items whose field holds, or does not",
    ),
];

const fn bare_scalar(place: &'static str, key: &'static str, entries: Entries) -> BareScalar {
    BareScalar {
        place,
        key,
        entries,
    }
}

/// Values alone in place of mappings.
pub(super) const BARE_SCALARS: &[BareScalar] = &[
    bare_scalar("a step", "retry", &[("max_attempts", None)]),
    bare_scalar("a step", "wait", &[("for", None)]),
    bare_scalar("a step", "input", &[("properties", None)]),
    bare_scalar("a step", "repeat", &[("until", None)]),
    bare_scalar("a step", "foreach", &[("in", None)]),
    bare_scalar("`foreach`", "do", &[("guidance", None)]),
    bare_scalar(
        "a step",
        "fail",
        &[("code", Some("FAILED")), ("message", None)],
    ),
    bare_scalar(
        "an input",
        "default",
        &[("from", Some("literal")), ("value", None)],
    ),
];
