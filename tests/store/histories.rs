//! Random histories against a plain model: what the store lists is what the model would.
//!
//! A failing case prints its seed and its acts; proptest replays it from `proptest-regressions`.

use std::sync::Arc;

use midex_domain::{Definition, State, WorkflowName};
use midex_engine::store::{ListQuery, Options, RedbStore, Store};
use proptest::prelude::*;

use super::{
    disk::crash,
    index::{index, open_ids},
    pages::{list_stored, query_all, read_pages, select_expected},
    script::{Script, build_named_definition},
};

const WORKFLOWS: [&str; 2] = ["one", "other"];
const PROJECTS: [Option<&str>; 3] = [None, Some("/a"), Some("/b")];

/// What is done to the store. Indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Act {
    Start { workflow: usize, project: usize },
    Step { tale: usize },
    Turn { tale: usize, to: usize },
    Checkpoint { tale: usize },
    Close,
    Crash,
    List(Asked),
}

#[derive(Clone, Debug)]
struct Asked {
    state: Option<usize>,
    open_only: bool,
    workflow: Option<usize>,
    project: Option<usize>,
    before: Option<u64>,
    limit: usize,
}

impl Asked {
    fn query(&self) -> ListQuery {
        ListQuery {
            state: self.state.map(|at| State::ALL[at]),
            open_only: self.open_only,
            workflow: (self.workflow).map(|at| WorkflowName::parse(WORKFLOWS[at]).unwrap()),
            project: self.project.and_then(|at| PROJECTS[at]).map(str::to_owned),
            before: self.before.map(midex_domain::Sequence),
            ..query_all(self.limit)
        }
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let state = prop::option::weighted(0.3, 0..State::ALL.len());
    let workflow = prop::option::weighted(0.3, 0..WORKFLOWS.len());
    let project = prop::option::weighted(0.3, 0..PROJECTS.len());
    let before = prop::option::weighted(0.3, 0..60_u64);
    let rest = (state, any::<bool>(), workflow, project, before, 1..9_usize);
    rest.prop_map(|(state, open_only, workflow, project, before, limit)| Asked {
        state,
        open_only,
        workflow,
        project,
        before,
        limit,
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let any = 0..64_usize;
    let act = prop_oneof![
        8 => (0..WORKFLOWS.len(), 0..PROJECTS.len())
            .prop_map(|(workflow, project)| Act::Start { workflow, project }),
        16 => any.clone().prop_map(|tale| Act::Step { tale }),
        8 => (any.clone(), 0..State::ALL.len()).prop_map(|(tale, to)| Act::Turn { tale, to }),
        1 => any.prop_map(|tale| Act::Checkpoint { tale }),
        1 => Just(Act::Close),
        1 => Just(Act::Crash),
        8 => asked().prop_map(Act::List),
    ];
    prop::collection::vec(act, 1..60)
}

/// A store and everything that should be in it.
struct World {
    directory: tempfile::TempDir,
    options: Options,
    store: Option<RedbStore>,
    definitions: Vec<Arc<Definition>>,
    tales: Vec<Script>,
}

impl World {
    fn new(options: Options) -> Self {
        let definitions = WORKFLOWS.map(|name| build_named_definition(name, 4));
        let mut world = Self {
            directory: tempfile::tempdir().unwrap(),
            options,
            store: None,
            definitions: definitions.into(),
            tales: Vec::new(),
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let store = RedbStore::open(self.directory.path(), self.options.clone());
        self.store = Some(store.unwrap());
    }

    async fn act(&mut self, act: &Act) {
        let store = self.store.as_ref().unwrap();
        let count = self.tales.len();
        match act {
            Act::Start { workflow, project } => {
                let definition = Arc::clone(&self.definitions[*workflow]);
                let tale = Script::with_definition(&format!("tale {count}"), definition);
                let mut tale = tale.with_project(PROJECTS[*project]);
                tale.commit_step(store).await.unwrap();
                self.tales.push(tale);
            }
            Act::List(asked) => self.list(&asked.query()).await,
            Act::Close => {
                store.close().await.unwrap();
                self.reopen().await;
            }
            Act::Crash => {
                let crashed = crash(self.directory.path());
                let copy = crash(crashed.path());
                // The redo log holds some of it until the file is opened.
                drop(RedbStore::open(copy.path(), Options::default()).unwrap());
                assert_eq!(index(copy.path()), open_ids(&self.tales));
                self.store = None;
                self.directory = crashed;
                self.reopen().await;
            }
            Act::Step { tale } | Act::Turn { tale, .. } | Act::Checkpoint { tale } => {
                if let Some(at) = tale.checked_rem(count) {
                    let (store, tale) = (self.store.as_ref().unwrap(), &mut self.tales[at]);
                    move_on(store, tale, act).await;
                }
            }
        }
    }

    /// Fresh snapshots were made: where each stands is asked anew.
    async fn reopen(&mut self) {
        self.store = None;
        self.open();
        for tale in &mut self.tales {
            let stored = self.store.as_ref().unwrap().load(&tale.id).await;
            tale.position = stored.unwrap().unwrap().position;
        }
    }

    async fn list(&self, query: &ListQuery) {
        let store = self.store.as_ref().unwrap();
        let (listed, _) = read_pages(store, query.clone()).await;
        assert_eq!(listed, select_expected(list_stored(&self.tales), query), "{query:?}");
    }
}

async fn move_on(store: &RedbStore, tale: &mut Script, act: &Act) {
    let execution = tale.execution.clone().unwrap();
    match act {
        Act::Step { .. } if execution.state() == State::Running => {
            tale.commit_step(store).await.unwrap();
        }
        Act::Turn { to, .. } if execution.state().can_become(State::ALL[*to]) => {
            tale.commit_state(store, State::ALL[*to]).await.unwrap();
        }
        Act::Checkpoint { .. } => {
            let position = store.checkpoint(Arc::new(execution), tale.position).await;
            tale.position = position.unwrap();
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_list_is_what_a_plain_model_lists(
        acts in acts(),
        snapshot_every in prop::sample::select(vec![1, 3, 16]),
        list_scanned_max in prop::sample::select(vec![1, 2, 7, 100_000]),
    ) {
        let options = Options { snapshot_every, list_scanned_max, ..Options::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(options);
            for act in &acts {
                world.act(act).await;
            }
            world.list(&query_all(3)).await;
            world.list(&ListQuery { open_only: true, ..query_all(3) }).await;
        });
    }
}
