//! Pagination: each page is one call, whose answer tells how to request the next page, until the list ends or a limit
//! is reached.

use std::fmt::{Display, Write as _};

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Answer, Call, PageRequest, ResponseBody, answer::failure_from_error, client::redirect_error,
    pagination::PaginationHints, secret::has_reference,
};
use crate::operation::{Operation, Pagination};
use midex_domain::{
    Digest,
    definition::PaginateOptions,
    document::{JsonText, count_json_values, to_plain_text},
    execution::OperationFailure,
    limits,
    operation::PageCursor,
    schema::{follow_references, non_null_types},
    truncate::truncate_to_chars,
    uri,
};

/// Status codes of an answer for a page past the end. After at least one page they mean that the list has ended.
const PAST_END_STATUSES: [u16; 4] = [400, 404, 416, 422];
/// How many characters of such an answer a note repeats.
const NOTE_CHARS_MAX: usize = 300;

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemsPage {
    /// The answer. Its payload is empty, unless the answer is no list.
    pub answer: Answer,
    /// The items; `None` where the answer is no list.
    pub items: Option<Vec<Value>>,
    /// The cursor of the next page; `None` if this page is the last.
    pub next: Option<PageCursor>,
    /// Why items may be missing. `None` if the only reason is that the caller's `max_pages` was reached.
    pub incomplete_reason: Option<String>,
}

/// The progress through a list, and how to request its next page. The caller keeps it as a [`PageCursor`] between pages.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ListProgress {
    pages: u32,
    items: usize,
    bytes: usize,
    #[serde(default)]
    values: usize,
    /// The marks in a cursor of an earlier version, which held those of all pages: 24 hexadecimal digits each.
    #[serde(default, skip_serializing)]
    seen: Vec<String>,
    /// Marks of the cursors, URLs and pages before this page, to detect a loop.
    #[serde(skip)]
    marks: Vec<u64>,
    /// The marks of this page.
    #[serde(skip)]
    new_marks: Vec<u64>,
    next: Option<NextPage>,
    /// Whether the previous page announced a further one.
    #[serde(default)]
    is_promised: bool,
    /// Whether a page had a header `Link` with the next page.
    #[serde(default)]
    has_links: bool,
    /// The status code of the previous page.
    #[serde(default)]
    status: u16,
}

/// How to request the next page: with an argument, or at a URL.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NextPage {
    With(String, Value),
    At(String),
}

impl ListProgress {
    /// Reads the cursor of a page. Without one, the state before the first page.
    pub(super) fn from_cursor(cursor: Option<&PageCursor>) -> Result<Self, OperationFailure> {
        let Some(PageCursor { next, seen }) = cursor else {
            return Ok(Self::default());
        };
        let mut progress: Self =
            serde_json::from_str(next.as_str()).map_err(unknown_page_failure)?;
        progress.marks.clone_from(seen);
        let old_marks = std::mem::take(&mut progress.seen).into_iter();
        progress.new_marks = old_marks
            .filter_map(|digits| u64::from_str_radix(digits.get(..16)?, 16).ok())
            .collect();
        Ok(progress)
    }

    /// The cursor of the next page, if there is one.
    fn into_cursor(self) -> Option<PageCursor> {
        self.next.as_ref()?;
        Some(PageCursor {
            next: JsonText::from_value(&serde_json::to_value(&self).unwrap_or_default()),
            seen: self.new_marks,
        })
    }
}

fn unknown_page_failure(error: impl Display) -> OperationFailure {
    let message = format!("nobody knows where the next page is: {error}");
    OperationFailure::new("internal", message)
}

