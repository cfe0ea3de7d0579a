//! Lists in pages, gathered through a server: how each style ends, and what is said where a list is not whole.

use serde_json::{Value, json};

use super::api::{Api, answering};
use midex_test::{
    Client as _, says,
    service::{Reply, Seen, answer, json as answer_json},
};

fn argument(seen: &Seen, name: &str) -> Option<String> {
    let query = seen.target().split_once('?')?.1;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(known, value)| (known == name).then(|| value.to_owned()))
}

fn page(seen: &Seen) -> u64 {
    argument(seen, "page").map_or(1, |page| page.parse().unwrap())
}

/// Two rows of a page.
fn rows(page: u64) -> Value {
    json!([{ "id": page * 2 - 1 }, { "id": page * 2 }])
}

fn list(names: &[&str], responses: Value) -> Value {
    let parameters = names.iter().map(|name| {
        let kind = if ["page", "limit"].contains(name) { "integer" } else { "string" };
        json!({ "name": name, "in": "query", "schema": { "type": kind } })
    });
    json!({ "get": { "parameters": parameters.collect::<Vec<_>>(), "responses": responses } })
}

fn objects() -> Value {
    json!({ "type": "array", "items": { "type": "object", "properties": { "id": { "type": "integer" } } } })
}

/// What a list of three pages in each style answers, and what it answers past them.
fn styled(seen: &Seen) -> Reply {
    let page = page(seen);
    let is_last = page == 3;
    if page > 3 {
        let status = match seen.target() {
            target if target.contains("total") => 422,
            target if target.contains("flag") => 400,
            target if target.contains("odd") => 416,
            _ => 404,
        };
        return answer_json(status, &json!({ "detail": "Invalid page." }));
    }
    let next = if is_last { Value::Null } else { json!(format!("/x?page={}", page + 1)) };
    let items = rows(page);
    let path = seen.target().split('?').next().unwrap().trim_start_matches('/');
    answer_json(
        200,
        &match path {
            "drf" => json!({ "count": 6, "next": next, "results": items }),
            "total" => json!({ "items": items, "page": page, "pages": 3, "total": 6 }),
            "totals" => {
                json!({ "data": items, "meta": { "current_page": page, "total_pages": 3 } })
            }
            "flag" => json!({ "data": items, "has_more": !is_last }),
            "spring" => json!({ "content": items, "number": page - 1, "last": is_last }),
            "links" => json!({ "data": items, "links": { "self": "/x", "next": next } }),
            "header" => {
                let link = format!("</x?page={}>; rel=next", page + 1);
                let headers: &[(&str, &str)] = if is_last {
                    &[("content-type", "application/json"), ("link", "</x?page=1>; rel=first")]
                } else {
                    &[("content-type", "application/json"), ("link", &link)]
                };
                return answer(200, headers, json!({ "items": items }).to_string().as_bytes());
            }
            _ => json!({ "items": items }),
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sign_of_an_answer_or_a_refused_page_is_the_end_of_a_list() {
    let styles = [
        (
            "drf",
            json!({ "count": {}, "next": { "type": "string", "nullable": true }, "results": objects() }),
            3,
        ),
        ("total", json!({ "items": objects(), "page": {}, "pages": {}, "total": {} }), 3),
        ("totals", json!({ "data": objects(), "meta": {} }), 3),
        ("flag", json!({ "data": objects(), "has_more": { "type": "boolean" } }), 3),
        ("spring", json!({ "content": objects(), "last": { "type": "boolean" } }), 3),
        ("links", json!({ "data": objects(), "links": {} }), 3),
        ("header", json!({ "items": objects() }), 3),
        // Nothing tells the end but that there is no further page.
        ("plain", json!({ "items": objects() }), 4),
        ("odd", json!({ "items": objects() }), 4),
    ];
    let paths = styles
        .iter()
        .map(|(path, output, _)| (format!("/{path}"), list(&["page"], answering(output.clone()))));
    let mut api = Api::open(Value::Object(paths.collect()), styled).await;
    for (path, _, requests) in styles {
        let before = api.service.seen().len();
        let call = json!({ "id": format!("api {path}:list"), "paginate": { "max_pages": 10 } });
        let ran = api.server.done("command.run_safe", call);
        let gathered: Vec<_> = (1..=6).map(|id| json!({ "id": id })).collect();
        assert_eq!(ran["payload"], json!(gathered), "{path}: {ran}");
        assert_eq!((&ran["pages"], &ran["notes"]), (&json!(3), &Value::Null), "{path}: {ran}");
        assert_eq!(api.service.seen().len() - before, requests, "{path}");
        assert_eq!(ran["status_code"], 200, "{path}");
    }
}

/// Seven rows, three a page, each page after the row that is named.
fn after(seen: &Seen) -> Reply {
    let from = ["starting_after", "after"].iter().find_map(|name| argument(seen, name));
    let from: u64 = from.map_or(0, |from| from.parse().unwrap());
    let ids: Vec<_> = (from + 1..=7).take(3).map(|id| json!({ "id": id })).collect();
    let has_more = from + 3 < 7;
    answer_json(200, &json!({ "data": ids, "has_more": has_more }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_the_last_row_is_the_cursor_of_some_lists_and_a_url_that_of_others() {
    let with_more = || answering(json!({ "data": objects(), "has_more": { "type": "boolean" } }));
    let paths = json!({
        "/stripe": list(&["limit", "starting_after"], with_more()),
        "/files": list(&["limit", "after"], with_more()),
        "/untold": list(&["starting_after"], json!({ "200": { "description": "" } })),
        "/urls": list(&["q"], answering(json!({ "value": objects(), "nextLink": { "type": "string" } })))
    });
    let mut api = Api::open(paths, |seen| {
        if !seen.target().starts_with("/urls") && !seen.target().starts_with("/more") {
            return after(seen);
        }
        let page = page(seen);
        let more = json!({ "value": rows(page), "nextLink": format!("/more?page={}", page + 1) });
        answer_json(200, &if page < 3 { more } else { json!({ "value": rows(page) }) })
    })
    .await;
    for (path, count, pages) in
        [("stripe", 7, 3), ("files", 7, 3), ("untold", 7, 3), ("urls", 6, 3)]
    {
        let call = json!({ "id": format!("api {path}:list"), "paginate": { "max_pages": 10 } });
        let ran = api.server.done("command.run_safe", call);
        assert_eq!(ran["payload"].as_array().unwrap().len(), count, "{path}: {ran}");
        assert_eq!((&ran["pages"], &ran["notes"]), (&json!(pages), &Value::Null), "{path}");
    }
    let targets = api.targets();
    assert!(targets.contains(&"/stripe?starting_after=6".to_owned()), "{targets:?}");
    assert_ne!(api.command("stripe:list")["pagination"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_not_whole_says_so() {
    let output = json!({ "items": objects(), "has_more": { "type": "boolean" } });
    let paths = json!({
        "/single": list(&["q"], answering(json!({ "items": objects() }))),
        "/more": list(&["q"], answering(output.clone())),
        "/cut": list(&["page"], answering(output.clone())),
        "/gone": list(&["page"], answering(output))
    });
    let mut api = Api::open(paths, |seen| match seen.target() {
        target if target.starts_with("/single") => answer_json(200, &json!({ "items": rows(1) })),
        target if target.starts_with("/gone") && page(seen) > 1 => {
            answer_json(404, &json!({ "detail": "none" }))
        }
        _ => answer_json(200, &json!({ "items": rows(page(seen)), "has_more": true })),
    })
    .await;
    for (path, most, words) in [
        ("single", 5, "no way to a further page"),
        ("more", 5, "there are more"),
        ("cut", 2, "2 pages were asked for"),
        ("gone", 5, "404"),
    ] {
        let call = json!({ "id": format!("api {path}:list"), "paginate": { "max_pages": most } });
        let ran = api.server.done("command.run_safe", call);
        says(&json!(ran["notes"].to_string()), words);
    }
    let workflow = |operation: &str| json!({ "manifest": format!("workflow: gather\ndescription: d\nsteps:\n  - id: all\n    run: api {operation}\n    paginate: {{ max_pages: 9 }}\n") });
    let checked = api.server.done("workflow.validate", workflow("single:list"));
    assert!(checked.to_string().contains("no_effect"), "{checked}");
    let checked = api.server.done("workflow.validate", workflow("cut:list"));
    assert!(!checked.to_string().contains("no_effect"), "{checked}");
}

/// The output of a step is the list alone, and cannot say that items are missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_list_may_lack_items_fails() {
    let output = json!({ "items": objects(), "page": { "type": "integer" }, "pages": { "type": "integer" } });
    let paths = json!({
        "/long": list(&["page"], answering(output.clone())),
        "/gone": list(&["page"], answering(output.clone())),
        "/whole": list(&["page"], answering(output))
    });
    let mut api = Api::open(paths, |seen| {
        let number = page(seen);
        let (target, last) = (seen.target(), 12);
        let last = if target.starts_with("/whole") { 9 } else { last };
        if target.starts_with("/gone") && number > 2 {
            return answer_json(422, &json!({ "detail": "no such page" }));
        }
        answer_json(200, &json!({ "items": rows(number), "page": number, "pages": last }))
    })
    .await;
    for (path, paginate, words) in [
        ("long", "{}", "10 pages were asked for, and `max_pages`"),
        ("long", "{ max_pages: 3 }", ""),
        ("gone", "{}", "no such page"),
        ("whole", "{}", ""),
    ] {
        let manifest = format!(
            "workflow: gather\ndescription: d\nsteps:\n  - id: all\n    run: api {path}:list\n    paginate: {paginate}\n"
        );
        api.project.write("workflows/gather.yaml", &manifest);
        let start = json!({ "workflow_name": "gather" });
        let started = api.server.done("workflow.start", start);
        let id = started["execution_id"].clone();
        let wait = json!({ "execution_id": id, "since_revision": started["revision"] });
        let mut status = api.server.done("execution.wait", wait.clone());
        while status["state"] == "running" {
            let wait = json!({ "execution_id": id, "since_revision": status["revision"] });
            status = api.server.done("execution.wait", wait);
        }
        if words.is_empty() {
            assert_eq!(status["state"], "completed", "{path} {paginate}: {status}");
            continue;
        }
        assert_eq!(status["error"]["code"], "LIST_INCOMPLETE", "{path}: {status}");
        says(&status["error"]["message"], words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_whose_command_is_gone_is_refused() {
    let one = || json!({ "get": { "responses": {} } });
    let paths = json!({ "/a": one(), "/b": one(), "/c": one(), "/d": one() });
    let mut api = Api::open(paths, |_| answer_json(200, &json!({}))).await;
    let first = json!({ "catalog": "api", "limit": 2 });
    let page = api.server.done("command.list", first.clone());
    let mut next = first;
    next["cursor"] = page["next_cursor"].clone();
    let rest = api.server.done("command.list", next.clone());
    assert_eq!(rest["commands"][0]["id"], "api c:list", "{rest}");
    api.server.done("catalog.remove", json!({ "catalog_id": "api", "confirm": true }));
    let refused = api.server.refused("command.list", next);
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
    says(&refused["suggested_action"], "without");
    let uri = "midex://authoring/command-catalog?limit=2&after=api%20b%3Alist";
    let refused = api.server.refused("workflow.read", json!({ "uri": uri }));
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
}
