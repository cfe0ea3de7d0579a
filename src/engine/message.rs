//! The messages and answers of the execution actors.

use std::sync::Arc;

use ractor::{RpcReplyPort, concurrency::oneshot};

use super::{DurableExecution, ForkRequest};
use crate::store::PastChange;
use midex_domain::{
    Command, Definition, Digest, Row, Transition,
    error::Result,
    event::Parent,
    execution::{StartArguments, Values},
};

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageOrigin {
    /// A call from outside, or a deadline. Refused once the server is stopping.
    External,
    /// A call that another server passed on, to the owner of the execution. It is not passed on again.
    Peer,
    /// A report of the runner. Accepted until all actors are being stopped.
    Runner,
}

/// A domain error is an answer, and never ends the actor.
pub(super) type ReplyPort = RpcReplyPort<Result<ActorAnswer>>;

/// A port for a message that no actor gets, because it is passed on to another server.
pub(super) fn unused_reply_port() -> ReplyPort {
    oneshot().0.into()
}

/// A message to an execution's actor.
pub(super) enum ActorMessage {
    /// Start the execution, or repeat the answer of its start.
    Start {
        start: Box<StartArguments>,
        definition: Arc<Definition>,
        /// The workflows that the definition names, which are stored with it.
        named_workflows: Vec<Arc<Definition>>,
        reply: ReplyPort,
    },
    /// Store a fork, or repeat the answer of its creation.
    Fork { fork: Arc<PreparedFork>, reply: ReplyPort },
    /// Store a purge of inputs.
    Purge { purge: Arc<PreparedPurge>, reply: ReplyPort },
    /// Remove the execution, which has ended.
    Delete { reply: ReplyPort },
    /// Apply a command to the execution.
    Command { command: Command, reply: ReplyPort },
}

/// The first transition of a fork.
pub(super) struct PreparedFork {
    /// The digest of the call, by which a repeated call is recognised.
    pub(super) call: Digest,
    /// The request, for the server that owns the new execution.
    pub(super) request: ForkRequest,
    /// The parent of the new execution.
    pub(super) parent: Option<Box<Parent>>,
    pub(super) transition: Transition,
    pub(super) definition: Arc<Definition>,
    /// The workflows that the definition names, which are stored with it.
    pub(super) named_workflows: Vec<Arc<Definition>>,
}

/// The removal of the values of inputs from an execution.
pub(super) struct PreparedPurge {
    /// The transition that records it.
    pub(super) transition: Transition,
    /// The earlier rows without the values.
    pub(super) past: PastChange,
}

impl ActorMessage {
    pub(super) const fn is_tick(&self) -> bool {
        matches!(self, Self::Command { command: Command::Tick, .. })
    }
}

/// The answer of an execution's actor.
pub(super) struct ActorAnswer {
    /// The execution after the transition that answers the call.
    pub(super) durable: DurableExecution,
    /// The row of the transition that answers the call. `None` if nothing changed.
    pub(super) row: Option<Arc<Row>>,
    /// Small values that the transition made, so that the reply can show them without a lookup.
    pub(super) new_values: Values,
    /// Whether that transition was made by an earlier, equal call.
    pub(super) is_replayed: bool,
}
