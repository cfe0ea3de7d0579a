//! The contents of larger events.

use serde::{Deserialize, Serialize};

use super::{ConsumedCall, Failure, Outcome, Payload, VisitId, WaitCondition};
use crate::{
    clock::Timestamp,
    complexity::Complexity,
    document::Digest,
    id::{AgentName, ExecutionId, StepId, WorkflowName},
};

/// How the items of a `foreach` ended. Skipped are those whose `if` did not hold, those that were cancelled, and those
/// that were never begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// How many completed.
    pub succeeded: u32,
    /// How many failed.
    pub failed: u32,
    /// How many did neither.
    pub skipped: u32,
}

/// The offered option that a client chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptionChosen {
    /// The visit whose token came with the choice.
    pub visit_id: VisitId,
    /// The visit that offered the option. For the option to continue: the last visit that made an offer, if any.
    pub offered_by: Option<VisitId>,
    /// The id of the option.
    pub option: String,
    /// The pattern of the branch, if the option comes from one.
    pub pattern: Option<String>,
    /// Its tool.
    pub tool_name: String,
    /// All offers at that time, by the digests of their options.
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
    /// The person's name, as far as it is known.
    pub by: String,
    /// How they were asked.
    pub via: Channel,
    /// An additional comment.
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
    /// In the dashboard.
    Dashboard,
}

impl Channel {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Elicitation => "elicitation",
            Self::Dashboard => "dashboard",
        }
    }
}

/// A visit that was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitOpened {
    /// Its id.
    pub visit_id: VisitId,
    /// The agent that works in it, if the step has one.
    pub agent: Option<AgentName>,
    /// What it waits for.
    pub awaiting: WaitCondition,
    /// Its rendered input; stored by digest, whatever its size.
    pub input: Option<Payload>,
}

/// A visit that was closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitClosed {
    /// Its id.
    pub visit_id: VisitId,
    /// The agent that worked in it, if the step has one.
    pub agent: Option<AgentName>,
    /// How it ended.
    pub outcome: Outcome,
    /// The call that ended it, if a call did.
    pub consumed: Option<ConsumedCall>,
    /// How long it was open, in milliseconds.
    pub duration_ms: u64,
}

/// An attempt that ended while its visit stays open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// The visit.
    pub visit_id: VisitId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Why it failed; `None` if the step is repeated until a condition holds, if the attempt brought a page of a list,
    /// or if its answer led to another question.
    pub failure: Option<Failure>,
    /// The call that ended it, if a call did.
    pub consumed: Option<ConsumedCall>,
    /// What the visit waits for until the next attempt.
    pub awaiting: WaitCondition,
}

impl AttemptEnded {
    /// Whether the step is done again: because the attempt failed, or because `until` does not hold yet. False for a
    /// page of a list and for an answer that led to another question.
    pub const fn is_retried(&self) -> bool {
        self.failure.is_some() || matches!(self.awaiting, WaitCondition::Retry { .. })
    }
}

/// The execution that a child belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent execution, whose step waits for the child.
    pub execution_id: ExecutionId,
    /// The visit of the parent that waits for it.
    pub visit_id: VisitId,
    /// The attempt of that visit that began the child.
    pub attempt: u32,
    /// The topmost execution above the child, which has no parent.
    pub root: ExecutionId,
    /// The number of levels below the root, from 1.
    pub depth: u32,
}

/// An order of a parent to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildOrder {
    /// The child.
    pub child: ExecutionId,
    /// The content of the order.
    pub what: OrderKind,
}

/// What a parent orders a child to do because the parent did the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderKind {
    /// Pause, as if a person had asked for it.
    Pause,
    /// Resume.
    Resume,
    /// End as abandoned.
    Abandon,
    /// Fail.
    Fail,
}

/// The past that a fork continues from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forked {
    /// The execution that was forked.
    pub origin: ForkOrigin,
    /// The inherited visits that a compensation can undo, in order of completion.
    pub compensations: Vec<InheritedCompensation>,
}

