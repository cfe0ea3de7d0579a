//! Events: the journal of an execution, named in the past tense. State is rebuilt from events alone, so they name steps
//! by id and never refer to the definition.

use serde::{Deserialize, Serialize};

mod parts;

pub use self::parts::{
    AttemptEnded, Channel, ChildOrder, ExecutionCreated, ForkOrigin, Forked, GateAnswered,
    InheritedChild, InheritedCompensation, InheritedStep, ItemCounts, OptionChosen, OrderKind,
    Parent, PauseReason, RewindTarget, Rewound, VisitClosed, VisitOpened,
};
pub use super::body::BodyKind;
use super::{
    artifact::{Artifact, ArtifactReference},
    cursor::PageCursor,
    document::{Digest, JsonText},
    id::{AgentName, ExecutionId, StepId},
    label::Labels,
    limits,
    state::State,
    token::TokenGrant,
};
use crate::clock::Timestamp;

/// The position of a journal row, or of a refusal, in the store's single sequence: later entries have larger numbers.
/// There may be gaps. It is a cursor and an order; a row's address is (execution, revision).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The keys of rows in a database that several servers share are above this one, those of a data directory below.
    const SHARED_MIN: Self = Self(1 << 36);

    /// The id of the first telemetry event of the row or refusal with this key. Those of its other events follow.
    pub fn first_telemetry_id(self) -> u64 {
        let ids_per_row = if self < Self::SHARED_MIN {
            limits::TELEMETRY_IDS_PER_ROW
        } else {
            limits::TELEMETRY_IDS_PER_SHARED_ROW
        };
        self.0.saturating_mul(ids_per_row)
    }
}

/// A journal row: one transition of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The execution that moved.
    pub execution_id: ExecutionId,
    /// Its revision after the transition; the first row has revision 1.
    pub revision: u64,
    /// The time of the transition.
    pub at: Timestamp,
    /// The events of the transition, in order.
    pub events: Vec<Event>,
}

/// A value of any shape in an event: inline up to [`crate::limits::INLINE_BYTES_MAX`], else stored once under its
/// digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// The digest of the JSON text.
    pub digest: Digest,
    /// The length of the JSON text.
    pub bytes: u64,
    /// The value itself, if it is small.
    pub inline: Option<JsonText>,
}

/// Why a step or an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable code: an error code of midex, or the code that a model or an operation reported.
    pub code: String,
    /// A description of the failure for readers.
    pub message: String,
    /// The step in which it occurred; `None` for the execution as a whole.
    pub step: Option<StepId>,
    /// The number of the item, from 0, if that step is a `foreach`.
    pub item: Option<u32>,
    /// The response of the service, if an operation failed.
    pub response: Option<Box<Response>>,
    /// Whether the operation reported that another attempt may succeed.
    pub is_retryable: bool,
}

/// The response of a service to a failed operation. Secrets in it are masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Its body, up to [`crate::limits::CALL_ERROR_BYTES_MAX`].
    pub payload: Option<JsonText>,
}

/// Why a part of the final output is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OutputFailure {
    /// The key of `final_output`; null where all of it could not be computed.
    pub part: Option<String>,
    /// A stable name.
    pub code: String,
    /// What happened, for a reader.
    pub message: String,
}

/// The call that ended a visit or an attempt. A repeat of the call gets the same reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumedCall {
    /// The token that was used.
    pub grant: TokenGrant,
    /// The digest of the submission, by which a repeat is recognised.
    pub call: Digest,
}

/// The id of a visit: one entry into a body of a step, or one item of a `foreach`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VisitId {
    /// The step; `None` for the hooks of the workflow as a whole.
    pub step: Option<StepId>,
    /// The body that is entered: the work of the step, a hook or the compensation.
    pub body: BodyKind,
    /// The number of the visit among those of this body, from 1.
    pub visit: u32,
    /// The number of the item, from 0, if it is the visit of an item.
    pub item: Option<u32>,
}

/// The opening of the store that an engine works on, counted by the store: later openings have larger numbers. An
/// attempt records it when it begins, so that no engine declares an attempt lost that another one is still working on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnerEpoch(pub u64);

impl VisitId {
    /// The visit of a step's work.
    pub const fn for_step_work(step: StepId, visit: u32, item: Option<u32>) -> Self {
        Self { step: Some(step), body: BodyKind::Work, visit, item }
    }

