//! The tables themselves: the bodies of kinds, the kinds, and the fields around them.

use super::{Field, Key, Kind, Record, Shape};
use crate::limits;

const fn key(name: &'static str, shape: Shape, what: &'static str) -> Key {
    Key {
        name,
        shape,
        required: false,
        what,
    }
}

const fn required(name: &'static str, shape: Shape, what: &'static str) -> Key {
    Key {
        required: true,
        ..key(name, shape, what)
    }
}

const fn record(what: &'static str, keys: &'static [Key]) -> Record {
    Record {
        what,
        keys,
        exactly_one: false,
    }
}

/// The word for the end of an execution where a step id may stand.
pub const END: &str = "$end";
/// The words of `via`.
pub const VIA: &[&str] = &["auto", "elicitation", "guidance"];
/// The words of `on_error` beside step ids.
pub const ON_ERROR: &[&str] = &["fail", "continue"];
/// The words of `run_when`.
pub const RUN_WHEN: &[&str] = &["succeeded", "finished", "failed"];
/// What the item of a `foreach` is called where it does not say.
pub const ALIAS: &str = "item";

const TEXT: Shape = Shape::Template(limits::STEP_TEXT_BYTES_MAX);
const NAME: Shape = Shape::Name(limits::WORD_BYTES_MAX);
const NAMES: Shape = Shape::List(&NAME, 1, limits::WORDS_MAX);

/// `input:`.
pub const INPUT: Record = record(
    "`input`",
    &[
        required(
            "properties",
            NAMES,
            "The workflow's inputs that are asked for where they are missing",
        ),
        key("via", Shape::Choice(VIA), "How the user is asked"),
        key(
            "reextract",
            Shape::Flag,
            "Whether free text goes through extraction",
        ),
    ],
);

/// `extract:`.
pub const EXTRACT: Record = record(
    "`extract`",
    &[
        required("from", TEXT, "The text that the values are taken out of"),
        required(
            "properties",
            NAMES,
            "The workflow's inputs that are looked for in it",
        ),
    ],
);

/// One arm of a `branch:`.
pub const ARM: Record = record(
    "an arm of a branch",
    &[
        key(
            "if",
            Shape::Condition,
            "The arm is taken where this holds; always without it",
        ),
        required("next", Shape::Target(&[END]), "Where it leads"),
    ],
);

/// `foreach:`.
pub const FOREACH: Record = record(
    "`foreach`",
    &[
        required("in", Shape::Items, "The list, one item at a time"),
        key(
            "as",
            Shape::Word,
            "What an item is called in expressions; `item` without it",
        ),
        key(
            "parallel",
            Shape::Count(1, limits::FOREACH_PARALLEL_MAX),
            "How many items are open at once; 4 without it",
        ),
        required(
            "do",
            Shape::Step,
            "What is done with each item: a step without an id",
        ),
    ],
);

/// `gate:`.
pub const GATE: Record = record(
    "`gate`",
    &[
        required("ask", TEXT, "What is asked"),
        key(
            "approvers",
            Shape::List(&NAME, 0, limits::WORDS_MAX),
            "Who may answer: names, for the record",
        ),
        key(
            "expires",
            Shape::Span,
            "How long an answer is waited for; without it for ever",
        ),
    ],
);

/// `wait:`.
pub const WAIT: Record = Record {
    exactly_one: true,
    ..record(
        "`wait`",
        &[
            key("for", Shape::SpanOrTemplate, "A duration"),
            key(
                "until",
                Shape::InstantOrTemplate,
                "An instant, as RFC 3339 writes it",
            ),
            key(
                "signal",
                Shape::Template(limits::WORD_BYTES_MAX),
                "The name of a signal",
            ),
        ],
    )
};

/// `fail:`.
pub const FAIL: Record = record(
    "`fail`",
    &[
        required("code", NAME, "A stable name of the failure"),
        required("message", TEXT, "Why"),
    ],
);

/// `retry:`.
pub const RETRY: Record = record(
    "`retry`",
    &[
        key(
            "max_attempts",
            Shape::Count(1, limits::RETRY_ATTEMPTS_MAX),
            "How many attempts there are in all; 3 without it",
        ),
        key(
            "backoff",
            Shape::Span,
            "The pause before the second attempt, doubled from there on; 1s without it, none where a model acts",
        ),
        key(
            "max_backoff",
            Shape::Span,
            "The longest pause; 1m without it",
        ),
        key(
            "jitter",
            Shape::Flag,
            "Whether pauses are spread at random between half of them and the whole; true without it",
        ),
        key(
            "on",
            NAMES,
            "The classes or codes of failures after which there is another attempt; all that may pass without it",
        ),
    ],
);

