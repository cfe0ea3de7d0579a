//! Infers the pagination of a list from the document.

use serde_json::Value;

use super::shape::{SharedSchemas, collect_all_properties, find_schema_type};
use crate::operation::{Operation, OperationClass, Pagination, Parameter, ParameterLocation};

/// Names of parameters that take the cursor of the previous answer.
const CURSOR_PARAMETERS: &[&str] = &[
    "cursor",
    "pagetoken",
    "nexttoken",
    "nextpagetoken",
    "continue",
    "continuationtoken",
    "marker",
    "after",
    "pagecursor",
    "startingafter",
    "afterid",
    "offset",
];
/// Names of answer fields with the next cursor. The name `offset` counts too, but only inside of one of [`PAGINATION_OBJECTS`].
const NEXT_CURSOR_FIELDS: &[&str] = &[
    "nextcursor",
    "nextpagetoken",
    "nexttoken",
    "nextmarker",
    "continue",
    "continuationtoken",
    "endcursor",
    "aftercursor",
    "cursor",
    "after",
    "startingafter",
    "lastid",
];
/// Names of fields with the URL of the next page, as [`normalize_name`] writes them.
pub(crate) const NEXT_URL_FIELDS: &str = "next nexturl nextpageurl nextlink odatanextlink nexthref";
/// Names of flags that tell whether there is a further page.
pub(crate) const HAS_MORE_FLAGS: &str = "hasmore hasnext hasnextpage moreavailable istruncated";
/// Names of objects that contain such fields.
pub(crate) const PAGINATION_OBJECTS: &[&str] = &[
    "meta",
    "metadata",
    "paging",
    "pagination",
    "pageinfo",
    "responsemetadata",
    "cursors",
    "links",
    "nextpage",
    "page",
    "pages",
    "info",
    "next",
];
/// How deep such objects are nested at most.
const PAGINATION_DEPTH_MAX: usize = 2;
/// Names of parameters for the page number.
const PAGE_NUMBER_PARAMETERS: &[&str] = &["page", "pagenumber", "pageindex", "pageno"];
/// Names of parameters for the number of items before the page.
const OFFSET_PARAMETERS: &[&str] = &["offset", "skip", "start", "startat", "startindex"];
/// Names of parameters for the page size.
const PAGE_SIZE_PARAMETERS: &[&str] =
    &["perpage", "pagesize", "limit", "size", "maxresults", "count", "top"];

/// Infers the pagination of an operation, except for the header `Link`.
pub(super) fn infer_pagination(
    operation: &Operation,
    shared: &SharedSchemas,
) -> Option<Pagination> {
    if operation.method.class() != OperationClass::Safe {
        return None;
    }
    let find_parameter = |names: &[&str]| {
        operation.parameters.iter().find(|parameter| is_parameter_named(parameter, names))
    };
    let field = operation
        .output
        .as_ref()
        .and_then(|output| find_next_cursor_path(output, shared, PAGINATION_DEPTH_MAX));
    let cursor = find_parameter(CURSOR_PARAMETERS).map(|parameter| parameter.argument.clone());
    if let Some((argument, field)) = cursor.zip(field) {
        return Some(Pagination::Cursor { argument, field });
    }
    let has_field = |names: &str| has_answer_field(operation.output.as_ref(), names, shared);
    let after_parameter = find_parameter(&["startingafter"]).or_else(|| {
        let after_parameter = find_parameter(&["after", "afterid"])
            .filter(|parameter| !is_time_schema(&parameter.schema));
        after_parameter.filter(|_| operation.output.is_none() || has_field(HAS_MORE_FLAGS))
    });
    if let Some(parameter) = after_parameter {
        return Some(Pagination::LastItem {
            argument: parameter.argument.clone(),
            field: "id".to_owned(),
        });
    }
    let find_counter = |names| {
        find_parameter(names)
            .filter(|parameter| find_schema_type(&parameter.schema, shared) != Some("string"))
    };
    let page = find_counter(PAGE_NUMBER_PARAMETERS);
    let Some(counter) = page.or_else(|| find_counter(OFFSET_PARAMETERS)) else {
        return has_field(NEXT_URL_FIELDS).then_some(Pagination::Url);
    };
    Some(Pagination::Page {
        argument: counter.argument.clone(),
        size: find_parameter(PAGE_SIZE_PARAMETERS).map(|parameter| parameter.argument.clone()),
        counts_items: page.is_none(),
    })
}

fn is_parameter_named(parameter: &Parameter, names: &[&str]) -> bool {
    parameter.location == ParameterLocation::Query
        && names.contains(&normalize_name(&parameter.name).as_str())
}

/// Whether a parameter takes a date or a time. Such an `after` is a filter, not the id of an item.
fn is_time_schema(schema: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str);
    format.is_some_and(|format| format.starts_with("date"))
}

/// Whether the answer, or one of the [`PAGINATION_OBJECTS`] in it, has a field of one of these names.
fn has_answer_field(output: Option<&Value>, names: &str, shared: &SharedSchemas) -> bool {
    let is_wanted_name = |name: &str| names.split(' ').any(|known| known == normalize_name(name));
    let properties = output.map(|output| collect_all_properties(output, shared));
    properties.into_iter().flatten().any(|(name, value)| {
        let is_pagination_object = PAGINATION_OBJECTS.contains(&&*normalize_name(name));
        let inner = collect_all_properties(value, shared);
        is_wanted_name(name)
            || (is_pagination_object && inner.iter().any(|(name, _)| is_wanted_name(name)))
    })
}

/// A name in lower case without separators, so that spellings can be compared.
pub(crate) fn normalize_name(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// The path of the next cursor in the answer: names joined by dots.
fn find_next_cursor_path(output: &Value, shared: &SharedSchemas, depth: usize) -> Option<String> {
    find_scalar_field(output, NEXT_CURSOR_FIELDS, shared).or_else(|| {
        let pagination_objects = collect_all_properties(output, shared).into_iter();
        let pagination_objects = pagination_objects
            .filter(|(name, _)| PAGINATION_OBJECTS.contains(&normalize_name(name).as_str()));
        pagination_objects.take_while(|_| depth > 0).find_map(|(name, value)| {
            let cursor_path = find_next_cursor_path(value, shared, depth - 1);
            let cursor_path = cursor_path.or_else(|| find_scalar_field(value, &["offset"], shared));
            Some(format!("{name}.{}", cursor_path?))
        })
    })
}

/// The first of these properties that is a string or a number.
fn find_scalar_field(holder: &Value, names: &[&str], shared: &SharedSchemas) -> Option<String> {
    let properties = collect_all_properties(holder, shared);
    let is_scalar = |value: &Value| {
        matches!(find_schema_type(value, shared), Some("string" | "integer" | "number"))
    };
    let mut found = names.iter().filter_map(|wanted| {
        properties.iter().find(|(name, value)| normalize_name(name) == *wanted && is_scalar(value))
    });
    found.next().map(|(name, _)| (*name).to_owned())
}
