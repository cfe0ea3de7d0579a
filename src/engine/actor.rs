//! The actor of one execution: a mailbox around one state machine. It decides, persists, becomes, and
//! then replies.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::watch;

use super::{Seen, Shared, not_found};
use crate::{
    domain::{
        Command, Decision, Definition, Execution, ExecutionId, Facts, JournalKey, Row, Transition,
        execution::Start,
    },
    error::{Error, Result},
    store::{Commit, Position},
};

/// A domain error is an answer; it never ends the actor.
pub(super) type Reply = RpcReplyPort<Result<Answer>>;

/// What an execution's actor is asked.
pub(super) enum Message {
    /// Begin the execution, or answer as the first time.
    Start {
        start: Start,
        definition: Arc<Definition>,
        reply: Reply,
    },
    /// Move it.
    Command { command: Command, reply: Reply },
}

/// What it answers.
pub(super) struct Answer {
    /// The execution as it stands.
    pub(super) seen: Seen,
    /// The transition that answers the call; `None` where nothing was to be done.
    pub(super) row: Option<Arc<Row>>,
    /// Whether that transition was made by an earlier, equal call.
    pub(super) replayed: bool,
}

/// The actor of one execution.
pub(super) struct ExecutionActor;

pub(super) struct Arguments {
    pub(super) id: ExecutionId,
    pub(super) shared: Arc<Shared>,
    pub(super) seen: watch::Sender<Option<Seen>>,
}

pub(super) struct ActorState {
    id: ExecutionId,
    shared: Arc<Shared>,
    seen: watch::Sender<Option<Seen>>,
    live: Option<Live>,
}

/// The execution as last made durable.
#[derive(Clone)]
struct Live {
    seen: Seen,
    position: Position,
    /// The last row: repeats of the last call need no read.
    last: Option<(JournalKey, Arc<Row>)>,
}

/// Whether the actor may go on after an answer.
enum After {
    GoOn,
    /// What the disk holds is unknown: the next call wakes a new actor from it.
    Stop,
}

