//! What happened: the journal of an execution, in the past tense. State is rebuilt from events alone,
//! so they name steps by id and never refer to the definition.

use serde::{Deserialize, Serialize};

mod parts;

pub use self::parts::{
    AttemptEnded, Channel, GateAnswered, OptionChosen, Order, Ordered, Parent, VisitClosed,
    VisitOpened,
};
pub use super::body::Body;
use super::{
    artifact::{Artifact, ArtifactReference},
    complexity::Complexity,
    document::{Digest, Document},
    id::{AgentName, ExecutionId, StepId, WorkflowName},
    state::State,
    token::Grant,
};
use crate::clock::Timestamp;

/// The place of a journal row, or of a refusal, in the store's one sequence: what came later has a larger number.
/// There may be gaps. It is a cursor and an order; a row's address is (execution, revision).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// One transition of one execution as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The execution that moved.
    pub execution_id: ExecutionId,
    /// Its revision after the transition; the first row has revision 1.
    pub revision: u64,
    /// When.
    pub at: Timestamp,
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
    /// A stable name: an error code of midex, or the one that was reported.
    pub code: String,
    /// What happened, for a reader.
    pub message: String,
    /// The step it began in.
    pub step: Option<StepId>,
    /// Which item of that step, from 0, where it is a `foreach`.
    pub item: Option<u32>,
    /// What the other side answered, where it is an operation that failed.
    pub response: Option<Box<Response>>,
    /// Whether the same may succeed later, as the operation says that failed.
    pub is_retryable: bool,
}

/// What the other side answered to an operation that failed: nothing of it is a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The status of HTTP.
    pub status: u16,
    /// Its body, up to [`crate::limits::CALL_ERROR_BYTES_MAX`].
    pub payload: Option<Document>,
}

/// Why a part of the final output is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OutputFault {
    /// The key of `final_output`; null where all of it could not be computed.
    pub part: Option<String>,
    /// A stable name.
    pub code: String,
    /// What happened, for a reader.
    pub message: String,
}

/// Which call closed or moved a visit: a repeat of it gets the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumedCall {
    /// The token that was used.
    pub grant: Grant,
    /// The meaning of what came with it.
    pub call: Digest,
}

/// Which visit something is about: one entry into a body of a step, or one item of a `foreach`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VisitId {
    /// The step; `None` for the hooks of the workflow as a whole.
    pub step: Option<StepId>,
    /// What of the step is entered.
    pub body: Body,
    /// Counts the visits of this body, from 1.
    pub visit: u32,
    /// Which item of a `foreach`, from 0.
    pub item: Option<u32>,
}

/// Which opening of the store an engine works on, counted by the store: a later opening has a larger number. Work that is
/// begun names it, so that no engine declares lost what another one still does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner(pub u64);

impl VisitId {
    /// The work of a step.
    pub const fn of_work(step: StepId, visit: u32, item: Option<u32>) -> Self {
        Self {
            step: Some(step),
            body: Body::Work,
            visit,
            item,
        }
    }

    /// The step, or for the hooks of the workflow the reserved id that no step can have.
    pub fn step(&self) -> &StepId {
        self.step.as_ref().unwrap_or_else(|| StepId::of_workflow())
    }

    /// A text for the visit, which no other visit of any execution has: an id has no control characters.
    pub fn text_in(&self, execution: &ExecutionId) -> String {
        let Self {
            body, visit, item, ..
        } = self;
        let item = item.map_or_else(String::new, |item| item.to_string());
        format!("{execution}\n{}\n{body:?}\n{visit}\n{item}", self.step())
    }

    /// The visit of the work that this one, of a hook or a compensation, belongs to.
    #[must_use]
    pub fn work(&self) -> Self {
        self.beside(Body::Work)
    }

    /// The visit of another body of the step, which belongs to this one.
    #[must_use]
    pub fn beside(&self, body: Body) -> Self {
        Self {
            body,
            ..self.clone()
        }
    }

    /// The visit of the step itself, where this is one of its items.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self {
            item: None,
            ..self.clone()
        }
    }
}