    /// The step. For the hooks of the workflow this is the reserved id of the pseudo-step, which no step can have.
    pub fn step(&self) -> &StepId {
        self.step.as_ref().unwrap_or_else(|| StepId::workflow_pseudo_step())
    }

    /// A text that is unique to this visit among the visits of all executions. Newlines separate its parts, because ids
    /// contain no control characters.
    pub fn unique_text(&self, execution: &ExecutionId) -> String {
        let Self { body, visit, item, .. } = self;
        let item = item.map_or_else(String::new, |item| item.to_string());
        format!("{execution}\n{}\n{body:?}\n{visit}\n{item}", self.step())
    }

    /// The visit of the work that this hook or compensation belongs to.
    #[must_use]
    pub fn work_visit(&self) -> Self {
        self.with_body(BodyKind::Work)
    }

    /// The visit of another body of the same step with the same number.
    #[must_use]
    pub fn with_body(&self, body: BodyKind) -> Self {
        Self { body, ..self.clone() }
    }

    /// The visit of the `foreach` that this item belongs to.
    #[must_use]
    pub fn foreach_visit(&self) -> Self {
        Self { item: None, ..self.clone() }
    }
}

/// The condition that an open visit waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WaitCondition {
    /// A model that holds this token.
    Model(TokenGrant),
    /// The server, which is working on an attempt.
    Operation {
        /// The opening of the store under which the attempt began.
        owner: OwnerEpoch,
    },
    /// An instant.
    Timer {
        /// The instant.
        due: Timestamp,
    },
    /// The instant at which the next attempt begins.
    Retry {
        /// The instant.
        due: Timestamp,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: String,
    },
    /// A person's answer.
    Gate {
        /// The digest of the question, which an answer must name.
        shown: Digest,
        /// When the gate expires.
        due: Option<Timestamp>,
    },
    /// The items of a `foreach`.
    Items {
        /// The digest of the list.
        list: Digest,
        /// The number of items.
        total: u32,
    },
    /// The decision of a person or a model about the outcome of an attempt that was cut off.
    Unknown,
    /// The end of a pause, when the outcome that arrived meanwhile is applied.
    Deferred(Box<ReportedOutcome>),
    /// A resume, because the limit of malformed outputs is reached. The resume makes the token valid again.
    OutputInvalid(TokenGrant),
    /// A catalog that is missing or disabled. The next attempt begins when it is available.
    Catalog {
        /// Its name.
        catalog: String,
    },
    /// The end of a child execution.
    Child {
        /// The id of the child.
        execution_id: ExecutionId,
    },
    /// A signal whose sender must give signs of life.
    LiveSignal {
        /// Its name.
        name: String,
        /// The instant at which the step fails without another sign of life.
        due: Timestamp,
    },
}

