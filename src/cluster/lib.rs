#![doc = include_str!("README.md")]

mod address;
mod client;
mod credentials;
mod server;
#[cfg(test)]
mod tests;

pub use self::{
    address::AdvertisedAddress,
    client::HttpPeers,
    credentials::{Credentials, TlsFiles},
    server::{AnswerCall, serve_peers},
};

/// The path that calls of other servers are sent to.
const CALLS_PATH: &str = "/cluster/calls";

/// The body of the reply to a call.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum PeerReply {
    Answer(midex_engine::PeerAnswer),
    /// An error in its wire form.
    Error(serde_json::Map<String, serde_json::Value>),
}
