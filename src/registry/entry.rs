//! A file among the definitions, and what became of it.

use std::{path::PathBuf, sync::Arc};

use super::Source;
use crate::domain::{
    definition::{Definition, Persona},
    finding::Finding,
};

/// A workflow file and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowEntry {
    /// The name of its definition; where there is none the name it gives, else the file's.
    pub name: String,
    /// Whose it is.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The definition, where there are no findings; else the last good one, where one is known.
    pub definition: Option<Arc<Definition>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

impl WorkflowEntry {
    /// Whether the file has findings and its last good version stands in for it.
    pub fn is_stale(&self) -> bool {
        self.definition.is_some() && !self.findings.is_empty()
    }
}

/// An agent's file and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEntry {
    /// The name of its persona; where there is none the name it gives, else the file's.
    pub name: String,
    /// Whose it is.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The persona, where there are no findings; else the last good one, where one is known.
    pub persona: Option<Arc<Persona>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

impl AgentEntry {
    /// Whether the file has findings and its last good version stands in for it.
    pub fn is_stale(&self) -> bool {
        self.persona.is_some() && !self.findings.is_empty()
    }
}
