//! The index entry of an operation in a compiled document.

use serde::{Deserialize, Serialize};

use crate::operation::{Method, Operation, OperationClass};

/// The part of an operation that is available without reading its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEntry {
    /// Its name.
    pub name: Box<str>,
    /// Its aliases.
    pub aliases: Box<[Box<str>]>,
    /// A summary of one line.
    pub summary: Box<str>,
    /// The method.
    pub method: Method,
    /// Its class, as [`Operation::class`].
    pub class: OperationClass,
    /// The path.
    pub path: Box<str>,
    /// Whether the document marks it as deprecated.
    pub is_deprecated: bool,
    /// Why it cannot be called; `None` if it can.
    pub uncallable: Option<Box<str>>,
}

impl OperationEntry {
    pub(super) fn from_operation(operation: &Operation) -> Self {
        Self {
            name: operation.name.as_str().into(),
            aliases: operation.aliases.iter().map(|alias| alias.as_str().into()).collect(),
            summary: operation.summary.as_str().into(),
            method: operation.method,
            class: operation.class,
            path: operation.path.as_str().into(),
            is_deprecated: operation.is_deprecated,
            uncallable: operation.uncallable.as_deref().map(Into::into),
        }
    }
}
