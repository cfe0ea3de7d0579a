//! A file among the definitions, and what became of it.

use std::{path::PathBuf, sync::Arc};

use super::Source;
use crate::domain::{
    definition::{Definition, Persona},
    finding::{Finding, is_broken},
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
    /// The definition, where no finding is more than a warning; else the last good one, where one is known.
    pub definition: Option<Arc<Definition>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

impl WorkflowEntry {
    /// Whether the file as it is cannot be used.
    pub fn is_broken(&self) -> bool {
        is_broken(&self.findings)
    }

    /// Whether that is so and its last good version stands in for it.
    pub fn is_stale(&self) -> bool {
        self.definition.is_some() && self.is_broken()
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
    /// The persona, where no finding is more than a warning; else the last good one, where one is known.
    pub persona: Option<Arc<Persona>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

impl AgentEntry {
    /// Whether the file as it is cannot be used.
    pub fn is_broken(&self) -> bool {
        is_broken(&self.findings)
    }

    /// Whether that is so and its last good version stands in for it.
    pub fn is_stale(&self) -> bool {
        self.persona.is_some() && self.is_broken()
    }
}
