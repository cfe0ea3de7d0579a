//! Pages of each kind, gathered into one list, and what stops the gathering.

use midex_catalog::call::{ItemsPage, ResponseBody};
use midex_domain::{definition::PaginateOptions, limits, operation::PageCursor};

use super::*;
use midex_test::service::{Reply, Seen, answer, json as answer_json};

async fn gathered(
    service: &Service,
    operation: Operation,
    with: Value,
    paginate: PaginateOptions,
) -> Result<Answer, OperationFailure> {
    let options = CallOptions { idempotency_key: Some("k".into()), ..CallOptions::default() };
    let (caller, prepared, target) = (caller(), prepared(operation), target(service));
    let (mut items, mut next) = (Vec::new(), None::<PageCursor>);
    loop {
        let turn = (paginate, next.as_ref());
        let page = caller.request_page(&prepared, &target, (&with, None), &options, turn);
        let ItemsPage { mut answer, items: more, next: further, .. } = page.await?;
        let Some(more) = more else {
            return Ok(answer);
        };
        items.extend(more);
        let Some(further) = further else {
            answer.payload = ResponseBody::Json(Value::Array(items));
            return Ok(answer);
        };
        match &mut next {
            Some(cursor) => cursor.advance(further),
            None => next = Some(further),
        }
    }
}

fn list(pagination: Value) -> Operation {
    list_at(None, pagination)
}

fn list_at(items_path: Option<&str>, pagination: Value) -> Operation {
    let parameters = ["cursor", "page", "offset", "limit", "q"]
        .map(|name| parameter(name, "query", false, json!({})));
    operation(
        "GET",
        "/things",
        json!({ "parameters": parameters, "pagination": pagination, "items_path": items_path }),
    )
}

/// The value of an argument as it came, 0 where there is none.
fn number(seen: &Seen, name: &str) -> u64 {
    let query = seen.target().split_once('?').map_or("", |(_, query)| query);
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| *known == name).map_or(0, |(_, value)| value.parse().unwrap())
}

fn targets(service: &Service) -> Vec<String> {
    service.seen().iter().map(|seen| seen.target().to_owned()).collect()
}

#[tokio::test]
async fn links_lead_through_three_pages() {
    let links = Service::new(|seen| {
        let page = number(seen, "page").max(1);
        let next =
            format!("</things?q=a&page={}>; rel=\"next\", </things>; rel=\"first\"", page + 1);
        let headers: &[(&str, &str)] = if page < 3 { &[("link", &next)] } else { &[] };
        answer(200, headers, json!([page * 10, page * 10 + 1]).to_string().as_bytes())
    });
    let links = links.await;
    let answer = gathered(
        &links,
        list(json!({ "by": "link" })),
        json!({ "q": "a" }),
        PaginateOptions::default(),
    )
    .await
    .unwrap();
    assert_eq!(answer.payload, ResponseBody::Json(json!([10, 11, 20, 21, 30, 31])));
    assert_eq!((answer.pages, answer.notes.len()), (3, 0));
    assert_eq!(targets(&links), ["/things?q=a", "/things?q=a&page=2", "/things?q=a&page=3"]);
}

#[tokio::test]
async fn cursors_lead_through_three_pages() {
    let cursors = Service::new(|seen| {
        let cursor = number(seen, "cursor");
        let next = if cursor < 2 { json!((cursor + 1).to_string()) } else { Value::Null };
        answer_json(200, &json!({ "data": { "items": [cursor] }, "meta": { "next": next } }))
    });
    let cursors = cursors.await;
    let by_cursor = json!({ "by": "cursor", "argument": "cursor", "field": "meta.next" });
    let in_data = list_at(Some("data.items"), by_cursor);
    let answer =
        gathered(&cursors, in_data, json!({ "q": "a" }), PaginateOptions::default()).await.unwrap();
    assert_eq!(answer.payload, ResponseBody::Json(json!([0, 1, 2])));
    assert_eq!(targets(&cursors), ["/things?q=a", "/things?cursor=1&q=a", "/things?cursor=2&q=a"]);
}

#[tokio::test]
async fn numbers_of_pages_lead_to_the_one_that_is_not_full() {
    let pages = Service::new(|seen| {
        let page = number(seen, "page").max(1);
        let items = if page < 3 { json!([page, -1]) } else { json!([page]) };
        answer_json(200, &json!({ "items": items }))
    });
    let pages = pages.await;
    let by_page =
        json!({ "by": "page", "argument": "page", "size": "limit", "counts_items": false });
    let answer = gathered(&pages, list(by_page), json!({ "limit": 2 }), PaginateOptions::default())
        .await
        .unwrap();
    assert_eq!(answer.payload, ResponseBody::Json(json!([1, -1, 2, -1, 3])));
    assert_eq!(
        targets(&pages),
        ["/things?limit=2", "/things?page=2&limit=2", "/things?page=3&limit=2"]
    );
}