/// What a step visit waits for. One enum, so that waiting is data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Awaiting {
    /// A model that holds this token.
    Model(Grant),
    /// The server, which is working on it.
    Operation {
        /// Which one.
        owner: Owner,
    },
    /// An instant.
    Timer {
        /// Which.
        due: Timestamp,
    },
    /// The instant at which the next attempt begins.
    Retry {
        /// Which.
        due: Timestamp,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: String,
    },
    /// A person's answer.
    Gate {
        /// The digest of what is asked: an answer names it.
        shown: Digest,
        /// When no answer counts any more.
        due: Option<Timestamp>,
    },
    /// Its items.
    Items {
        /// The list.
        list: Digest,
        /// How many there are.
        total: u32,
    },
    /// A person who finds out whether what the server did took effect: it was cut off in the middle.
    Unknown,
    /// The end of a pause, at which what came meanwhile takes its effect.
    Deferred(Box<Reported>),
    /// A resume: as many outputs broke the schema as may. The token counts again from then on.
    OutputInvalid(Grant),
    /// A catalog, which is not there or is disabled: the next attempt begins when it is back.
    Catalog {
        /// As the step names it.
        catalog: String,
    },
    /// The end of a child.
    Child {
        /// Which execution it is.
        execution_id: ExecutionId,
    },
}

impl Awaiting {
    /// Whether it is an attempt that somebody works on: the server, or a child.
    pub const fn is_attempt(&self) -> bool {
        matches!(self, Self::Operation { .. } | Self::Child { .. })
    }
}

/// What a server's step came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reported {
    /// An output; its content is stored by digest.
    Output(Payload),
    /// A failure.
    Failure(Failure),
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

/// Why a step was passed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// Its `if` does not hold.
    Condition,
    /// The steps before it did not end as its `run_when` asks.
    RunWhen,
    /// Control went past it.
    Bypassed,
    /// The execution is failing.
    Failing,
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
    /// A step, or one of its items, was entered.
    VisitOpened(Box<VisitOpened>),
    /// A visit ended.
    VisitClosed(Box<VisitClosed>),
    /// An output was refused by the step's schema; the token stays valid.
    OutputRefused {
        /// The visit.
        visit_id: VisitId,
        /// The meaning of the output: an identical one counts once.
        output: Digest,
    },
    /// An expired token was replaced.
    TokenRenewed {
        /// The visit.
        visit_id: VisitId,
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
        /// The visit.
        visit_id: VisitId,
        /// Who made it.
        agent: Option<AgentName>,
        /// The artifact.
        artifact: Box<Artifact>,
    },
    /// A step came to its end in the moment it was entered: nobody had to be waited for.
    StepDone {
        /// The visit.
        visit_id: VisitId,
        /// How it ended.
        outcome: Outcome,
    },
    /// A step was passed by.
    StepSkipped {
        /// The step.
        step: StepId,
        /// Why.
        why: Skipped,
    },
    /// Control went back: these steps may be entered again.
    StepsReset {
        /// The steps, in authoring order.
        steps: Vec<StepId>,
    },
    /// An attempt ended, and the visit goes on.
    AttemptEnded(Box<AttemptEnded>),
    /// What a visit waits for changed.
    WaitingChanged {
        /// The visit.
        visit_id: VisitId,
        /// The attempt that it is for.
        attempt: u32,
        /// What it waits for now.
        awaiting: Awaiting,
    },
    /// Memory was written.
    MemoryWritten {
        /// The name.
        name: String,
        /// The value; stored by digest, whatever its size.
        value: Payload,
    },
    /// Inputs were given or corrected after the start.
    InputsChanged {
        /// All of them; stored by digest, whatever their size.
        inputs: Payload,
    },
    /// A signal came that nothing waits for yet.
    SignalKept {
        /// Its name.
        name: String,
        /// What came with it; stored by digest, whatever its size.
        payload: Payload,
    },
    /// The oldest kept signal of this name found its wait.
    SignalTaken {
        /// Its name.
        name: String,
    },
    /// A required step failed. What runs nevertheless is let run first.
    FailureBegan {
        /// The failure that the execution will end with.
        failure: Failure,
    },
    /// What the execution came to, as its workflow declares it.
    FinalOutput {
        /// The value; stored by digest, whatever its size.
        value: Payload,
        /// What of it could not be computed: null stands there.
        faults: Vec<OutputFault>,
    },
    /// What a visit works on changed.
    TaskChanged {
        /// The visit.
        visit_id: VisitId,
        /// What it works on now; stored by digest, whatever its size.
        input: Payload,
    },
    /// Somebody answered a gate.
    GateAnswered(Box<GateAnswered>),
    /// A text in the `artifacts` of an output is listed as a reference.
    ArtifactNamed {
        /// The visit.
        visit_id: VisitId,
        /// Who named it.
        agent: Option<AgentName>,
        /// The text, with its number.
        reference: ArtifactReference,
    },
    /// A hook that was required failed, so its step did, whose work was done.
    StepFailed {
        /// The visit of the step's work.
        visit_id: VisitId,
        /// The failure of the hook.
        failure: Failure,
    },
    /// A visit is done whose effect its step knows how to take back.
    CompensationKept {
        /// The visit of the work.
        visit_id: VisitId,
        /// The list that it is an item of, where it is one.
        list: Option<Digest>,
    },
    /// A step came to its end after the join that it leads to had gone on: it moves nothing.
    CameLate {
        /// The visit.
        visit_id: VisitId,
    },
    /// The end began: what is left to do comes before the state.
    EndingBegan {
        /// The state to come.
        to: State,
    },
    /// The compensations that were left are not made any more.
    CompensationsGivenUp {
        /// Why.
        why: String,
    },
    /// A step offers its client what to do next.
    OptionsOffered {
        /// The visit whose output they follow from.
        visit_id: VisitId,
        /// The options; stored by digest, whatever their size.
        options: Payload,
    },
    /// The execution went on past what these steps had offered.
    OptionsWithdrawn {
        /// The steps.
        steps: Vec<StepId>,
    },
    /// A client said which option it took (`recordBranchDecision`).
    OptionChosen(Box<OptionChosen>),
    /// A child is to be told what became of this execution.
    ChildOrdered(Order),
    /// The child was told.
    ChildTold(Order),
}