/// Requests one page.
pub(super) async fn request_list_page(
    call: &Call<'_>,
    with: &Value,
    body: Option<&Value>,
    paginate: PaginateOptions,
    mut progress: ListProgress,
) -> Result<ItemsPage, OperationFailure> {
    let mut with = with.clone();
    let number = progress.pages;
    let page_request = match progress.next.take() {
        None => PageRequest::default(),
        Some(NextPage::At(url)) => {
            PageRequest::new(number, Some(Url::parse(&url).map_err(unknown_page_failure)?))
        }
        Some(NextPage::With(argument, value)) => {
            set_argument(&mut with, argument, value);
            PageRequest::new(number, None)
        }
    };
    let (mut answer, url) = match call.request_one_page(&with, body, page_request).await {
        Err(failure) if number > 0 && is_past_the_end(&failure) => {
            return Ok(progress.end_with_failure(&failure));
        }
        came => came?,
    };
    let operation = call.operation();
    let mut payload = match std::mem::replace(&mut answer.payload, ResponseBody::Empty) {
        ResponseBody::Json(payload) => payload,
        payload => return Ok(build_page_without_list(answer, payload, number)),
    };
    let declared = operation.items_path.as_deref();
    let Some(path) = find_list_pointer(&payload, declared) else {
        return Ok(build_page_without_list(answer, ResponseBody::Json(payload), number));
    };
    let list = payload.pointer(&path).and_then(Value::as_array);
    let items = list.map_or(&[][..], Vec::as_slice);
    let page_number = read_page_number(operation, &with);
    let mut hints = PaginationHints::from_payload(&payload, page_number);
    progress.read_link_header(&mut hints, &answer);
    let next = find_next_page(operation, (&with, page_number), &url, &hints, (&payload, items))?;
    progress.is_promised = hints.has_more == Some(true) || matches!(next, Some(NextPage::At(_)));
    progress.status = answer.status;
    let list = payload.pointer_mut(&path).and_then(Value::as_array_mut);
    let mut items = list.map(std::mem::take).unwrap_or_default();
    let stop_reason = progress.add_items(&mut items);
    let stop_reason = stop_reason.or_else(|| progress.repeated_page_reason(next.as_ref()?));
    let limit_reason = next.as_ref().and_then(|_| progress.page_limit_reason(paginate));
    answer.pages = progress.pages;
    let has_stopped = stop_reason.is_some() || limit_reason.is_some();
    let has_more_wanted = stop_reason.is_none() && paginate.max_pages.is_some();
    let why = stop_reason.or(limit_reason);
    let mut why = why.map(|why| format!("there may be more items: {why}"));
    if next.is_none() {
        if operation.pagination.is_none() && number == 0 {
            let why = "the document shows no way to a further page";
            answer.notes.push(format!("this is one page: {why}"));
        }
        if hints.has_more == Some(true) {
            let unknown_reason = "there are more items, and nothing says how they are asked for";
            why.get_or_insert_with(|| unknown_reason.to_owned());
        }
    }
    answer.notes.extend(why.clone());
    progress.next = next.filter(|_| !has_stopped);
    Ok(ItemsPage {
        answer,
        items: Some(items),
        next: progress.into_cursor(),
        incomplete_reason: why.filter(|_| !has_more_wanted),
    })
}

/// The result for an answer without a list: the whole answer for the first page, and the end of the list for any
/// other.
fn build_page_without_list(mut answer: Answer, payload: ResponseBody, number: u32) -> ItemsPage {
    let why = "an answer has no list of items";
    let incomplete_reason = (number > 0).then(|| format!("there may be more items: {why}"));
    if let Some(why) = &incomplete_reason {
        answer.pages = number;
        answer.notes.push(why.clone());
    } else {
        answer.notes.push(format!("this is one page: {why}"));
        answer.payload = payload;
    }
    let items = (number > 0).then(Vec::new);
    ItemsPage { answer, items, next: None, incomplete_reason }
}

fn set_argument(with: &mut Value, argument: String, value: Value) {
    if !with.is_object() {
        *with = Value::Object(Map::new());
    }
    if let Value::Object(with) = with {
        with.insert(argument, value);
    }
}

fn is_past_the_end(failure: &OperationFailure) -> bool {
    let status = failure.response.as_ref().map(|response| response.status);
    status.is_some_and(|status| PAST_END_STATUSES.contains(&status))
}

impl ListProgress {
    /// The end of a list whose next page the service refused. If the previous page announced a further one, items may
    /// be missing.
    fn end_with_failure(self, failure: &OperationFailure) -> ItemsPage {
        let words = truncate_to_chars(&failure.message, NOTE_CHARS_MAX);
        let end_note = self.is_promised.then(|| format!("there may be more items: {words}"));
        let answer = Answer {
            status: self.status,
            pages: self.pages,
            notes: end_note.iter().cloned().collect(),
            ..Answer::default()
        };
        ItemsPage { answer, items: Some(Vec::new()), next: None, incomplete_reason: end_note }
    }

    /// Adds the hint of the header `Link`: the next page, or the end of the list if earlier pages had such a link.
    fn read_link_header(&mut self, hints: &mut PaginationHints, answer: &Answer) {
        let links = answer.headers.get("link").map_or("", String::as_str);
        match parse_next_link(links) {
            Some(target) => {
                self.has_links = true;
                hints.has_more = Some(true);
                hints.url = Some(target.to_owned());
            }
            None if self.has_links && hints.has_more.is_none() => hints.has_more = Some(false),
            None => {}
        }
    }

