//! The keys of hooks and of compensations: steps of the kinds that the server does itself, beside the work of another one.

use super::{
    Id, Key, Record, Shape,
    bodies::{NAME, PAGINATE, RETRY},
    field_key, key, kind, record,
};
use crate::limits;

/// The kinds that have an effect elsewhere.
pub(super) const EFFECTS: &[&str] = &["run", "activity"];
/// The kinds that have an outcome to wait for.
const SERVER_CALL_KINDS: &[&str] = &["run", "activity", "workflow"];

const RUN: Key = kind(
    "run",
    Shape::Operation,
    "The HTTP operation that the server calls: a catalog and an operation of it",
);
const ACTIVITY: Key = kind(
    "activity",
    NAME,
    "The activity of its own process that the server runs",
);
const WORKFLOW: Key = kind(
    "workflow",
    Shape::Id(Id::Workflow),
    "The workflow that runs as a child of the execution",
);
const SET: Key = kind("set", Shape::Memory(1), "Memory is written");
const WITH: Key = field_key("with", Shape::Values, "What it works on", SERVER_CALL_KINDS);
const BODY: Key = field_key("body", Shape::Value, "The body of the request", &["run"]);
const PAGINATE_KEY: Key = field_key(
    "paginate",
    Shape::Record(&PAGINATE),
    "The pages of a list are gathered into one",
    &["run"],
);
const IDEMPOTENT: Key = field_key(
    "idempotent",
    Shape::Flag,
    "Whether doing it twice is doing it once",
    EFFECTS,
);
const IF: Key = key(
    "if",
    Shape::Condition,
    "It is left out where this does not hold",
);
const RETRY_KEY: Key = field_key(
    "retry",
    Shape::Record(&RETRY),
    "Attempts after a failure",
    SERVER_CALL_KINDS,
);
const DESCRIPTION: Key = key(
    "description",
    Shape::FreeText(limits::DESCRIPTION_BYTES_MAX),
    "What it does, in a sentence",
);

/// A hook: of a kind that the server does itself.
pub static HOOK: Record = record(
    "a hook",
    &[
        DESCRIPTION,
        RUN,
        ACTIVITY,
        WORKFLOW,
        SET,
        WITH,
        BODY,
        PAGINATE_KEY,
        IDEMPOTENT,
        IF,
        RETRY_KEY,
        field_key(
            "timeout",
            Shape::Span,
            "How long one attempt may take; 30s without it",
            SERVER_CALL_KINDS,
        ),
        key(
            "required",
            Shape::Flag,
            "Whether its failure is that of what it belongs to; without it the failure is told and changes nothing",
        ),
    ],
);

/// `compensate:`, of a kind that the server does itself.
pub static COMPENSATION: Record = record(
    "`compensate`",
    &[
        DESCRIPTION,
        RUN,
        ACTIVITY,
        WORKFLOW,
        SET,
        WITH,
        BODY,
        PAGINATE_KEY,
        IDEMPOTENT,
        IF,
        RETRY_KEY,
        field_key(
            "timeout",
            Shape::Span,
            "How long one attempt may take",
            SERVER_CALL_KINDS,
        ),
    ],
);

/// `hooks:`.
pub(super) static HOOKS: Record = record(
    "`hooks`",
    &[
        key(
            "on_success",
            Shape::Record(&HOOK),
            "What the server does once it came to a good end",
        ),
        key(
            "on_failure",
            Shape::Record(&HOOK),
            "What the server does once it failed",
        ),
        key(
            "on_complete",
            Shape::Record(&HOOK),
            "What the server does at either end, after that",
        ),
    ],
);
