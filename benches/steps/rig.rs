//! An engine on a real file, and a client that does what it is asked.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use midex_domain::{
    Definition, ExecutionId,
    clock::{SystemClock, SystemIds},
    execution::{Report, SignalRequest},
    view::{AdvanceReply, ReadyStep},
};
use midex_engine::{
    Engine, Notifier, Options, StartRequest,
    activity::{Activities, Context, function},
    store::{self, RedbStore},
};
use serde_json::{Value, json};

use super::manifest::ACTIVITY;

/// An engine on a real file.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) changes: Notifier,
    pub(crate) store: Arc<RedbStore>,
    _dir: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(|options| options).await
    }

    /// An engine whose options are changed so.
    pub(crate) async fn with(change: impl FnOnce(Options) -> Options) -> Self {
        Self::with_store(store::Options::default(), change).await
    }

    /// An engine whose store has these options, and whose own options are changed so.
    pub(crate) async fn with_store(
        store: store::Options,
        change: impl FnOnce(Options) -> Options,
    ) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let store = Arc::new(RedbStore::open(dir.path(), store).expect("a store"));
        let echo = |context: Context| async move { Ok(context.input) };
        let activities =
            Activities::default().with_activity(function(ACTIVITY, echo).as_idempotent());
        let options = Options::new(store.clone(), Arc::new(SystemClock), Arc::new(SystemIds));
        let options =
            change(Options { activities: activities.expect("one of its name"), ..options });
        let changes = options.notifier.clone();
        Self { engine: Engine::new(options).await.expect("an engine"), changes, store, _dir: dir }
    }

    /// Transitions made durable until now.
    pub(crate) fn transitions(&self) -> u64 {
        self.store.counts().transitions
    }

    pub(crate) async fn stop(self) {
        self.engine.stop().await.expect("a stop");
    }

    /// Takes so many executions from their start to their end, so many at once.
    pub(crate) async fn play(&self, load: &Load, count: u64, at_once: u64) -> Duration {
        let left = Arc::new(AtomicU64::new(count));
        let start = Instant::now();
        let lanes: Vec<_> = (0..at_once.min(count))
            .map(|_| {
                let (engine, left, load) = (self.engine.clone(), left.clone(), load.clone());
                tokio::spawn(async move {
                    let one_less = |left: u64| left.checked_sub(1);
                    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
                    while take().is_ok() {
                        Client::start(&engine, &load).await.finish().await;
                    }
                })
            })
            .collect();
        for lane in lanes {
            lane.await.expect("no panic");
        }
        start.elapsed()
    }
}

/// What is started, and what it is told right after that, before it waits for it.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) definition: Arc<Definition>,
    pub(crate) inputs: Value,
    pub(crate) signal: Option<&'static str>,
}

impl Load {
    pub(crate) fn new(definition: Arc<Definition>, inputs: Value) -> Self {
        Self { definition, inputs, signal: None }
    }

    /// Starts an execution of it.
    pub(crate) async fn start(&self, engine: &Engine) -> AdvanceReply {
        let request = StartRequest {
            inputs: Some(self.inputs.clone()),
            ..StartRequest::new(self.definition.clone())
        };
        engine.start(request).await.expect("a start")
    }
}

/// Who does the steps of one execution, one after another.
pub(crate) struct Client {
    engine: Engine,
    last: AdvanceReply,
    open: VecDeque<ReadyStep>,
}

impl Client {
    pub(crate) async fn start(engine: &Engine, load: &Load) -> Self {
        let last = load.start(engine).await;
        let client = Self { engine: engine.clone(), open: last.new_tokens.clone().into(), last };
        if let Some(signal) = load.signal {
            let id = client.id();
            let signal = SignalRequest::new(signal, json!({ "by": "bench" }));
            engine.apply_command(&id, signal).await.expect("a signal");
        }
        client
    }

    pub(crate) fn id(&self) -> ExecutionId {
        ExecutionId::parse(&self.last.execution_id).expect("an id")
    }

    /// Does so many of the steps that are open, or become so.
    pub(crate) async fn advance(&mut self, count: usize) {
        for _ in 0..count {
            let offer = self.open.pop_front().expect("an open step");
            let report =
                Report::Output(json!({ "summary": "done", "found": offer.step.item, "score": 7 }));
            let advanced = self.engine.advance(&offer.continuation_token, report).await;
            self.last = advanced.expect("an advance");
            self.open.extend(self.last.new_tokens.iter().cloned());
        }
    }

    /// Does whatever is open until the execution has ended, and waits where nothing is.
    pub(crate) async fn finish(mut self) {
        while self.last.workflow_state == "running" {
            if self.open.is_empty() {
                self.wait().await;
            } else {
                self.advance(1).await;
            }
        }
        assert_eq!(self.last.workflow_state, "completed", "{:?}", self.last.failure);
    }

    async fn wait(&mut self) {
        let (id, since) = (self.id(), self.last.revision);
        let most = Duration::from_secs(20);
        let waited = self.engine.wait(&id, Some(since), most).await;
        waited.expect("a status");
        self.last = self.engine.last_reply(&id).await.expect("where it stands");
        let open = self.last.new_tokens.iter().chain(&self.last.open_steps);
        self.open.extend(open.cloned());
    }
}
