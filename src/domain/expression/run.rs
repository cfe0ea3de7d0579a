//! The fields of `run`, which expressions read about their execution. The table is shared by the check of paths and by
//! the evaluation.

/// The fields in display order, each with the paths that may follow it.
pub(crate) const RUN_FIELDS: &[(&str, SubpathRule)] = &[
    ("execution_id", SubpathRule::Nothing),
    ("workflow", SubpathRule::Nothing),
    ("project", SubpathRule::Nothing),
    ("started_at", SubpathRule::Nothing),
    ("visit", SubpathRule::Nothing),
    ("step", SubpathRule::Nothing),
    ("visits", SubpathRule::Steps(&[])),
    ("steps", SubpathRule::Steps(&["status", ERROR_KEY])),
    (LAST_OUTPUT_FIELD, SubpathRule::Anything),
    ("failure", SubpathRule::OneOf(&["code", "message", "step", "status", "response_payload"])),
];

/// The field with the output of the last poll of a step with `repeat`.
pub(crate) const LAST_OUTPUT_FIELD: &str = "last";

/// The key that holds the counts of how the items of a `foreach` ended.
pub(crate) const ENDED_KEY: &str = "ended";

/// The fields below [`ENDED_KEY`].
pub(crate) const ENDED_FIELDS: &[&str] = &["succeeded", "failed", "skipped"];

/// The key that holds the failure of a step.
pub(crate) const ERROR_KEY: &str = "error";

/// The fields below [`ERROR_KEY`]. `status` and `response_payload` are null if there was no response.
pub(crate) const ERROR_FIELDS: &[&str] = &["code", "message", "status", "response_payload"];

/// Additional fields for hooks and compensations.
pub(crate) const HOOK_RUN_FIELDS: &[(&str, SubpathRule)] =
    &[("outcome", SubpathRule::Nothing), ("output", SubpathRule::Anything)];

/// The paths that may follow a field.
pub(crate) enum SubpathRule {
    Nothing,
    Anything,
    OneOf(&'static [&'static str]),
    /// A step id, followed by one of these fields.
    Steps(&'static [&'static str]),
}
