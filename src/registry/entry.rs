//! The entries of the registry: a definition file each, with the result of loading it.

use std::{path::PathBuf, sync::Arc};

use super::Source;
use crate::domain::{
    definition::{Definition, Persona},
    finding::{Finding, is_broken},
};

/// A workflow file with the result of loading it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowEntry {
    /// The definition's name; without a definition the name in the file, else the file's own.
    pub name: String,
    /// Which level of directories it belongs to.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The definition, if all findings are warnings; else the last good version, if one is known.
    pub definition: Option<Arc<Definition>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

impl WorkflowEntry {
    /// Whether the file has errors.
    pub fn is_broken(&self) -> bool {
        is_broken(&self.findings)
    }

    /// Whether the file has errors and the last good version is served in its place.
    pub fn is_stale(&self) -> bool {
        self.definition.is_some() && self.is_broken()
    }
}

/// An agent's file with the result of loading it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEntry {
    /// The persona's name; without a persona the name in the file, else the file's own.
    pub name: String,
    /// Which level of directories it belongs to.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The persona, if all findings are warnings; else the last good version, if one is known.
    pub persona: Option<Arc<Persona>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

impl AgentEntry {
    /// Whether the file has errors.
    pub fn is_broken(&self) -> bool {
        is_broken(&self.findings)
    }

    /// Whether the file has errors and the last good version is served in its place.
    pub fn is_stale(&self) -> bool {
        self.persona.is_some() && self.is_broken()
    }
}
