//! What the server does itself: outside of the actors, which never wait for it. What comes of an attempt goes to the
//! execution's actor as any call does.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Shared,
    attempt::{self, Executors},
    children::{self, Attended},
    descendants::Announcement,
    report::report,
};
use midex_domain::{
    Command, ExecutionId,
    execution::{AttemptId, Begin, Effect},
    limits,
};

/// Works on attempts, and breaks them off.
pub(super) struct Runner {
    /// What it works with.
    pub(super) executors: Executors,
    work: Mutex<HashMap<ExecutionId, InFlight>>,
    /// Attempts past it wait in order.
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled to break off whatever is in work.
    end: CancellationToken,
}

/// What is done for one execution.
#[derive(Default)]
struct InFlight {
    /// Attempts in work, until what came of them is recorded.
    attempts: HashMap<AttemptId, CancellationToken>,
    /// Attempts of a transition of which nobody knows whether it is durable. None of them was begun.
    indeterminate: Vec<Begin>,
    /// Who carries out its orders: one after the other, or a child would hear of a resume before the pause.
    telling: Telling,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Telling {
    #[default]
    Nobody,
    /// A task.
    Somebody,
    /// A task, which is to look once more.
    Again,
}

impl InFlight {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty() && self.indeterminate.is_empty() && self.telling == Telling::Nobody
    }
}

impl Runner {
    pub(super) fn new(executors: Executors) -> Self {
        Self {
            executors,
            work: Mutex::default(),
            room: Arc::new(Semaphore::new(limits::ATTEMPTS_AT_ONCE_MAX)),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        }
    }

    fn work(&self) -> MutexGuard<'_, HashMap<ExecutionId, InFlight>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in work for an execution.
    pub(super) fn alive(&self, id: &ExecutionId) -> BTreeSet<AttemptId> {
        let work = self.work();
        let attempts = work
            .get(id)
            .into_iter()
            .flat_map(|work| work.attempts.keys());
        attempts.cloned().collect()
    }

    /// Keeps what a transition would have begun, until it is known whether that is durable.
    pub(super) fn keep_indeterminate(&self, id: &ExecutionId, effects: Vec<Effect>) {
        let begins = effects.into_iter().filter_map(|effect| match effect {
            Effect::Begin(begin) => Some(*begin),
            // Orders stand in the execution: whoever loads it next sends them.
            Effect::Cancel(_) | Effect::Order(_) => None,
        });
        let begins: Vec<_> = begins.collect();
        if !begins.is_empty() {
            self.work().entry(id.clone()).or_default().indeterminate = begins;
        }
    }

    /// It is known now what is waited for: breaks off the rest, and begins what was in doubt.
    pub(super) fn reconcile(shared: &Arc<Shared>, id: &ExecutionId, awaited: &BTreeSet<AttemptId>) {
        let indeterminate = {
            let mut all = shared.runner.work();
            let Some(work) = all.get_mut(id) else {
                return;
            };
            work.attempts.retain(|attempt_id, cancelled| {
                let is_awaited = awaited.contains(attempt_id);
                if !is_awaited {
                    cancelled.cancel();
                }
                is_awaited
            });
            let indeterminate = std::mem::take(&mut work.indeterminate);
            if work.is_empty() {
                all.remove(id);
            }
            indeterminate
        };
        for begin in indeterminate {
            if awaited.contains(&begin.attempt_id) {
                Self::begin(shared, id, begin);
            }
        }
    }

    /// Begins or breaks off.
    pub(super) fn take(shared: &Arc<Shared>, id: &ExecutionId, effect: Effect) {
        match effect {
            Effect::Begin(begin) => Self::begin(shared, id, *begin),
            Effect::Cancel(attempt_id) => shared.runner.cancel(id, &attempt_id),
            // It stands in the execution.
            Effect::Order(_) => shared.runner.tell(shared, id),
        }
    }

    /// Has the orders of an execution carried out.
    pub(super) fn tell(&self, shared: &Arc<Shared>, id: &ExecutionId) {
        let mut all = self.work();
        let work = all.entry(id.clone()).or_default();
        if work.telling == Telling::Nobody {
            work.telling = Telling::Somebody;
            let told = children::tell(shared.clone(), id.clone());
            self.tasks.spawn(told);
        } else {
            work.telling = Telling::Again;
        }
    }

