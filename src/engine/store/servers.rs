//! The servers that share a store.

use midex_domain::ExecutionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The servers that share a store, as its database knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterStatus {
    /// The servers, by address.
    pub servers: Vec<ServerStatus>,
    /// The number of shards.
    pub shards: u64,
    /// The shards that no server owns at the moment. Their executions wait.
    pub free_shards: u64,
    /// The newest version of the published definitions; 0 if there is none.
    #[serde(default)]
    pub definitions: u64,
    /// The version of them that this server uses; 0 if it uses none.
    #[serde(default)]
    pub used_definitions: u64,
    /// How long the database took to answer, in microseconds.
    pub latency_us: u64,
    /// By how many milliseconds the clock of this server is ahead of that of the database.
    pub clock_ahead_ms: i64,
}

/// A server that shares a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStatus {
    /// Where the others reach it.
    pub address: String,
    /// Whether it gave this status.
    pub is_this: bool,
    /// The shards that it owns.
    pub shards: u64,
    /// How long it stays the owner without a renewal, in milliseconds. Negative if it did not renew its lease.
    pub lease_left_ms: i64,
}

/// How far an attempt in flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptStage {
    /// It waits until fewer attempts run, and has done nothing yet.
    Waiting,
    /// It runs, or its outcome is being stored.
    Running,
}

/// Lists the executions with attempts in flight in this process, each with the stage of the one that is furthest.
pub type BusyExecutions = Box<dyn Fn() -> Vec<(ExecutionId, AttemptStage)> + Send + Sync>;
