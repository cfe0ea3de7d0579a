//! How further pages of a list are asked for, as far as the document shows it.

use serde_json::Value;

use super::shape::{Shared, kind, properties};
use crate::operation::{Class, Location, Operation, Pagination, Parameter};

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
    "startingafter",
    "afterid",
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
    "startingafter",
    "lastid",
];
/// Fields that hold the URL of the next page, as [`bare`] writes them.
pub(crate) const NEXT_URLS: &str = "next nexturl nextpageurl nextlink odatanextlink nexthref";
/// Flags that say whether there is a further page.
pub(crate) const MORES: &str = "hasmore hasnext hasnextpage moreavailable istruncated";
/// Fields that hold such a field.
pub(crate) const HOLDERS: &[&str] = &[
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
/// How many of them lie inside each other.
const HOLDERS_DEPTH: usize = 2;
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
        .and_then(|output| next(output, shared, HOLDERS_DEPTH));
    let cursor = one_of(CURSORS).map(|parameter| parameter.argument.clone());
    if let Some((argument, field)) = cursor.zip(field) {
        return Some(Pagination::Cursor { argument, field });
    }
    let has = |names: &str| has_field(operation.output.as_ref(), names, shared);
    let after = one_of(&["startingafter"]).or_else(|| {
        let after = one_of(&["after", "afterid"]).filter(|parameter| !is_time(&parameter.schema));
        after.filter(|_| operation.output.is_none() || has(MORES))
    });
    if let Some(parameter) = after {
        return Some(Pagination::LastItem {
            argument: parameter.argument.clone(),
            field: "id".to_owned(),
        });
    }
    let counts =
        |names| one_of(names).filter(|parameter| kind(&parameter.schema, shared) != Some("string"));
    let page = counts(PAGES);
    let Some(counting) = page.or_else(|| counts(OFFSETS)) else {
        return has(NEXT_URLS).then_some(Pagination::Url);
    };
    Some(Pagination::Page {
        argument: counting.argument.clone(),
        size: one_of(SIZES).map(|parameter| parameter.argument.clone()),
        counts_items: page.is_none(),
    })
}

fn is_named(parameter: &Parameter, names: &[&str]) -> bool {
    parameter.location == Location::Query && names.contains(&bare(&parameter.name).as_str())
}

/// Whether a parameter takes a time: `after` a date, and not after an item.
fn is_time(schema: &Value) -> bool {
    let format = schema.get("format").and_then(Value::as_str);
    format.is_some_and(|format| format.starts_with("date"))
}

/// Whether the answer, or what holds such fields, has one of these.
fn has_field(output: Option<&Value>, names: &str, shared: &Shared) -> bool {
    let is_one = |name: &str| names.split(' ').any(|known| known == bare(name));
    let all = output.map(|output| properties(output, shared));
    all.into_iter().flatten().any(|(name, value)| {
        let is_holder = HOLDERS.contains(&&*bare(name));
        let inner = properties(value, shared);
        is_one(name) || (is_holder && inner.iter().any(|(name, _)| is_one(name)))
    })
}

/// A name without its way of writing.
pub(crate) fn bare(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Where the answer has the value for the next call, as a path with dots.
fn next(output: &Value, shared: &Shared, depth: usize) -> Option<String> {
    field(output, NEXTS, shared).or_else(|| {
        let holders = properties(output, shared).into_iter();
        let holders = holders.filter(|(name, _)| HOLDERS.contains(&bare(name).as_str()));
        holders.take_while(|_| depth > 0).find_map(|(name, value)| {
            let found = next(value, shared, depth - 1);
            let found = found.or_else(|| field(value, &["offset"], shared));
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
