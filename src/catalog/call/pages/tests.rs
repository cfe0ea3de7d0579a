use super::*;

#[test]
fn the_next_link_is_found_among_others() {
    for (links, expected) in [
        ("<https://a/?p=2>; rel=\"next\", <https://a/?p=9>; rel=\"last\"", Some("https://a/?p=2")),
        ("</a?p=0>; rel=prev, </a?p=2>; title=\"x; y\"; rel=next", Some("/a?p=2")),
        ("</a,b;c?x=1>; REL=\"last Next\"", Some("/a,b;c?x=1")),
        ("<a>; rel=\"nextish\"", None),
        ("", None),
        ("<a", None),
    ] {
        assert_eq!(parse_next_link(links), expected, "{links}");
    }
}

#[test]
fn items_are_at_the_declared_path_or_the_only_list() {
    let payload = json!({ "data": { "items": [1] }, "mo/r.e": [2] });
    for (payload, declared, expected) in [
        (&payload, Some("data.items"), Some("/data/items")),
        (&payload, Some("data.none"), Some("/mo~1r.e")),
        (&payload, None, Some("/mo~1r.e")),
        (&json!([3]), Some(""), Some("")),
        (&json!([3]), None, Some("")),
        (&json!({ "a": [], "b": [] }), None, None),
        (&json!({ "a": 1 }), Some("a"), None),
    ] {
        assert_eq!(find_list_pointer(payload, declared).as_deref(), expected, "{payload}");
    }
}

#[test]
fn a_list_ends_at_its_limits() {
    let mut turn = ListProgress::default();
    let mut page: Vec<_> = (0..limits::CALL_ITEMS_MAX).map(Value::from).collect();
    assert_eq!(turn.add_items(&mut page), None);
    assert_eq!(page.len(), limits::CALL_ITEMS_MAX);
    let mut page = vec![json!("one more")];
    assert!(turn.add_items(&mut page).is_some() && page.is_empty());
    let mut turn = ListProgress::default();
    let mut page = vec![json!("x".repeat(limits::CALL_ITEMS_BYTES_MAX - 2)), json!(1)];
    assert!(turn.add_items(&mut page).is_some());
    assert_eq!(page.len(), 1);
}

#[test]
fn marks_of_earlier_versions_are_kept() {
    let next = json!({ "at": "https://a/?page=3" });
    let digits = |text: &str| Digest::compute(text.as_bytes()).to_string()[..24].to_owned();
    let old = json!({
        "pages": 2, "items": 2, "bytes": 2, "next": next,
        "seen": [digits("page [1]"), digits("value 2")],
    });
    let mut cursor = PageCursor { next: JsonText::from_value(&old), seen: Vec::new() };
    let mut turn = ListProgress::from_cursor(Some(&cursor)).unwrap();
    assert!(turn.add_items(&mut vec![json!(1)]).is_some(), "it was seen before");
    let mut turn = ListProgress::from_cursor(Some(&cursor)).unwrap();
    assert_eq!(turn.add_items(&mut vec![json!(3)]), None);
    let after = turn.into_cursor().unwrap();
    assert_eq!(after.seen.len(), 3);
    assert!(!after.next.as_str().contains("seen"));
    cursor.advance(after);
    let mut turn = ListProgress::from_cursor(Some(&cursor)).unwrap();
    assert!(turn.add_items(&mut vec![json!(3)]).is_some(), "it was seen before");
    let mut turn = ListProgress::from_cursor(Some(&cursor)).unwrap();
    assert_eq!(turn.add_items(&mut vec![json!(4)]), None);
    assert_eq!(turn.into_cursor().unwrap().seen.len(), 1);
}

#[test]
fn masked_credentials_are_removed_from_next_url() {
    let url = Url::parse("https://a/list?page=1").unwrap();
    for (target, expected) in [
        ("/list?page=2&key=${credential:key}", "https://a/list?page=2"),
        ("/list?key=$%7Benv:KEY%7D&page=2&q=%24", "https://a/list?page=2&q=%24"),
        ("/list?key=${file:K}", "https://a/list"),
        ("/list?q=${other}", "https://a/list?q=${other}"),
    ] {
        let Ok(NextPage::At(next)) = check_same_origin(&url, target) else {
            panic!("{target}");
        };
        assert_eq!(next, expected);
    }
}
