//! How further pages of a list are asked for, as far as the document shows it.

use serde_json::Value;

use super::shape::{Shared, kind, properties};
use crate::catalog::operation::{Class, Location, Operation, Pagination, Parameter};

/// Parameters that take the value which the answer before gave.
const CURSORS: &[&str] = &[
    "cursor",
    "pagetoken",
    "nexttoken",
    "nextpagetoken",
    "continue",
    "continuationtoken",
    "marker",
    "after",
    "pagecursor",
    "offset",
];
/// Fields of an answer that hold the value for the next call; `offset` only where a field around it says so.
const NEXTS: &[&str] = &[
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
    "lastid",
];
/// Fields that hold such a field.
const HOLDERS: &[&str] = &[
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
];
/// Parameters that count pages.
const PAGES: &[&str] = &["page", "pagenumber", "pageindex", "pageno"];
/// Parameters that count items before the page.
const OFFSETS: &[&str] = &["offset", "skip", "start", "startat", "startindex"];
/// Parameters that say how many items a page has.
const SIZES: &[&str] = &[
    "perpage",
    "pagesize",
    "limit",
    "size",
    "maxresults",
    "count",
    "top",
];

/// How the pages of an operation follow each other, beside a header of the answer.
pub(super) fn pagination(operation: &Operation, shared: &Shared) -> Option<Pagination> {
    if operation.method.class() != Class::Safe {
        return None;
    }
    let one_of = |names: &[&str]| {
        operation
            .parameters
            .iter()
            .find(|parameter| is_named(parameter, names))
    };
    let field = operation
        .output
        .as_ref()
        .and_then(|output| next(output, shared));
    let cursor = one_of(CURSORS).map(|parameter| parameter.argument.clone());
    if let Some((argument, field)) = cursor.zip(field) {
        return Some(Pagination::Cursor { argument, field });
    }
    let counts =
        |names| one_of(names).filter(|parameter| kind(&parameter.schema, shared) != Some("string"));
    let page = counts(PAGES);
    let counting = page.or_else(|| counts(OFFSETS))?;
    Some(Pagination::Page {
        argument: counting.argument.clone(),
        size: one_of(SIZES).map(|parameter| parameter.argument.clone()),
        counts_items: page.is_none(),
    })
}

fn is_named(parameter: &Parameter, names: &[&str]) -> bool {
    parameter.location == Location::Query && names.contains(&bare(&parameter.name).as_str())
}

/// A name without its way of writing.
fn bare(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Where the answer has the value for the next call, as a path with dots.
fn next(output: &Value, shared: &Shared) -> Option<String> {
    field(output, NEXTS, shared).or_else(|| {
        let holders = properties(output, shared).into_iter();
        let mut holders = holders.filter(|(name, _)| HOLDERS.contains(&bare(name).as_str()));
        holders.find_map(|(name, value)| {
            let found = field(value, NEXTS, shared).or_else(|| field(value, &["offset"], shared));
            Some(format!("{name}.{}", found?))
        })
    })
}

/// The first of these properties that holds a text or a number.
fn field(holder: &Value, names: &[&str], shared: &Shared) -> Option<String> {
    let all = properties(holder, shared);
    let is_scalar =
        |value: &Value| matches!(kind(value, shared), Some("string" | "integer" | "number"));
    let mut found = names.iter().filter_map(|wanted| {
        all.iter()
            .find(|(name, value)| bare(name) == *wanted && is_scalar(value))
    });
    found.next().map(|(name, _)| (*name).to_owned())
}
