//! The page on the grammar names the number of its keys, and every key that was added since the page was written.

use std::collections::BTreeSet;

use midex_domain::grammar::{MANIFEST_SHAPE, MappingShape};

/// The keys of a manifest and of all mappings in it, once for each mapping.
fn keys() -> BTreeSet<(&'static str, &'static str)> {
    let records = MANIFEST_SHAPE.self_and_nested_records();
    let keys = |record: &'static MappingShape| {
        let built = record.keys.iter().filter(|key| !key.is_planned());
        built.map(|key| (record.label, key.name))
    };
    records.into_iter().flat_map(keys).collect()
}

#[test]
fn the_page_on_the_grammar_has_the_number_of_its_keys() {
    let page = include_str!("../../docs/design/grammar.md");
    let (_, rest) = page.split_once("The grammar has ").unwrap();
    let (number, _) = rest.split_once(" keys").unwrap();
    assert_eq!(
        number.parse::<usize>().unwrap(),
        keys().len(),
        "a new key needs its answers in docs/design/grammar.md: {:?}",
        keys()
    );
}

#[test]
fn the_keys_that_the_page_admits_exist() {
    let page = include_str!("../../docs/design/grammar.md");
    let (_, table) = page.split_once("| Keys | What they replaced |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let names: BTreeSet<_> = keys().into_iter().map(|(_, name)| name).collect();
    let admitted = table.lines().filter_map(|line| line.split('|').nth(1));
    let admitted: Vec<_> = admitted.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(admitted.len(), 8);
    for key in admitted {
        assert!(names.contains(key.rsplit('.').next().unwrap()), "{key}");
    }
}
