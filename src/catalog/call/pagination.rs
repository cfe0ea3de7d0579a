//! Pagination hints in an answer: whether there is a further page, and its URL.

use serde_json::Value;

use crate::document::{HAS_MORE_FLAGS, NEXT_URL_FIELDS, PAGINATION_OBJECTS, normalize_name};

/// Fields for the next page or its cursor, which are null if there is none.
const NEXT_PAGE_FIELDS: &str =
    "nextpage nextcursor nextpagetoken nexttoken nextmarker continuationtoken";
/// Flags that mark the last page.
const LAST_PAGE_FLAGS: &str = "last islast islastpage";
/// Fields for the number of pages.
const PAGE_COUNT_FIELDS: &str = "pages totalpages pagecount lastpage numpages pagestotal";
/// Fields for the number of this page, from 1.
const PAGE_NUMBER_FIELDS: &str = "page currentpage pagenumber";

/// The pagination hints of an answer.
#[derive(Debug, Default)]
pub(super) struct PaginationHints {
    /// Whether there is a further page; `None` if the answer does not say.
    pub(super) has_more: Option<bool>,
    /// The URL of the next page.
    pub(super) url: Option<String>,
    count: Option<u64>,
    /// The number of this page, from 1.
    page: Option<u64>,
}

impl PaginationHints {
    /// Reads the hints in a payload. `requested_page` is the number of the requested page, if the list counts pages.
    pub(super) fn from_payload(payload: &Value, requested_page: Option<u64>) -> Self {
        let mut hints = Self::default();
        let fields = payload.as_object().into_iter().flatten();
        for (name, value) in fields {
            hints.read_field(&normalize_name(name), value);
            if PAGINATION_OBJECTS.contains(&&*normalize_name(name)) {
                let inner = value.as_object().into_iter().flatten();
                inner.for_each(|(name, value)| hints.read_field(&normalize_name(name), value));
            }
        }
        if let Some((page, count)) = hints.page.or(requested_page).zip(hints.count) {
            match count.saturating_sub(page) {
                0 => hints.record_hint(false),
                // In a service that counts from 0 this is the last page, so nothing can be concluded.
                1 => {}
                _ => hints.record_hint(true),
            }
        }
        hints
    }

    /// Records a hint. If hints contradict each other, there is a further page: requesting one too many loses no
    /// items.
    fn record_hint(&mut self, has_more: bool) {
        self.has_more = Some(has_more || self.has_more == Some(true));
    }

    fn read_field(&mut self, name: &str, value: &Value) {
        let is_named = |names: &str| names.split(' ').any(|known| known == name);
        match value {
            Value::Bool(flag) if is_named(HAS_MORE_FLAGS) => self.record_hint(*flag),
            Value::Bool(flag) if is_named(LAST_PAGE_FLAGS) => self.record_hint(!flag),
            Value::Null | Value::Bool(false)
                if is_named(NEXT_URL_FIELDS) || is_named(NEXT_PAGE_FIELDS) =>
            {
                self.record_hint(false);
            }
            Value::String(text) if is_named(NEXT_URL_FIELDS) || is_named(NEXT_PAGE_FIELDS) => {
                self.record_hint(!text.is_empty());
                let is_url = ["http", "/", "?"].iter().any(|begin| text.starts_with(begin));
                if is_url {
                    self.url = Some(text.clone());
                }
            }
            Value::Object(link) if is_named(NEXT_URL_FIELDS) => {
                let href = link.get("href").and_then(Value::as_str);
                self.url = href.map(str::to_owned).or(self.url.take());
                self.record_hint(true);
            }
            Value::Number(_) if is_named(NEXT_PAGE_FIELDS) => self.record_hint(true),
            Value::Number(number) if is_named(PAGE_COUNT_FIELDS) => self.count = number.as_u64(),
            Value::Number(number) if is_named(PAGE_NUMBER_FIELDS) => self.page = number.as_u64(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_says_whether_there_is_a_further_page() {
        for (payload, has_more, url) in [
            (json!([1]), None, None),
            (json!({ "items": [] }), None, None),
            (json!({ "next": null }), Some(false), None),
            (json!({ "next": "/x?page=2" }), Some(true), Some("/x?page=2")),
            (json!({ "next": null, "has_more": true }), Some(true), None),
            (json!({ "nextPageToken": "" }), Some(false), None),
            (
                json!({ "@odata.nextLink": "https://a/?$skip=2" }),
                Some(true),
                Some("https://a/?$skip=2"),
            ),
            (json!({ "_links": { "next": { "href": "/y" } } }), Some(true), Some("/y")),
            (json!({ "links": { "self": "/" } }), None, None),
            (json!({ "page": 2, "pages": 3 }), None, None),
            (json!({ "page": 3, "pages": 3 }), Some(false), None),
            (json!({ "meta": { "total_pages": 1 } }), Some(false), None),
            (json!({ "last": false }), Some(true), None),
            (json!({ "last": { "name": "x" } }), None, None),
        ] {
            let signs = PaginationHints::from_payload(&payload, Some(1));
            assert_eq!((signs.has_more, signs.url.as_deref()), (has_more, url), "{payload}");
        }
    }
}
