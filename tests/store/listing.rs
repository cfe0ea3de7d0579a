//! Pages of executions. What every store promises of them, and what the one on disk has to stand besides.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use midex_domain::{Event, Execution, ExecutionId, Sequence, State, WorkflowName, error::Code};
use midex_engine::store::{ListQuery, Options, RedbStore, Store};

use super::{
    contract::{contract, disk, memory, sparse_disk},
    tale::{Tale, definition, definition_of},
};

/// A store that looks at few rows for one page, so that most pages are short, and the index is soon too long.
fn narrow_disk(directory: &Path) -> Arc<dyn Store> {
    Arc::new(narrow(directory, 3))
}

pub(super) fn narrow(directory: &Path, list_scanned_max: usize) -> RedbStore {
    let options = Options { snapshot_every: 16, list_scanned_max, ..Options::default() };
    RedbStore::open(directory, options).unwrap()
}

/// Every store keeps all of it; one that looks at few rows, what stands behind the semicolon.
macro_rules! listing {
    ($($wide:ident)*; $($name:ident)*) => {
        contract! { $($wide)* $($name)* }
        contract!(@ narrow_disk: $($name)*);
    };
}

listing! {
    the_last_page_names_no_next_one;
    an_empty_store_lists_nothing
    executions_are_listed_by_their_last_transition
    every_condition_must_hold
    pages_hold_each_execution_once
    who_moves_between_two_pages_is_on_none_that_follows
    who_has_ended_is_open_no_more
    who_ends_at_once_was_never_open
    a_refused_end_ends_nothing
    many_movers_are_listed_once
}

