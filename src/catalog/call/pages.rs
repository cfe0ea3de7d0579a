//! Pages: one call after the other, until the list has ended or a limit is met.

use std::collections::BTreeSet;

use reqwest::Url;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Page, Payload, client::Fault};
use crate::{
    catalog::operation::{Operation, Pagination},
    domain::{Digest, execution::OperationFailure},
    limits,
};

/// That further pages are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paginate {
    /// How many at most; [`limits::CALL_PAGES`] where nobody says, and never more than [`limits::CALL_PAGES_MAX`].
    pub max_pages: Option<u32>,
    /// Where the list stands in an answer: `data.items`. Empty where the answer is the list; where nobody says, the answer
    /// itself or its only list.
    pub items_path: Option<String>,
}

/// What is gathered.
#[derive(Default)]
struct Gathered {
    items: Vec<Value>,
    bytes: usize,
    /// What was seen: cursors, URLs, digests of pages.
    seen: BTreeSet<String>,
}

/// How the next page is asked for.
enum Next {
    With(String, Value),
    At(Url),
}

/// Asks for page after page: the answer is the list of all their items, with the status and headers of the last one.
pub(super) async fn gather(
    call: &Call<'_>,
    with: &Value,
    body: Option<&Value>,
    paginate: &Paginate,
) -> Result<Answer, OperationFailure> {
    let most = paginate
        .max_pages
        .unwrap_or(limits::CALL_PAGES)
        .clamp(1, limits::CALL_PAGES_MAX);
    let mut with = with.clone();
    let mut gathered = Gathered::default();
    let mut page = Page::default();
    loop {
        let number = page.number;
        let (mut answer, url) = call.once(&with, body, page).await?;
        let payload = std::mem::replace(&mut answer.payload, Payload::Empty).into_value();
        let Some(items) = items_of(&payload, paginate.items_path.as_deref()) else {
            let why = "an answer has no list of items";
            if number > 0 {
                return Ok(gathered.answer(answer, number, Some(why.to_owned())));
            }
            answer.notes.push(format!("this is one page: {why}"));
            answer.payload = Payload::Json(payload);
            return Ok(answer);
        };
        let next = next(call.operation(), &with, &url, &answer, &payload, items)?;
        let stopped = gathered.add(items);
        let stopped = stopped.or_else(|| gathered.stops_before(next.as_ref()?, number + 1, most));
        match next.filter(|_| stopped.is_none()) {
            None => return Ok(gathered.answer(answer, number + 1, stopped)),
            Some(Next::At(url)) => page = Page::new(number + 1, Some(url)),
            Some(Next::With(argument, value)) => {
                page = Page::new(number + 1, None);
                set(&mut with, argument, value);
            }
        }
    }
}

fn set(with: &mut Value, argument: String, value: Value) {
    if !with.is_object() {
        *with = Value::Object(Map::new());
    }
    if let Value::Object(with) = with {
        with.insert(argument, value);
    }
}

impl Gathered {
    /// Adds the items of a page, as far as the limits go; why no further ones are wanted.
    fn add(&mut self, items: &[Value]) -> Option<String> {
        let page = Digest::of(Value::from(items).to_string().as_bytes());
        if !items.is_empty() && !self.seen.insert(format!("page {page}")) {
            return Some("a page was the same as one before it".to_owned());
        }
        for item in items {
            let bytes = self.bytes + item.to_string().len();
            if self.items.len() == limits::CALL_ITEMS_MAX {
                return Some(format!("a list may have {} items", limits::CALL_ITEMS_MAX));
            }
            if bytes > limits::CALL_ITEMS_BYTES_MAX {
                return Some(format!(
                    "a list may have {} bytes",
                    limits::CALL_ITEMS_BYTES_MAX
                ));
            }
            self.bytes = bytes;
            self.items.push(item.clone());
        }
        None
    }

    /// Why the next page is not asked for, after so many.
    fn stops_before(&mut self, next: &Next, pages: u32, most: u32) -> Option<String> {
        let seen = match next {
            Next::At(url) => format!("url {url}"),
            Next::With(_, value) => format!("value {value}"),
        };
        if !self.seen.insert(seen) {
            return Some("a page named one that was asked for before as the next".to_owned());
        }
        (pages == most).then(|| format!("{most} pages were asked for"))
    }

    /// The answer to the last page with all that was gathered.
    fn answer(self, last: Answer, pages: u32, stopped: Option<String>) -> Answer {
        let mut notes = last.notes;
        notes.extend(stopped.map(|why| format!("there may be more items: {why}")));
        Answer {
            payload: Payload::Json(Value::Array(self.items)),
            pages,
            notes,
            ..last
        }
    }
}

/// The items of an answer.
fn items_of<'a>(payload: &'a Value, path: Option<&str>) -> Option<&'a [Value]> {
    let list = match path {
        Some(path) => at(payload, path)?.as_array(),
        None => match payload {
            Value::Object(map) => {
                let mut lists = map.values().filter_map(Value::as_array);
                lists.next().filter(|_| lists.next().is_none())
            }
            payload => payload.as_array(),
        },
    };
    list.map(Vec::as_slice)
}

/// The value at a path: `meta.next_cursor`, and nothing for the whole.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

