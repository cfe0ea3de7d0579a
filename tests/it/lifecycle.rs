//! An execution from its start to its end: its states, its steps, its artifacts, its telemetry, and many at once.

mod artifact_bytes;
mod artifacts;
mod changes;
mod executions;
mod parallel;
mod states;
mod steps;
mod telemetry;
