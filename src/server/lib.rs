//! The use cases of midex (internal: no semver promise).
//!
//! [`app::App`] has one method for each use case. MCP and the command line call nothing else. [`config`] reads the
//! settings that they use.

pub mod app;
pub mod config;
