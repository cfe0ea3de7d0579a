//! The foreign words themselves.

use super::{
    BareScalar,
    Counterpart::{
        Advice, FlagValue, Key, KeyOrAdvice, KindAdvice, NestedKey, PlusOne, Quantity, TextOrAdvice,
    },
    ForeignKeys, ForeignValues, ReplacementEntries,
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

const fn foreign_keys(words: &'static str, meant: super::Counterpart) -> ForeignKeys {
    ForeignKeys { words, required_siblings: &[], counterpart: meant }
}

/// The foreign keys of each mapping, as messages call it.
pub(super) const FOREIGN_KEYS: &[(&str, &[ForeignKeys])] = &[
    ("a workflow manifest", FOREIGN_MANIFEST_KEYS),
    ("a step", FOREIGN_STEP_KEYS),
    ("a phase", FOREIGN_PHASE_KEYS),
    ("an input", FOREIGN_INPUT_KEYS),
    ("`validate`", FOREIGN_VALIDATE_KEYS),
    ("an arm of a branch", FOREIGN_BRANCH_ARM_KEYS),
    ("`foreach`", FOREIGN_FOREACH_KEYS),
    ("`gate`", FOREIGN_GATE_KEYS),
    ("`wait`", FOREIGN_WAIT_KEYS),
    ("`retry`", FOREIGN_RETRY_KEYS),
    ("`repeat`", FOREIGN_REPEAT_KEYS),
    ("`fail`", FOREIGN_FAIL_KEYS),
    ("`input`", FOREIGN_INPUT_STEP_KEYS),
    ("`extract`", FOREIGN_EXTRACT_KEYS),
    ("`limits`", FOREIGN_LIMITS_KEYS),
];

const FOREIGN_MANIFEST_KEYS: &[ForeignKeys] = &[
    foreign_keys("name id workflow_name workflow_id", Key(&["workflow", "title"])),
    foreign_keys("desc summary about purpose goal", Key(&["description"])),
    foreign_keys(
        "output outputs result results return returns final_outputs",
        Key(&["final_output"]),
    ),
    foreign_keys("input parameters params arguments args", Key(&["inputs"])),
    foreign_keys("vars variables state context globals", Key(&["memory"])),
    foreign_keys(
        "jobs tasks nodes stages phases states activities actions dag templates pipeline",
        Key(&["steps"]),
    ),
    foreign_keys("timeout_minutes", Quantity("timeout", "m")),
    foreign_keys("timeout_seconds", Quantity("timeout", "s")),
    foreign_keys("execution_timeout workflow_timeout max_duration deadline", Key(&["timeout"])),
    foreign_keys("max_steps", NestedKey("limits", "max_steps")),
    foreign_keys("max_visits max_iterations", NestedKey("limits", "max_visits")),
    foreign_keys(
        "on trigger triggers schedule events cron cron_schedule",
        Advice(
            "remove it: an execution begins when it is started, with `workflow.start` or `midex run`; what a start gives stands under `inputs` at the top",
        ),
    ),
    foreign_keys("env environment", Advice(NO_ENVIRONMENT_ADVICE)),
    foreign_keys(
        "agents roles personas",
        Advice("remove it: an agent is a file `agents/NAME.md`, and a step names it with `agent`"),
    ),
    foreign_keys("tools", Advice("remove it: a step names a tool of the client with `tool`")),
    foreign_keys("model llm temperature", Advice(NO_MODEL_ADVICE)),
    foreign_keys(
        "edges conditional_edges connections transitions links",
        Advice(
            "remove it: steps say their order themselves, with `depends_on`, `next` and `branch`",
        ),
    ),
    foreign_keys(
        "start start_at entry_point initial initial_step",
        Advice("remove it: an execution begins with the first step of the list"),
    ),
    foreign_keys(
        "on_exit finally",
        Advice(
            "remove it: a step with `run_when: finished` runs at both ends, and those of `on_failure` at a failure",
        ),
    ),
    foreign_keys(
        "concurrency permissions defaults namespace task_queue queue checkpointer checkpoint end_at finish_point",
        Advice(NOTHING_TO_SET_ADVICE),
    ),
    foreign_keys("recursion_limit", NestedKey("limits", "max_steps")),
    foreign_keys(
        "api_version kind schema_version spec_version",
        Advice("remove it: a manifest has no such header"),
    ),
    foreign_keys(
        "retry retries max_retries on_error",
        Advice("say it of each step that it is about: `retry`, `on_error`"),
    ),
];

const FOREIGN_STEP_KEYS: &[ForeignKeys] = &[
    // A step: what it is called, who acts, what it waits for.
    foreign_keys("name", Key(&["id", "description"])),
    foreign_keys("step step_id key task_id node phase", Key(&["id"])),
    foreign_keys("title label display_name summary desc comment", Key(&["description"])),
    foreign_keys(
        "prompt task instruction text content system_prompt message action do goal",
        Key(&["guidance", "instructions"]),
    ),
    ForeignKeys {
        required_siblings: &["agent", "tool", "input", "extract"],
        ..foreign_keys("guidance", Key(&["instructions"]))
    },
    foreign_keys("role persona actor assistant agent_name agent_type assignee", Key(&["agent"])),
    foreign_keys("tool_name mcp_tool mcp", Key(&["tool"])),
    foreign_keys("condition cond run_if only_if guard where", Key(&["if"])),
    foreign_keys(
        "needs depends dependencies requires after run_after upstream parents",
        Key(&["depends_on"]),
    ),
    foreign_keys("goto to next_step transition", Key(&["next"])),
    foreign_keys("then on_success", TextOrAdvice("next", NESTED_STEPS_ADVICE)),
    foreign_keys("else otherwise", KindAdvice(NESTED_STEPS_ADVICE)),
    foreign_keys("try", KindAdvice(ERROR_HANDLER_ADVICE)),
    foreign_keys(
        "strategy matrix",
        Advice("write `foreach: { in: [ … ], do: … }`: the step is done for each item, `item`"),
    ),
    foreign_keys("url endpoint method headers", Advice(NO_CALL_ADVICE)),
    foreign_keys("position type_version ui", Advice(NOTHING_TO_SET_ADVICE)),
    foreign_keys("end is_end terminal", FlagValue(true, "next", "$end")),
    foreign_keys("trigger_rule run_on", Key(&["run_when"])),
    // What it works on and what comes of it.
    foreign_keys("inputs args arguments params parameters variables vars context", Key(&["with"])),
    foreign_keys(
        "output outputs schema output_schema result_schema response_schema response response_format output_format returns",
        KeyOrAdvice("result", NO_OUTPUT_NAME_ADVICE),
    ),
    foreign_keys(
        "register save_as store_as output_as output_var output_key result_key save_to as",
        Advice(NO_OUTPUT_NAME_ADVICE),
    ),
    foreign_keys("env environment", Advice(NO_ENVIRONMENT_ADVICE)),
    foreign_keys("model llm temperature max_tokens", Advice(NO_MODEL_ADVICE)),
    foreign_keys(
        "runs_on container image working_directory",
        Advice("remove it: the work is done where the client is"),
    ),
    foreign_keys(
        "tools allowed_tools",
        Advice(
            "remove it: the client has its own tools; a step that is one call says `tool: NAME`",
        ),
    ),
    foreign_keys("sample example_output", Key(&["example"])),
    // Other kinds.
    foreign_keys(
        "uses",
        KindAdvice(
            "there are no ready-made actions: say what is to be done with `guidance: TEXT`; another workflow is `workflow: NAME`",
        ),
    ),
    foreign_keys("child_workflow sub_workflow call_workflow", Key(&["workflow"])),
    foreign_keys(
        "suspend",
        KindAdvice(
            "a person goes on with `gate: TEXT`, another program with `wait: { signal: NAME }`",
        ),
    ),
    foreign_keys(
        "command cmd script shell bash exec",
        KindAdvice(
            "the model runs it with the tools of its client: `guidance: Run … and say what came of it`",
        ),
    ),
    foreign_keys(
        "parallel concurrent fork fan_out",
        KindAdvice(
            "put its steps into the list: one with `depends_on: []` does not wait for the one above it",
        ),
    ),
    foreign_keys(
        "switch choice choices conditions cases match router decision conditional",
        Key(&["branch"]),
    ),
    foreign_keys(
        "loop for_each each map iterate with_items with_param with_list with_sequence",
        Key(&["foreach"]),
    ),
    ForeignKeys {
        required_siblings: &["activity", "run"],
        ..foreign_keys("until repeat_until", NestedKey("repeat", "until"))
    },
    foreign_keys("while until repeat_until do_while loop_until", Advice(LOOP_ADVICE)),
    foreign_keys("sleep delay pause timer for", NestedKey("wait", "for")),
    foreign_keys("wait_until", NestedKey("wait", "until")),
    foreign_keys(
        "signal wait_signal wait_for_signal wait_for_event wait_condition event",
        NestedKey("wait", "signal"),
    ),
    foreign_keys(
        "approval approve human_approval confirm confirmation interrupt human",
        Key(&["gate"]),
    ),
    foreign_keys("ask_user user_input form", Key(&["input"])),
    foreign_keys("assign set_memory memory", Key(&["set"])),
    foreign_keys("throw raise error abort", Key(&["fail"])),
    // When it fails, and how often.
    foreign_keys(
        "retries max_retries retry_count num_retries",
        PlusOne(Some("retry"), "max_attempts"),
    ),
    foreign_keys("attempts max_attempts max_tries", NestedKey("retry", "max_attempts")),
    foreign_keys("retry_on_fail retry_on_failure", Advice("write `retry: { max_attempts: 3 }`")),
    foreign_keys("backoff retry_delay retry_interval", NestedKey("retry", "backoff")),
    foreign_keys("retry_policy retry_strategy retry_options", Key(&["retry"])),
    foreign_keys("timeout_minutes timeout_mins", Quantity("timeout", "m")),
    foreign_keys(
        "timeout_seconds timeout_secs timeout_sec active_deadline_seconds",
        Quantity("timeout", "s"),
    ),
    foreign_keys("timeout_ms", Quantity("timeout", "ms")),
    foreign_keys(
        "start_to_close_timeout execution_timeout step_timeout time_limit max_duration deadline",
        Key(&["timeout"]),
    ),
    foreign_keys(
        "continue_on_error continue_on_fail continue_on_failure ignore_error ignore_errors allow_failure",
        FlagValue(true, "on_error", "continue"),
    ),
    foreign_keys(
        "catch on_failure on_fail fallback error_handler",
        TextOrAdvice("on_error", ERROR_HANDLER_ADVICE),
    ),
    foreign_keys("max_iterations max_loops max_turns", Key(&["max_visits"])),
];

const FOREIGN_PHASE_KEYS: &[ForeignKeys] = &[
    foreign_keys("id name step title", Key(&["phase", "description"])),
    foreign_keys("needs depends dependencies after", Key(&["dependsOn"])),
    foreign_keys("role persona actor", Key(&["agent"])),
    foreign_keys("desc summary", Key(&["description"])),
];

const FOREIGN_INPUT_KEYS: &[ForeignKeys] = &[
    foreign_keys("label title display_name", Key(&["name"])),
    foreign_keys("desc help prompt question", Key(&["description", "hint"])),
    foreign_keys("options values choices allowed allowed_values one_of", Key(&["enum"])),
    foreign_keys("kind data_type", Key(&["type"])),
    foreign_keys("default_value", Key(&["default"])),
    foreign_keys("required", FlagValue(false, "optional", "true")),
    foreign_keys("nullable", Key(&["optional"])),
    foreign_keys("pattern regex regexp", NestedKey("validate", "pattern")),
    foreign_keys("min minimum min_value", NestedKey("validate", "min")),
    foreign_keys("max maximum max_value", NestedKey("validate", "max")),
    foreign_keys("min_length", NestedKey("validate", "min_length")),
    foreign_keys("max_length", NestedKey("validate", "max_length")),
];

const FOREIGN_VALIDATE_KEYS: &[ForeignKeys] = &[
    foreign_keys("minimum min_value", Key(&["min"])),
    foreign_keys("maximum max_value", Key(&["max"])),
    foreign_keys("regex regexp", Key(&["pattern"])),
    foreign_keys("options values choices one_of", Key(&["enum"])),
];

const FOREIGN_BRANCH_ARM_KEYS: &[ForeignKeys] = &[
    foreign_keys("condition cond when expression expr test match case", Key(&["if"])),
    foreign_keys("then goto to target step next_step do", Key(&["next"])),
    foreign_keys("else otherwise default fallback", Key(&["next"])),
];

const FOREIGN_FOREACH_KEYS: &[ForeignKeys] = &[
    foreign_keys("items over list collection values each array of from", Key(&["in"])),
    foreign_keys("var variable item item_name alias name", Key(&["as"])),
    foreign_keys("steps step body run task action", Key(&["do"])),
    foreign_keys(
        "concurrency max_parallel max_concurrency parallelism workers batch_size",
        Key(&["parallel"]),
    ),
];

const FOREIGN_GATE_KEYS: &[ForeignKeys] = &[
    foreign_keys("message prompt question text title description reason", Key(&["ask"])),
    foreign_keys("timeout ttl expiry expires_in deadline", Key(&["expires"])),
    foreign_keys("reviewers users assignees who", Key(&["approvers"])),
];

const FOREIGN_WAIT_KEYS: &[ForeignKeys] = &[
    foreign_keys("duration time delay sleep timeout", Key(&["for"])),
    foreign_keys("seconds", Quantity("for", "s")),
    foreign_keys("minutes", Quantity("for", "m")),
    foreign_keys("hours", Quantity("for", "h")),
    foreign_keys("at date timestamp datetime", Key(&["until"])),
    foreign_keys("event name message signal_name", Key(&["signal"])),
    foreign_keys("heartbeat heartbeat_timeout keep_alive", Key(&["alive"])),
];

const FOREIGN_RETRY_KEYS: &[ForeignKeys] = &[
    foreign_keys(
        "attempts max times count tries max_tries limit maximum_attempts",
        Key(&["max_attempts"]),
    ),
    foreign_keys("retries max_retries", PlusOne(None, "max_attempts")),
    foreign_keys(
        "delay interval initial_interval initial_delay base_delay wait pause",
        Key(&["backoff"]),
    ),
    foreign_keys("max_delay max_interval maximum_interval", Key(&["max_backoff"])),
    foreign_keys("backoff_coefficient backoff_rate multiplier", Key(&["factor"])),
    foreign_keys(
        "exponential strategy",
        Advice("remove it: each pause is `factor` times the one before it, up to `max_backoff`"),
    ),
    foreign_keys("retry_on errors error_equals codes", Key(&["on"])),
];

const FOREIGN_REPEAT_KEYS: &[ForeignKeys] = &[
    foreign_keys("condition", Key(&["until"])),
    foreign_keys("interval delay", Key(&["every"])),
    foreign_keys("max times attempts max_iterations", Key(&["max_attempts"])),
];

const FOREIGN_FAIL_KEYS: &[ForeignKeys] = &[
    foreign_keys("error reason msg text description", Key(&["message"])),
    foreign_keys("name type error_code status", Key(&["code"])),
];

const FOREIGN_INPUT_STEP_KEYS: &[ForeignKeys] =
    &[foreign_keys("inputs fields names ask variables", Key(&["properties"]))];

const FOREIGN_EXTRACT_KEYS: &[ForeignKeys] = &[
    foreign_keys("inputs fields into names", Key(&["properties"])),
    foreign_keys("text source input content", Key(&["from"])),
];

const FOREIGN_LIMITS_KEYS: &[ForeignKeys] =
    &[foreign_keys("max_iterations max_loops", Key(&["max_visits"]))];

const fn foreign_values(
    keys: &'static [&'static str],
    words: &'static str,
    counterpart: &'static str,
) -> ForeignValues {
    ForeignValues { keys, words, counterpart }
}