/// How the page after this one is asked for; nothing where this is the last.
fn next(
    operation: &Operation,
    with: &Value,
    url: &Url,
    answer: &Answer,
    payload: &Value,
    items: &[Value],
) -> Result<Option<Next>, OperationFailure> {
    match &operation.pagination {
        None => Ok(None),
        Some(Pagination::Link) => {
            let target = answer
                .headers
                .get("link")
                .and_then(|links| next_link(links));
            target.map(|target| same_origin(url, target)).transpose()
        }
        Some(Pagination::Cursor { argument, field }) => {
            let has_more = payload.get("has_more").and_then(Value::as_bool);
            let cursor = at(payload, field).filter(|cursor| {
                cursor.is_number() || cursor.as_str().is_some_and(|text| !text.is_empty())
            });
            let cursor = cursor.filter(|_| has_more != Some(false));
            Ok(cursor.map(|cursor| Next::With(argument.clone(), cursor.clone())))
        }
        Some(Pagination::Page {
            argument,
            size,
            counts_items,
        }) => {
            let size = size.as_ref().and_then(|size| with.get(size)?.as_u64());
            let count = items.len() as u64;
            if count == 0 || size.is_some_and(|size| count < size) {
                return Ok(None);
            }
            let at = with.get(argument).and_then(Value::as_u64);
            let at = at.unwrap_or_else(|| first(operation, argument, *counts_items));
            let next = at.saturating_add(if *counts_items { count } else { 1 });
            Ok(Some(Next::With(argument.clone(), json!(next))))
        }
    }
}

/// The number that a service takes for the first page: its default, or else 1 of pages and 0 of items.
fn first(operation: &Operation, argument: &str, counts_items: bool) -> u64 {
    let mut parameters = operation.parameters.iter();
    let schema = parameters
        .find(|parameter| parameter.argument == argument)
        .map(|parameter| &parameter.schema);
    let said = schema.and_then(|schema| schema.get("default").or_else(|| schema.get("minimum")));
    said.and_then(Value::as_u64)
        .unwrap_or(u64::from(!counts_items))
}

/// The target of the link `next` (RFC 8288).
fn next_link(links: &str) -> Option<&str> {
    links.split('<').skip(1).find_map(|link| {
        let (target, parameters) = link.split_once('>')?;
        let is_next = |parameter: &str| {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
            let mut relations = value.split_ascii_whitespace();
            (name.trim().eq_ignore_ascii_case("rel")
                && relations.any(|relation| relation.eq_ignore_ascii_case("next")))
            .then_some(())
        };
        parameters.split(';').find_map(is_next).map(|()| target)
    })
}

/// The next page lies where the one before it lay: to another origin neither arguments nor secrets go.
fn same_origin(url: &Url, target: &str) -> Result<Next, OperationFailure> {
    match url.join(target) {
        Ok(next) if next.origin() == url.origin() => Ok(Next::At(next)),
        _ => {
            let message = "the next page lies at another origin, or at no URL".to_owned();
            Err(Fault::Redirect(message).into_failure(false))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_link_is_found_among_others() {
        for (links, expected) in [
            (
                "<https://a/?p=2>; rel=\"next\", <https://a/?p=9>; rel=\"last\"",
                Some("https://a/?p=2"),
            ),
            (
                "</a?p=0>; rel=prev, </a?p=2>; title=\"x; y\"; rel=next",
                Some("/a?p=2"),
            ),
            ("</a,b;c?x=1>; REL=\"last Next\"", Some("/a,b;c?x=1")),
            ("<a>; rel=\"nextish\"", None),
            ("", None),
            ("<a", None),
        ] {
            assert_eq!(next_link(links), expected, "{links}");
        }
    }

    #[test]
    fn items_stand_where_the_contract_says_or_in_the_only_list() {
        let payload = json!({ "data": { "items": [1] }, "more": [2] });
        assert_eq!(
            items_of(&payload, Some("data.items")),
            Some(&[json!(1)][..])
        );
        assert_eq!(items_of(&payload, None), Some(&[json!(2)][..]));
        assert_eq!(items_of(&json!([3]), Some("")), Some(&[json!(3)][..]));
        assert_eq!(items_of(&json!([3]), None), Some(&[json!(3)][..]));
        assert_eq!(items_of(&json!({ "a": [], "b": [] }), None), None);
        assert_eq!(items_of(&json!({ "a": 1 }), Some("a")), None);
    }

    #[test]
    fn a_list_ends_at_its_limits() {
        let mut gathered = Gathered::default();
        let page: Vec<_> = (0..limits::CALL_ITEMS_MAX).map(Value::from).collect();
        assert_eq!(gathered.add(&page), None);
        assert!(gathered.add(&[json!("one more")]).is_some());
        assert_eq!(gathered.items.len(), limits::CALL_ITEMS_MAX);
        let mut gathered = Gathered::default();
        let large = json!("x".repeat(limits::CALL_ITEMS_BYTES_MAX - 2));
        assert_eq!(gathered.add(&[large]), None);
        assert!(gathered.add(&[json!(1)]).is_some());
        assert_eq!(gathered.items.len(), 1);
    }
}
