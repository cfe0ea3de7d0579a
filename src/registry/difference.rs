//! Logs the difference between two registries. Only names and counts, never contents.

use std::collections::{BTreeMap, BTreeSet};

use super::Registry;
use midex_domain::limits;

/// Logs the names of the entries that differ.
pub(super) fn log_differences(before: &Registry, after: &Registry) {
    let workflows =
        find_differing_names(&before.workflows.entries, &after.workflows.entries, |entry| {
            &entry.name
        });
    let agents =
        find_differing_names(&before.agents.entries, &after.agents.entries, |entry| &entry.name);
    let broken = after.workflows().filter(|entry| entry.is_broken());
    let broken_agents = after.agents().filter(|entry| entry.is_broken());
    tracing::info!(
        workflows = join_first_names(&workflows),
        agents = join_first_names(&agents),
        broken = broken.count() + broken_agents.count(),
        parsed = after.parsed_file_count(),
        "definitions changed"
    );
}

/// The names whose entries differ.
fn find_differing_names<'a, E: PartialEq>(
    before: &'a [E],
    after: &'a [E],
    name: fn(&E) -> &String,
) -> BTreeSet<&'a str> {
    let [before, after] = [before, after].map(|entries| {
        let mut by_name: BTreeMap<&str, Vec<&E>> = BTreeMap::new();
        for entry in entries {
            by_name.entry(name(entry)).or_default().push(entry);
        }
        by_name
    });
    let all = before.keys().chain(after.keys());
    all.filter(|name| before.get(*name) != after.get(*name)).copied().collect()
}

/// The first names, and the number of the others.
fn join_first_names(names: &BTreeSet<&str>) -> String {
    let shown_names: Vec<_> = names.iter().take(limits::CHANGES_LOGGED_MAX).collect();
    let omitted_count = names.len() - shown_names.len();
    match omitted_count {
        0 => format!("{shown_names:?}"),
        _ => format!("{shown_names:?} and {omitted_count} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_names_are_unique() {
        let before = [("a", 1), ("b", 1), ("c", 1), ("c", 2)].map(to_owned_pair);
        let after = [("a", 1), ("b", 2), ("c", 1), ("d", 1)].map(to_owned_pair);
        let names: Vec<_> =
            find_differing_names(&before, &after, |entry| &entry.0).into_iter().collect();
        assert_eq!(names, ["b", "c", "d"]);
    }

    fn to_owned_pair((name, value): (&str, u8)) -> (String, u8) {
        (name.to_owned(), value)
    }

    #[test]
    fn further_names_are_only_counted() {
        let names: Vec<_> =
            (10..10 + limits::CHANGES_LOGGED_MAX).map(|number| format!("w\n{number}")).collect();
        let mut names: BTreeSet<_> = names.iter().map(String::as_str).collect();
        assert!(join_first_names(&names).ends_with("\"w\\n19\"]"), "{}", join_first_names(&names));
        names.insert("x");
        assert!(join_first_names(&names).ends_with("\"w\\n19\"] and 1 more"));
    }
}
