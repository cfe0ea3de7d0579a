//! Names of operations stay when a document gets a new version.

use std::collections::{BTreeMap, BTreeSet};

use midex_catalog::document::compile_document;
use serde_json::{Map, Value, json};

use midex_test::long::{Dice, rounds, seed};

/// The name of each operation by its path and method, and the names that several wanted.
type Named = (BTreeMap<String, String>, BTreeSet<String>);

fn named(paths: &[(String, Value)]) -> Named {
    let map: Map<_, _> = paths.iter().cloned().collect();
    let document = json!({ "openapi": "3.1.0", "info": {}, "paths": map });
    let compiled = compile_document(document.to_string().as_bytes()).unwrap();
    let names = compiled.operations.iter();
    let names: BTreeMap<_, _> = names
        .map(|one| (format!("{} {}", one.path, one.method.as_str()), one.name.clone()))
        .collect();
    assert_eq!(names.values().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    (names, compiled.collisions.into_iter().map(|collision| collision.wanted).collect())
}

/// A path of few words, so that names meet, with some operations.
fn path(dice: &mut Dice) -> (String, Value) {
    const PARTS: [&str; 9] =
        ["things", "parts", "Parts", "v1", "v2", "api", "{id}", "{other}", "things.json"];
    let parts = (0..=dice.roll(3)).map(|_| PARTS[usize::try_from(dice.roll(9)).unwrap()]);
    let path = format!("/{}", parts.collect::<Vec<_>>().join("/"));
    let mut item = Map::new();
    for method in ["get", "post", "put", "patch", "delete"] {
        if dice.roll(2) == 0 {
            let id = format!("id{}", dice.roll(30));
            item.insert(
                method.into(),
                if dice.roll(2) == 0 { json!({}) } else { json!({ "operationId": id }) },
            );
        }
    }
    item.insert("head".into(), json!({}));
    (path, item.into())
}

#[test]
fn names_stay_when_paths_are_reordered_added_or_removed() {
    let mut dice = Dice(seed(16));
    for _ in 0..rounds(60, 5000) {
        let mut paths: Vec<_> = (0..2 + dice.roll(12)).map(|_| path(&mut dice)).collect();
        paths.sort_by(|one, other| one.0.cmp(&other.0));
        paths.dedup_by(|one, other| one.0 == other.0);
        let (names, collided) = named(&paths);

        let mut turned = paths.clone();
        turned.reverse();
        let by = usize::try_from(dice.roll(turned.len() as u64)).unwrap();
        turned.rotate_left(by);
        assert_eq!(named(&turned).0, names, "{paths:?}");

        let (_, gone) = paths.split_first().unwrap();
        if gone.is_empty() {
            continue;
        }
        let (left, collided_left) = named(gone);
        for (operation, name) in &left {
            // Only operations that come to one name, or whose `operationId` another one had, may be called otherwise.
            let is_free = |name: &String| {
                collided
                    .iter()
                    .chain(&collided_left)
                    .all(|wanted| !name.starts_with(wanted.as_str()))
                    && name.contains(':')
            };
            if is_free(name) || is_free(&names[operation]) {
                assert_eq!(&names[operation], name, "{operation} of {paths:?}");
            }
        }
    }
}

#[test]
fn an_operation_id_that_is_a_sentence_is_kept_and_one_object_is_shown() {
    let ids = |one: &str, other: &str| json!({ "get": { "responses": {} }, "post": { "operationId": one }, "delete": { "operationId": other } });
    let answer = |schema: Value| json!({ "get": { "responses": { "200": { "description": "", "content": { "application/json": { "schema": schema } } } } } });
    let object = |properties: Value| answer(json!({ "type": "object", "properties": properties }));
    let text = || json!({ "type": "string" });
    let list = |of: Value| json!({ "type": "array", "items": of });
    let paths = [
        ("/Numbers.json".to_owned(), ids("CreateNumber", "DeleteNumbers")),
        ("/Numbers/{Sid}.json".to_owned(), ids("UpdateNumber", "numbers_remove")),
        ("/user".to_owned(), object(json!({ "login": text() }))),
        ("/account".to_owned(), object(json!({ "id": text(), "roles": list(text()) }))),
        (
            "/things".to_owned(),
            object(
                json!({ "items": list(json!({ "type": "object", "properties": { "id": text() } })) }),
            ),
        ),
        ("/words".to_owned(), object(json!({ "words": list(text()) }))),
        ("/rows".to_owned(), answer(list(text()))),
        ("/anything".to_owned(), answer(json!({ "type": "object" }))),
        ("/untold".to_owned(), json!({ "get": { "responses": {} } })),
    ];
    let (names, _) = named(&paths);
    for (operation, name) in [
        ("/Numbers.json POST", "numbers:create"),
        ("/Numbers/{Sid}.json POST", "update-number"),
        ("/Numbers/{Sid}.json DELETE", "numbers:delete"),
        ("/Numbers.json DELETE", "delete-numbers"),
        ("/user GET", "user:show"),
        ("/account GET", "account:show"),
        ("/things GET", "things:list"),
        ("/words GET", "words:list"),
        ("/rows GET", "rows:list"),
        ("/anything GET", "anything:list"),
        ("/untold GET", "untold:list"),
    ] {
        assert_eq!(names[operation], name, "{names:?}");
    }
    // Who knows the name of before still finds it.
    let map: Map<_, _> = paths.iter().cloned().collect();
    let document = json!({ "openapi": "3.1.0", "info": {}, "paths": map });
    let compiled = compile_document(document.to_string().as_bytes()).unwrap();
    let user = compiled.operations.iter().find(|one| one.name == "user:show");
    assert_eq!(user.unwrap().aliases, ["user:list"]);
}
