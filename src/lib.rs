//! midex
pub mod cli;
pub mod clock;
pub mod domain;
pub mod error;
pub mod limits;
pub mod registry;
pub mod store;
pub mod uri;
