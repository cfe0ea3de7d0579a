//! Pagination of lists. A cursor names the last item of the previous page, so items that are added or removed in
//! between do not shift other items: an item that is present throughout is listed exactly once.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use rmcp::model::PaginatedRequestParams;

use midex_domain::{
    error::{Code, Error, Result, Violation, repeat_call},
    limits,
};

/// A page of a list.
#[derive(Debug)]
pub(super) struct CursorPage<T> {
    pub(super) items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub(super) next: Option<String>,
}

/// The requested page of `items`. `method` is the list method, and `key` returns the unique key of an item.
///
/// # Errors
/// `ARGUMENTS_INVALID` if the cursor does not name any item.
pub(super) fn paginate<T>(
    method: &'static str,
    items: Vec<T>,
    key: impl Fn(&T) -> &str,
    request: Option<PaginatedRequestParams>,
) -> Result<CursorPage<T>> {
    let start = match request.and_then(|asked| asked.cursor) {
        None => 0,
        Some(cursor) => {
            let last = decode_cursor(&cursor);
            let position = items.iter().position(|item| last.as_deref() == Some(key(item)));
            position.ok_or_else(|| unknown_cursor_error(method, &cursor))? + 1
        }
    };
    let has_more = items.len() > start + limits::LIST_PAGE_MAX;
    let items: Vec<_> = items.into_iter().skip(start).take(limits::LIST_PAGE_MAX).collect();
    let last_item = items.last().filter(|_| has_more);
    let next = last_item.map(|item| BASE64_URL_SAFE_NO_PAD.encode(key(item)));
    Ok(CursorPage { items, next })
}

fn decode_cursor(cursor: &str) -> Option<String> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
    String::from_utf8(bytes).ok()
}

fn unknown_cursor_error(method: &str, cursor: &str) -> Error {
    let short_cursor: String = cursor.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let message = format!("`{short_cursor}` is no cursor of {method}, or what it names is gone");
    let violation = Violation::new("/cursor", "cursor", message.clone())
        .with_expected("the nextCursor of the page before");
    Error::new(Code::ArgumentsInvalid, message)
        .with_context("tool", method)
        .with_violations(vec![violation])
        .with_next(repeat_call("without cursor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_request(cursor: Option<String>) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(cursor)
    }

    /// The sizes of all pages of a list of `count` items.
    fn page_sizes(count: usize) -> Vec<usize> {
        let names: Vec<_> = (0..count).map(|number| format!("item {number}")).collect();
        let (mut seen, mut sizes, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let page = paginate("list", names.clone(), String::as_str, Some(page_request(cursor)))
                .expect("a page");
            sizes.push(page.items.len());
            seen.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                assert_eq!(seen, names);
                return sizes;
            }
        }
    }

    #[test]
    fn every_item_is_on_one_page() {
        let max = limits::LIST_PAGE_MAX;
        assert_eq!(page_sizes(0), [0]);
        assert_eq!(page_sizes(max), [max]);
        assert_eq!(page_sizes(max + 1), [max, 1]);
        assert_eq!(page_sizes(2 * max), [max, max]);
    }

    #[test]
    fn unknown_cursor_is_refused() {
        let names = vec!["a".to_owned()];
        for cursor in [
            "",
            "*",
            "YQ==",
            &BASE64_URL_SAFE_NO_PAD.encode("b"),
            &BASE64_URL_SAFE_NO_PAD.encode([255]),
        ] {
            let error = paginate(
                "tools/list",
                names.clone(),
                String::as_str,
                Some(page_request(Some(cursor.to_owned()))),
            );
            let error = error.expect_err(cursor);
            assert_eq!(error.code(), Code::ArgumentsInvalid);
            assert_eq!(error.suggested_action(), "Call tools/list again: without cursor");
        }
        let last = BASE64_URL_SAFE_NO_PAD.encode("a");
        let after = paginate("list", names, String::as_str, Some(page_request(Some(last))))
            .expect("the end");
        assert!(after.items.is_empty() && after.next.is_none());
    }
}
