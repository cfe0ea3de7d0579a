//! Compiles the text of an OpenAPI document (3.0, 3.1, 3.2) into operations with names, schemas, servers and
//! providers. Pure: it takes bytes, returns a compiled document, and fetches nothing, not even an external `$ref`.
//!
//! The document is walked as untyped JSON. Each crate with types for the parts of OpenAPI fails to read some
//! published documents, and refuses a whole document for a single error.

mod class;
mod compiled;
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

pub(super) use self::page::{HAS_MORE_FLAGS, NEXT_URL_FIELDS, PAGINATION_OBJECTS, normalize_name};
pub use self::{
    compiled::{ByteSource, DocumentHead, DocumentNotes, DocumentReader},
    entry::OperationEntry,
    name::NameCollision,
    provider::{Provider, ProviderField, ProviderParameter, ProviderUse, Providers, SelectFields},
    search::{SearchHit, SearchableCatalog, search_operations},
};
use super::operation::{Operation, SecurityScheme};
use midex_domain::{Digest, error::Violation, limits};

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DocumentKind {
    /// A Swagger 2 document, which must be converted first.
    #[serde(rename = "openapi_2")]
    OpenApi2,
    /// An OpenAPI 3 document.
    #[serde(rename = "openapi_3")]
    OpenApi3,
    /// Something else.
    #[serde(rename = "unknown")]
    Unknown,
}

/// The result of `catalog.validate_openapi`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspection {
    /// The kind of the text.
    pub kind: DocumentKind,
    /// The number of operations, callable or not.
    pub operation_count: usize,
    /// Problems that do not prevent the import, at most [`limits::DOCUMENT_WARNINGS_MAX`].
    pub warnings: Vec<Violation>,
    /// Problems that prevent the import; empty if it can be imported.
    pub violations: Vec<Violation>,
}

/// A compiled document.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledDocument {
    /// The digest of its text.
    pub digest: Digest,
    /// Its title; empty where it has none.
    pub title: String,
    /// The version in its `info`.
    pub version: String,
    /// Its description.
    pub description: String,
    /// Base URLs, absolute or relative to the source of the document, without a trailing slash. The first is the
    /// default of the document.
    pub servers: Vec<String>,
    /// Security schemes by name.
    pub schemes: BTreeMap<String, SecurityScheme>,
    /// The operations, ordered by name.
    pub operations: Vec<Operation>,
    /// The schemas that several operations share, which refer to them as `#/$defs/NAME`.
    pub schemas: BTreeMap<String, Value>,
    /// Operations that list objects, and the arguments of other operations that take values from these lists.
    pub providers: Providers,
    /// Operations that did not get their derived name because another operation has it, with the name that they have
    /// instead.
    pub collisions: Vec<NameCollision>,
    /// Problems of the document that do not prevent its import.
    pub warnings: Vec<Violation>,
}

/// Checks whether a text can be imported, and reports its problems.
pub fn inspect_document(text: &[u8]) -> Inspection {
    match compile_document(text) {
        Ok(compiled) => Inspection {
            kind: DocumentKind::OpenApi3,
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
/// If it cannot be imported; the violations are the reasons.
pub fn compile_document(text: &[u8]) -> Result<CompiledDocument, Inspection> {
    let root =
        read::parse_document(text).map_err(|fault| Inspection::unreadable_document(*fault))?;
    let is_generation_30 = head::check_document_head(&root)?;
    let mut warnings = Warnings::default();
    let read_result = operation::read_operations(&root, is_generation_30, &mut warnings);
    let (mut operations, shared_schemas) =
        read_result.ok_or_else(|| head::size_limit_refusal(&root))?;
    // Must precede the naming, which removes an `operationId` that several operations have.
    for operation in &mut operations {
        operation.class = class::infer_class(operation);
    }
    let collisions = name::assign_names(
        &mut operations,
        |operation| provider::has_single_object_answer(operation, &shared_schemas),
        &mut warnings,
    );
    for operation in &mut operations {
        operation::strip_path_fragment(&mut operation.path);
    }
    operations.sort_by(|one, other| one.name.cmp(&other.name));
    let providers = provider::infer_providers(&operations, &shared_schemas);
    for provider in &providers.providers {
        let index = operations.binary_search_by(|one| one.name.cmp(&provider.id));
        if let Ok(place) = index {
            operations[place].items_path = Some(provider.items_path.clone());
        }
    }
    Ok(CompiledDocument {
        digest: Digest::compute(text),
        title: head::read_info_text(&root, "title"),
        version: head::read_info_text(&root, "version"),
        description: head::read_info_text(&root, "description"),
        servers: server::read_base_urls(&root),
        schemes: head::read_security_schemes(&root),
        operations,
        schemas: shared_schemas,
        providers,
        collisions,
        warnings: warnings.into_violations(),
    })
}

impl Inspection {
    fn unreadable_document(violation: Violation) -> Self {
        Self {
            kind: DocumentKind::Unknown,
            operation_count: 0,
            warnings: Vec::new(),
            violations: vec![violation],
        }
    }
}

/// Warnings about a document. At most [`limits::DOCUMENT_WARNINGS_MAX`] are kept, the last of which counts those that
/// were dropped.
#[derive(Debug, Default)]
struct Warnings {
    shown: Vec<Violation>,
    omitted_count: usize,
}

impl Warnings {
    fn add_warning(&mut self, path: impl Into<String>, rule: &str, message: impl Into<String>) {
        let warning = Violation::new(path, rule, message);
        if self.shown.contains(&warning) {
            return;
        }
        if self.shown.len() + 1 < limits::DOCUMENT_WARNINGS_MAX {
            self.shown.push(warning);
        } else {
            self.omitted_count += 1;
        }
    }

    fn into_violations(mut self) -> Vec<Violation> {
        if self.omitted_count > 0 {
            let message = format!("{} further warnings are not shown", self.omitted_count);
            self.shown.push(Violation::new("", "warnings_limit", message));
        }
        self.shown
    }
}
