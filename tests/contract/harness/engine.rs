//! The life of one server process: an engine, and a runtime whose time is paused.

use std::{future::Future, sync::Arc, time::Duration};

use midex_domain::{
    ExecutionId,
    clock::{Clock, SeededIds},
};
use midex_engine::{Engine, Listener, Notifier, Options, Topic, store::Store};
use midex_test::{EPOCH, TokioClock};
use tokio::runtime::{Builder, Runtime};

use super::server::{Children, Server, Shop};

/// A pause after which every task waits for time or for the outside: paused time advances only once all tasks wait.
const SETTLED_AFTER: Duration = Duration::from_millis(5);

pub(super) struct Process {
    runtime: Runtime,
    pub(super) engine: Engine,
    clock: TokioClock,
    /// Marked by every transition of every execution.
    listener: Listener,
}

impl Process {
    /// Starts a process after `passed` since the scenario began. `number` tells it from those before it.
    pub(super) fn start(
        store: Arc<dyn Store>,
        server: &Arc<Server>,
        passed: Duration,
        number: u64,
    ) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
        let notifier = Notifier::default();
        let listener = notifier.new_listener();
        listener.subscribe(&"all".into(), Some(Topic::Executions));
        let (engine, clock) = runtime.block_on(async {
            let clock = TokioClock::starting_at(EPOCH.plus(passed));
            let ids = Arc::new(SeededIds::new(number));
            let options = Options {
                notifier,
                activities: server.activities(),
                operations: Arc::new(Shop(server.clone())),
                workflows: Arc::new(Children(server.clone())),
                ..Options::new(store, Arc::new(clock), ids)
            };
            (Engine::new(options).await.expect("an engine"), clock)
        });
        Self { runtime, engine, clock, listener }
    }

    /// Completes `work`. Outside of this nothing moves.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// How much time has passed since the scenario began.
    pub(super) fn passed(&self) -> Duration {
        self.run(async { self.clock.now().since(EPOCH) })
    }

    /// Lets everything happen that needs neither time nor the outside.
    pub(super) fn settle(&self) {
        self.run(async { tokio::time::sleep(SETTLED_AFTER).await });
        while self.listener.take_marked_name().is_some() {}
    }

    /// Lets time pass until an execution moves, for `longest` at most, and returns whether one did.
    pub(super) fn pass_until_change(&self, longest: Duration) -> bool {
        self.run(async {
            tokio::select! {
                () = self.listener.wait_for_change() => true,
                () = tokio::time::sleep(longest) => false,
            }
        })
    }

    /// Ends the process as a crash does, and returns how much time has passed.
    pub(super) fn kill(self) -> Duration {
        let passed = self.passed();
        drop(self.runtime);
        passed
    }
}

/// The one execution that a scenario starts.
pub(super) fn root() -> ExecutionId {
    midex_test::play::id("e")
}