impl Actor for ExecutionActor {
    type Msg = Message;
    type State = ActorState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<ActorState, ActorProcessingErr> {
        let Arguments { id, shared, seen } = arguments;
        Ok(ActorState {
            id,
            shared,
            seen,
            live: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        let (reply, (answer, after)) = match message {
            Message::Start {
                start,
                definition,
                reply,
            } => (reply, state.start(start, definition).await),
            Message::Command { command, reply } => (reply, state.command(&command).await),
        };
        // Nobody may be waiting any more; the transition stands, and a repeat of the call gets its answer.
        let _ = reply.send(answer);
        if matches!(after, After::Stop) {
            // What waits in the mailbox is answered from the store; then this actor ends, and nobody new
            // reaches it. Fails only where it is ending already.
            state.live = None;
            let _ = myself.drain();
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Message>,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(live) = &state.live
            && let Err(error) = state
                .shared
                .store
                .checkpoint(live.seen.execution.clone(), live.position)
                .await
        {
            tracing::debug!(execution = %state.id, %error, "no snapshot at the end; the journal has it all");
        }
        Ok(())
    }
}

impl ActorState {
    async fn start(
        &mut self,
        start: Start,
        definition: Arc<Definition>,
    ) -> (Result<Answer>, After) {
        match self.load().await {
            Err(error) => (Err(error), After::Stop),
            Ok(true) => (self.restart(&definition, &start).await, After::GoOn),
            Ok(false) => {
                let definition = self.shared.definitions.share(definition);
                let transition = contained(|| {
                    let facts = Facts {
                        definition: &definition,
                        token_ttl: self.shared.token_ttl,
                    };
                    Execution::start(facts, start, self.shared.clock.now(), &*self.shared.ids)
                });
                match transition {
                    Err(error) => (Err(error), After::Stop),
                    Ok(mut transition) => {
                        transition
                            .contents
                            .push((definition.digest(), definition.encode()));
                        self.persist(transition, definition, Position::default())
                            .await
                    }
                }
            }
        }
    }

    async fn restart(&self, definition: &Definition, start: &Start) -> Result<Answer> {
        let live = self.live()?;
        let row = live.seen.execution.restart(definition, start)?;
        self.replay(row).await
    }

    async fn command(&mut self, command: &Command) -> (Result<Answer>, After) {
        match self.load().await {
            Err(error) => return (Err(error), After::Stop),
            Ok(false) => return (Err(not_found(&self.id)), After::Stop),
            Ok(true) => {}
        }
        match self.decide(command) {
            Err(error) => (Err(error), After::GoOn),
            Ok((Decision::Replay(row), _)) => (self.replay(row).await, After::GoOn),
            Ok((Decision::Stay, live)) => (
                Ok(Answer {
                    seen: live.seen,
                    row: None,
                    replayed: false,
                }),
                After::GoOn,
            ),
            Ok((Decision::Move(transition), live)) => {
                self.persist(*transition, live.seen.definition, live.position)
                    .await
            }
        }
    }

    fn decide(&self, command: &Command) -> Result<(Decision, Live)> {
        let live = self.live()?;
        let facts = Facts {
            definition: &live.seen.definition,
            token_ttl: self.shared.token_ttl,
        };
        let now = self.shared.clock.now();
        let decision = contained(|| {
            live.seen
                .execution
                .decide(facts, command, now, &*self.shared.ids)
        })?;
        Ok((decision, live.clone()))
    }

    /// Makes the transition durable, then takes its state, then answers.
    async fn persist(
        &mut self,
        transition: Transition,
        definition: Arc<Definition>,
        position: Position,
    ) -> (Result<Answer>, After) {
        let Transition {
            next,
            row,
            contents,
            refusal,
        } = transition;
        let mut next = Arc::new(next);
        let commit = Commit {
            next: next.clone(),
            row: row.clone(),
            contents,
            position,
        };
        let committed = match self.shared.store.commit(commit).await {
            Ok(committed) => committed,
            Err(error) => return (Err(self.placed(error)), After::Stop),
        };
        Arc::make_mut(&mut next).settle(committed.row);
        let seen = Seen {
            execution: next,
            definition,
        };
        let row = Arc::new(row);
        self.become_live(Live {
            seen: seen.clone(),
            position: committed.position,
            last: Some((committed.row, row.clone())),
        });
        let answer = match refusal {
            Some(refusal) => Err(refusal.with("workflow_state", seen.execution.state().as_str())),
            None => Ok(Answer {
                seen,
                row: Some(row),
                replayed: false,
            }),
        };
        (answer, After::GoOn)
    }

    async fn replay(&self, key: JournalKey) -> Result<Answer> {
        let live = self.live()?;
        let row = match &live.last {
            Some((last, row)) if *last == key => row.clone(),
            _ => {
                let row = self.shared.store.row(key).await?;
                Arc::new(row.ok_or_else(|| {
                    Error::internal("a journal row that the execution names is gone")
                })?)
            }
        };
        Ok(Answer {
            seen: live.seen.clone(),
            row: Some(row),
            replayed: true,
        })
    }

    /// Wakes the execution from the store where it is not live yet; false where there is none.
    async fn load(&mut self) -> Result<bool> {
        if self.live.is_some() {
            return Ok(true);
        }
        let Some(stored) = self.shared.store.load(&self.id).await? else {
            return Ok(false);
        };
        let definition = self
            .shared
            .definitions
            .get(stored.execution.definition())
            .await?;
        let seen = Seen {
            execution: Arc::new(stored.execution),
            definition,
        };
        self.become_live(Live {
            seen,
            position: stored.position,
            last: None,
        });
        Ok(true)
    }

    /// Says which execution the error is about, and where that stood before.
    fn placed(&self, error: Error) -> Error {
        match &self.live {
            Some(live) => live.seen.execution.placed(error),
            None => error.with("execution_id", self.id.as_str()),
        }
    }

    fn become_live(&mut self, live: Live) {
        self.seen.send_replace(Some(live.seen.clone()));
        self.shared.changes.tell(&self.id);
        self.live = Some(live);
    }

    fn live(&self) -> Result<&Live> {
        self.live
            .as_ref()
            .ok_or_else(|| Error::internal("the execution is not loaded"))
    }
}

/// A panic in the domain becomes an answer; nothing has changed.
fn contained<T>(decide: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decide)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = what
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Error::internal(format!("the decision panicked: {what}")))
    })
}