#[tokio::test]
async fn numbers_of_items_lead_to_the_page_that_is_empty() {
    let offsets = Service::new(|seen| {
        let offset = number(seen, "offset");
        let items: Vec<_> = (offset..5.min(offset + 2)).collect();
        answer_json(200, &json!(items))
    });
    let offsets = offsets.await;
    let by_offset =
        json!({ "by": "page", "argument": "offset", "size": null, "counts_items": true });
    let answer =
        gathered(&offsets, list(by_offset), Value::Null, PaginateOptions::default()).await.unwrap();
    assert_eq!(answer.payload, ResponseBody::Json(json!([0, 1, 2, 3, 4])));
    assert_eq!(
        targets(&offsets),
        ["/things", "/things?offset=2", "/things?offset=4", "/things?offset=5"]
    );
}

/// Where the pages of a service without an end are left.
async fn stopped(
    reply: impl Fn(u64) -> Reply + Send + Sync + 'static,
    max_pages: Option<u32>,
) -> (usize, usize, String) {
    let service = Service::new(move |seen| reply(number(seen, "cursor"))).await;
    let pagination = json!({ "by": "cursor", "argument": "cursor", "field": "next" });
    let list = list_at(Some("items"), pagination);
    let answer = gathered(&service, list, json!({}), PaginateOptions { max_pages }).await.unwrap();
    let count = answer.payload.into_value().as_array().unwrap().len();
    (service.seen().len(), count, answer.notes.join(" "))
}

#[tokio::test]
async fn a_list_without_an_end_is_left_and_says_why() {
    let page =
        |items: Value, next: Value| answer_json(200, &json!({ "items": items, "next": next }));
    let endless = move |cursor: u64| page(json!([cursor]), json!(cursor + 1));
    let (pages, items, note) = stopped(endless, None).await;
    assert_eq!((pages, items), (limits::CALL_PAGES as usize, limits::CALL_PAGES as usize));
    assert!(note.contains("10 pages were asked for"), "{note}");
    assert_eq!(stopped(endless, Some(3)).await.0, 3);
    assert_eq!(stopped(endless, Some(0)).await.0, 1);

    let same_cursor = move |cursor: u64| {
        page(json!([cursor, "x".repeat(usize::try_from(cursor).unwrap())]), json!(1))
    };
    let (pages, _, note) = stopped(same_cursor, None).await;
    assert_eq!(pages, 2);
    assert!(note.contains("asked for before"), "{note}");
    let same_page = move |cursor: u64| page(json!(["same"]), json!(cursor + 1));
    let (pages, items, note) = stopped(same_page, None).await;
    assert_eq!((pages, items), (2, 1));
    assert!(note.contains("the same as one before"), "{note}");

    let many = move |cursor: u64| {
        page((0..4000).map(|item| json!(item + cursor * 4000)).collect(), json!(cursor + 1))
    };
    let (pages, items, note) = stopped(many, None).await;
    assert_eq!((pages, items), (3, limits::CALL_ITEMS_MAX));
    assert!(note.contains("10000 items"), "{note}");
    let large = move |cursor: u64| page(json!([cursor, "x".repeat(3 << 20)]), json!(cursor + 1));
    let (pages, items, note) = stopped(large, None).await;
    assert_eq!((pages, items), (3, 5));
    assert!(note.contains(&limits::CALL_ITEMS_BYTES_MAX.to_string()), "{note}");
}

#[tokio::test]
async fn a_page_fails_as_a_call_does_and_what_is_no_list_is_one_answer() {
    let service = Service::new(|seen| match number(seen, "cursor") {
        0 => answer_json(200, &json!({ "items": [1], "next": 1 })),
        _ => answer_json(500, &json!({ "message": "down" })),
    });
    let service = service.await;
    let by_cursor = json!({ "by": "cursor", "argument": "cursor", "field": "next" });
    let failure =
        gathered(&service, list(by_cursor.clone()), json!({}), PaginateOptions::default())
            .await
            .unwrap_err();
    assert_eq!(failure.class, "http_5xx");
    let one = Service::new(|_| answer_json(200, &json!({ "a": 1 }))).await;
    let found =
        gathered(&one, list(by_cursor), json!({}), PaginateOptions::default()).await.unwrap();
    assert_eq!(found.payload, ResponseBody::Json(json!({ "a": 1 })));
    assert!(found.notes[0].contains("no list"), "{:?}", found.notes);
    // Of a page that is none the ones before it stay.
    let ends = Service::new(|seen| match number(seen, "cursor") {
        0 => answer_json(200, &json!({ "items": [1], "next": 1 })),
        _ => answer_json(200, &json!({ "next": 2 })),
    });
    let ends = ends.await;
    let by_cursor = json!({ "by": "cursor", "argument": "cursor", "field": "next" });
    let found = gathered(&ends, list(by_cursor), json!({}), PaginateOptions::default());
    let found = found.await.unwrap();
    assert_eq!((found.payload, found.pages), (ResponseBody::Json(json!([1])), 1));
    let away = Service::new(|_| {
        answer(200, &[("link", "<https://other.example/?p=2>; rel=next")], b"[1]")
    })
    .await;
    let failure =
        gathered(&away, list(json!({ "by": "link" })), json!({}), PaginateOptions::default())
            .await
            .unwrap_err();
    assert_eq!(failure.code.as_deref(), Some("REDIRECT_REFUSED"));
}
