//! An operation in the index of a book.

use serde::{Deserialize, Serialize};

use crate::operation::{Class, Method, Operation};

/// What is known of an operation without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: Box<str>,
    /// Its other names.
    pub aliases: Box<[Box<str>]>,
    /// What it does, in a line.
    pub summary: Box<str>,
    /// The method.
    pub method: Method,
    /// How much it may change, as [`Operation::class`] has it.
    pub class: Class,
    /// The path.
    pub path: Box<str>,
    /// Whether the document advises against it.
    pub is_deprecated: bool,
    /// Why it cannot be called.
    pub uncallable: Option<Box<str>>,
}

impl Entry {
    pub(super) fn of(operation: &Operation) -> Self {
        Self {
            name: operation.name.as_str().into(),
            aliases: operation
                .aliases
                .iter()
                .map(|alias| alias.as_str().into())
                .collect(),
            summary: operation.summary.as_str().into(),
            method: operation.method,
            class: operation.class,
            path: operation.path.as_str().into(),
            is_deprecated: operation.is_deprecated,
            uncallable: operation.uncallable.as_deref().map(Into::into),
        }
    }
}
