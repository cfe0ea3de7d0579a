//! Names outside of a file that its steps may use: agents, activities, secrets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Commands;

/// What is known of an agent that a step may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Its file has no findings.
    Usable,
    /// Its file has findings.
    Broken,
}

/// The agents that steps may name.
pub type Agents = BTreeMap<String, Agent>;

/// What the server offers to steps. A step that names anything else would fail when it is entered, so that is a finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Abilities {
    /// The names of its activities.
    pub activities: BTreeSet<String>,
    /// The names of the secrets in its configuration, if that was read.
    pub secrets: Option<BTreeSet<String>>,
    /// The operations of its catalogs, if they are known.
    pub operations: Option<Operations>,
}

/// The operations of the catalogs that there were at one moment.
#[derive(Clone, Debug)]
pub struct Operations {
    version: u64,
    commands: Arc<dyn Commands>,
}

impl Operations {
    /// Those that there are now.
    pub fn now(commands: Arc<dyn Commands>) -> Self {
        let version = commands.version();
        Self { version, commands }
    }
}

impl PartialEq for Operations {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Abilities {
    /// The operations that steps may name, if they are known.
    pub fn commands(&self) -> Option<&dyn Commands> {
        self.operations
            .as_ref()
            .map(|operations| &*operations.commands)
    }
}

/// The names that a workflow is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The agents.
    pub agents: &'a Agents,
    /// What the server does itself.
    pub abilities: &'a Abilities,
}