    /// Nothing is left that can be told now; false where it is to be looked at once more.
    pub(super) fn end_telling(&self, id: &ExecutionId) -> bool {
        let mut all = self.work();
        let Some(work) = all.get_mut(id) else {
            return true;
        };
        let is_over = work.telling != Telling::Again;
        work.telling = if is_over {
            Telling::Nobody
        } else {
            Telling::Somebody
        };
        if work.is_empty() {
            all.remove(id);
        }
        is_over
    }

    /// Lets these executions begin the children that were held back.
    pub(super) fn release(shared: &Arc<Shared>, parents: BTreeSet<ExecutionId>) {
        if !parents.is_empty() {
            let released = children::release(shared.clone(), parents);
            shared.runner.tasks.spawn(released);
        }
    }

    fn begin(shared: &Arc<Shared>, id: &ExecutionId, begin: Begin) {
        let runner = &shared.runner;
        // Before the reply that names the child leaves.
        let announced = begin.workflow().map(|_| {
            let child = begin.attempt_id.child(id);
            shared.descendants.announce(child)
        });
        let cancelled = runner.end.child_token();
        let attempts = &mut runner.work();
        let attempts = &mut attempts.entry(id.clone()).or_default().attempts;
        attempts.insert(begin.attempt_id.clone(), cancelled.clone());
        let task = work(shared.clone(), id.clone(), begin, announced, cancelled);
        runner.tasks.spawn(task);
    }

    fn cancel(&self, id: &ExecutionId, attempt_id: &AttemptId) {
        if let Some(cancelled) = self.remove(id, attempt_id) {
            cancelled.cancel();
        }
    }

    fn remove(&self, id: &ExecutionId, attempt_id: &AttemptId) -> Option<CancellationToken> {
        let mut all = self.work();
        let work = all.get_mut(id)?;
        let cancelled = work.attempts.remove(attempt_id);
        if work.is_empty() {
            all.remove(id);
        }
        cancelled
    }

    /// Lets what is in work come to its end for a while, and then breaks it off. Nothing new begins any more.
    pub(super) async fn stop(&self) {
        self.tasks.close();
        let ended = tokio::time::timeout(limits::ATTEMPTS_GRACE, self.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!(
                "some operations were still at work at the end; what may be done twice is begun again at the next start"
            );
            self.end.cancel();
            // They end at their next await; one that has none is not waited for.
            let _ = tokio::time::timeout(limits::ATTEMPTS_GRACE, self.tasks.wait()).await;
        }
    }
}

/// One attempt, from its place in the queue until what came of it is recorded.
async fn work(
    shared: Arc<Shared>,
    id: ExecutionId,
    begin: Begin,
    announced: Option<Announcement>,
    cancelled: CancellationToken,
) {
    let attempt_id = begin.attempt_id.clone();
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        () = attempt_and_report(&shared, &id, begin, announced, &cancelled) => {
            shared.runner.remove(&id, &attempt_id);
        }
    }
}

async fn attempt_and_report(
    shared: &Arc<Shared>,
    id: &ExecutionId,
    begin: Begin,
    announced: Option<Announcement>,
    cancelled: &CancellationToken,
) {
    let attempt_id = begin.attempt_id.clone();
    if let Some(announced) = announced {
        match children::attend(shared, id, begin, announced).await {
            Attended::Ended(outcome) => {
                let outcome = Arc::new(outcome);
                let command = Command::Outcome {
                    attempt_id,
                    outcome,
                };
                report(shared, id, command).await;
            }
            Attended::HeldBack { root } => {
                // Removed first: a resume begins again only attempts that are not in work.
                shared.runner.remove(id, &attempt_id);
                children::hold_back(shared, &root, id).await;
            }
            Attended::GivenUp => {}
        }
        // What was to be told to a child that never began.
        shared.runner.tell(shared, id);
        return;
    }
    let runner = &shared.runner;
    let room = tokio::select! {
        biased;
        // Somebody else has it.
        () = std::future::ready(()), if runner.executors.lacks(&begin.kind) => None,
        () = shared.stopping.cancelled() => None,
        room = runner.room.acquire() => room.ok(),
    };
    let command = match room {
        None => Command::PutOff { attempt_id },
        Some(room) => {
            let outcome = attempt::run(&runner.executors, id, begin, cancelled).await;
            drop(room);
            Command::Outcome {
                attempt_id,
                outcome: Arc::new(outcome),
            }
        }
    };
    report(shared, id, command).await;
}
