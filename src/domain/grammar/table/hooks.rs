//! The keys of hooks and of compensations: steps of the kinds that the server does itself, beside the work of another one.

use super::{
    IdKind, MappingKey, MappingShape, ValueShape,
    bodies::{NAME_SHAPE, PAGINATE_SHAPE, RETRY_SHAPE},
    field_key, kind_key, new_mapping_shape, optional_key,
};
use crate::limits;

/// The kinds that have an effect elsewhere.
pub(super) const EFFECT_KINDS: &[&str] = &["run", "activity"];
/// The kinds that have an outcome to wait for.
const SERVER_CALL_KINDS: &[&str] = &["run", "activity", "workflow"];

const RUN_KEY: MappingKey = kind_key(
    "run",
    ValueShape::Operation,
    "The HTTP operation that the server calls: a catalog and an operation of it",
);
const ACTIVITY_KEY: MappingKey =
    kind_key("activity", NAME_SHAPE, "The activity of its own process that the server runs");
const WORKFLOW_KEY: MappingKey = kind_key(
    "workflow",
    ValueShape::Id(IdKind::Workflow),
    "The workflow that runs as a child of the execution",
);
const SET_KEY: MappingKey = kind_key("set", ValueShape::Memory(1), "Memory is written");
const WITH_KEY: MappingKey =
    field_key("with", ValueShape::Values, "What it works on", SERVER_CALL_KINDS);
const BODY_KEY: MappingKey =
    field_key("body", ValueShape::Value, "The body of the request", &["run"]);
const PAGINATE_KEY: MappingKey = field_key(
    "paginate",
    ValueShape::Record(&PAGINATE_SHAPE),
    "The pages of a list are gathered into one",
    &["run"],
);
const IDEMPOTENT_KEY: MappingKey = field_key(
    "idempotent",
    ValueShape::Flag,
    "Whether doing it twice is doing it once",
    EFFECT_KINDS,
);
const IF_KEY: MappingKey =
    optional_key("if", ValueShape::Condition, "It is left out where this does not hold");
const RETRY_KEY: MappingKey = field_key(
    "retry",
    ValueShape::Record(&RETRY_SHAPE),
    "Attempts after a failure",
    SERVER_CALL_KINDS,
);
const DESCRIPTION_KEY: MappingKey = optional_key(
    "description",
    ValueShape::FreeText(limits::DESCRIPTION_BYTES_MAX),
    "What it does, in a sentence",
);

/// A hook: of a kind that the server does itself.
pub static HOOK_SHAPE: MappingShape = new_mapping_shape(
    "a hook",
    &[
        DESCRIPTION_KEY,
        RUN_KEY,
        ACTIVITY_KEY,
        WORKFLOW_KEY,
        SET_KEY,
        WITH_KEY,
        BODY_KEY,
        PAGINATE_KEY,
        IDEMPOTENT_KEY,
        IF_KEY,
        RETRY_KEY,
        field_key(
            "timeout",
            ValueShape::Duration,
            "How long one attempt may take; 30s without it",
            SERVER_CALL_KINDS,
        ),
        optional_key(
            "required",
            ValueShape::Flag,
            "Whether its failure is that of what it belongs to; without it the failure is told and changes nothing",
        ),
    ],
);

/// `compensate:`, of a kind that the server does itself.
pub static COMPENSATION_SHAPE: MappingShape = new_mapping_shape(
    "`compensate`",
    &[
        DESCRIPTION_KEY,
        RUN_KEY,
        ACTIVITY_KEY,
        WORKFLOW_KEY,
        SET_KEY,
        WITH_KEY,
        BODY_KEY,
        PAGINATE_KEY,
        IDEMPOTENT_KEY,
        IF_KEY,
        RETRY_KEY,
        field_key(
            "timeout",
            ValueShape::Duration,
            "How long one attempt may take",
            SERVER_CALL_KINDS,
        ),
    ],
);

/// `hooks:`.
pub(super) static HOOKS_SHAPE: MappingShape = new_mapping_shape(
    "`hooks`",
    &[
        optional_key(
            "on_success",
            ValueShape::Record(&HOOK_SHAPE),
            "What the server does once it came to a good end",
        ),
        optional_key(
            "on_failure",
            ValueShape::Record(&HOOK_SHAPE),
            "What the server does once it failed",
        ),
        optional_key(
            "on_complete",
            ValueShape::Record(&HOOK_SHAPE),
            "What the server does at either end, after that",
        ),
    ],
);
