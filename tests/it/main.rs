//! The integration tests: one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod store;
