//! The integration tests: one binary, one module for each wing of the house.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` makes values that nobody else wants"
)]

mod abuse;
mod architecture;
mod bad_input;
mod cli;
mod cli_run;
mod cli_tools;
mod clumsy;
mod corpus;
mod crash;
mod door;
mod effects;
mod embedding;
mod engine;
mod faults;
mod http;
mod ids;
mod inputs;
mod lists;
mod manual;
mod mcp;
mod model;
mod parallel;
mod project;
mod reads;
mod registry;
mod schemas;
mod shipped;
mod stderr;
mod steps;
mod store;
mod study;
mod subscriptions;
mod support;
mod transport;
mod weight;
