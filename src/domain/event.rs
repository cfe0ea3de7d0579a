//! What happened: the journal of an execution, in the past tense. State is rebuilt from events alone,
//! so they name steps by id and never refer to the definition.

use serde::{Deserialize, Serialize};

use super::{
    artifact::Artifact,
    definition::Complexity,
    document::{Digest, Document},
    execution::State,
    id::{AgentName, ExecutionId, StepId, WorkflowName},
    token::Grant,
};
use crate::clock::Timestamp;

/// The place of a journal row in the store's one sequence. Later rows have larger keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JournalKey(pub u64);

/// One transition of one execution as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The execution that moved.
    pub execution_id: ExecutionId,
    /// Its revision after the transition; the first row has revision 1.
    pub revision: u64,
    /// When.
    pub at: Timestamp,
    /// The execution's previous row.
    pub previous: Option<JournalKey>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// A free value in an event: in place up to [`crate::limits::INLINE_BYTES_MAX`], else stored once
/// under its digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// The digest of the JSON text.
    pub digest: Digest,
    /// The length of the JSON text.
    pub bytes: u64,
    /// The value itself, where it is small.
    pub inline: Option<Document>,
}

/// Why a step or an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable name: an error code of midex, or the one that the agent reported.
    pub code: String,
    /// What happened, for a reader.
    pub message: String,
    /// The step it began in.
    pub step: Option<StepId>,
}

/// Which call closed or moved a visit: a repeat of it gets the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The token that was used.
    pub grant: Grant,
    /// The meaning of what came with it.
    pub call: Digest,
}

/// What a step visit waits for. One enum, so that waiting is data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Awaiting {
    /// A model that holds this token.
    Model(Grant),
}

/// How a visit ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// With an output that satisfies the step's schema.
    Completed(Payload),
    /// Without one.
    Failed(Failure),
    /// The execution ended or went elsewhere while the visit was open.
    Voided,
}

/// Something that happened to an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The execution came to be.
    Created(Box<Created>),
    /// The state changed.
    StateChanged {
        /// Before.
        from: State,
        /// After.
        to: State,
        /// Why, where it failed.
        failure: Option<Failure>,
        /// How many steps the workflow has.
        steps_total: u32,
    },
    /// A step was entered.
    VisitOpened {
        /// The step.
        step: StepId,
        /// Counts the visits of this step, from 1.
        visit: u32,
        /// Counts the attempts of this visit, from 1.
        attempt: u32,
        /// Who acts.
        agent: Option<AgentName>,
        /// What it waits for.
        awaiting: Awaiting,
    },
    /// A step visit ended.
    VisitClosed {
        /// The step.
        step: StepId,
        /// The visit.
        visit: u32,
        /// Who acted.
        agent: Option<AgentName>,
        /// How it ended.
        outcome: Outcome,
        /// The call that ended it, where one did.
        spent: Option<Spent>,
        /// How long it was open, in milliseconds.
        duration_ms: u64,
    },
    /// An output was refused by the step's schema; the token stays valid.
    OutputRefused {
        /// The step.
        step: StepId,
        /// The visit.
        visit: u32,
        /// The meaning of the output: an identical one counts once.
        output: Digest,
    },
    /// An expired token was replaced.
    TokenRenewed {
        /// The step.
        step: StepId,
        /// The visit.
        visit: u32,
        /// The new token.
        grant: Grant,
    },
    /// Something began to keep the execution from going on.
    PauseAdded {
        /// What.
        reason: PauseReason,
    },
    /// Something no longer keeps the execution from going on.
    PauseLifted {
        /// What.
        reason: PauseReason,
    },
    /// Why the state was changed, in the words of whoever asked for it.
    ReasonGiven {
        /// The words.
        text: String,
    },
    /// An artifact came with the output of a step.
    ArtifactStored {
        /// The step.
        step: StepId,
        /// The visit.
        visit: u32,
        /// Who made it.
        agent: Option<AgentName>,
        /// The artifact.
        artifact: Box<Artifact>,
    },
}

/// What keeps an execution from going on. They form a set; each is lifted by its own means.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// Somebody asked for it; a resume lifts it.
    Person,
    /// It could not be woken; a resume tries again.
    EngineFault,
}

impl PauseReason {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::EngineFault => "engine_fault",
        }
    }
}

/// What an execution is made of at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The workflow's name.
    pub workflow: WorkflowName,
    /// The definition it keeps.
    pub definition: Digest,
    /// How much care it asks for.
    pub complexity: Option<Complexity>,
    /// The project it was started for: a directory.
    pub project: Option<String>,
    /// The inputs it was started with.
    pub inputs: Option<Payload>,
    /// The meaning of the start's arguments: the same start again is the same call.
    pub call: Digest,
    /// The ids of its steps, in authoring order.
    pub steps: Vec<StepId>,
}
