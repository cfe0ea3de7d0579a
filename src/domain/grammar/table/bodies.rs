//! The mappings below the keys of a step.

use super::{
    MappingKey, MappingShape, NEXT_WORDS, ValueShape, new_mapping_shape, optional_key, required_key,
};
use crate::limits;

/// The words of `via`.
const VIA_WORDS: &[&str] = &["auto", "elicitation", "guidance"];

pub(super) const STEP_TEXT_SHAPE: ValueShape = ValueShape::Template(limits::STEP_TEXT_BYTES_MAX);
pub(super) const NAME_SHAPE: ValueShape = ValueShape::Name(limits::WORD_BYTES_MAX);
const NAME_LIST_SHAPE: ValueShape = ValueShape::List(&NAME_SHAPE, 1, limits::WORDS_MAX);

/// `input:`.
pub(super) static INPUT_SHAPE: MappingShape = new_mapping_shape(
    "`input`",
    &[
        required_key(
            "properties",
            NAME_LIST_SHAPE,
            "The workflow's inputs that are asked for where they are missing",
        ),
        optional_key("via", ValueShape::Choice(VIA_WORDS), "How the user is asked"),
        optional_key("reextract", ValueShape::Flag, "Whether free text goes through extraction"),
    ],
);

/// `extract:`.
pub(super) static EXTRACT_SHAPE: MappingShape = new_mapping_shape(
    "`extract`",
    &[
        required_key("from", STEP_TEXT_SHAPE, "The text that the values are taken out of"),
        required_key(
            "properties",
            NAME_LIST_SHAPE,
            "The workflow's inputs that are looked for in it",
        ),
    ],
);

/// One arm of a `branch:`.
pub static BRANCH_ARM_SHAPE: MappingShape = new_mapping_shape(
    "an arm of a branch",
    &[
        optional_key(
            "if",
            ValueShape::Condition,
            "The arm is taken where this holds; always without it",
        ),
        required_key("next", ValueShape::Target(NEXT_WORDS), "Where it leads"),
    ],
);

/// One of the `branches:` of a step.
pub(super) static OFFERED_BRANCH_SHAPE: MappingShape = new_mapping_shape(
    "an offered branch",
    &[
        required_key(
            "toolName",
            NAME_SHAPE,
            "The tool that the client may call, of midex or of any other server that it has",
        ),
        optional_key("parameters", ValueShape::Values, "The arguments of that call"),
        optional_key(
            "continueWorkflow",
            ValueShape::Flag,
            "Whether the workflow goes on when it is chosen; where it is false the execution ends as diverged. true without it",
        ),
    ],
);

/// `foreach:`.
pub(in super::super) static FOREACH_SHAPE: MappingShape = new_mapping_shape(
    "`foreach`",
    &[
        required_key("in", ValueShape::Items, "The list, one item at a time"),
        optional_key(
            "as",
            ValueShape::Word,
            "What an item is called in expressions; `item` without it",
        ),
        optional_key(
            "parallel",
            ValueShape::Count(1, limits::FOREACH_PARALLEL_MAX),
            "How many items are open at once; 4 without it",
        ),
        optional_key(
            "enough",
            ValueShape::CountOrTemplate(1, limits::FOREACH_ITEMS_COUNT_MAX),
            "How many items must succeed: then it is completed, and the rest is cancelled",
        ),
        optional_key(
            "tolerate",
            ValueShape::Tolerance(limits::FOREACH_ITEMS_COUNT_MAX),
            "How many items may fail: a number, or a share of the list such as 20%; none without it, and any number where `enough` is given",
        ),
        required_key(
            "do",
            ValueShape::ForeachBody,
            "What is done with each item: a step without an id",
        ),
    ],
);

/// `gate:`.
pub(super) static GATE_SHAPE: MappingShape = new_mapping_shape(
    "`gate`",
    &[
        required_key("ask", STEP_TEXT_SHAPE, "What is asked"),
        optional_key(
            "approvers",
            ValueShape::List(&NAME_SHAPE, 0, limits::WORDS_MAX),
            "Who may answer: names, for the record",
        ),
        optional_key(
            "expires",
            ValueShape::Duration,
            "How long an answer is waited for; without it for ever",
        ),
    ],
);

