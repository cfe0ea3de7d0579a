//! Calls between servers that share a store. A server passes a call about an execution on to the server that owns it, which
//! answers with the revision that the call led to. What the caller sees is then read from the store.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokio::time::Instant;

use super::{
    Engine, ForkRequest, Shared, execution_not_found,
    message::{ActorAnswer, ActorMessage, MessageOrigin, ReplyPort, unused_reply_port},
    server_stopping_error,
};
use midex_domain::{
    Command, Definition, Digest, ExecutionId,
    error::{Code, Error, Result},
    event::Parent,
    execution::{StartArguments, Values},
    limits,
    operation::BoxFuture,
};

const DO_AT_OWNER_ACTION: &str = "Do it on the machine of {owner}: run the same command there, with the data directory of that server, or use its dashboard";

/// The other servers on the same store.
pub trait Peers: fmt::Debug + Send + Sync {
    /// Sends a call to the server at this address, and returns its answer.
    ///
    /// # Errors
    /// Those that the server answers; `SHARD_LOST` where it cannot be reached, so that it did nothing; `STORE_UNAVAILABLE` where
    /// its answer is lost.
    fn send<'a>(
        &'a self,
        address: &'a str,
        call: &'a PeerCall,
    ) -> BoxFuture<'a, Result<PeerAnswer>>;
}

/// A call about an execution that another server owns. What only the owner may do, and what only a person may do, cannot be
/// passed on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PeerCall(PeerRequest);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PeerRequest {
    Start {
        start: Box<StartArguments>,
        definition: DefinitionText,
        named_workflows: Vec<DefinitionText>,
    },
    Fork {
        execution_id: ExecutionId,
        request: Box<ForkRequest>,
        definition: DefinitionText,
        call: Digest,
        parent: Option<Box<Parent>>,
    },
    Delete {
        execution_id: ExecutionId,
    },
    Command {
        execution_id: ExecutionId,
        command: Command,
    },
}

/// The answer to a [`PeerCall`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PeerAnswer {
    /// The revision of the transition that answers the call; `None` if nothing changed.
    revision: Option<u64>,
    /// Whether an earlier, equal call made that transition.
    is_replayed: bool,
}

/// A definition in its stored form.
#[derive(Debug)]
struct DefinitionText(Arc<Definition>);

impl Serialize for DefinitionText {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(&self.0.encode()))
    }
}

impl<'de> Deserialize<'de> for DefinitionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let definition = Definition::decode(text.as_bytes()).map_err(de::Error::custom)?;
        Ok(Self(Arc::new(definition)))
    }
}

impl PeerCall {
    /// The call that has another server send `message`; `None` if only the owner, or only a person, may send it.
    fn from_message(id: &ExecutionId, message: ActorMessage) -> Option<Self> {
        let execution_id = id.clone();
        Some(Self(match message {
            ActorMessage::Start { start, definition, named_workflows, .. } => PeerRequest::Start {
                start,
                definition: DefinitionText(definition),
                named_workflows: named_workflows.into_iter().map(DefinitionText).collect(),
            },
            // The owner takes it from the parent that a child repeats work, but not from another server.
            ActorMessage::Fork { fork, .. }
                if fork.request.repeats_unknown && fork.parent.is_none() =>
            {
                return None;
            }
            ActorMessage::Fork { fork, .. } => PeerRequest::Fork {
                execution_id,
                request: Box::new(fork.request.clone()),
                definition: DefinitionText(fork.definition.clone()),
                call: fork.call,
                parent: fork.parent.clone(),
            },
            ActorMessage::Delete { .. } => PeerRequest::Delete { execution_id },
            ActorMessage::Command { command, .. } if command.can_be_passed_on() => {
                PeerRequest::Command { execution_id, command }
            }
            ActorMessage::Command { .. } | ActorMessage::Purge { .. } => return None,
        }))
    }

    /// Whether the call may be sent again if it is not known whether it took effect.
    fn is_repeatable(&self) -> bool {
        match &self.0 {
            PeerRequest::Command { command, .. } => command.is_repeatable(),
            PeerRequest::Start { .. } | PeerRequest::Fork { .. } | PeerRequest::Delete { .. } => {
                true
            }
        }
    }
}

impl Engine {
    /// Answers a call that another server has passed on.
    ///
    /// # Errors
    /// `SHARD_LOST` where this server does not own the execution; otherwise those of the call.
    pub async fn answer_peer(&self, call: PeerCall) -> Result<PeerAnswer> {
        let origin = MessageOrigin::Peer;
        let answer = match call.0 {
            PeerRequest::Start { start, definition, named_workflows } => {
                let named_workflows: Vec<_> =
                    named_workflows.into_iter().map(|DefinitionText(named)| named).collect();
                let id = start.id.clone();
                let message = |reply| ActorMessage::Start {
                    start: start.clone(),
                    definition: definition.0.clone(),
                    named_workflows: named_workflows.clone(),
                    reply,
                };
                self.shared.dispatch(&id, origin, message).await
            }
            PeerRequest::Fork { execution_id, request, definition, call, parent } => {
                self.shared.store.owner(&execution_id)?;
                let _turn = self.shared.removals.read().await;
                let source = self.read_execution(&request.execution_id).await?;
                if request.repeats_unknown {
                    self.check_repeating_parent(parent.as_deref()).await?;
                }
                let identity = (execution_id, call, parent);
                let fork = self.create_fork(&source, &request, definition.0, identity, origin);
                fork.await.map(|(_, answer)| answer)
            }
            PeerRequest::Delete { execution_id } => {
                let message = |reply| ActorMessage::Delete { reply };
                self.shared.dispatch(&execution_id, origin, message).await
            }
            PeerRequest::Command { execution_id, command } => {
                self.shared.send(&execution_id, origin, command).await
            }
        }?;
        let revision = answer.row.map(|row| row.revision);
        Ok(PeerAnswer { revision, is_replayed: answer.is_replayed })
    }
}

