//! The store: one contract for every store, and what only the one on disk has to stand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod backup;
mod contract;
mod custom;
mod damage;
mod directory;
mod disk;
mod examine;
mod failure;
mod faults;
mod find;
mod forgetful;
mod format;
mod histories;
mod import;
mod index;
mod listing;
mod lost;
mod lying;
mod offline;
mod opening;
mod power;
mod purge;
mod redo;
mod rewrite;
mod schedule;

use midex_engine::store::contract::{pages, script};
