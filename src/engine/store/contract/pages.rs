//! Reads and checks pages of executions.

use std::{collections::BTreeSet, sync::Arc};

use super::script::{Script, build_definition};
use crate::store::{ListQuery, Store};
use midex_domain::{Execution, ExecutionId, Sequence};

/// The query of all executions, with pages of `limit`.
pub fn query_all(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

/// The query of the open executions, with pages of `limit`.
pub fn query_open(limit: usize) -> ListQuery {
    ListQuery { open_only: true, ..query_all(limit) }
}

/// A page that was checked, with the keys of the last rows of its executions.
#[derive(Debug)]
pub struct CheckedPage {
    row_keys: Vec<Sequence>,
    /// The executions of the page.
    pub executions: Vec<Execution>,
    /// The key of the next page.
    pub next_key: Option<Sequence>,
}

fn is_newest_first(row_keys: &[Sequence]) -> bool {
    row_keys.is_sorted_by(|newer, older| newer > older)
}

/// Reads one page and checks its limit and its order.
pub async fn read_page(store: &dyn Store, query: &ListQuery) -> CheckedPage {
    let page = store.list(query.clone()).await.unwrap();
    let (row_keys, executions): (Vec<_>, Vec<_>) = page.executions.into_iter().unzip();
    assert!(executions.len() <= query.limit, "{query:?}");
    assert!(is_newest_first(&row_keys), "{query:?}");
    CheckedPage { row_keys, executions, next_key: page.next_key }
}

/// Reads every page from `query` on: the executions, and the number of pages.
pub async fn read_pages(store: &dyn Store, mut query: ListQuery) -> (Vec<Execution>, usize) {
    let (mut executions, mut row_keys) = (Vec::new(), Vec::new());
    for pages in 1.. {
        let page = read_page(store, &query).await;
        executions.extend(page.executions);
        row_keys.extend(page.row_keys);
        let Some(next) = page.next_key else {
            assert!(is_newest_first(&row_keys), "{query:?}");
            return (executions, pages);
        };
        assert!(query.before.is_none_or(|before| next < before), "{query:?}");
        query.before = Some(next);
    }
    unreachable!()
}

/// The executions on every page from `query` on.
pub async fn read_all(store: &dyn Store, query: ListQuery) -> Vec<Execution> {
    read_pages(store, query).await.0
}

/// The executions that `query` selects, in the order in which a store lists them.
pub fn select_expected<'a>(
    executions: impl Iterator<Item = (Sequence, &'a Execution)>,
    query: &ListQuery,
) -> Vec<Execution> {
    let mut wanted: Vec<_> = executions.collect();
    wanted.retain(|(row_key, one)| {
        query.state.is_none_or(|state| one.state() == state)
            && (!query.open_only || one.completed_at().is_none())
            && (query.workflow.as_ref()).is_none_or(|name| name == one.workflow())
            && (query.project.as_deref()).is_none_or(|project| one.project() == Some(project))
            && (query.before).is_none_or(|before| *row_key < before)
    });
    wanted.sort_by_key(|(row_key, _)| std::cmp::Reverse(*row_key));
    wanted.into_iter().map(|(_, one)| one.clone()).collect()
}

/// The executions that the scripts have stored, each with the key of its last row.
pub fn list_stored(scripts: &[Script]) -> impl Iterator<Item = (Sequence, &Execution)> {
    scripts.iter().filter_map(|script| Some((*script.row_keys.last()?, script.execution.as_ref()?)))
}

/// Stores `count` executions, each with its first transition.
pub async fn start_scripts(store: &dyn Store, count: usize) -> Vec<Script> {
    let definition = build_definition(30);
    let mut scripts = Vec::new();
    for at in 0..count {
        let mut script = Script::with_definition(&format!("tale {at}"), Arc::clone(&definition));
        script.commit_step(store).await.unwrap();
        scripts.push(script);
    }
    scripts
}

/// The ids of executions, in their order.
pub fn list_ids(executions: &[Execution]) -> Vec<&str> {
    executions.iter().map(|one| one.id().as_str()).collect()
}

/// The ids on every page from `query` on, after a check that none is on two pages.
pub async fn read_distinct_ids(store: &dyn Store, mut query: ListQuery) -> BTreeSet<ExecutionId> {
    let mut seen = BTreeSet::new();
    loop {
        let page = read_page(store, &query).await;
        for one in page.executions {
            assert!(seen.insert(one.id().clone()), "{} twice", one.id());
        }
        query.before = match page.next_key {
            Some(next) => Some(next),
            None => return seen,
        };
    }
}