pub(super) fn up_to(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

pub(super) fn open_up_to(limit: usize) -> ListQuery {
    ListQuery { open_only: true, ..up_to(limit) }
}

/// One page, and the places of its executions.
pub(super) struct Page {
    places: Vec<Sequence>,
    pub(super) executions: Vec<Execution>,
    pub(super) next: Option<Sequence>,
}

fn is_newest_first(places: &[Sequence]) -> bool {
    places.is_sorted_by(|newer, older| newer > older)
}

/// One page, which keeps to its limit and its order.
pub(super) async fn page(store: &dyn Store, query: &ListQuery) -> Page {
    let page = store.list(query.clone()).await.unwrap();
    let (places, executions): (Vec<_>, Vec<_>) = page.executions.into_iter().unzip();
    assert!(executions.len() <= query.limit, "{query:?}");
    assert!(is_newest_first(&places), "{query:?}");
    Page { places, executions, next: page.next_key }
}

/// Every page from `query` on, and how many there were.
pub(super) async fn to_the_end(store: &dyn Store, mut query: ListQuery) -> (Vec<Execution>, usize) {
    let (mut executions, mut places) = (Vec::new(), Vec::new());
    for pages in 1.. {
        let page = page(store, &query).await;
        executions.extend(page.executions);
        places.extend(page.places);
        let Some(next) = page.next else {
            assert!(is_newest_first(&places), "{query:?}");
            return (executions, pages);
        };
        assert!(query.before.is_none_or(|before| next < before), "{query:?}");
        query.before = Some(next);
    }
    unreachable!()
}

pub(super) async fn all(store: &dyn Store, query: ListQuery) -> Vec<Execution> {
    to_the_end(store, query).await.0
}

/// What `query` asks for, out of all there are.
pub(super) fn expected<'a>(
    executions: impl Iterator<Item = (Sequence, &'a Execution)>,
    query: &ListQuery,
) -> Vec<Execution> {
    let mut wanted: Vec<_> = executions.collect();
    wanted.retain(|(place, one)| {
        query.state.is_none_or(|state| one.state() == state)
            && (!query.open_only || one.completed_at().is_none())
            && (query.workflow.as_ref()).is_none_or(|name| name == one.workflow())
            && (query.project.as_deref()).is_none_or(|project| one.project() == Some(project))
            && (query.before).is_none_or(|before| *place < before)
    });
    wanted.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    wanted.into_iter().map(|(_, one)| one.clone()).collect()
}

/// The executions there are, each with its place.
pub(super) fn present(tales: &[Tale]) -> impl Iterator<Item = (Sequence, &Execution)> {
    tales.iter().filter_map(|tale| Some((*tale.places.last()?, tale.execution.as_ref()?)))
}

/// As many executions, each with its first transition.
pub(super) async fn started(store: &dyn Store, count: usize) -> Vec<Tale> {
    let definition = definition(30);
    let mut tales = Vec::new();
    for at in 0..count {
        let mut tale = Tale::with(&format!("tale {at}"), Arc::clone(&definition));
        tale.step(store).await.unwrap();
        tales.push(tale);
    }
    tales
}

pub(super) fn names(executions: &[Execution]) -> Vec<&str> {
    executions.iter().map(|one| one.id().as_str()).collect()
}

async fn an_empty_store_lists_nothing(store: Arc<dyn Store>) {
    for query in [up_to(0), up_to(1), open_up_to(10)] {
        let page = page(&*store, &query).await;
        assert_eq!((page.executions, page.next), (Vec::new(), None));
    }
    let tales = started(&*store, 2).await;
    let nothing = page(&*store, &up_to(0)).await;
    assert_eq!((nothing.executions, nothing.next), (Vec::new(), None));
    for before in [Sequence(0), tales[0].places[0]] {
        for query in [up_to(9), open_up_to(9)] {
            let query = ListQuery { before: Some(before), ..query };
            assert_eq!(all(&*store, query).await, []);
        }
    }
}

async fn executions_are_listed_by_their_last_transition(store: Arc<dyn Store>) {
    let mut tales = started(&*store, 5).await;
    assert_eq!(
        names(&all(&*store, up_to(9)).await),
        ["tale 4", "tale 3", "tale 2", "tale 1", "tale 0"]
    );
    for at in [2, 0, 0, 4, 2, 1, 2, 2, 2] {
        tales[at].step(&*store).await.unwrap();
        let listed = all(&*store, up_to(9)).await;
        assert_eq!(listed[0].id(), &tales[at].id);
        assert_eq!(listed, expected(present(&tales), &up_to(9)));
        assert_eq!(all(&*store, open_up_to(9)).await, listed);
    }
    // A snapshot is no transition.
    let still = Arc::new(tales[3].execution.clone().unwrap());
    store.checkpoint(still, tales[3].position).await.unwrap();
    let listed = all(&*store, up_to(9)).await;
    assert_eq!(listed.last().unwrap().id(), &tales[3].id);
}

async fn every_condition_must_hold(store: Arc<dyn Store>) {
    let ends = [State::Completed, State::Failed, State::Abandoned];
    let turns: Vec<_> =
        [State::Running, State::Paused, State::Diverged].into_iter().chain(ends).collect();
    let mut tales = Vec::new();
    for workflow in ["one", "other"] {
        let definition = definition_of(workflow, 30);
        for project in [None, Some("/a"), Some("/b")] {
            for turn in &turns {
                let name = format!("{workflow} {project:?} {turn}");
                let mut tale = Tale::with(&name, Arc::clone(&definition)).of(project);
                tale.steps(&*store, 2).await;
                if *turn != State::Running {
                    tale.turn(&*store, *turn).await.unwrap();
                }
                tales.push(tale);
            }
        }
    }
    let (mut asked, mut found) = (0, 0);
    for state in State::ALL.map(Some).into_iter().chain([None]) {
        for open_only in [false, true] {
            for workflow in [None, Some("one"), Some("other"), Some("none")] {
                for project in [None, Some("/a"), Some("/c")] {
                    let query = ListQuery {
                        state,
                        open_only,
                        workflow: workflow.map(|name| WorkflowName::parse(name).unwrap()),
                        project: project.map(str::to_owned),
                        ..up_to(4)
                    };
                    let listed = all(&*store, query.clone()).await;
                    assert_eq!(listed, expected(present(&tales), &query), "{query:?}");
                    (asked, found) = (asked + 1, found + listed.len());
                }
            }
        }
    }
    assert!(found > asked, "{found}");
}

async fn pages_hold_each_execution_once(store: Arc<dyn Store>) {
    let mut tales = started(&*store, 23).await;
    for at in [3, 3, 17, 9, 22, 0, 9] {
        tales[at].step(&*store).await.unwrap();
    }
    for at in [5, 9, 21] {
        tales[at].turn(&*store, State::Failed).await.unwrap();
    }
    for limit in [1, 2, 7, 22, 23, 24, 1000] {
        for query in [up_to(limit), open_up_to(limit)] {
            let (listed, pages) = to_the_end(&*store, query.clone()).await;
            assert_eq!(listed, expected(present(&tales), &query), "{query:?}");
            assert!(pages >= listed.len().div_ceil(limit), "{query:?}");
        }
    }
    let beyond = ListQuery { before: Some(Sequence(u64::MAX)), ..up_to(50) };
    assert_eq!(all(&*store, beyond).await.len(), 23);
}

async fn who_moves_between_two_pages_is_on_none_that_follows(store: Arc<dyn Store>) {
    for (round, query) in [up_to(2), open_up_to(2)].into_iter().enumerate() {
        let mut tales = Vec::new();
        for at in 0..8 {
            tales.push(Tale::new(&format!("{round}/{at}"), 9));
            tales[at].step(&*store).await.unwrap();
        }
        // However short the pages are: on until two are listed.
        let (mut before, mut listed) = (None, Vec::new());
        while listed.len() < 2 {
            let query = ListQuery { before, limit: 2 - listed.len(), ..query.clone() };
            let page = page(&*store, &query).await;
            listed.extend(page.executions);
            before = page.next;
        }
        let name = |at: usize| format!("{round}/{at}");
        assert_eq!(names(&listed), [name(7), name(6)]);
        // One that was listed, one that was not, and a new one.
        tales[7].step(&*store).await.unwrap();
        tales[3].step(&*store).await.unwrap();
        let mut new = Tale::new(&format!("{round}/new"), 9);
        new.step(&*store).await.unwrap();
        let rest = all(&*store, ListQuery { before, ..query.clone() }).await;
        let rest: Vec<_> = rest
            .into_iter()
            .filter(|one| one.id().as_str().starts_with(&format!("{round}/")))
            .collect();
        assert_eq!(names(&rest), [name(5), name(4), name(2), name(1), name(0)]);
        let anew = all(&*store, query).await;
        let expected = [format!("{round}/new"), name(3), name(7), name(6), name(5)];
        assert_eq!(names(&anew[..5]), expected);
    }
}

async fn who_has_ended_is_open_no_more(store: Arc<dyn Store>) {
    let mut tales = started(&*store, 6).await;
    let states = |executions: &[Execution]| -> BTreeSet<_> {
        executions.iter().map(|one| one.state().as_str()).collect()
    };
    let mut done = Tale::new("done", 1);
    done.steps(&*store, 2).await;
    tales[0].turn(&*store, State::Failed).await.unwrap();
    tales[1].turn(&*store, State::Abandoned).await.unwrap();
    tales[2].turn(&*store, State::Paused).await.unwrap();
    let open = all(&*store, open_up_to(50)).await;
    assert_eq!(names(&open), ["tale 2", "tale 5", "tale 4", "tale 3"]);
    assert_eq!(states(&open), BTreeSet::from(["paused", "running"]));
    // On again, and then to an end, with nothing but rows between.
    tales[2].turn(&*store, State::Running).await.unwrap();
    tales[2].steps(&*store, 5).await;
    tales[2].turn(&*store, State::Diverged).await.unwrap();
    let open = all(&*store, open_up_to(50)).await;
    assert_eq!(names(&open), ["tale 5", "tale 4", "tale 3"]);
    let ended = all(&*store, up_to(50)).await;
    assert_eq!(names(&ended[..2]), ["tale 2", "tale 1"]);
    assert_eq!(ended.len(), 7);
}

async fn who_ends_at_once_was_never_open(store: Arc<dyn Store>) {
    let mut tale = Tale::new("at once", 3);
    let start = tale.transition("start");
    let mut commit = tale.commit_of(start);
    Arc::make_mut(&mut commit.row).events.push(Event::StateChanged {
        from: State::Running,
        to: State::Completed,
        failure: None,
        steps_total: 3,
    });
    commit.execution = Arc::new(Execution::apply_row(None, &commit.row).unwrap());
    tale.keep(&*store, commit).await.unwrap();
    assert_eq!(all(&*store, open_up_to(9)).await, []);
    assert_eq!(names(&all(&*store, up_to(9)).await), ["at once"]);
}

async fn a_refused_end_ends_nothing(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 9);
    tale.step(&*store).await.unwrap();
    let stale = tale.turning(State::Failed);
    tale.step(&*store).await.unwrap();
    let error = store.commit(stale.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    assert_eq!(names(&all(&*store, open_up_to(9)).await), ["one"]);
    // Nor where others are stored with it.
    let mut others = [Tale::new("two", 9), Tale::new("three", 9)];
    for _ in 0..5 {
        let [two, three] = &mut others;
        let stale = store.commit(stale.clone());
        let (before, refused, after) = tokio::join!(two.step(&*store), stale, three.step(&*store));
        before.unwrap();
        after.unwrap();
        assert_eq!(refused.unwrap_err().code(), Code::RevisionConflict);
        let open = all(&*store, open_up_to(9)).await;
        assert!(names(&open).contains(&"one"), "{open:?}");
    }
    // Nor does a second start make two of it.
    Tale::new("one", 9).step(&*store).await.unwrap_err();
    tale.turn(&*store, State::Failed).await.unwrap();
    let open = all(&*store, open_up_to(9)).await;
    assert_eq!(names(&open), ["three", "two"]);
    let listed = all(&*store, up_to(9)).await;
    assert_eq!(names(&listed), ["one", "three", "two"]);
}

async fn the_last_page_names_no_next_one(store: Arc<dyn Store>) {
    started(&*store, 3).await;
    for query in [up_to(3), open_up_to(3)] {
        let page = page(&*store, &query).await;
        assert_eq!((page.executions.len(), page.next), (3, None));
    }
    for query in [up_to(2), open_up_to(2)] {
        let page = page(&*store, &query).await;
        assert_eq!((page.executions.len(), page.next), (2, Some(Sequence(2))));
    }
}

/// In one answer nobody is missing, however many move meanwhile; over several pages nobody who stands still is,
/// and nobody comes twice.
async fn many_movers_are_listed_once(store: Arc<dyn Store>) {
    let definition = definition(90);
    let still: Vec<_> = (0..300)
        .map(|at| {
            let (store, definition) = (Arc::clone(&store), Arc::clone(&definition));
            tokio::spawn(async move {
                let mut tale = Tale::with(&format!("still {at}"), definition);
                tale.step(&*store).await.unwrap();
                tale.id
            })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for still in still {
        ids.insert(still.await.unwrap());
    }
    let all_still = ids.clone();
    let mut movers = Vec::new();
    for at in 0..6 {
        let mut tale = Tale::with(&format!("mover {at}"), Arc::clone(&definition));
        tale.step(&*store).await.unwrap();
        ids.insert(tale.id.clone());
        movers.push(tale);
    }
    let movers: Vec<_> = movers
        .into_iter()
        .map(|mut tale| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..60 {
                    tale.step(&*store).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let is_moving = || movers.iter().any(|mover| !mover.is_finished());
    let mut rounds = 0;
    while is_moving() || rounds == 0 {
        for query in [up_to(usize::MAX), open_up_to(40)] {
            let seen = while_others_move(&*store, query).await;
            assert!(all_still.is_subset(&seen), "{rounds}");
        }
        tokio::task::yield_now().await;
        rounds += 1;
    }
    for mover in movers {
        mover.await.unwrap();
    }
    let listed = all(&*store, up_to(100)).await;
    assert_eq!(listed.len(), ids.len());
}

/// Everyone on the pages from `query` on: nobody twice.
async fn while_others_move(store: &dyn Store, mut query: ListQuery) -> BTreeSet<ExecutionId> {
    let mut seen = BTreeSet::new();
    loop {
        let page = page(store, &query).await;
        for one in page.executions {
            assert!(seen.insert(one.id().clone()), "{} twice", one.id());
        }
        query.before = match page.next {
            Some(next) => Some(next),
            None => return seen,
        };
    }
}

/// Whoever moves while one page is made is on it: with threads, and more rows than one read takes in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_page_misses_nobody_who_moves() {
    for snapshot_every in [1, 16] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { snapshot_every, ..Options::default() };
        let store = Arc::new(RedbStore::open(directory.path(), options).unwrap());
        let done = Arc::new(AtomicBool::new(false));
        let mut tales = started(&*store, 40).await;
        for tale in tales.iter_mut().take(36) {
            tale.steps(&*store, 15).await;
        }
        let ids: BTreeSet<_> = tales.iter().map(|tale| tale.id.clone()).collect();
        let still: BTreeSet<_> = tales.iter().skip(8).map(|tale| tale.id.clone()).collect();
        let movers: Vec<_> = tales
            .into_iter()
            .take(8)
            .map(|mut tale| {
                let (store, done) = (Arc::clone(&store), Arc::clone(&done));
                tokio::spawn(async move {
                    while !done.load(Ordering::SeqCst) {
                        let to = match tale.execution.as_ref().unwrap().state() {
                            State::Paused => State::Running,
                            _ => State::Paused,
                        };
                        tale.turn(&*store, to).await.unwrap();
                    }
                })
            })
            .collect();
        for round in 0..12 {
            for query in [up_to(1000), open_up_to(1000)] {
                let page = page(&*store, &query).await;
                let seen: BTreeSet<_> =
                    page.executions.iter().map(|one| one.id().clone()).collect();
                assert_eq!(seen, ids, "{round} {query:?}");
                assert_eq!(page.executions.len(), ids.len(), "{round} {query:?}");
                let several = ListQuery { limit: 7, ..query };
                let seen = while_others_move(&*store, several).await;
                assert!(still.is_subset(&seen), "{round}");
            }
        }
        done.store(true, Ordering::SeqCst);
        for mover in movers {
            mover.await.unwrap();
        }
    }
}