    /// Counts the items of a page, and removes those past the limits. Returns why the list must end here, if it must.
    fn add_items(&mut self, items: &mut Vec<Value>) -> Option<String> {
        self.pages += 1;
        let mut page_json = "page [".to_owned();
        let mut item_ends = Vec::with_capacity(items.len());
        for item in &*items {
            if !item_ends.is_empty() {
                page_json.push(',');
            }
            let item_start = page_json.len();
            // Writing to a string does not fail.
            let _ = write!(page_json, "{item}");
            item_ends.push(item_start..page_json.len());
        }
        page_json.push(']');
        if !items.is_empty() && !self.record_mark(&page_json) {
            items.clear();
            return Some("a page was the same as one before it".to_owned());
        }
        for (index, text) in item_ends.into_iter().enumerate() {
            let bytes = self.bytes + text.len();
            let values = self.values + count_json_values(&page_json.as_bytes()[text]);
            let why = if self.items == limits::CALL_ITEMS_MAX {
                format!("a list may have {} items", limits::CALL_ITEMS_MAX)
            } else if bytes > limits::CALL_ITEMS_BYTES_MAX
                || values > limits::CALL_ANSWER_VALUES_MAX
            {
                let (bytes, values) =
                    (limits::CALL_ITEMS_BYTES_MAX, limits::CALL_ANSWER_VALUES_MAX);
                format!("a list may have {bytes} bytes and {values} values")
            } else {
                (self.bytes, self.values) = (bytes, values);
                self.items += 1;
                continue;
            };
            items.truncate(index);
            return Some(why);
        }
        None
    }

    /// Marks a cursor, URL or page. Returns whether it is new.
    fn record_mark(&mut self, text: &str) -> bool {
        let digest = Digest::compute(text.as_bytes());
        let first = digest.as_bytes().first_chunk().copied();
        let mark = u64::from_be_bytes(first.unwrap_or_default());
        let is_new = !self.marks.contains(&mark) && !self.new_marks.contains(&mark);
        if is_new {
            self.new_marks.push(mark);
        }
        is_new
    }

    /// Why the next page is not requested, apart from the limit of pages: it was requested before.
    fn repeated_page_reason(&mut self, next: &NextPage) -> Option<String> {
        let is_new = match next {
            NextPage::At(url) => self.record_mark(&format!("url {url}")),
            NextPage::With(_, value) => self.record_mark(&format!("value {value}")),
        };
        let why = "a page named one that was asked for before as the next";
        (!is_new).then(|| why.to_owned())
    }

    /// Why the limit of pages ends the list, if it is reached.
    fn page_limit_reason(&self, paginate: PaginateOptions) -> Option<String> {
        let max_pages = paginate.max_pages.unwrap_or(limits::CALL_PAGES);
        let max_pages = max_pages.clamp(1, limits::CALL_PAGES_MAX);
        let hint = match paginate.max_pages {
            Some(_) => "",
            None => ", and `max_pages` says how many are wanted",
        };
        (self.pages >= max_pages).then(|| format!("{max_pages} pages were asked for{hint}"))
    }
}

/// The JSON pointer to the list in an answer: at the path that the document shows, or else the answer itself or its
/// only list.
fn find_list_pointer(payload: &Value, declared: Option<&str>) -> Option<String> {
    let is_list = |path: &String| payload.pointer(path).is_some_and(Value::is_array);
    let declared_path = declared.map(|path| build_json_pointer(path.split('.')));
    declared_path.filter(is_list).or_else(|| match payload {
        Value::Object(fields) => {
            let mut lists = fields.iter().filter(|(_, value)| value.is_array());
            let (name, _) = lists.next()?;
            lists.next().is_none().then(|| build_json_pointer([&**name]))
        }
        payload => payload.is_array().then(String::new),
    })
}

/// The JSON pointer through these names.
fn build_json_pointer<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names.into_iter().filter(|name| !name.is_empty());
    names.fold(String::new(), |path, name| path + "/" + &name.replace('~', "~0").replace('/', "~1"))
}

/// The value at a path such as `meta.next_cursor`. The empty path is the whole value.
fn find_value_at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    value.pointer(&build_json_pointer(path.split('.')))
}

