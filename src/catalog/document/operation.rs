//! Reads the operations of a document. They are named later.

use serde_json::{Map, Value};

use super::{
    Warnings, page,
    reference::{BrokenReference, follow_references, get_entries, get_flag, get_text},
    schema::SchemaConverter,
    server::read_base_urls,
    shape::SharedSchemas,
};
use crate::operation::{Method, Operation, Pagination};
use midex_domain::{
    limits,
    truncate::{json_length, truncate_to_chars},
};

/// The methods, by their keys in a path item.
pub(super) const METHODS: [(&str, Method); 8] = [
    ("get", Method::Get),
    ("head", Method::Head),
    ("options", Method::Options),
    ("trace", Method::Trace),
    ("post", Method::Post),
    ("put", Method::Put),
    ("patch", Method::Patch),
    ("delete", Method::Delete),
];

/// The document that is read, and the schemas and warnings that are collected.
pub(super) struct OperationReader<'a, 'w> {
    pub(super) root: &'a Value,
    pub(super) schemas: SchemaConverter<'a>,
    pub(super) warnings: &'w mut Warnings,
}

/// The place of an operation in the document.
#[derive(Clone, Copy)]
pub(super) struct OperationSite<'a> {
    pub(super) path: &'a str,
    pub(super) method: Method,
    /// The path item.
    pub(super) item: &'a Value,
    pub(super) value: &'a Value,
}

/// All operations in the order of the document, and the schemas that they share. `None` if they exceed the size
/// limit.
pub(super) fn read_operations(
    root: &Value,
    is_generation_30: bool,
    warnings: &mut Warnings,
) -> Option<(Vec<Operation>, SharedSchemas)> {
    let schemas = SchemaConverter::new(root, is_generation_30);
    let mut reader = OperationReader { root, schemas, warnings };
    let mut operations = Vec::new();
    for (path, item) in get_entries(root, "paths").filter(|(path, _)| !path.starts_with("x-")) {
        reader.read_path_item(path, item, &mut operations);
        if reader.schemas.is_size_limit_reached() {
            return None;
        }
    }
    for operation in &mut operations {
        reader.check_shared_schemas(operation);
    }
    let shared_schemas = reader.schemas.into_shared_schemas(warnings);
    for operation in &mut operations {
        let known_pagination = operation.pagination.take();
        operation.pagination =
            known_pagination.or_else(|| page::infer_pagination(operation, &shared_schemas));
    }
    Some((operations, shared_schemas))
}

/// The JSON pointer of a path, or of one of its operations.
pub(super) fn build_operation_pointer(path: &str, method: Option<Method>) -> String {
    let path = path.replace('~', "~0").replace('/', "~1");
    let method = method.map(|method| format!("/{}", method.as_str().to_ascii_lowercase()));
    format!("/paths/{path}{}", method.unwrap_or_default())
}

