//! What lies outside of a file and steps of it may name: the agents there are, and what the server does itself.

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

/// What the server that will run a workflow brings of its own. A step that asks for anything else would fail when it is
/// entered, so it is a finding already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The names of its activities.
    pub activities: BTreeSet<String>,
    /// The names of the secrets that its configuration lists, where that was read.
    pub secrets: Option<BTreeSet<String>>,
}

/// All that a workflow is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The agents.
    pub agents: &'a Agents,
    /// What the server does itself.
    pub abilities: &'a Abilities,
}