/// The execution that a fork was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The revision that was forked.
    pub revision: u64,
    /// Whether the fork follows another definition.
    pub has_new_definition: bool,
    /// Whether it is a retry.
    pub is_retry: bool,
    /// Whether a person allowed that work whose outcome is unknown is repeated.
    pub repeats_unknown: bool,
    /// The approvals of the source. They are asked for again before the steps that follow them are entered.
    pub gates: Vec<StepId>,
    /// The children of the source that the children of the fork continue.
    pub children: Vec<InheritedChild>,
}

/// A child of a forked execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedChild {
    /// The step that began it.
    pub step: StepId,
    /// Its id.
    pub child: ExecutionId,
}

/// An inherited visit that a compensation can undo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InheritedCompensation {
    /// The visit of the work.
    pub visit_id: VisitId,
    /// Its output, stored by digest.
    pub output: Option<Digest>,
    /// The list of the `foreach`, if the visit is one of its items.
    pub list: Option<Digest>,
}

/// A step that another execution did, with its latest visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InheritedStep {
    /// The visit.
    pub visit_id: VisitId,
    /// The agent that worked in it, if the step has one.
    pub agent: Option<AgentName>,
    /// The number of its last attempt, from 1.
    pub attempt: u32,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it was closed.
    pub closed_at: Timestamp,
    /// How it ended. The output is always stored by its digest.
    pub outcome: Outcome,
}

/// A rewind that waits for compensations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindTarget {
    /// The step to enter once they have ended.
    pub step: StepId,
    /// The visits to compensate.
    pub visits: Vec<VisitId>,
}

/// A rewind to a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rewound {
    /// The step.
    pub to_step: StepId,
    /// The steps that are pending again, in authoring order.
    pub steps: Vec<StepId>,
    /// Why, in the caller's words.
    pub reason: Option<String>,
    /// The memory when the step was last entered: names and digests.
    pub memory: Vec<(String, Digest)>,
    /// The inputs when the step was last entered.
    pub inputs: Option<Digest>,
    /// The visits that are compensated before the step is entered again.
    pub compensates: Vec<VisitId>,
    /// The visits whose effects stay in the world.
    pub not_undone: Vec<VisitId>,
}

/// The content of the first event of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionCreated {
    /// The workflow's name.
    pub workflow: WorkflowName,
    /// The digest of its definition.
    pub definition: Digest,
    /// The complexity that the workflow declares.
    pub complexity: Option<Complexity>,
    /// The project it was started for: a directory.
    pub project: Option<String>,
    /// The inputs it was started with.
    pub inputs: Option<Payload>,
    /// The digest of the start's arguments, by which a repeated start is recognised.
    pub call: Digest,
    /// The ids of its steps, in authoring order.
    pub steps: Vec<StepId>,
    /// Its parent, if it is a child.
    pub parent: Option<Parent>,
    /// The directories in which it finds other workflows ([`crate::WorkflowLookup`]), if its definition names any; stored by
    /// digest.
    pub lookup: Option<Digest>,
}

/// What keeps an execution from going on. They form a set; each is lifted by its own means.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A person or a client asked for the pause; a resume lifts it.
    Person,
    /// It could not be woken; a resume tries again.
    EngineFault,
    /// Nothing is open but gates; an answer lifts it.
    Gate,
    /// The outcome of an attempt that may not be repeated is unknown, because the server was stopped during it; a
    /// resolution lifts it.
    OutcomeUnknown,
    /// Nothing is open but steps whose outputs broke their schema too often; a resume lets those go on.
    OutputInvalid,
    /// Nothing is open but steps whose catalog is not there; its import lifts it.
    CatalogMissing,
    /// As many executions are open below it as may be; a resume lifts it.
    Budget,
    /// A step of the server has ended, and the caller asked to be heard before the next one; a resume lifts it.
    Pace,
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
            Self::Pace => "pace",
        }
    }

    /// True for pauses that the scheduler enters by itself when every open step waits for a person (gate, refused
    /// output, missing catalog). Timers keep running then.
    pub const fn is_set_by_scheduler(self) -> bool {
        matches!(self, Self::Gate | Self::OutputInvalid | Self::CatalogMissing)
    }

    /// Whether a resume always lifts it.
    pub const fn is_lifted_by_resume(self) -> bool {
        matches!(self, Self::Person | Self::EngineFault | Self::Budget | Self::Pace)
    }
}