impl Event {
    /// The output that a visit ended with, where this is the end of one that has an output.
    pub fn output(&self) -> Option<(&VisitId, &Payload)> {
        let (visit_id, outcome) = match self {
            Self::VisitClosed(closed) => (&closed.visit_id, &closed.outcome),
            Self::StepDone { visit_id, outcome } => (visit_id, outcome),
            _ => return None,
        };
        match outcome {
            Outcome::Completed(payload) => Some((visit_id, payload)),
            Outcome::Failed(_) | Outcome::Voided => None,
        }
    }

    /// The token that a model is given for a visit, where this is what gives it one to go on with.
    pub const fn offered(&self) -> Option<(&VisitId, Grant)> {
        let (visit_id, awaiting) = match self {
            Self::VisitOpened(opened) => (&opened.visit_id, &opened.awaiting),
            Self::WaitingChanged {
                visit_id, awaiting, ..
            } => (visit_id, awaiting),
            _ => return None,
        };
        match awaiting {
            Awaiting::Model(grant) => Some((visit_id, *grant)),
            _ => None,
        }
    }
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
    /// Nothing is open but gates; an answer lifts it.
    Gate,
    /// The server was cut off in the middle of something that may not be done twice; a person's word on what came of it
    /// lifts it.
    OutcomeUnknown,
    /// Nothing is open but steps whose outputs broke their schema too often; a resume lets those go on.
    OutputInvalid,
    /// Nothing is open but steps whose catalog is not there; its import lifts it.
    CatalogMissing,
    /// As many executions are open below it as may be; a resume lifts it.
    Budget,
}

impl PauseReason {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::EngineFault => "engine_fault",
            Self::Gate => "gate",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::OutputInvalid => "output_invalid",
            Self::CatalogMissing => "catalog_missing",
            Self::Budget => "budget",
        }
    }

    /// Whether the execution pauses for it by itself, because nothing else is open: time goes on then.
    pub const fn is_of_what_is_open(self) -> bool {
        matches!(
            self,
            Self::Gate | Self::OutputInvalid | Self::CatalogMissing
        )
    }

    /// Whether a resume lifts it, whatever else happens.
    pub const fn is_lifted_by_resume(self) -> bool {
        matches!(self, Self::Person | Self::EngineFault | Self::Budget)
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
    /// The execution that it is a child of.
    pub parent: Option<Parent>,
    /// Where it looks up workflows ([`super::Lookup`]), where its definition names any; stored by digest.
    pub lookup: Option<Digest>,
}