const JUMP_TARGET_KEYS: &[&str] = &["next"];
const SCHEMA_KEYWORD_PLACE: &[&str] = &["keyword"];
const PATH_ROOT_PLACE: &[&str] = &["root"];
const FILTER_NAME_PLACE: &[&str] = &["filter"];

/// Values. `keyword`, `root`, `filter` and `kind` are no keys: a keyword of JSON Schema, the first name of a path in an
/// expression, what follows `|` in one, and the kind of a step that says it under `type`.
pub(super) const FOREIGN_VALUES: &[ForeignValues] = &[
    foreign_values(&["on_error"], "ignore skip pass resume proceed none warn", "continue"),
    foreign_values(&["on_error"], "abort stop raise throw halt error exit", "fail"),
    foreign_values(JUMP_TARGET_KEYS, "end done finish exit stop complete none", "$end"),
    foreign_values(&["run_when"], "success on_success all_success passed completed", "succeeded"),
    foreign_values(&["run_when", "if", "when"], "failure on_failure on_error one_failed", "failed"),
    foreign_values(&["if", "when"], "failed", "failed"),
    foreign_values(&["if", "when"], "success on_success succeeded", "succeeded"),
    foreign_values(&["run_when", "if", "when"], "always all_done !cancelled", "finished"),
    foreign_values(&["complexity"], "low easy small trivial", "simple"),
    foreign_values(&["complexity"], "medium normal intermediate", "moderate"),
    foreign_values(&["complexity"], "complex hard large difficult", "high"),
    foreign_values(&["type"], "str text varchar", "string"),
    foreign_values(&["type"], "int long", "integer"),
    foreign_values(&["type"], "float double decimal", "number"),
    foreign_values(&["type"], "bool", "boolean"),
    foreign_values(&["type"], "list tuple", "array"),
    foreign_values(&["type"], "dict map mapping json", "object"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "min", "minimum"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "max", "maximum"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "regex", "pattern"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "values choices options", "enum"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "oneof", "oneOf"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "fields props", "properties"),
    foreign_values(SCHEMA_KEYWORD_PLACE, "example", "examples"),
    foreign_values(&["kind"], "agent persona role", "agent"),
    foreign_values(&["kind"], "guidance prompt llm task model manual", "guidance"),
    foreign_values(&["kind"], "tool tool_call mcp", "tool"),
    foreign_values(&["kind"], "input user_input form", "input"),
    foreign_values(&["kind"], "branch condition conditional switch choice router", "branch"),
    foreign_values(&["kind"], "foreach loop map", "foreach"),
    foreign_values(&["kind"], "gate approval human human_approval", "gate"),
    foreign_values(&["kind"], "wait sleep delay timer signal", "wait"),
    foreign_values(&["kind"], "set assign", "set"),
    foreign_values(&["kind"], "fail error", "fail"),
    foreign_values(&["kind"], "extract", "extract"),
    foreign_values(&["kind"], "activity function", "activity"),
    foreign_values(PATH_ROOT_PLACE, "input params parameters args arguments", "inputs"),
    foreign_values(PATH_ROOT_PLACE, "step nodes jobs needs tasks outputs", "steps"),
    foreign_values(PATH_ROOT_PLACE, "vars variables state context ctx", "memory"),
    foreign_values(FILTER_NAME_PLACE, "len size count", "length"),
    foreign_values(FILTER_NAME_PLACE, "str to_string", "string"),
    foreign_values(FILTER_NAME_PLACE, "parse_int", "int"),
    foreign_values(FILTER_NAME_PLACE, "parse_float number", "float"),
    foreign_values(FILTER_NAME_PLACE, "strip", "trim"),
    foreign_values(FILTER_NAME_PLACE, "to_json json dump", "tojson"),
    foreign_values(FILTER_NAME_PLACE, "from_json parse_json", "fromjson"),
    foreign_values(FILTER_NAME_PLACE, "lowercase to_lower to_lower_case", "lower"),
    foreign_values(FILTER_NAME_PLACE, "uppercase to_upper to_upper_case", "upper"),
];

/// Filters of Jinja's that no expression needs here.
pub(super) const FOREIGN_FILTERS: &[(&str, &str)] = &[
    ("list safe escape e forceescape", "leave it out: the value is what it gives"),
    (
        "select reject",
        "write `selectattr('FIELD')` or `rejectattr('FIELD')`: the items whose field holds, or does not",
    ),
];

const fn bare_scalar(
    mapping: &'static str,
    key: &'static str,
    entries: ReplacementEntries,
) -> BareScalar {
    BareScalar { mapping, key, entries }
}

/// Values alone in place of mappings.
pub(super) const BARE_SCALARS: &[BareScalar] = &[
    bare_scalar("a step", "retry", &[("max_attempts", None)]),
    bare_scalar("a step", "wait", &[("for", None)]),
    bare_scalar("a step", "input", &[("properties", None)]),
    bare_scalar("a step", "repeat", &[("until", None)]),
    bare_scalar("a step", "foreach", &[("in", None)]),
    bare_scalar("`foreach`", "do", &[("guidance", None)]),
    bare_scalar("a step", "fail", &[("code", Some("FAILED")), ("message", None)]),
    bare_scalar("an input", "default", &[("from", Some("literal")), ("value", None)]),
];