/// How to request the page after this one; `None` if this is the last.
fn find_next_page(
    operation: &Operation,
    (with, page): (&Value, Option<u64>),
    url: &Url,
    hints: &PaginationHints,
    (payload, items): (&Value, &[Value]),
) -> Result<Option<NextPage>, OperationFailure> {
    match &operation.pagination {
        // An answer may have a link to the next page even if the document declares no pagination.
        None | Some(Pagination::Link | Pagination::Url) => {
            let target = hints.url.as_deref();
            target.map(|target| check_same_origin(url, target)).transpose()
        }
        Some(Pagination::LastItem { argument, field }) => {
            let last_id = items.last().and_then(|item| item.get(field));
            let last_id = last_id.filter(|id| id.is_string() || id.is_number());
            let last_id = last_id.filter(|_| hints.has_more != Some(false));
            Ok(last_id.map(|id| build_page_argument(operation, argument, id)))
        }
        Some(Pagination::Cursor { argument, field }) => {
            let has_more = payload.get("has_more").and_then(Value::as_bool);
            let cursor = find_value_at_path(payload, field).filter(|cursor| {
                cursor.is_number() || cursor.as_str().is_some_and(|text| !text.is_empty())
            });
            let cursor = cursor.filter(|_| has_more != Some(false));
            Ok(cursor.map(|cursor| build_page_argument(operation, argument, cursor)))
        }
        Some(Pagination::Page { argument, size, counts_items }) => {
            let size = size.as_ref().and_then(|size| with.get(size)?.as_u64());
            let count = items.len() as u64;
            let is_short = size.is_some_and(|size| count < size);
            let has_ended = hints.has_more.map_or(is_short, |has_more| !has_more);
            let next_position = if *counts_items {
                let position = with.get(argument).and_then(Value::as_u64);
                position
                    .unwrap_or_else(|| find_first_page_number(operation, argument, true))
                    .saturating_add(count)
            } else {
                page.unwrap_or_default().saturating_add(1)
            };
            let next = NextPage::With(argument.clone(), json!(next_position));
            Ok((count > 0 && !has_ended).then_some(next))
        }
    }
}

/// The argument for the next page, converted to a string if its parameter is one.
fn build_page_argument(operation: &Operation, argument: &str, value: &Value) -> NextPage {
    let mut parameters = operation.parameters.iter();
    let parameter = parameters.find(|parameter| parameter.argument == argument);
    let schema = parameter.map(|parameter| follow_references(&parameter.schema, &parameter.schema));
    let is_text = schema.is_some_and(|schema| non_null_types(schema) == ["string"]);
    let value = if is_text { json!(to_plain_text(value)) } else { value.clone() };
    NextPage::With(argument.to_owned(), value)
}

/// The number of the requested page, if the list counts pages.
fn read_page_number(operation: &Operation, with: &Value) -> Option<u64> {
    match &operation.pagination {
        Some(Pagination::Page { argument, counts_items: false, .. }) => {
            let page_number = with.get(argument).and_then(Value::as_u64);
            Some(page_number.unwrap_or_else(|| find_first_page_number(operation, argument, false)))
        }
        _ => None,
    }
}

/// The number of the first page: the parameter's default or minimum, or else 1 for pages and 0 for items.
fn find_first_page_number(operation: &Operation, argument: &str, counts_items: bool) -> u64 {
    let mut parameters = operation.parameters.iter();
    let schema = parameters
        .find(|parameter| parameter.argument == argument)
        .map(|parameter| &parameter.schema);
    let default_number =
        schema.and_then(|schema| schema.get("default").or_else(|| schema.get("minimum")));
    default_number.and_then(Value::as_u64).unwrap_or(u64::from(!counts_items))
}

/// The target of the link with the relation `next` (RFC 8288).
fn parse_next_link(links: &str) -> Option<&str> {
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

/// The next page must be at the origin of the previous one, so that no other origin receives arguments or secrets.
fn check_same_origin(url: &Url, target: &str) -> Result<NextPage, OperationFailure> {
    match url.join(target) {
        Ok(next) if next.origin() == url.origin() => {
            Ok(NextPage::At(remove_masked_credentials(next).into()))
        }
        _ => {
            let message = "the next page lies at another origin, or at no URL".to_owned();
            Err(failure_from_error(&redirect_error(message), false))
        }
    }
}

/// Removes masked credentials from a URL that the service returned: only their placeholders are left, and the next
/// call adds the values again.
fn remove_masked_credentials(mut url: Url) -> Url {
    let Some(query) = url.query() else {
        return url;
    };
    let is_masked = |pair: &&str| {
        let pair = uri::decode_segment(pair);
        pair.is_some_and(|pair| pair.contains("${credential:") || has_reference(&pair))
    };
    let unmasked: Vec<_> = query.split('&').filter(|pair| !is_masked(pair)).collect();
    let unmasked_query = unmasked.join("&");
    url.set_query((!unmasked_query.is_empty()).then_some(unmasked_query.as_str()));
    url
}

#[cfg(test)]
mod tests;