impl WaitCondition {
    /// The name of the signal that is awaited, if one is.
    pub fn signal_name(&self) -> Option<&str> {
        match self {
            Self::Signal { name } | Self::LiveSignal { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether an attempt of the server or of a child is in progress.
    pub const fn is_attempt(&self) -> bool {
        matches!(self, Self::Operation { .. } | Self::Child { .. })
    }
}

/// The outcome of a visit of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReportedOutcome {
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
    /// With a failure.
    Failed(Failure),
    /// Cancelled: the execution ended or continued without the visit while it was open.
    Voided,
}

/// Why a step was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its `if` does not hold.
    Condition,
    /// Its dependencies did not end as its `run_when` requires.
    RunWhen,
    /// A jump bypassed it.
    Bypassed,
    /// The execution is failing.
    Failing,
    /// A step that completed cancelled it.
    Cancelled,
}

/// Something that happened to an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The execution was created.
    Created(Box<ExecutionCreated>),
    /// The state changed.
    StateChanged {
        /// The state before.
        from: State,
        /// The state after.
        to: State,
        /// The failure, if the new state is `Failed`.
        failure: Option<Failure>,
        /// How many steps the workflow has.
        steps_total: u32,
    },
    /// A step, an item, a hook or a compensation was entered and waits for something.
    VisitOpened(Box<VisitOpened>),
    /// A visit ended.
    VisitClosed(Box<VisitClosed>),
    /// An output was refused by the step's schema; the token stays valid.
    OutputRefused {
        /// The visit.
        visit_id: VisitId,
        /// The digest of the output. A repeated output is counted once.
        output: Digest,
    },
    /// An expired token was replaced.
    TokenRenewed {
        /// The visit.
        visit_id: VisitId,
        /// The new token.
        grant: TokenGrant,
    },
    /// A pause reason was added.
    PauseAdded {
        /// The reason.
        reason: PauseReason,
    },
    /// A pause reason was lifted.
    PauseLifted {
        /// The reason.
        reason: PauseReason,
    },
    /// The caller gave a reason for a change of state.
    ReasonGiven {
        /// The reason.
        text: String,
    },
    /// An artifact came with the output of a step.
    ArtifactStored {
        /// The visit.
        visit_id: VisitId,
        /// The agent that made it, if the step has one.
        agent: Option<AgentName>,
        /// The artifact.
        artifact: Box<Artifact>,
    },
    /// A step, an item, a hook or a compensation ended when it was entered, without waiting.
    StepDone {
        /// The visit.
        visit_id: VisitId,
        /// How it ended.
        outcome: Outcome,
    },
    /// A step was skipped.
    StepSkipped {
        /// The step.
        step: StepId,
        /// Why.
        why: SkipReason,
    },
    /// A jump back made these steps pending again.
    StepsReset {
        /// The steps, in authoring order.
        steps: Vec<StepId>,
    },
    /// An attempt ended, but not its visit.
    AttemptEnded(Box<AttemptEnded>),
    /// What a visit waits for changed.
    WaitingChanged {
        /// The visit.
        visit_id: VisitId,
        /// The number of the attempt from now on.
        attempt: u32,
        /// What it waits for now.
        awaiting: WaitCondition,
    },
    /// A value was written to memory.
    MemoryWritten {
        /// The name of the value.
        name: String,
        /// The value; stored by digest, whatever its size.
        value: Payload,
    },
    /// Inputs were added or changed after the start.
    InputsChanged {
        /// All inputs; stored by digest, whatever their size.
        inputs: Payload,
    },
    /// A signal arrived that no step waits for yet.
    SignalKept {
        /// Its name.
        name: String,
        /// Its payload; stored by digest, whatever its size.
        payload: Payload,
    },
    /// The oldest kept signal of this name was given to a step.
    SignalTaken {
        /// Its name.
        name: String,
    },
    /// A required step failed. Steps that run after a failure, compensations and hooks come before the final state.
    FailureBegan {
        /// The failure that the execution will end with.
        failure: Failure,
    },
    /// The final output was computed.
    FinalOutput {
        /// The value; stored by digest, whatever its size.
        value: Payload,
        /// The parts that could not be computed and are null in the value.
        faults: Vec<OutputFailure>,
    },
    /// The input of a visit changed. The pages that were kept for it no longer count.
    TaskChanged {
        /// The visit.
        visit_id: VisitId,
        /// The new input; stored by digest, whatever its size.
        input: Payload,
    },
    /// A person answered a gate.
    GateAnswered(Box<GateAnswered>),
    /// A text in the `artifacts` of an output is listed as a reference.
    ArtifactNamed {
        /// The visit.
        visit_id: VisitId,
        /// The agent that named it, if the step has one.
        agent: Option<AgentName>,
        /// The text, with its number.
        reference: ArtifactReference,
    },
    /// A required hook failed, and so its completed step failed.
    StepFailed {
        /// The visit of the step's work.
        visit_id: VisitId,
        /// The failure of the hook.
        failure: Failure,
    },
    /// A visit completed whose step has a compensation.
    CompensationKept {
        /// The visit of the work.
        visit_id: VisitId,
        /// The list of the `foreach`, if the visit is one of its items.
        list: Option<Digest>,
    },
    /// A step ended after the join that it leads to had been entered. Its end changes nothing.
    CameLate {
        /// The visit.
        visit_id: VisitId,
    },
    /// The end began: compensations, hooks and orders to children come before the final state.
    EndingBegan {
        /// The final state.
        to: State,
    },
    /// The remaining compensations were given up.
    CompensationsGivenUp {
        /// Why.
        why: String,
    },
    /// A step offered options for the next call.
    OptionsOffered {
        /// The visit whose output they are computed from.
        visit_id: VisitId,
        /// The options; stored by digest, whatever their size.
        options: Payload,
    },
    /// The offers of these steps were withdrawn, because the execution has moved past them.
    OptionsWithdrawn {
        /// The steps.
        steps: Vec<StepId>,
    },
    /// A client named the option that it chose (`recordBranchDecision`).
    OptionChosen(Box<OptionChosen>),
    /// An order to a child was added.
    ChildOrdered(ChildOrder),
    /// The child received the order.
    ChildTold(ChildOrder),
    /// A page of a list was stored, and the next one is to be requested.
    PageKept {
        /// The visit.
        visit_id: VisitId,
        /// The digest of its items.
        items: Digest,
        /// The cursor of the next page, with the marks of this one.
        cursor: PageCursor,
    },
    /// The execution continues from the past of another one.
    Forked(Box<Forked>),
    /// A step that another execution did is kept by its fork.
    StepInherited(Box<InheritedStep>),
    /// A person or a model rewound the execution to a step.
    Rewound(Box<Rewound>),
    /// The compensations that a rewind waits for have ended.
    RewindCompensated,
    /// The values of inputs were removed after the end. The rows before this one were stored anew without them.
    InputsForgotten {
        /// The names of the inputs; of a call of a command, those of its arguments.
        keys: Vec<String>,
    },
    /// An activity reported metadata with the outcome of an attempt.
    MetadataReported {
        /// The visit.
        visit_id: VisitId,
        /// An object.
        metadata: JsonText,
    },
    /// The execution pauses between two steps of the server from now on.
    PaceSet,
    /// The title of a visit was worked out.
    VisitTitled {
        /// The visit.
        visit_id: VisitId,
        /// Its title.
        title: String,
    },
    /// The items of a `foreach` were counted at its end.
    ItemsCounted {
        /// The visit of the `foreach`.
        visit_id: VisitId,
        /// How its items ended.
        counts: ItemCounts,
    },
    /// An attempt of a step with `repeat` brought an output that does not satisfy `until`.
    PollKept {
        /// The visit.
        visit_id: VisitId,
        /// The output; stored by digest, whatever its size.
        output: Payload,
    },
    /// A signal that reports a failure arrived, and no step waits for it yet.
    SignalErrorKept {
        /// Its name.
        name: String,
        /// An object with `code` and `message`; stored by digest.
        error: Payload,
    },
    /// The execution got its labels, at its start.
    Labeled {
        /// The labels of its workflow, and those of the start.
        labels: Labels,
    },
    /// The execution was imported from a bundle, and is read-only from now on.
    Imported {
        /// The project it was imported into.
        project: String,
    },
}

