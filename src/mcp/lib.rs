#![doc = include_str!("README.md")]

mod answer;
mod channel;
pub mod client;
pub mod control;
mod elicitation;
mod frame;
mod gate;
mod guard;
pub mod http;
mod metadata;
mod page;
pub mod process;
mod profile;
mod progress;
mod prompts;
mod relay;
mod resources;
mod sampling;
mod server;
pub mod session;
mod splice;
mod subscriptions;
mod task;
mod tools;
mod transport;
mod workflow_tool;

pub use self::{
    process::Process,
    profile::ToolProfile,
    relay::{relay, relay_stdio},
    server::{Beside, Server, format_startup_lines, serve_stdio},
    subscriptions::ListenLimit,
    tools::{ToolNames, Toolset, Toolsets, format_toolsets_help},
    transport::LineTransport,
    workflow_tool::WorkflowTool,
};

/// A server over any pair of streams: what [`serve_stdio`] serves on the process's own.
pub use self::server::serve;
