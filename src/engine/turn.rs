//! What has to happen next in an execution and the children that it waits for.

use std::{sync::Arc, time::Duration};

use super::{DurableExecution, Engine, Listener, Topic};
use midex_domain::{
    Command, ExecutionId, Row,
    error::Result,
    execution::{NextActor, Submission, Values},
    limits,
    view::{self, CurrentStep, StatusView},
};

/// What has to happen next in an execution. A wait of a child is one of its parent.
#[derive(Clone, Debug)]
pub struct TurnState {
    /// The status of the execution, without its forks.
    pub status: StatusView,
    /// Who has to act; `None` once the execution has ended.
    pub actor: Option<NextActor>,
    /// The executions in which that party has to act, as they are now: the execution itself or its children. Empty while the
    /// server works, and after the end.
    pub steps: Vec<CurrentStep>,
}

/// The transition that a call made, with the small values that it stored. It spares the next read of the turn its reads of the
/// store.
#[derive(Clone, Debug)]
pub struct LastTransition {
    row: Arc<Row>,
    new_values: Values,
}

/// Who has to act next, and in which executions.
struct TurnPosition {
    root: DurableExecution,
    actor: Option<NextActor>,
    acting: Vec<DurableExecution>,
}

impl Engine {
    /// Finishes a step without building an answer, for a caller that reads the next turn afterwards. Returns the
    /// transition for [`Engine::turn_after`].
    ///
    /// # Errors
    /// As [`Engine::advance`].
    pub async fn submit(
        &self,
        token: &str,
        submission: impl Into<Submission>,
    ) -> Result<Option<LastTransition>> {
        let answer = self.send_submission(token, submission.into()).await?;
        let new_values = answer.new_values;
        Ok(answer.row.map(|row| LastTransition { row, new_values }))
    }

    /// What has to happen next in an execution. While only the server works on it, waits for at most `timeout` and
    /// [`limits::WAIT_MAX`]. Expired tokens of open steps are replaced.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, and those of the store.
    pub async fn turn(&self, id: &ExecutionId, timeout: Duration) -> Result<TurnState> {
        self.turn_after(id, timeout, None).await
    }

    /// Like [`Engine::turn`], after a call that made this transition in the execution or in a child.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub async fn turn_after(
        &self,
        id: &ExecutionId,
        timeout: Duration,
        last: Option<&LastTransition>,
    ) -> Result<TurnState> {
        let listener = self.shared.notifier.new_listener();
        let mut deadline = std::pin::pin!(tokio::time::sleep(timeout.min(limits::WAIT_MAX)));
        let mut has_waited_enough = timeout.is_zero();
        let position = loop {
            let position = self.find_turn(id, &listener).await?;
            if position.actor != Some(NextActor::Server) || has_waited_enough {
                break position;
            }
            // Drop the snapshots of the states: an actor copies the parts of its state that are shared before it changes them.
            drop(position);
            has_waited_enough = tokio::select! {
                () = listener.wait_for_change() => false,
                () = &mut deadline => true,
                // The execution goes on in the next process, so the caller is told where it stands.
                () = self.shared.stopping.cancelled() => true,
            };
            while listener.take_marked_name().is_some() {}
        };
        let mut steps = Vec::new();
        for durable in position.acting {
            let durable = self.renew_expired_tokens(durable).await?;
            let execution = &durable.execution;
            let last = last.filter(|LastTransition { row, .. }| {
                row.execution_id == *execution.id() && row.revision == execution.revision()
            });
            let row = last.map(|last| &*last.row);
            let values = last.map_or_else(Values::new, |last| last.new_values.clone());
            let view = view::current_step;
            steps.push(self.build_view_with_values(values.into(), &durable, row, view).await?);
        }
        let status = self.build_status_without_forks(&position.root).await?;
        Ok(TurnState { status, actor: position.actor, steps })
    }

    /// Subscribes `listener` to the execution and to the children that it waits for. The turn changes only if one of them
    /// changes.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, and those of the store.
    pub async fn watch_turn(&self, id: &ExecutionId, listener: &Listener) -> Result<()> {
        self.find_turn(id, listener).await.map(drop)
    }

    /// Whether a step of the execution, or of a child of it, was ever open for a model. Children of children count too, at
    /// most [`limits::TURN_EXECUTIONS_MAX`] executions in all.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, and those of the store.
    pub async fn was_model_asked(&self, id: &ExecutionId) -> Result<bool> {
        let mut pending = vec![self.read_execution(id).await?];
        let mut count = 0;
        while let Some(DurableExecution { execution, definition }) = pending.pop() {
            if execution.was_model_asked(&definition) {
                return Ok(true);
            }
            for child in execution.child_ids(&definition) {
                count += 1;
                if count < limits::TURN_EXECUTIONS_MAX
                    && let Some(child) = self.shared.find_durable_execution(&child).await?
                {
                    pending.push(self.shared.add_definition(child).await?);
                }
            }
        }
        Ok(false)
    }

    /// Who has to act next. Subscribes `listener` to each execution before it is read, so that no change is missed.
    async fn find_turn(&self, id: &ExecutionId, listener: &Listener) -> Result<TurnPosition> {
        let subscribe = |id: &ExecutionId| {
            listener.subscribe(&id.as_str().into(), Some(Topic::Execution(id.clone())));
        };
        subscribe(id);
        let root = self.read_execution(id).await?;
        let mut position = TurnPosition { root: root.clone(), actor: None, acting: Vec::new() };
        let (mut pending, mut count) = (vec![root], 1);
        while let Some(durable) = pending.pop() {
            let execution = durable.execution.clone();
            if execution.has_ended() {
                // The parent of a child that has ended is about to be told.
                if execution.id() != id {
                    position.add_actor(NextActor::Server, None);
                }
                continue;
            }
            let is_faulted = self.shared.wake_failures.is_faulted(execution.id());
            let actor = if is_faulted {
                Some(NextActor::Outside)
            } else {
                execution.next_actor(&durable.definition)
            };
            position.add_actor(actor.unwrap_or(NextActor::Server), Some(durable));
            if position.actor == Some(NextActor::Model) {
                break;
            }
            if is_faulted || execution.is_held_by_pause() {
                continue;
            }
            let mut children = Vec::new();
            for child in execution.awaited_children() {
                subscribe(&child);
                count += 1;
                if count > limits::TURN_EXECUTIONS_MAX {
                    break;
                }
                match self.shared.find_durable_execution(&child).await? {
                    Some(child) => children.push(self.shared.add_definition(child).await?),
                    None => position.add_actor(NextActor::Server, None),
                }
            }
            pending.extend(children.into_iter().rev());
        }
        Ok(position)
    }

    /// The execution, with new tokens in place of expired ones.
    pub(super) async fn renew_expired_tokens(
        &self,
        durable: DurableExecution,
    ) -> Result<DurableExecution> {
        let execution = &durable.execution;
        if execution.has_expired_token(self.shared.token_ttl, self.shared.clock.now()) {
            return Ok(self.send_command(execution.id(), Command::RenewTokens).await?.durable);
        }
        Ok(durable)
    }
}

impl TurnPosition {
    /// Adds an execution in which this party has to act. Parties that act earlier displace later ones.
    fn add_actor(&mut self, actor: NextActor, durable: Option<DurableExecution>) {
        if self.actor.is_none_or(|known| actor < known) {
            self.actor = Some(actor);
            self.acting.clear();
        }
        if self.actor == Some(actor) && actor != NextActor::Server {
            self.acting.extend(durable);
        }
    }
}
