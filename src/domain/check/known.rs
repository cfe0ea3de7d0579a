//! Names outside of a file that its steps may use: agents, activities, secrets.

use std::collections::{BTreeMap, BTreeSet};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The names of its activities.
    pub activities: BTreeSet<String>,
    /// The names of the secrets in its configuration, if that was read.
    pub secrets: Option<BTreeSet<String>>,
}

/// The names that a workflow is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The agents.
    pub agents: &'a Agents,
    /// What the server does itself.
    pub abilities: &'a Abilities,
}
