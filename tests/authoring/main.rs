//! Files of workflows: read, checked, written and shipped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod author;
mod corpus;
mod inputs;
mod registry;
mod schemas;
