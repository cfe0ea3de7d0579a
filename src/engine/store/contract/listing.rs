//! Promises about pages of executions.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    pages::{
        list_ids, list_stored, query_all, query_open, read_all, read_distinct_ids, read_page,
        read_pages, select_expected, start_scripts,
    },
    script::{Script, build_definition, build_named_definition},
};
use crate::store::{ListQuery, Store};
use midex_domain::{Event, Execution, Sequence, State, WorkflowName, error::Code};

pub(super) async fn an_empty_store_lists_nothing(store: Arc<dyn Store>) {
    for query in [query_all(0), query_all(1), query_open(10)] {
        let page = read_page(&*store, &query).await;
        assert_eq!((page.executions, page.next_key), (Vec::new(), None));
    }
    let scripts = start_scripts(&*store, 2).await;
    let nothing = read_page(&*store, &query_all(0)).await;
    assert_eq!((nothing.executions, nothing.next_key), (Vec::new(), None));
    for before in [Sequence(0), scripts[0].row_keys[0]] {
        for query in [query_all(9), query_open(9)] {
            let query = ListQuery { before: Some(before), ..query };
            assert_eq!(read_all(&*store, query).await, []);
        }
    }
}

pub(super) async fn executions_are_listed_by_their_last_transition(store: Arc<dyn Store>) {
    let mut scripts = start_scripts(&*store, 5).await;
    assert_eq!(
        list_ids(&read_all(&*store, query_all(9)).await),
        ["tale 4", "tale 3", "tale 2", "tale 1", "tale 0"]
    );
    for at in [2, 0, 0, 4, 2, 1, 2, 2, 2] {
        scripts[at].commit_step(&*store).await.unwrap();
        let listed = read_all(&*store, query_all(9)).await;
        assert_eq!(listed[0].id(), &scripts[at].id);
        assert_eq!(listed, select_expected(list_stored(&scripts), &query_all(9)));
        assert_eq!(read_all(&*store, query_open(9)).await, listed);
    }
    // A snapshot is no transition.
    let still = Arc::new(scripts[3].execution.clone().unwrap());
    store.checkpoint(still, scripts[3].position).await.unwrap();
    let listed = read_all(&*store, query_all(9)).await;
    assert_eq!(listed.last().unwrap().id(), &scripts[3].id);
}

pub(super) async fn every_condition_must_hold(store: Arc<dyn Store>) {
    let ends = [State::Completed, State::Failed, State::Abandoned];
    let turns: Vec<_> =
        [State::Running, State::Paused, State::Diverged].into_iter().chain(ends).collect();
    let mut scripts = Vec::new();
    for workflow in ["one", "other"] {
        let definition = build_named_definition(workflow, 30);
        for project in [None, Some("/a"), Some("/b")] {
            for turn in &turns {
                let name = format!("{workflow} {project:?} {turn}");
                let mut script =
                    Script::with_definition(&name, Arc::clone(&definition)).with_project(project);
                script.commit_steps(&*store, 2).await;
                if *turn != State::Running {
                    script.commit_state(&*store, *turn).await.unwrap();
                }
                scripts.push(script);
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
                        ..query_all(4)
                    };
                    let listed = read_all(&*store, query.clone()).await;
                    assert_eq!(listed, select_expected(list_stored(&scripts), &query), "{query:?}");
                    (asked, found) = (asked + 1, found + listed.len());
                }
            }
        }
    }
    assert!(found > asked, "{found}");
}

pub(super) async fn pages_hold_each_execution_once(store: Arc<dyn Store>) {
    let mut scripts = start_scripts(&*store, 23).await;
    for at in [3, 3, 17, 9, 22, 0, 9] {
        scripts[at].commit_step(&*store).await.unwrap();
    }
    for at in [5, 9, 21] {
        scripts[at].commit_state(&*store, State::Failed).await.unwrap();
    }
    for limit in [1, 2, 7, 22, 23, 24, 1000] {
        for query in [query_all(limit), query_open(limit)] {
            let (listed, pages) = read_pages(&*store, query.clone()).await;
            assert_eq!(listed, select_expected(list_stored(&scripts), &query), "{query:?}");
            assert!(pages >= listed.len().div_ceil(limit), "{query:?}");
        }
    }
    let beyond = ListQuery { before: Some(Sequence(u64::MAX)), ..query_all(50) };
    assert_eq!(read_all(&*store, beyond).await.len(), 23);
}

pub(super) async fn an_execution_that_moves_is_on_no_later_page(store: Arc<dyn Store>) {
    for (round, query) in [query_all(2), query_open(2)].into_iter().enumerate() {
        let mut scripts = Vec::new();
        for at in 0..8 {
            scripts.push(Script::new(&format!("{round}/{at}"), 9));
            scripts[at].commit_step(&*store).await.unwrap();
        }
        // Pages may be short: read on until two executions are listed.
        let (mut before, mut listed) = (None, Vec::new());
        while listed.len() < 2 {
            let query = ListQuery { before, limit: 2 - listed.len(), ..query.clone() };
            let page = read_page(&*store, &query).await;
            listed.extend(page.executions);
            before = page.next_key;
        }
        let name = |at: usize| format!("{round}/{at}");
        assert_eq!(list_ids(&listed), [name(7), name(6)]);
        // One that was listed moves, one that was not, and a new one.
        scripts[7].commit_step(&*store).await.unwrap();
        scripts[3].commit_step(&*store).await.unwrap();
        let mut new = Script::new(&format!("{round}/new"), 9);
        new.commit_step(&*store).await.unwrap();
        let rest = read_all(&*store, ListQuery { before, ..query.clone() }).await;
        let rest: Vec<_> = rest
            .into_iter()
            .filter(|one| one.id().as_str().starts_with(&format!("{round}/")))
            .collect();
        assert_eq!(list_ids(&rest), [name(5), name(4), name(2), name(1), name(0)]);
        let anew = read_all(&*store, query).await;
        let expected = [format!("{round}/new"), name(3), name(7), name(6), name(5)];
        assert_eq!(list_ids(&anew[..5]), expected);
    }
}

