//! midex
pub mod clock;
pub mod domain;
pub mod error;
pub mod limits;
pub mod store;
pub mod uri;
