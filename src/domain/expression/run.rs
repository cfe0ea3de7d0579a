//! What an execution says of itself to expressions, below `run`: said once, for those who check a path and those who fill it in.

/// The parts, in the order in which the whole shows them, with what stands below each.
pub(crate) const RUN: &[(&str, Below)] = &[
    ("execution_id", Below::Nothing),
    ("workflow", Below::Nothing),
    ("project", Below::Nothing),
    ("started_at", Below::Nothing),
    ("visit", Below::Nothing),
    ("step", Below::Nothing),
    ("visits", Below::Steps(&[])),
    ("steps", Below::Steps(&["status", ERROR])),
    (
        "failure",
        Below::These(&["code", "message", "step", "status", "response_payload"]),
    ),
];

/// The key under which a step that failed has what it failed with.
pub(crate) const ERROR: &str = "error";

/// What stands below [`ERROR`]: null where the other side answered nothing.
pub(crate) const ERROR_FIELDS: &[&str] = &["code", "message", "status", "response_payload"];

/// What hooks and compensations see besides.
pub(crate) const BESIDE: &[(&str, Below)] =
    &[("outcome", Below::Nothing), ("output", Below::Anything)];

/// What may follow a part in a path.
pub(crate) enum Below {
    Nothing,
    Anything,
    These(&'static [&'static str]),
    /// The id of a step, and these of it.
    Steps(&'static [&'static str]),
}
