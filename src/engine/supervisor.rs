//! The supervisor spawns one actor per execution, links to it, and learns when it ends. It does no IO. No two actors of
//! one execution are ever alive at once.

use std::{collections::HashMap, mem, sync::Arc};

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::watch;

use super::{
    Shared,
    actor::{Arguments, ExecutionActor},
    directory::LiveActor,
    message::{ActorMessage, MessageOrigin},
    server_stopping_error,
};
use midex_domain::{
    ExecutionId,
    error::{Code, Error, Result},
    limits,
};

type ActorReplyPort = RpcReplyPort<Result<ActorRef<ActorMessage>>>;

/// The messages of the supervisor.
pub(super) enum SupervisorMessage {
    /// Return the actor of an execution, spawned if need be. `stale` is an actor that did not answer.
    Wake { id: ExecutionId, origin: MessageOrigin, stale: Option<ActorId>, reply: ActorReplyPort },
    /// Stop the actors that are idle.
    Sweep,
    /// Stop the actors of executions that another server may own now.
    StopLost,
    /// Stop all actors. Answered once the last one has ended.
    Drain(RpcReplyPort<()>),
}

/// The supervisor actor.
pub(super) struct Supervisor;

pub(super) struct SupervisorState {
    shared: Arc<Shared>,
    /// Every actor that has not ended yet.
    actors: HashMap<ActorId, LiveActor>,
    /// Executions whose actor is ending, with the callers that wait for its successor.
    successor_waiters: HashMap<ExecutionId, Vec<ActorReplyPort>>,
    drain_waiters: Vec<RpcReplyPort<()>>,
    /// Whether all actors are being stopped.
    is_draining: bool,
    /// Whether the timer of the next sweep runs. No timer runs while no actor is awake.
    is_sweep_scheduled: bool,
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
            successor_waiters: HashMap::new(),
            drain_waiters: Vec::new(),
            is_draining: false,
            is_sweep_scheduled: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Wake { id, origin, stale, reply } => {
                if state.accepts_wakes_from(origin) {
                    state.wake(&myself, id, stale, reply).await;
                } else {
                    send_reply(reply, Err(server_stopping_error()));
                }
            }
            SupervisorMessage::Sweep => state.sweep(&myself),
            SupervisorMessage::StopLost => state.stop_lost(),
            SupervisorMessage::Drain(reply) => state.drain(reply),
        }
        Ok(())
    }

    // Overridden because the default stops the supervisor when any child ends.
    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(actor, ..) => {
                state.handle_actor_end(&myself, actor.get_id(), false).await;
            }
            // The message of a panic may contain a caller's data, so it is not logged. The place of the panic is in the
            // log already.
            SupervisionEvent::ActorFailed(actor, _) => {
                state.handle_actor_end(&myself, actor.get_id(), true).await;
            }
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    /// Whether actors are woken for this origin: for outside calls and those of other servers until the server stops, for the runner's reports
    /// until all actors are being stopped.
    fn accepts_wakes_from(&self, origin: MessageOrigin) -> bool {
        match origin {
            MessageOrigin::External | MessageOrigin::Peer => !self.shared.stopping.is_cancelled(),
            MessageOrigin::Runner => !self.is_draining,
        }
    }

    async fn wake(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        id: ExecutionId,
        stale: Option<ActorId>,
        reply: ActorReplyPort,
    ) {
        // An actor that did not answer is ending, or is made to end here. Its successor waits until it has ended.
        if let Some(stale) = stale
            && self.actors.contains_key(&stale)
        {
            self.stop_actor(&id, stale);
        }
        // An execution can be lost and owned again before `StopLost` arrives.
        let lost = self.shared.directory.find_stale_actor(&id, &*self.shared.store);
        if let Some(lost) = lost {
            self.stop_actor(&id, lost);
        }
        let Shared { directory, store, clock, .. } = &*self.shared;
        if let Some(waiters) = self.successor_waiters.get_mut(&id) {
            waiters.push(reply);
        } else if let Some(actor) = directory.find_actor(&id, clock.now(), &**store) {
            send_reply(reply, Ok(actor));
        } else {
            let actor = self.spawn_actor(myself, &id).await;
            send_reply(reply, actor);
        }
    }

    async fn spawn_actor(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        id: &ExecutionId,
    ) -> Result<ActorRef<ActorMessage>> {
        if self.shared.wake_failures.is_faulted(id) {
            let message =
                format!("execution '{id}' could not be woken {} times", limits::WAKE_FAILURES_MAX);
            return Err(
                Error::new(Code::EngineFault, message).with_context("execution_id", id.as_str())
            );
        }
        let owner = self.shared.store.owner(id)?;
        let (seen, watch) = watch::channel(None);
        let (shared, durable_sender) = (self.shared.clone(), seen);
        let arguments = Arguments { id: id.clone(), shared, owner, durable_sender };
        let spawned = Actor::spawn_linked(None, ExecutionActor, arguments, myself.get_cell()).await;
        let (actor, _) = spawned
            .map_err(|error| Error::internal(format!("an actor could not be started: {error}")))?;
        let now = self.shared.clock.now();
        let entry = LiveActor::new(id.clone(), actor.clone(), owner, watch, now);
        self.actors.insert(actor.get_id(), entry.clone());
        self.shared.directory.insert(entry);
        if !self.is_sweep_scheduled {
            self.schedule_sweep(myself);
        }
        Ok(actor)
    }

    /// Removes the actor from the directory first, so that no new caller finds it. The actor then handles its queued
    /// messages and ends.
    fn stop_actor(&mut self, id: &ExecutionId, actor: ActorId) {
        if let Some(entry) = self.shared.directory.remove(id, actor) {
            self.successor_waiters.entry(id.clone()).or_default();
            // Fails only where the actor has ended already; the event of its end is on the way.
            let _ = entry.actor.drain();
        }
    }

    /// Arms the next sweep. The timer is created here, not in its task, so that it counts from now.
    fn schedule_sweep(&mut self, myself: &ActorRef<SupervisorMessage>) {
        let (pause, myself) = (tokio::time::sleep(limits::IDLE_SWEEP_EVERY), myself.clone());
        self.is_sweep_scheduled = true;
        tokio::spawn(async move {
            pause.await;
            // Fails only where the supervisor has ended.
            let _ = myself.cast(SupervisorMessage::Sweep);
        });
    }

    fn sweep(&mut self, myself: &ActorRef<SupervisorMessage>) {
        let now = self.shared.clock.now();
        for entry in self.shared.directory.entries() {
            let idle = now.since(entry.last_used_at());
            let is_finished = entry.is_finished() && idle >= limits::IDLE_SWEEP_EVERY;
            if idle >= self.shared.idle_max || is_finished {
                self.stop_actor(&entry.id, entry.actor.get_id());
            }
        }
        self.is_sweep_scheduled = false;
        if self.shared.directory.len() > 0 {
            self.schedule_sweep(myself);
        }
    }

    fn stop_lost(&mut self) {
        for entry in self.shared.directory.entries() {
            if !entry.is_owned(&*self.shared.store) {
                self.stop_actor(&entry.id, entry.actor.get_id());
            }
        }
    }

    fn drain(&mut self, reply: RpcReplyPort<()>) {
        self.is_draining = true;
        self.drain_waiters.push(reply);
        for entry in self.shared.directory.entries() {
            self.stop_actor(&entry.id, entry.actor.get_id());
        }
        self.answer_drain_waiters();
    }

    fn answer_drain_waiters(&mut self) {
        if self.actors.is_empty() {
            for reply in mem::take(&mut self.drain_waiters) {
                let _ = reply.send(());
            }
        }
    }

    async fn handle_actor_end(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        actor: ActorId,
        has_failed: bool,
    ) {
        let Some(entry) = self.actors.remove(&actor) else {
            return;
        };
        let id = entry.id.clone();
        // An actor that published a state was woken successfully: the call that ended it later is at fault, not the
        // wake.
        self.shared.directory.remove(&id, actor);
        let woken = entry.has_state();
        if has_failed {
            tracing::error!(execution = %id, "an execution's actor died");
            if !woken {
                self.shared.wake_failures.count_failure(&id);
            }
        }
        if woken {
            self.shared.wake_failures.reset(&id);
        }
        if let Some(waiters) =
            self.successor_waiters.remove(&id).filter(|waiters| !waiters.is_empty())
        {
            let successor = if self.is_draining {
                Err(server_stopping_error())
            } else {
                self.spawn_actor(myself, &id).await
            };
            for waiter in waiters {
                send_reply(waiter, successor.clone());
            }
        }
        self.answer_drain_waiters();
    }
}

/// Sends a reply. A caller that has gone away needs none, so the error is ignored.
fn send_reply<T>(reply: RpcReplyPort<T>, value: T)
where
    T: Send + 'static,
{
    let _ = reply.send(value);
}
