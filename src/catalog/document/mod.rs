//! The text of an OpenAPI document (3.0, 3.1, 3.2) becomes operations with names, schemas, servers and contracts of
//! providers. Pure: bytes in, a compiled document out; nothing is ever fetched, also no `$ref` that leads out of the text.
//!
//! The document is walked as JSON: of the crates with a type for each part of OpenAPI none reads every document that
//! people publish, and each refuses the whole for one fault.

mod book;
mod class;
mod content;
mod entry;
mod head;
mod name;
mod operation;
mod page;
mod parameter;
mod provider;
mod read;
mod reference;
mod schema;
mod search;
mod server;
mod shape;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::page::{HOLDERS, MORES, NEXT_URLS, bare};
pub use self::{
    book::{Book, Head, Notes, Source},
    entry::Entry,
    name::Collision,
    provider::{Field, Need, Provider, Providers, Select, Use},
    search::{Hit, Shelf, search},
};
use super::operation::{Operation, SecurityScheme};
use midex_domain::{Digest, error::Violation, limits};

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A document of Swagger 2, which must be converted first.
    #[serde(rename = "openapi_2")]
    OpenApi2,
    /// A document of OpenAPI 3.
    #[serde(rename = "openapi_3")]
    OpenApi3,
    /// Something else.
    #[serde(rename = "unknown")]
    Unknown,
}

/// What `catalog.validate_openapi` says of a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspection {
    /// What it is.
    pub kind: Kind,
    /// How many operations it has, callable or not.
    pub operation_count: usize,
    /// What is odd about it but no reason to refuse it, at most [`limits::DOCUMENT_WARNINGS_MAX`].
    pub warnings: Vec<Violation>,
    /// Why it cannot be imported; none: it can.
    pub violations: Vec<Violation>,
}

/// A compiled document.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The digest of the text.
    pub digest: Digest,
    /// Its title; empty where it has none.
    pub title: String,
    /// Its own version.
    pub version: String,
    /// What it is about.
    pub description: String,
    /// Base URLs, absolute or relative to where the document came from, without a slash at the end. The first is the
    /// document's choice.
    pub servers: Vec<String>,
    /// Security schemes by the names that operations use.
    pub schemes: BTreeMap<String, SecurityScheme>,
    /// The operations in the order of their names.
    pub operations: Vec<Operation>,
    /// The schemas that several operations share: what they call `#/$defs/NAME`.
    pub schemas: BTreeMap<String, Value>,
    /// Operations that answer lists of which arguments of others are chosen.
    pub providers: Providers,
    /// Operations whose name another operation has, with the name that they got instead.
    pub collisions: Vec<Collision>,
    /// What is odd about the document.
    pub warnings: Vec<Violation>,
}

/// Says whether a text can be imported, and what is odd about it.
pub fn inspect(text: &[u8]) -> Inspection {
    match compile(text) {
        Ok(compiled) => Inspection {
            kind: Kind::OpenApi3,
            operation_count: compiled.operations.len(),
            warnings: compiled.warnings,
            violations: Vec::new(),
        },
        Err(inspection) => inspection,
    }
}

/// Compiles a document.
///
/// # Errors
/// Where it cannot be imported: the reasons are the violations.
pub fn compile(text: &[u8]) -> Result<Compiled, Inspection> {
    let root = read::read(text).map_err(|fault| Inspection::unreadable(*fault))?;
    let is_generation_30 = head::judge(&root)?;
    let mut warnings = Warnings::default();
    let all = operation::all(&root, is_generation_30, &mut warnings);
    let (mut operations, shared) = all.ok_or_else(|| head::expanded(&root))?;
    // Before the names: they drop an operationId that several operations have.
    for operation in &mut operations {
        operation.class = class::class_of(operation);
    }
    let collisions = name::name(
        &mut operations,
        |operation| provider::is_of_one(operation, &shared),
        &mut warnings,
    );
    for operation in &mut operations {
        operation::sent(&mut operation.path);
    }
    operations.sort_by(|one, other| one.name.cmp(&other.name));
    let providers = provider::infer(&operations, &shared);
    for provider in &providers.providers {
        let place = operations.binary_search_by(|one| one.name.cmp(&provider.id));
        if let Ok(place) = place {
            operations[place].items_path = Some(provider.items_path.clone());
        }
    }
    Ok(Compiled {
        digest: Digest::of(text),
        title: head::about(&root, "title"),
        version: head::about(&root, "version"),
        description: head::about(&root, "description"),
        servers: server::servers(&root),
        schemes: head::schemes(&root),
        operations,
        schemas: shared,
        providers,
        collisions,
        warnings: warnings.end(),
    })
}

impl Inspection {
    fn unreadable(violation: Violation) -> Self {
        Self {
            kind: Kind::Unknown,
            operation_count: 0,
            warnings: Vec::new(),
            violations: vec![violation],
        }
    }
}

/// Warnings about a document, of which only so many are kept.
#[derive(Debug, Default)]
struct Warnings {
    kept: Vec<Violation>,
    dropped: usize,
}

impl Warnings {
    fn add(&mut self, path: impl Into<String>, rule: &str, message: impl Into<String>) {
        let warning = Violation::new(path, rule, message);
        if self.kept.contains(&warning) {
            return;
        }
        if self.kept.len() + 1 < limits::DOCUMENT_WARNINGS_MAX {
            self.kept.push(warning);
        } else {
            self.dropped += 1;
        }
    }

    fn end(mut self) -> Vec<Violation> {
        if self.dropped > 0 {
            let message = format!("{} further warnings are not shown", self.dropped);
            self.kept
                .push(Violation::new("", "warnings_limit", message));
        }
        self.kept
    }
}