impl<'a> OperationReader<'a, '_> {
    /// Reads the operations of a path.
    fn read_path_item(&mut self, path: &'a str, item: &'a Value, operations: &mut Vec<Operation>) {
        let item = match follow_references(self.root, item) {
            Ok(item) => item,
            Err(broken) => {
                let message = format!("{broken}: `{path}` has no operations");
                return self.warnings.add_warning(
                    build_operation_pointer(path, None),
                    "reference",
                    message,
                );
            }
        };
        self.warn_about_unsent_methods(path, item);
        for (key, method) in METHODS {
            if let Some(value) = item.get(key).filter(|value| value.is_object()) {
                let operation = self.read_operation(OperationSite { path, method, item, value });
                self.schemas.count_bytes(estimate_operation_bytes(&operation));
                operations.push(operation);
            }
        }
    }

    fn read_operation(&mut self, site: OperationSite<'a>) -> Operation {
        let value = site.value;
        let (summary, description) = read_summary_and_description(value);
        let mut operation = Operation {
            name: String::new(),
            aliases: Some(get_text(value, "operationId").to_owned())
                .filter(|id| !id.is_empty())
                .into_iter()
                .collect(),
            class: site.method.class(),
            summary,
            description,
            method: site.method,
            path: site.path.to_owned(),
            servers: Some(read_base_urls(value))
                .filter(|own| !own.is_empty())
                .unwrap_or_else(|| read_base_urls(site.item)),
            parameters: Vec::new(),
            body: None,
            output: None,
            security: read_security(value.get("security").or_else(|| self.root.get("security"))),
            pagination: None,
            items_path: None,
            idempotency_header: None,
            is_deprecated: get_flag(value, "deprecated"),
            extensions: read_extensions(value),
            uncallable: unusable_path_reason(site.path),
        };
        self.read_parameters(site, &mut operation);
        self.read_body(site, &mut operation);
        let has_links = self.read_output(site, &mut operation) && site.method == Method::Get;
        operation.pagination = has_links.then_some(Pagination::Link);
        operation
    }

    /// Marks an operation as not callable, and adds a warning. The first reason is kept.
    pub(super) fn mark_uncallable(&mut self, operation: &mut Operation, reason: String) {
        if operation.uncallable.is_none() {
            self.warnings.add_warning(
                build_operation_pointer(&operation.path, Some(operation.method)),
                "operation_uncallable",
                reason.clone(),
            );
            operation.uncallable = Some(reason);
        }
    }

    /// Converts a schema that a request needs. If it has an external reference, the operation cannot be called.
    pub(super) fn convert_request_schema(
        &mut self,
        value: &'a Value,
        operation: &mut Operation,
    ) -> Value {
        self.schemas.convert_schema(value, self.warnings).unwrap_or_else(|broken| {
            self.mark_uncallable(operation, broken.to_string());
            Value::Bool(true)
        })
    }

    /// Marks the operation as not callable if its request needs a shared schema with an external reference.
    fn check_shared_schemas(&mut self, operation: &mut Operation) {
        let bodies =
            operation.body.iter().flat_map(|body| &body.contents).map(|content| &content.schema);
        let mut schemas =
            operation.parameters.iter().map(|parameter| &parameter.schema).chain(bodies);
        let broken_reference = schemas
            .find_map(|schema| self.schemas.find_external_reference(schema))
            .map(BrokenReference::to_string);
        if let Some(why) = broken_reference {
            self.mark_uncallable(operation, why);
        }
    }

    /// Warns about methods that midex does not send.
    fn warn_about_unsent_methods(&mut self, path: &str, item: &Value) {
        let query = item.get("query").filter(|value| value.is_object()).map(|_| "query");
        let other_methods =
            get_entries(item, "additionalOperations").map(|(method, _)| method.as_str());
        for method in query.into_iter().chain(other_methods) {
            let message = format!(
                "midex does not send the method `{method}` of `{path}`: the operation is left out"
            );
            self.warnings.add_warning(build_operation_pointer(path, None), "method", message);
        }
    }
}

/// The summary and the description. A missing summary is replaced by the first line of the description.
fn read_summary_and_description(value: &Value) -> (String, String) {
    let (summary, description) =
        (get_text(value, "summary").trim(), get_text(value, "description").trim());
    let first_line = description.lines().next().unwrap_or_default();
    let summary = if summary.is_empty() { first_line } else { summary };
    let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    (
        truncate_to_chars(&summary, limits::OPERATION_SUMMARY_CHARS_MAX).into_owned(),
        truncate_to_chars(description, limits::OPERATION_DESCRIPTION_CHARS_MAX).into_owned(),
    )
}

fn read_security(value: Option<&Value>) -> Vec<Vec<String>> {
    let alternatives = value.and_then(Value::as_array).into_iter().flatten();
    let names = |one: &Value| one.as_object().map(|map| map.keys().cloned().collect());
    alternatives.filter_map(names).collect()
}

fn read_extensions(value: &Value) -> Map<String, Value> {
    let map = value.as_object().into_iter().flatten();
    let is_extension = |(key, value): &(&String, &Value)| {
        key.starts_with("x-") && json_length(value) <= limits::OPERATION_EXTENSION_BYTES_MAX
    };
    map.filter(is_extension).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The approximate size of an operation in bytes, without its schemas.
fn estimate_operation_bytes(operation: &Operation) -> usize {
    let extensions = operation.extensions.len() * limits::OPERATION_EXTENSION_BYTES_MAX / 4;
    let parameters = operation.parameters.iter().map(|one| 200 + one.description.len());
    let contents = operation.body.iter().flat_map(|body| &body.contents);
    let encodings: usize = contents.map(|content| 100 * content.encoding.len()).sum();
    500 + operation.description.len() + extensions + parameters.sum::<usize>() + encodings
}

/// Why a path cannot be part of a URL.
fn unusable_path_reason(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some(format!("the path `{path}` does not begin with `/`"));
    }
    let sign =
        path.chars().find(|sign| *sign == '?' || sign.is_control() || sign.is_whitespace())?;
    Some(format!(
        "the path `{}` has {sign:?} in it, which a path cannot have",
        truncate_to_chars(path, 200)
    ))
}

/// Removes the part of a path that is not sent: some documents distinguish operations of one path by a `#fragment`.
pub(super) fn strip_path_fragment(path: &mut String) {
    path.truncate(path.find('#').unwrap_or(path.len()));
}
