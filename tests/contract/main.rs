//! The contract of durable execution: the result and the history of a workflow are the same if the server is killed
//! wherever the execution waits.
//!
//! Each scenario is played twice, once by one engine on a store in memory, and once by engines on a store on disk that
//! are killed at every suspension. Both must give the result and the history that the scenario names.
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
