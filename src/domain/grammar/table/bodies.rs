//! The mappings below the keys of a step.

use super::{END_TARGET, Record, Shape, key, record, required_key};
use crate::limits;

/// The words of `via`.
const VIA: &[&str] = &["auto", "elicitation", "guidance"];

pub(super) const TEXT: Shape = Shape::Template(limits::STEP_TEXT_BYTES_MAX);
pub(super) const NAME: Shape = Shape::Name(limits::WORD_BYTES_MAX);
const NAMES: Shape = Shape::List(&NAME, 1, limits::WORDS_MAX);

/// `input:`.
pub(super) static INPUT: Record = record(
    "`input`",
    &[
        required_key(
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
pub(super) static EXTRACT: Record = record(
    "`extract`",
    &[
        required_key("from", TEXT, "The text that the values are taken out of"),
        required_key(
            "properties",
            NAMES,
            "The workflow's inputs that are looked for in it",
        ),
    ],
);

/// One arm of a `branch:`.
pub static ARM: Record = record(
    "an arm of a branch",
    &[
        key(
            "if",
            Shape::Condition,
            "The arm is taken where this holds; always without it",
        ),
        required_key("next", Shape::Target(&[END_TARGET]), "Where it leads"),
    ],
);

/// One of the `branches:` of a step.
pub(super) static OFFERED_BRANCH_SHAPE: Record = record(
    "an offered branch",
    &[
        required_key(
            "toolName",
            NAME,
            "The tool that the client may call, of midex or of any other server that it has",
        ),
        key("parameters", Shape::Values, "The arguments of that call"),
        key(
            "continueWorkflow",
            Shape::Flag,
            "Whether the workflow goes on when it is chosen; where it is false the execution ends as diverged. true without it",
        ),
    ],
);

/// `foreach:`.
pub(in super::super) static FOREACH: Record = record(
    "`foreach`",
    &[
        required_key("in", Shape::Items, "The list, one item at a time"),
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
        required_key(
            "do",
            Shape::Each,
            "What is done with each item: a step without an id",
        ),
    ],
);

/// `gate:`.
pub(super) static GATE: Record = record(
    "`gate`",
    &[
        required_key("ask", TEXT, "What is asked"),
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
pub(super) static WAIT: Record = Record {
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
pub(super) static FAIL: Record = record(
    "`fail`",
    &[
        required_key("code", NAME, "A stable name of the failure"),
        required_key("message", TEXT, "Why"),
    ],
);

/// `retry:`.
pub(in super::super) static RETRY: Record = record(
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
            Shape::List(&Shape::Failure, 1, limits::WORDS_MAX),
            "The codes or classes of failures after which there is another attempt, such as 503, 5xx, timeout or connection; all that may pass without it",
        ),
    ],
);

/// `repeat:`.
pub(in super::super) static REPEAT: Record = record(
    "`repeat`",
    &[
        required_key(
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
static CONTRACT_FIELD: Record = record(
    "a field of `output_contract`",
    &[
        required_key("name", NAME, "Its name"),
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

/// `paginate:`.
pub(super) static PAGINATE: Record = record(
    "`paginate`",
    &[key(
        "max_pages",
        Shape::Count(1, limits::CALL_PAGES_MAX),
        "How many pages at most; without it a list of more than 10 fails",
    )],
);

/// `output_contract:`.
pub(super) static CONTRACT: Record = record(
    "`output_contract`",
    &[required_key(
        "fields",
        Shape::List(
            &Shape::Record(&CONTRACT_FIELD),
            0,
            limits::CONTRACT_FIELDS_MAX,
        ),
        "What is known of the output's fields",
    )],
);
