//! The use cases of midex (internal: no semver promise).
//!
//! [`app::App`] has one method for each use case. MCP and the command line call nothing else. [`config`] reads the
//! settings that they use. [`well_known`] has the directory of mcp-workflow.

pub mod app;
pub mod config;
pub mod well_known;
