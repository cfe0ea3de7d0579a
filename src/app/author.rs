//! Definitions for those who write them: the files as they lie, and what a text comes to. Nothing here changes anything.

use std::sync::Arc;

use super::App;
use crate::{
    domain::{Definition, finding::is_broken},
    error::{Error, NextCall, Result, again},
    registry::{self, Examined, Manifest, Registry},
};

/// A definition that a caller works on.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The workflow of this name, as its file has it.
    Named(String),
    /// A text of the caller's.
    Lent(Manifest),
}

impl App {
    /// What the check makes of a definition.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`.
    pub async fn examined(&self, subject: Subject) -> Result<Examined> {
        self.look_into_registry(move |registry| examined(registry, subject))
            .await?
    }

    /// The definition that an execution would follow.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`; `WORKFLOW_VALIDATION_FAILED` with every violation.
    pub async fn sound(&self, subject: Subject) -> Result<Arc<Definition>> {
        self.look_into_registry(move |registry| sound(registry, subject))
            .await?
    }
}

fn examined(registry: &Registry, subject: Subject) -> Result<Examined> {
    let name = match subject {
        Subject::Lent(manifest) => return Ok(registry.examine(&manifest)),
        Subject::Named(name) => name,
    };
    let entry = registry.workflow(&name);
    let entry = entry.ok_or_else(|| unknown(registry, &name))?;
    Ok(Examined {
        name,
        // The last good version of a broken file is what runs, but not what its author works on.
        definition: entry.value.clone().filter(|_| !entry.is_broken()),
        findings: entry.findings.clone(),
    })
}

fn sound(registry: &Registry, subject: Subject) -> Result<Arc<Definition>> {
    let is_lent = matches!(subject, Subject::Lent(_));
    let Examined {
        name,
        definition,
        findings,
    } = examined(registry, subject)?;
    definition.ok_or_else(|| match registry.workflow(&name) {
        Some(entry) if !is_lent && is_broken(&entry.findings) => registry::invalid(entry),
        _ => registry::refused(&name, &findings),
    })
}

/// That there is no such workflow, with the one that may have been meant.
pub(crate) fn unknown(registry: &Registry, name: &str) -> Error {
    let error = registry.not_found(name);
    match error.context("nearest") {
        Some(_) => error.with_next(NEAREST),
        None => error,
    }
}

/// The same call for the workflow that may have been meant.
const NEAREST: NextCall = again("if that is the one meant").with(&[("workflow_id", "{nearest}")]);
