//! Names that are defined outside of the checked file: agents, activities, operations and secrets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::OperationLookup;

/// The state of an agent's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFileState {
    /// Its file has no findings.
    Usable,
    /// Its file has findings.
    Broken,
}

/// The agents that steps may name.
pub type KnownAgents = BTreeMap<String, AgentFileState>;

/// The capabilities of the server that steps may use. A step that names any other would fail at run time, so that is a
/// finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerCapabilities {
    /// The names of its activities.
    pub activities: BTreeSet<String>,
    /// The JSON Schemas of the inputs of its activities, by name. An activity that is not here accepts any input.
    pub activity_inputs: BTreeMap<String, Value>,
    /// The names of the secrets in its configuration, if that was read.
    pub secrets: Option<BTreeSet<String>>,
    /// The operations of its catalogs, if they are known.
    pub operations: Option<OperationsSnapshot>,
}

/// The catalogs as of one moment. Two snapshots are equal if they have the same version.
#[derive(Clone, Debug)]
pub struct OperationsSnapshot {
    version: u64,
    lookup: Arc<dyn OperationLookup>,
}

impl OperationsSnapshot {
    /// A snapshot of the current catalogs.
    pub fn capture(lookup: Arc<dyn OperationLookup>) -> Self {
        let version = lookup.catalogs_version();
        Self { version, lookup }
    }
}

impl PartialEq for OperationsSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl ServerCapabilities {
    /// The operations that steps may name, if they are known.
    pub fn operation_lookup(&self) -> Option<&dyn OperationLookup> {
        self.operations.as_ref().map(|operations| &*operations.lookup)
    }
}

/// The names that a workflow is checked against.
#[derive(Clone, Copy, Debug)]
pub struct KnownNames<'a> {
    /// The agents.
    pub agents: &'a KnownAgents,
    /// The capabilities of the server.
    pub abilities: &'a ServerCapabilities,
}