impl Row {
    /// The execution that was forked, if this row begins a fork.
    pub fn fork_origin(&self) -> Option<&ForkOrigin> {
        if self.revision > 1 {
            return None;
        }
        self.events.iter().find_map(|event| match event {
            Event::Forked(forked) => Some(&forked.origin),
            _ => None,
        })
    }

    /// The outputs of visits that this row holds itself, by digest.
    pub fn outputs(&self) -> impl Iterator<Item = (Digest, &JsonText)> {
        let outputs = self.events.iter().filter_map(Event::output);
        outputs.filter_map(|(_, payload)| Some((payload.digest, payload.inline.as_ref()?)))
    }
}

impl Event {
    /// The output of a visit, if this event completes one.
    pub fn output(&self) -> Option<(&VisitId, &Payload)> {
        let (visit_id, outcome) = match self {
            Self::VisitClosed(closed) => (&closed.visit_id, &closed.outcome),
            Self::StepDone { visit_id, outcome } => (visit_id, outcome),
            Self::StepInherited(step) => (&step.visit_id, &step.outcome),
            _ => return None,
        };
        match outcome {
            Outcome::Completed(payload) => Some((visit_id, payload)),
            Outcome::Failed(_) | Outcome::Voided => None,
        }
    }

    /// The token that this event issues to a model, except for renewals.
    pub const fn issued_token(&self) -> Option<(&VisitId, TokenGrant)> {
        let (visit_id, awaiting) = match self {
            Self::VisitOpened(opened) => (&opened.visit_id, &opened.awaiting),
            Self::WaitingChanged { visit_id, awaiting, .. } => (visit_id, awaiting),
            _ => return None,
        };
        match awaiting {
            WaitCondition::Model(grant) => Some((visit_id, *grant)),
            _ => None,
        }
    }
}
