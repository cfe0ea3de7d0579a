//! What an execution says of itself to expressions, below `run`: said once, for those who check a path and those who fill it in.

/// The parts, in the order in which the whole shows them, with what stands below each.
pub(in crate::domain) const RUN: &[(&str, Below)] = &[
    ("execution_id", Below::Nothing),
    ("workflow", Below::Nothing),
    ("project", Below::Nothing),
    ("started_at", Below::Nothing),
    ("visit", Below::Nothing),
    ("step", Below::Nothing),
    ("visits", Below::Steps(&[])),
    ("steps", Below::Steps(&["status", "error"])),
    ("failure", Below::These(&["code", "message", "step"])),
];

/// What hooks and compensations see besides.
pub(in crate::domain) const BESIDE: &[(&str, Below)] =
    &[("outcome", Below::Nothing), ("output", Below::Anything)];

/// What may follow a part in a path.
pub(in crate::domain) enum Below {
    Nothing,
    Anything,
    These(&'static [&'static str]),
    /// The id of a step, and these of it.
    Steps(&'static [&'static str]),
}