/// `repeat:`.
pub const REPEAT: Record = record(
    "`repeat`",
    &[
        required(
            "until",
            Shape::Condition,
            "It ends where this holds; the step's own output is that of the latest attempt",
        ),
        key(
            "every",
            Shape::Span,
            "The pause between attempts; 1s without it",
        ),
        key("timeout", Shape::Span, "How long it may take in all"),
        key(
            "max_attempts",
            Shape::Count(1, limits::REPEAT_ATTEMPTS_MAX),
            "How many attempts there are at most; 100 without it",
        ),
    ],
);

/// One field of an `output_contract:`.
const CONTRACT_FIELD: Record = record(
    "a field of `output_contract`",
    &[
        required("name", NAME, "Its name"),
        key(
            "tags",
            Shape::List(&NAME, 0, limits::WORDS_MAX),
            "Words for what it is",
        ),
        key(
            "description",
            Shape::Text(limits::DESCRIPTION_BYTES_MAX),
            "What it is",
        ),
        key("type", NAME, "Its type"),
    ],
);

const CONTRACT: Record = record(
    "`output_contract`",
    &[required(
        "fields",
        Shape::List(
            &Shape::Record(&CONTRACT_FIELD),
            0,
            limits::CONTRACT_FIELDS_MAX,
        ),
        "What is known of the output's fields",
    )],
);

/// `limits:` of a workflow.
pub const LIMITS: Record = record(
    "`limits`",
    &[
        key(
            "max_steps",
            Shape::Count(1, limits::EXECUTION_VISITS_MAX),
            "How many visits all steps may have together",
        ),
        key(
            "max_visits",
            Shape::Count(1, limits::VISITS_MAX),
            "How often a step may be entered where it does not say itself; 100 without it",
        ),
    ],
);

const fn kind(name: &'static str, shape: Shape, each: bool, what: &'static str) -> Kind {
    Kind {
        key: key(name, shape, what),
        each,
    }
}

/// The kinds of steps.
pub const KINDS: &[Kind] = &[
    kind(
        "agent",
        Shape::Name(limits::AGENT_NAME_BYTES_MAX),
        true,
        "The agent whose persona the model takes for this step",
    ),
    kind("guidance", TEXT, true, "What the model is told to do"),
    kind(
        "tool",
        NAME,
        true,
        "The tool of its client that the model calls, bringing the result back",
    ),
    kind(
        "input",
        Shape::Record(&INPUT),
        true,
        "The user is asked for inputs that are missing",
    ),
    kind(
        "extract",
        Shape::Record(&EXTRACT),
        true,
        "The model takes inputs out of free text",
    ),
    kind(
        "run",
        Shape::Operation,
        true,
        "The HTTP operation that the server calls: a catalog and an operation of it",
    ),
    kind(
        "activity",
        NAME,
        true,
        "The activity of its own process that the server runs",
    ),
    kind(
        "branch",
        Shape::List(&Shape::Record(&ARM), 1, limits::BRANCH_ARMS_MAX),
        false,
        "The first arm that holds says what is next",
    ),
    kind(
        "foreach",
        Shape::Record(&FOREACH),
        false,
        "One step for each item of a list; the output is the list of theirs",
    ),
    kind(
        "gate",
        Shape::TextOr(&GATE),
        true,
        "A person approves; a text alone is what is asked",
    ),
    kind(
        "wait",
        Shape::Record(&WAIT),
        true,
        "Time passes, or something happens elsewhere",
    ),
    kind("set", Shape::Memory(1), true, "Memory is written"),
    kind(
        "fail",
        Shape::Record(&FAIL),
        true,
        "The execution ends as failed",
    ),
];

/// The kinds that have a body of their own making, where the model brings the output.
const MODEL: &[&str] = &["agent", "guidance", "tool"];
const INSTRUCTED: &[&str] = &["agent", "guidance", "tool", "input", "extract"];
const WORKED: &[&str] = &["agent", "guidance", "tool", "run", "activity"];
const EFFECTS: &[&str] = &["run", "activity"];
const ATTEMPTED: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity",
];
const TIMED: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "foreach", "wait",
];
const FAILING: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "branch", "foreach",
    "gate", "wait", "set",
];
const FOLLOWED: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "foreach", "gate", "wait",
    "set",
];
pub(super) const EVERY: &[&str] = &[
    "agent", "guidance", "tool", "input", "extract", "run", "activity", "branch", "foreach",
    "gate", "wait", "set", "fail",
];

