//! The contract of durable execution: what a workflow comes to, and what its history says, does not depend on whether
//! the server lives on or is killed wherever the execution waits.
//!
//! Each scenario is played twice, once by one engine on a store in memory, and once by engines on a store on disk that
//! are killed at every suspension. Both must come to the result and the history that the scenario names.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

#[macro_use]
mod harness;

mod callback;
mod callback_activity;
mod child;
mod condition;
mod invoke;
mod map;
mod parallel;
mod step;
mod wait;
