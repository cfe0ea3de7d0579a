//! The metadata of a document: its title and its security schemes, and whether it can be imported at all.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    DocumentKind, Inspection,
    operation::METHODS,
    reference::{follow_references, get_entries, get_text},
};
use crate::operation::{ParameterLocation, SecurityScheme};
use midex_domain::{document::type_name, error::Violation, limits, truncate::truncate_to_chars};

/// Checks that a document can be imported. Returns whether its version is OpenAPI 3.0, rather than a later 3.x.
///
/// # Errors
/// Why it cannot be imported.
pub(super) fn check_document_head(root: &Value) -> Result<bool, Inspection> {
    let operation_count = count_operations(root);
    let refuse =
        |kind, violations| Inspection { kind, operation_count, warnings: Vec::new(), violations };
    if !root.is_object() {
        let message = format!("an OpenAPI document is a mapping, this is {}", type_name(root));
        let violation = Violation::new("", "document_type", message).with_expected("a mapping");
        return Err(refuse(DocumentKind::Unknown, vec![violation]));
    }
    if let Some(version) = root.get("swagger") {
        return Err(refuse(
            DocumentKind::OpenApi2,
            vec![swagger_violation(&format_version(version))],
        ));
    }
    let version = root.get("openapi").map(format_version);
    let Some(version) = version.filter(|version| version.starts_with("3.")) else {
        return Err(refuse(DocumentKind::Unknown, vec![openapi_version_violation(root)]));
    };
    match paths_violation(root, operation_count) {
        Some(violation) => Err(refuse(DocumentKind::OpenApi3, vec![violation])),
        None => Ok(version.starts_with("3.0")),
    }
}

/// The refusal of a document whose operations exceed the size limit.
pub(super) fn size_limit_refusal(root: &Value) -> Inspection {
    let message = format!(
        "the operations of the document come to more than {} bytes, with what several of them name counted for each: put large schemas under `components/schemas` and name them with `$ref`, or split the document by paths",
        limits::DOCUMENT_EXPANDED_BYTES_MAX
    );
    Inspection {
        kind: DocumentKind::OpenApi3,
        operation_count: count_operations(root),
        warnings: Vec::new(),
        violations: vec![Violation::new("/paths", "document_expansion", message)],
    }
}

/// A version as text. YAML reads an unquoted `3.1` as a number.
fn format_version(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn swagger_violation(version: &str) -> Violation {
    let message = format!(
        "this is a document of Swagger {version}, and midex reads OpenAPI 3: convert it first, with `npx swagger2openapi DOCUMENT --outfile openapi.json`, and import what that writes"
    );
    Violation::new("/swagger", "openapi_generation", message).with_expected("openapi: 3.x")
}

fn openapi_version_violation(root: &Value) -> Violation {
    let violation = |message: String| Violation::new("/openapi", "openapi_version", message);
    let violation = match root.get("openapi") {
        Some(other) => violation(format!("`openapi` is {}, and midex reads 3.0, 3.1 and 3.2", truncate_to_chars(&other.to_string(), 40))),
        None => violation("the document has no key `openapi` at its top: it is another kind of document, or a part of one".into()),
    };
    violation.with_expected("openapi: 3.x")
}

fn paths_violation(root: &Value, operation_count: usize) -> Option<Violation> {
    let Some(paths) = root.get("paths") else {
        let message = "the document has no `paths`, so it describes nothing that can be called";
        return Some(Violation::new("", "paths_required", message).with_expected("paths"));
    };
    if !paths.is_object() {
        let message = format!("`paths` must be a mapping of paths, this is {}", type_name(paths));
        return Some(Violation::new("/paths", "paths_type", message).with_expected("a mapping"));
    }
    let max_operations = limits::DOCUMENT_OPERATIONS_MAX;
    match operation_count {
        0 => {
            let message = "no path of the document has an operation (`get`, `post`, …), so there is nothing to call";
            Some(Violation::new("/paths", "operations_presence", message))
        }
        count if count > max_operations => {
            let message = format!(
                "the document has {count} operations, the limit is {max_operations}: split it by paths"
            );
            Some(Violation::new("/paths", "operations_limit", message))
        }
        _ => None,
    }
}

fn count_operations(root: &Value) -> usize {
    let items =
        get_entries(root, "paths").filter_map(|(_, item)| follow_references(root, item).ok());
    items
        .map(|item| {
            METHODS.iter().filter(|(word, _)| item.get(*word).is_some_and(Value::is_object)).count()
        })
        .sum()
}

/// A value of `info` as text, shortened if it is long.
pub(super) fn read_info_text(root: &Value, key: &str) -> String {
    let value =
        root.get("info").and_then(|info| info.get(key)).map(format_version).unwrap_or_default();
    truncate_to_chars(value.trim(), limits::OPERATION_DESCRIPTION_CHARS_MAX).into_owned()
}

/// The security schemes by name.
pub(super) fn read_security_schemes(root: &Value) -> BTreeMap<String, SecurityScheme> {
    let components = root.get("components").unwrap_or(&Value::Null);
    let scheme = |(name, value): (&String, _)| {
        Some((name.clone(), read_security_scheme(follow_references(root, value).ok()?)))
    };
    get_entries(components, "securitySchemes").filter_map(scheme).collect()
}

fn read_security_scheme(value: &Value) -> SecurityScheme {
    let other_scheme = |scheme: &str| SecurityScheme::Other { scheme: scheme.to_owned() };
    let location = match get_text(value, "in") {
        "query" => ParameterLocation::Query,
        "cookie" => ParameterLocation::Cookie,
        _ => ParameterLocation::Header,
    };
    match (get_text(value, "type"), get_text(value, "scheme").to_ascii_lowercase().as_str()) {
        ("apiKey", _) => {
            SecurityScheme::ApiKey { location, name: get_text(value, "name").to_owned() }
        }
        ("oauth2" | "openIdConnect", _) | ("http", "bearer") => SecurityScheme::Bearer,
        ("http", "basic") => SecurityScheme::Basic,
        ("http", scheme) => other_scheme(scheme),
        (kind, _) => other_scheme(kind),
    }
}