const fn field(key: Key, kinds: &'static [&'static str], each: bool) -> Field {
    Field {
        key,
        kinds,
        each,
        instead: None,
    }
}

const fn instead(field: Field, instead: &'static str) -> Field {
    Field {
        instead: Some(instead),
        ..field
    }
}

/// The fields of steps. `id`, `description` and `depends_on`, which every step has, are not among them.
pub const FIELDS: &[Field] = &[
    field(
        key(
            "instructions",
            Shape::Template(limits::STEP_TEXT_BYTES_MAX),
            "What the step asks for beyond that; in a Markdown file also the section `## step: ID`",
        ),
        INSTRUCTED,
        true,
    ),
    field(
        key(
            "result",
            Shape::Schema,
            "JSON Schema of the output; without it the output of an agent is an object with a summary",
        ),
        WORKED,
        true,
    ),
    field(
        key(
            "example",
            Shape::Data,
            "An output that would be accepted, to show",
        ),
        MODEL,
        true,
    ),
    field(
        key(
            "output_contract",
            Shape::Record(&CONTRACT),
            "What is known of the output: for readers, not enforced",
        ),
        WORKED,
        true,
    ),
    field(
        key("with", Shape::Values, "What the step works on"),
        WORKED,
        true,
    ),
    field(
        key("body", Shape::Value, "The body of the request"),
        &["run"],
        true,
    ),
    field(
        key(
            "idempotent",
            Shape::Flag,
            "Whether doing it twice is doing it once",
        ),
        EFFECTS,
        true,
    ),
    field(
        key(
            "if",
            Shape::Condition,
            "The step is skipped where this does not hold",
        ),
        EVERY,
        true,
    ),
    field(
        key("when", Shape::Condition, "The same as `if`"),
        EVERY,
        true,
    ),
    field(
        key(
            "retry",
            Shape::Record(&RETRY),
            "Attempts after a failure, or at a valid output",
        ),
        ATTEMPTED,
        true,
    ),
    instead(
        field(
            key(
                "timeout",
                Shape::Span,
                "How long one attempt of the server may take, or how long the step may stay open",
            ),
            TIMED,
            true,
        ),
        "a gate has `expires`",
    ),
    instead(
        field(
            key(
                "repeat",
                Shape::Record(&REPEAT),
                "Doing it again until something holds",
            ),
            EFFECTS,
            true,
        ),
        "a branch that leads back repeats any step",
    ),
    field(
        key(
            "optional",
            Shape::Flag,
            "Its failure is recorded and passed",
        ),
        FAILING,
        true,
    ),
    field(
        key(
            "on_error",
            Shape::Target(ON_ERROR),
            "What follows its failure: fail, continue or a step",
        ),
        FAILING,
        true,
    ),
    field(
        key(
            "run_when",
            Shape::Choice(RUN_WHEN),
            "Which ends of the steps before let it run",
        ),
        EVERY,
        false,
    ),
    instead(
        field(
            key(
                "next",
                Shape::Target(&[END]),
                "What follows it instead of what depends on it",
            ),
            FOLLOWED,
            false,
        ),
        "each arm of a branch has its own, and nothing follows `fail`",
    ),
    field(
        key(
            "max_visits",
            Shape::Count(1, limits::VISITS_MAX),
            "How often it may be entered; the workflow's limit without it",
        ),
        EVERY,
        false,
    ),
];

/// Fields that say the same, or the contrary: a step has one of the two.
pub const EXCLUSIVE: &[(&str, &str)] = &[("if", "when"), ("optional", "on_error")];

/// The keys of a workflow that are read by shape. What every definition has, and `inputs`, are not among them.
pub const WORKFLOW: &[Key] = &[
    key(
        "memory",
        Shape::Memory(0),
        "What memory holds at the start; may refer to inputs",
    ),
    key(
        "final_output",
        Shape::Value,
        "What a completed execution comes to",
    ),
    key(
        "timeout",
        Shape::Span,
        "How long an execution may run, pauses not counted",
    ),
    key("limits", Shape::Record(&LIMITS), "How much it may do"),
];