impl Engine {
    /// Checks that the parent of a fork repeats work whose outcome is unknown, as a person allowed when the parent was forked.
    async fn check_repeating_parent(&self, parent: Option<&Parent>) -> Result<()> {
        if let Some(parent) = parent {
            let parent = self.read_execution(&parent.execution_id).await?.execution;
            if parent.origin().is_some_and(|origin| origin.repeats_unknown) {
                return Ok(());
            }
        }
        Err(Error::internal("another server cannot allow that work is repeated"))
    }
}

impl Shared {
    /// An id for a new execution, which this server owns if it owns any.
    pub(super) fn generate_id(&self) -> ExecutionId {
        let generate = || ExecutionId::generate(self.clock.now(), &*self.ids);
        let mut ids = (0..limits::OWNED_ID_TRIES_MAX).map(|_| generate());
        ids.find(|id| self.store.owner(id).is_ok()).unwrap_or_else(generate)
    }

    /// Passes a message on to the server that owns the execution, which `refusal` says is not this one. While no server owns it,
    /// waits at most [`limits::OWNER_AWAITED_MAX`].
    pub(super) async fn pass_on(
        &self,
        id: &ExecutionId,
        origin: MessageOrigin,
        message: impl Fn(ReplyPort) -> ActorMessage,
        refusal: Error,
    ) -> Result<ActorAnswer> {
        let Some(peers) = &self.peers else {
            return Err(refusal);
        };
        let Some(call) = PeerCall::from_message(id, message(unused_reply_port())) else {
            return Err(self.only_at_owner_error(id, refusal).await);
        };
        let mut deadline = now() + limits::OWNER_AWAITED_MAX;
        loop {
            let answer = match self.store.find_owner(id).await {
                Ok(Some(address)) => {
                    match self.send_while_owned(&**peers, id, &address, &call).await {
                        Some(Ok(answer)) => return self.read_peer_answer(id, answer).await,
                        Some(Err(error)) => Err(error),
                        None => {
                            deadline = now() + limits::OWNER_AWAITED_MAX;
                            let message = format!(
                                "the server at {address} lost the execution before it answered"
                            );
                            Err(Error::new(Code::StoreUnavailable, message))
                        }
                    }
                }
                Ok(None) => self.dispatch_here(id, origin, &message).await,
                Err(error) => Err(error),
            };
            match answer {
                Err(error) if is_passing(error.code(), &call) && now() < deadline => {
                    if origin != MessageOrigin::Runner && self.stopping.is_cancelled() {
                        return Err(server_stopping_error());
                    }
                    tokio::time::sleep(limits::OWNER_LOOKED_FOR_EVERY).await;
                }
                answer => return answer,
            }
        }
    }

    /// Sends a call to the server at this address; `None` if that has lost the execution meanwhile: it may be suspended.
    async fn send_while_owned(
        &self,
        peers: &dyn Peers,
        id: &ExecutionId,
        address: &str,
        call: &PeerCall,
    ) -> Option<Result<PeerAnswer>> {
        let mut answer = peers.send(address, call);
        loop {
            let answered = tokio::time::timeout(limits::OWNER_CHECKED_EVERY, &mut answer).await;
            if let Ok(answer) = answered {
                return Some(answer);
            }
            let owner = self.store.find_owner(id).await;
            if owner.is_ok_and(|owner| owner.as_deref() != Some(address)) {
                return None;
            }
        }
    }

    async fn read_peer_answer(&self, id: &ExecutionId, answer: PeerAnswer) -> Result<ActorAnswer> {
        self.notifier.notify(id);
        let stored = self.store.load(id).await?.ok_or_else(|| execution_not_found(id))?;
        let durable = self.add_definition(Arc::new(stored.execution)).await?;
        let is_replayed = answer.is_replayed;
        match answer.revision {
            None => Ok(ActorAnswer { durable, row: None, new_values: Values::new(), is_replayed }),
            Some(revision) => {
                let answer = self.load_answer(durable, None, revision).await?;
                Ok(ActorAnswer { is_replayed, ..answer })
            }
        }
    }

    /// The refusal of a message that cannot be passed on. Names the server where the same call succeeds.
    async fn only_at_owner_error(&self, id: &ExecutionId, refusal: Error) -> Error {
        match self.store.find_owner(id).await {
            Ok(Some(address)) => {
                let message = format!(
                    "the server at {address} owns execution '{id}', and only there can this be done"
                );
                refusal
                    .with_message(message)
                    .with_context("owner", address)
                    .with_retryable(false)
                    .with_action(DO_AT_OWNER_ACTION)
            }
            Ok(None) => refusal,
            Err(error) => error,
        }
    }
}

/// Whether the call is sent again after this error, which may pass while the execution goes from one server to another.
fn is_passing(code: Code, call: &PeerCall) -> bool {
    match code {
        // Nothing was done.
        Code::ShardLost | Code::ServerStopping => true,
        Code::StoreUnavailable => call.is_repeatable(),
        _ => false,
    }
}

#[expect(clippy::disallowed_methods, reason = "the wait counts by tokio's present")]
fn now() -> Instant {
    Instant::now()
}
