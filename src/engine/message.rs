//! What actors are asked and what they answer.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::Seen;
use midex_domain::{
    Command, Definition, Row,
    error::Result,
    execution::{Start, Values},
};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Somebody outside, or time: refused once the server is stopping.
    Outside,
    /// Whoever was doing something for an execution: heard until the actors are sent away.
    Runner,
}

/// A domain error is an answer; it never ends the actor.
pub(super) type Reply = RpcReplyPort<Result<Answer>>;

/// What an execution's actor is asked.
pub(super) enum Message {
    /// Begin the execution, or answer as the first time.
    Start {
        start: Start,
        definition: Arc<Definition>,
        /// The workflows that the definition names, which are stored with it.
        named: Vec<Arc<Definition>>,
        reply: Reply,
    },
    /// Move it.
    Command { command: Command, reply: Reply },
}

impl Message {
    pub(super) const fn is_tick(&self) -> bool {
        matches!(
            self,
            Self::Command {
                command: Command::Tick,
                ..
            }
        )
    }
}

/// What it answers.
pub(super) struct Answer {
    /// The execution as it stands.
    pub(super) seen: Seen,
    /// The transition that answers the call; `None` where nothing was to be done.
    pub(super) row: Option<Arc<Row>>,
    /// Small values that the transition made: the reply shows them, and need not look them up.
    pub(super) made: Values,
    /// Whether that transition was made by an earlier, equal call.
    pub(super) replayed: bool,
}
