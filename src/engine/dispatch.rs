//! Delivers messages to the actors of executions, for callers, outcomes and deadlines.

use std::sync::Arc;

use ractor::{ActorId, ActorRef, rpc::CallResult};

use super::{
    DurableExecution, Shared,
    message::{ActorAnswer, ActorMessage, MessageOrigin, ReplyPort},
    server_stopping_error,
    supervisor::SupervisorMessage,
};
use midex_domain::{
    Command, Execution, ExecutionId, Row,
    error::{Code, Error, Result},
    execution::Values,
    limits,
};

impl Shared {
    /// Sends a message to the actor of an execution, and awaits the answer. Wakes the execution if need be. If another server
    /// owns the execution, passes the message on to it.
    pub(super) async fn dispatch(
        &self,
        id: &ExecutionId,
        origin: MessageOrigin,
        message: impl Fn(ReplyPort) -> ActorMessage,
    ) -> Result<ActorAnswer> {
        match self.dispatch_here(id, origin, &message).await {
            Err(error) if error.code() == Code::ShardLost && origin != MessageOrigin::Peer => {
                self.pass_on(id, origin, message, error).await
            }
            answer => answer,
        }
    }

    /// Sends a message to the actor of an execution that this server owns.
    pub(super) async fn dispatch_here(
        &self,
        id: &ExecutionId,
        origin: MessageOrigin,
        message: impl Fn(ReplyPort) -> ActorMessage,
    ) -> Result<ActorAnswer> {
        self.store.owner(id)?;
        let mut stale_actor = None;
        let mut last_error = None;
        let mut attempts = 0;
        for _ in 0..limits::CALL_DELIVERIES_MAX {
            if origin != MessageOrigin::Runner && self.stopping.is_cancelled() {
                return Err(server_stopping_error());
            }
            let actor = self.find_or_wake_actor(id, origin, stale_actor).await?;
            match actor.call(&message, None).await {
                // The actor was already ending. Nothing was done, so this does not count as an attempt, however many
                // callers there are.
                Err(_) => {
                    stale_actor = Some(actor.get_id());
                    continue;
                }
                Ok(CallResult::Success(Err(error))) if error.code() == Code::RevisionConflict => {
                    last_error = Some(error);
                }
                Ok(CallResult::Success(answer)) => return answer,
                // The actor died with the outcome unknown. Every message may be sent again: the repeat of a start, a
                // token or an outcome gets the same answer as the first call.
                Ok(CallResult::SenderError | CallResult::Timeout) => {}
            }
            stale_actor = Some(actor.get_id());
            attempts += 1;
            if attempts == limits::CALL_ATTEMPTS_MAX {
                return Err(last_error.unwrap_or_else(|| unknown_outcome_error(id)));
            }
        }
        let message = format!(
            "so many call execution '{id}' at once that this call did not get through; it did nothing"
        );
        Err(Error::new(Code::ServerBusy, message).with_context("execution_id", id.as_str()))
    }

    /// Sends a command to the actor of an execution.
    pub(super) async fn send(
        &self,
        id: &ExecutionId,
        origin: MessageOrigin,
        command: Command,
    ) -> Result<ActorAnswer> {
        let message = |reply| ActorMessage::Command { command: command.clone(), reply };
        self.dispatch(id, origin, message).await
    }

    /// The answer that the transition to this revision gave, with the execution as it was then. `last_row` is the last row of
    /// the execution, if it is known.
    pub(super) async fn load_answer(
        &self,
        mut durable: DurableExecution,
        last_row: Option<&Arc<Row>>,
        revision: u64,
    ) -> Result<ActorAnswer> {
        let id = durable.execution.id();
        let row = match last_row {
            Some(last) if last.revision == revision => Some(last.clone()),
            _ if durable.execution.revision() == revision => {
                self.store.load_rows(id, [revision].into()).await?.pop().map(Arc::new)
            }
            _ => {
                let mut rows = self.store.load_history(id).await?;
                rows.retain(|row| row.revision <= revision);
                let earlier_execution = Execution::replay(&rows);
                durable.execution = earlier_execution.map_or(durable.execution, Arc::new);
                rows.pop().map(Arc::new)
            }
        };
        let row =
            row.ok_or_else(|| Error::internal("a journal row that the execution names is gone"))?;
        Ok(ActorAnswer { durable, row: Some(row), new_values: Values::new(), is_replayed: true })
    }

    async fn find_or_wake_actor(
        &self,
        id: &ExecutionId,
        origin: MessageOrigin,
        stale: Option<ActorId>,
    ) -> Result<ActorRef<ActorMessage>> {
        if stale.is_none()
            && let Some(actor) = self.directory.find_actor(id, self.clock.now(), &*self.store)
        {
            return Ok(actor);
        }
        let wake = |reply| SupervisorMessage::Wake { id: id.clone(), origin, stale, reply };
        let supervisor = self.supervisor.get().ok_or_else(server_stopping_error)?;
        match supervisor.call(wake, None).await {
            Ok(CallResult::Success(actor)) => actor,
            _ => Err(server_stopping_error()),
        }
    }
}

fn unknown_outcome_error(id: &ExecutionId) -> Error {
    let message = format!("execution '{id}' could not be reached; what the call did is not known");
    Error::new(Code::StoreUnavailable, message).with_context("execution_id", id.as_str())
}

#[cfg(test)]
mod tests {
    use ractor::Actor;
    use tokio::sync::watch;

    use super::*;
    use crate::{
        Engine, Options,
        actor::{Arguments, ExecutionActor},
        directory::LiveActor,
        store::MemoryStore,
    };
    use midex_domain::{
        LifecycleAction, LifecycleChange,
        clock::{SeededIds, SystemClock},
        event::OwnerEpoch,
    };

    /// The directory holds an actor that has ended, and its end never becomes known. The call is delivered as often as
    /// allowed, and does nothing. It succeeds as soon as the actor is removed.
    #[tokio::test]
    async fn a_call_that_reaches_no_actor_gets_server_busy() {
        let clock = Arc::new(SystemClock);
        let ids = Arc::new(SeededIds::new(1));
        let options = Options::new(Arc::new(MemoryStore::new()), clock, ids);
        let engine = Engine::new(options).await.expect("an engine");
        let shared = &engine.shared;
        let id = ExecutionId::parse("e").expect("an id");
        let (durable_sender, watch) = watch::channel(None);
        let arguments = Arguments {
            id: id.clone(),
            shared: shared.clone(),
            owner: OwnerEpoch::default(),
            durable_sender,
        };
        let (actor, ended) = Actor::spawn(None, ExecutionActor, arguments).await.expect("an actor");
        actor.stop(None);
        ended.await.expect("its end");
        let number = actor.get_id();
        let (owner, now) = (shared.store.owner(&id).expect("an owner"), shared.clock.now());
        let entry = LiveActor::new(id.clone(), actor, owner, watch, now);
        shared.directory.insert(entry);
        let change = LifecycleChange { action: LifecycleAction::Pause, reason: None };
        let send_for_code = async || {
            let command = Command::ChangeState(change.clone());
            let answer = shared.send(&id, MessageOrigin::External, command).await;
            answer.map(drop).expect_err("there is no such execution").code()
        };
        assert_eq!(send_for_code().await, Code::ServerBusy);
        shared.directory.remove(&id, number);
        assert_eq!(send_for_code().await, Code::ExecutionNotFound);
        engine.stop().await.expect("a stop");
    }
}
