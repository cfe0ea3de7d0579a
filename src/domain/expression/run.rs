//! The fields of `run`, which expressions read about their execution. The table is shared by the check of paths and by
//! the evaluation.

/// The fields in display order, each with the paths that may follow it.
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

/// The key that holds the failure of a step.
pub(crate) const ERROR: &str = "error";

/// The fields below [`ERROR`]. `status` and `response_payload` are null if there was no response.
pub(crate) const ERROR_FIELDS: &[&str] = &["code", "message", "status", "response_payload"];

/// Additional fields for hooks and compensations.
pub(crate) const BESIDE: &[(&str, Below)] =
    &[("outcome", Below::Nothing), ("output", Below::Anything)];

/// The paths that may follow a field.
pub(crate) enum Below {
    Nothing,
    Anything,
    These(&'static [&'static str]),
    /// A step id, followed by one of these fields.
    Steps(&'static [&'static str]),
}
