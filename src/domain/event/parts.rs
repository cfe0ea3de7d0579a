//! What some events say.

use serde::{Deserialize, Serialize};

use super::{Awaiting, ConsumedCall, Failure, Outcome, Payload, VisitId};
use crate::{
    document::Digest,
    id::{AgentName, ExecutionId},
};

/// Which of the options that were offered a client took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptionChosen {
    /// The visit whose token came with the choice.
    pub visit_id: VisitId,
    /// The visit that offered the option; for going on the last one that offered anything, where one did.
    pub offered_by: Option<VisitId>,
    /// The id of the option.
    pub option: String,
    /// The pattern of the branch, where the option is one.
    pub pattern: Option<String>,
    /// Its tool.
    pub tool_name: String,
    /// Everything that was offered then, by the digests of what the steps offered.
    pub offered: Vec<Digest>,
}

/// A person's answer to a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateAnswered {
    /// The visit.
    pub visit_id: VisitId,
    /// The digest of what the person was shown.
    pub shown: Digest,
    /// Whether they approve.
    pub approved: bool,
    /// Who they are, as far as it is known.
    pub by: String,
    /// How they were asked.
    pub via: Channel,
    /// What else they said.
    pub comment: Option<String>,
}

/// How a person was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// On a terminal.
    Terminal,
    /// By the client of the agent.
    Elicitation,
}

/// A visit that was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitOpened {
    /// Which.
    pub visit_id: VisitId,
    /// Who acts.
    pub agent: Option<AgentName>,
    /// What it waits for.
    pub awaiting: Awaiting,
    /// What it works on, rendered; stored by digest, whatever its size.
    pub input: Option<Payload>,
}

/// A visit that was closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitClosed {
    /// Which.
    pub visit_id: VisitId,
    /// Who acted.
    pub agent: Option<AgentName>,
    /// How it ended.
    pub outcome: Outcome,
    /// The call that ended it, where one did.
    pub consumed: Option<ConsumedCall>,
    /// How long it was open, in milliseconds.
    pub duration_ms: u64,
}

/// An attempt that ended while its visit goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// The visit.
    pub visit_id: VisitId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Why it failed; `None` where it is repeated until something holds, where it brought a page of a list, or where what
    /// it brought led to another question.
    pub failure: Option<Failure>,
    /// The call that ended it, where one did.
    pub consumed: Option<ConsumedCall>,
    /// What the visit waits for until the next attempt.
    pub awaiting: Awaiting,
}

/// The execution that a child belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The execution whose step waits for it.
    pub execution_id: ExecutionId,
    /// The visit that does.
    pub visit_id: VisitId,
    /// The attempt of that visit.
    pub attempt: u32,
    /// The execution that is a child of none.
    pub root: ExecutionId,
    /// How many executions it is below the root, from 1.
    pub depth: u32,
}

/// What a child is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The child.
    pub child: ExecutionId,
    /// What it is to do.
    pub what: Ordered,
}

/// What a child is to do because its parent did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ordered {
    /// It is paused, as by a person.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up.
    Abandon,
    /// It fails.
    Fail,
}