/// `wait:`.
pub(super) static WAIT_SHAPE: MappingShape = MappingShape {
    exactly_one: true,
    ..new_mapping_shape(
        "`wait`",
        &[
            optional_key("for", ValueShape::DurationOrTemplate, "A duration"),
            optional_key(
                "until",
                ValueShape::InstantOrTemplate,
                "An instant, as RFC 3339 writes it",
            ),
            optional_key(
                "signal",
                ValueShape::Template(limits::WORD_BYTES_MAX),
                "The name of a signal",
            ),
            MappingKey {
                required_key: Some("signal"),
                ..optional_key(
                    "alive",
                    ValueShape::Duration,
                    "How often the sender must give a sign of life; the step fails without one",
                )
            },
        ],
    )
};

/// `fail:`.
pub(super) static FAIL_SHAPE: MappingShape = new_mapping_shape(
    "`fail`",
    &[
        required_key("code", NAME_SHAPE, "A stable name of the failure"),
        required_key("message", STEP_TEXT_SHAPE, "Why"),
    ],
);

/// `retry:`.
pub(in super::super) static RETRY_SHAPE: MappingShape = new_mapping_shape(
    "`retry`",
    &[
        optional_key(
            "max_attempts",
            ValueShape::Count(1, limits::RETRY_ATTEMPTS_MAX),
            "How many attempts there are in all; 3 without it",
        ),
        optional_key(
            "backoff",
            ValueShape::Duration,
            "The pause before the second attempt; 1s without it, none where a model acts",
        ),
        optional_key(
            "factor",
            ValueShape::Number,
            "How many times as long each further pause is; 2 without it",
        ),
        optional_key("max_backoff", ValueShape::Duration, "The longest pause; 1m without it"),
        optional_key(
            "jitter",
            ValueShape::Flag,
            "Whether pauses are spread at random between half of them and the whole; true without it",
        ),
        optional_key(
            "on",
            ValueShape::List(&ValueShape::Failure, 1, limits::WORDS_MAX),
            "The codes or classes of failures after which there is another attempt, such as 503, 5xx, timeout or connection; all that may pass without it",
        ),
    ],
);

/// `repeat:`.
pub(in super::super) static REPEAT_SHAPE: MappingShape = new_mapping_shape(
    "`repeat`",
    &[
        required_key(
            "until",
            ValueShape::Condition,
            "It ends where this holds; the step's own output is that of the latest attempt",
        ),
        optional_key(
            "every",
            ValueShape::Duration,
            "The pause between attempts; 1s without it, none where a model acts",
        ),
        optional_key("timeout", ValueShape::Duration, "How long it may take in all"),
        optional_key(
            "max_attempts",
            ValueShape::Count(1, limits::REPEAT_ATTEMPTS_MAX),
            "How many attempts there are at most; 100 without it",
        ),
    ],
);

/// One field of an `output_contract:`.
static CONTRACT_FIELD_SHAPE: MappingShape = new_mapping_shape(
    "a field of `output_contract`",
    &[
        required_key("name", NAME_SHAPE, "Its name"),
        optional_key(
            "tags",
            ValueShape::List(&NAME_SHAPE, 0, limits::WORDS_MAX),
            "Words for what it is",
        ),
        optional_key("description", ValueShape::Text(limits::DESCRIPTION_BYTES_MAX), "What it is"),
        optional_key("type", NAME_SHAPE, "Its type"),
    ],
);

/// `paginate:`.
pub(super) static PAGINATE_SHAPE: MappingShape = new_mapping_shape(
    "`paginate`",
    &[optional_key(
        "max_pages",
        ValueShape::Count(1, limits::CALL_PAGES_MAX),
        "How many pages at most; without it a list of more than 10 fails",
    )],
);

/// `output_contract:`.
pub(super) static OUTPUT_CONTRACT_SHAPE: MappingShape = new_mapping_shape(
    "`output_contract`",
    &[required_key(
        "fields",
        ValueShape::List(
            &ValueShape::Record(&CONTRACT_FIELD_SHAPE),
            0,
            limits::CONTRACT_FIELDS_MAX,
        ),
        "What is known of the output's fields",
    )],
);
