//! The MCP face: tools and resources over stdio. `rmcp` is named only here.
//!
//! Thin: every handler parses, calls one use case of [`crate::app`], and shapes the answer. What rmcp
//! does not bring (limits, panics that become answers, argument schemas) is added here once.

mod answer;
mod asking;
pub mod client;
pub mod control;
mod frame;
mod gate;
mod guard;
pub mod http;
mod offer;
mod page;
mod progress;
mod reach;
mod resources;
mod server;
mod stamp;
mod subscriptions;
mod tools;
mod transport;

pub use self::{
    offer::Offer,
    server::{Server, serve_stdio, start_up_lines},
    subscriptions::Listens,
    tools::{ToolNames, Toolset, Toolsets, toolsets_help},
    transport::LineTransport,
};

/// A server over any pair of streams: what [`serve_stdio`] serves on the process's own.
pub use self::server::serve;
