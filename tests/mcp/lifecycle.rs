//! An execution from its start to its end: its states, its steps, its artifacts, its telemetry, and many at once.

mod artifacts;
mod changes;
mod executions;
mod parallel;
mod steps;
mod telemetry;