pub(super) async fn an_ended_execution_is_not_listed_as_open(store: Arc<dyn Store>) {
    let mut scripts = start_scripts(&*store, 6).await;
    let states = |executions: &[Execution]| -> BTreeSet<_> {
        executions.iter().map(|one| one.state().as_str()).collect()
    };
    let mut done = Script::new("done", 1);
    done.commit_steps(&*store, 2).await;
    scripts[0].commit_state(&*store, State::Failed).await.unwrap();
    scripts[1].commit_state(&*store, State::Abandoned).await.unwrap();
    scripts[2].commit_state(&*store, State::Paused).await.unwrap();
    let open = read_all(&*store, query_open(50)).await;
    assert_eq!(list_ids(&open), ["tale 2", "tale 5", "tale 4", "tale 3"]);
    assert_eq!(states(&open), BTreeSet::from(["paused", "running"]));
    // Resumed, and then ended after several steps.
    scripts[2].commit_state(&*store, State::Running).await.unwrap();
    scripts[2].commit_steps(&*store, 5).await;
    scripts[2].commit_state(&*store, State::Diverged).await.unwrap();
    let open = read_all(&*store, query_open(50)).await;
    assert_eq!(list_ids(&open), ["tale 5", "tale 4", "tale 3"]);
    let ended = read_all(&*store, query_all(50)).await;
    assert_eq!(list_ids(&ended[..2]), ["tale 2", "tale 1"]);
    assert_eq!(ended.len(), 7);
}

pub(super) async fn an_execution_that_ends_in_its_first_row_is_never_open(store: Arc<dyn Store>) {
    let mut script = Script::new("at once", 3);
    let start = script.build_transition("start");
    let mut commit = script.build_commit(start);
    Arc::make_mut(&mut commit.row).events.push(Event::StateChanged {
        from: State::Running,
        to: State::Completed,
        failure: None,
        steps_total: 3,
    });
    commit.execution = Arc::new(Execution::apply_row(None, &commit.row).unwrap());
    script.store_commit(&*store, commit).await.unwrap();
    assert_eq!(read_all(&*store, query_open(9)).await, []);
    assert_eq!(list_ids(&read_all(&*store, query_all(9)).await), ["at once"]);
}

pub(super) async fn a_refused_commit_leaves_an_execution_open(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 9);
    script.commit_step(&*store).await.unwrap();
    let stale = script.build_state_commit(State::Failed);
    script.commit_step(&*store).await.unwrap();
    let error = store.commit(stale.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    assert_eq!(list_ids(&read_all(&*store, query_open(9)).await), ["one"]);
    // The same holds for a commit that is stored together with others.
    let mut others = [Script::new("two", 9), Script::new("three", 9)];
    for _ in 0..5 {
        let [two, three] = &mut others;
        let stale = store.commit(stale.clone());
        let (before, refused, after) =
            tokio::join!(two.commit_step(&*store), stale, three.commit_step(&*store));
        before.unwrap();
        after.unwrap();
        assert_eq!(refused.unwrap_err().code(), Code::RevisionConflict);
        let open = read_all(&*store, query_open(9)).await;
        assert!(list_ids(&open).contains(&"one"), "{open:?}");
    }
    // A second start is refused, and does not add an execution.
    Script::new("one", 9).commit_step(&*store).await.unwrap_err();
    script.commit_state(&*store, State::Failed).await.unwrap();
    let open = read_all(&*store, query_open(9)).await;
    assert_eq!(list_ids(&open), ["three", "two"]);
    let listed = read_all(&*store, query_all(9)).await;
    assert_eq!(list_ids(&listed), ["one", "three", "two"]);
}

/// While executions move, one page has every execution, several pages have every execution that does not move, and none is
/// listed twice.
pub(super) async fn moving_executions_are_listed_once(store: Arc<dyn Store>) {
    let definition = build_definition(90);
    let still: Vec<_> = (0..300)
        .map(|at| {
            let (store, definition) = (Arc::clone(&store), Arc::clone(&definition));
            tokio::spawn(async move {
                let mut script = Script::with_definition(&format!("still {at}"), definition);
                script.commit_step(&*store).await.unwrap();
                script.id
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
        let mut script = Script::with_definition(&format!("mover {at}"), Arc::clone(&definition));
        script.commit_step(&*store).await.unwrap();
        ids.insert(script.id.clone());
        movers.push(script);
    }
    let movers: Vec<_> = movers
        .into_iter()
        .map(|mut script| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..60 {
                    script.commit_step(&*store).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let is_moving = || movers.iter().any(|mover| !mover.is_finished());
    let mut rounds = 0;
    while is_moving() || rounds == 0 {
        for query in [query_all(usize::MAX), query_open(40)] {
            let seen = read_distinct_ids(&*store, query).await;
            assert!(all_still.is_subset(&seen), "{rounds}");
        }
        tokio::task::yield_now().await;
        rounds += 1;
    }
    for mover in movers {
        mover.await.unwrap();
    }
    let listed = read_all(&*store, query_all(100)).await;
    assert_eq!(listed.len(), ids.len());
}
