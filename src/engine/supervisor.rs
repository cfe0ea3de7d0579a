//! The supervisor: spawns one actor per execution, links it, and knows when it ends. It does no IO,
//! and no two actors of one execution are ever alive at once.

use std::{collections::HashMap, mem, sync::Arc};

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::watch;

use super::{
    Shared,
    actor::{Arguments, ExecutionActor},
    directory::LiveActor,
    message::{Message, Origin},
    stopping,
};
use midex_domain::{
    ExecutionId,
    error::{Code, Error, Result},
    limits,
};

type Waiter = RpcReplyPort<Result<ActorRef<Message>>>;

/// What the supervisor is asked.
pub(super) enum SupervisorMessage {
    /// The actor of an execution, spawned if need be. `stale` is one that did not answer.
    Wake {
        id: ExecutionId,
        origin: Origin,
        stale: Option<ActorId>,
        reply: Waiter,
    },
    /// Send away whoever is idle.
    Sweep,
    /// Send everybody away; answered when the last one has gone.
    Drain(RpcReplyPort<()>),
}

/// The supervisor actor.
pub(super) struct Supervisor;

pub(super) struct SupervisorState {
    shared: Arc<Shared>,
    /// Every actor that has not ended yet.
    actors: HashMap<ActorId, LiveActor>,
    /// Who is on the way out, and who waits for a successor.
    leaving: HashMap<ExecutionId, Vec<Waiter>>,
    drained: Vec<RpcReplyPort<()>>,
    /// Whether everybody is being sent away.
    draining: bool,
    /// Whether a sweep is on its way. None is while nobody is awake.
    sweeping: bool,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMessage>,
        shared: Arc<Shared>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        Ok(SupervisorState {
            shared,
            actors: HashMap::new(),
            leaving: HashMap::new(),
            drained: Vec::new(),
            draining: false,
            sweeping: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Wake {
                id,
                origin,
                stale,
                reply,
            } => {
                if state.is_heard(origin) {
                    state.wake(&myself, id, stale, reply).await;
                } else {
                    answer(reply, Err(stopping()));
                }
            }
            SupervisorMessage::Sweep => state.sweep(&myself),
            SupervisorMessage::Drain(reply) => state.drain(reply),
        }
        Ok(())
    }

    // The default stops the supervisor when any child ends.
    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(who, ..) => {
                state.ended(&myself, who.get_id(), false).await;
            }
            // A panic's words may hold what was sent; its place is in the log already.
            SupervisionEvent::ActorFailed(who, _) => {
                state.ended(&myself, who.get_id(), true).await;
            }
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    /// Whether anybody is woken for this origin: until the server stops, and for what came of the work of executions
    /// until everybody is sent away.
    fn is_heard(&self, origin: Origin) -> bool {
        match origin {
            Origin::Outside => !self.shared.stopping.is_cancelled(),
            Origin::Runner => !self.draining,
        }
    }

    async fn wake(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        id: ExecutionId,
        stale: Option<ActorId>,
        reply: Waiter,
    ) {
        // Whoever did not answer is ending, or made to: its successor waits until it is gone.
        if let Some(stale) = stale
            && self.actors.contains_key(&stale)
        {
            self.send_away(&id, stale);
        }
        if let Some(waiters) = self.leaving.get_mut(&id) {
            waiters.push(reply);
        } else if let Some(actor) = self.shared.directory.actor(&id, self.shared.clock.now()) {
            answer(reply, Ok(actor));
        } else {
            let actor = self.spawn(myself, &id).await;
            answer(reply, actor);
        }
    }

    async fn spawn(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        id: &ExecutionId,
    ) -> Result<ActorRef<Message>> {
        if self.shared.faults.is_faulted(id) {
            let message = format!(
                "execution '{id}' could not be woken {} times",
                limits::WAKE_FAILURES_MAX
            );
            return Err(Error::new(Code::EngineFault, message).with("execution_id", id.as_str()));
        }
        let (seen, watch) = watch::channel(None);
        let arguments = Arguments {
            id: id.clone(),
            shared: self.shared.clone(),
            seen,
        };
        let spawned = Actor::spawn_linked(None, ExecutionActor, arguments, myself.get_cell()).await;
        let (actor, _) = spawned
            .map_err(|error| Error::internal(format!("an actor could not be started: {error}")))?;
        let entry = LiveActor::new(id.clone(), actor.clone(), watch, self.shared.clock.now());
        self.actors.insert(actor.get_id(), entry.clone());
        self.shared.directory.insert(entry);
        if !self.sweeping {
            self.plan_sweep(myself);
        }
        Ok(actor)
    }

    /// Out of the directory first, so that nobody new finds it; then it finishes what it was asked.
    fn send_away(&mut self, id: &ExecutionId, actor: ActorId) {
        if let Some(entry) = self.shared.directory.remove(id, actor) {
            self.leaving.entry(id.clone()).or_default();
            // Fails only where the actor has ended already; the event of its end is on the way.
            let _ = entry.actor.drain();
        }
    }

    /// Arms the next sweep. The timer is made here, not in its task: it counts from now.
    fn plan_sweep(&mut self, myself: &ActorRef<SupervisorMessage>) {
        let (pause, myself) = (tokio::time::sleep(limits::IDLE_SWEEP_EVERY), myself.clone());
        self.sweeping = true;
        tokio::spawn(async move {
            pause.await;
            // Fails only where the supervisor has ended.
            let _ = myself.cast(SupervisorMessage::Sweep);
        });
    }

    fn sweep(&mut self, myself: &ActorRef<SupervisorMessage>) {
        let now = self.shared.clock.now();
        for entry in self.shared.directory.entries() {
            let idle = now.since(entry.used_at());
            let finished = entry.is_finished() && idle >= limits::IDLE_SWEEP_EVERY;
            if idle >= self.shared.idle_max || finished {
                self.send_away(&entry.id, entry.actor.get_id());
            }
        }
        self.sweeping = false;
        if self.shared.directory.len() > 0 {
            self.plan_sweep(myself);
        }
    }

    fn drain(&mut self, reply: RpcReplyPort<()>) {
        self.draining = true;
        self.drained.push(reply);
        for entry in self.shared.directory.entries() {
            self.send_away(&entry.id, entry.actor.get_id());
        }
        self.answer_drained();
    }

    fn answer_drained(&mut self) {
        if self.actors.is_empty() {
            for reply in mem::take(&mut self.drained) {
                let _ = reply.send(());
            }
        }
    }

    async fn ended(&mut self, myself: &ActorRef<SupervisorMessage>, actor: ActorId, failed: bool) {
        let Some(entry) = self.actors.remove(&actor) else {
            return;
        };
        let id = entry.id.clone();
        // One that came as far as a state was woken: what ended it later is that call's fault.
        self.shared.directory.remove(&id, actor);
        let woken = entry.is_woken();
        if failed {
            tracing::error!(execution = %id, "an execution's actor died");
            if !woken {
                self.shared.faults.add(&id);
            }
        }
        if woken {
            self.shared.faults.forget(&id);
        }
        if let Some(waiters) = self
            .leaving
            .remove(&id)
            .filter(|waiters| !waiters.is_empty())
        {
            let successor = if self.draining {
                Err(stopping())
            } else {
                self.spawn(myself, &id).await
            };
            for waiter in waiters {
                answer(waiter, successor.clone());
            }
        }
        self.answer_drained();
    }
}

/// Nobody may be waiting any more: a origin that gave up needs no answer.
fn answer<T>(reply: RpcReplyPort<T>, value: T)
where
    T: Send + 'static,
{
    let _ = reply.send(value);
}
