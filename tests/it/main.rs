//! The integration tests: one binary, one module for each wing of the house.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` makes values that nobody else wants"
)]

mod architecture;
mod author;
mod catalog;
mod cli;
mod clumsy;
mod corpus;
mod crash;
mod docs;
mod effects;
mod embedding;
mod engine;
mod first_minute;
mod hostile;
mod http;
mod inputs;
mod lifecycle;
mod limits;
mod lists;
mod logs;
mod mcp;
mod model;
mod names;
mod pipes;
mod reads;
mod registry;
mod relay;
mod schemas;
mod shipped;
mod steps;
mod store;
mod subscriptions;
mod support;
mod token;
