//! # midex: a durable workflow server for LLM agents
//!
//! A workflow is a file; starting it makes an *execution*; each execution is owned by one actor. A model gets one step at a
//! time (a persona, instructions, a single-use continuation token) and sends back its output. Every transition is on disk
//! before its reply leaves.
//!
//! `ARCHITECTURE.md` is the map of the house: which layer may use which, and where each outside crate is named.
//! `tests/it/architecture.rs` enforces it. [`domain`] is pure.
//!
//! ## Invariants
//!
//! 1. *The domain cannot fail for outside reasons.* [`domain::Execution::decide`] changes nothing; state
//!    is rebuilt by events. The actor decides, persists, becomes, then replies.
//! 2. *A reply leaves only after what it says is durable.* Memory is never ahead of the disk.
//! 3. *The store accepts a transition only if its revision follows the stored one*, inside the write
//!    transaction. The actor gives order and speed; the store gives truth.
//! 4. *After a failed commit the actor stops*; the next call wakes a new one from the store.
//! 5. *A token names one step visit of one execution*; it is compared with the stored nonce in constant
//!    time and consumed once; a repeat of the same call gets the same answer.
//! 6. *An execution keeps the definition and personas it started with*, stored once by digest.
//! 7. *Every queue, batch, file, output, loop and connection has a limit*, named in [`limits`].
//! 8. *stdout belongs to the protocol* (`serve`) *or to data* (every other command). Logs go to stderr.
//! 9. *No tool depends on which process, connection or client session calls it.*
//! 10. *A panic anywhere becomes an answer, not silence.* An execution that cannot be woken counts as paused,
//!     with `engine_fault`, until a resume forgives it.

pub mod activity;
pub mod app;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod engine;
pub mod error;
mod folder;
mod http;
pub mod limits;
pub mod mcp;
pub mod registry;
pub mod store;
pub mod uri;
