//! Processes, sockets, signals and crashes: one directory, several programs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod crash;
mod dashboard;
mod hostile;
mod http;
mod logs;
mod names;
mod pipes;
mod relay;
