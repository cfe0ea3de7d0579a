//! Commands: everything that can move an execution.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AttemptId, AttemptNotes, EffectOutput, OperationFailure, PastValues, State};
use crate::{
    document::{Digest, canonical_digest, canonical_list_digest},
    event::{Channel, ChildOrder, OrderKind, Parent},
    id::{ExecutionId, StepId},
    input::DefaultSources,
    label::Labels,
    lookup::WorkflowLookup,
    token::Token,
};

/// The arguments of a new execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartArguments {
    /// Its id.
    pub id: ExecutionId,
    /// The project it is started for.
    pub project: Option<String>,
    /// Its inputs as the caller gave them: an object.
    pub inputs: Option<Value>,
    /// Sources of input defaults outside the definition.
    pub defaults: DefaultSources,
    /// Its parent, if it is a child.
    pub parent: Option<Box<Parent>>,
    /// The directories in which it finds other workflows, if its definition names any.
    pub lookup: Option<Box<WorkflowLookup>>,
    /// Whether it pauses between two steps of the server.
    pub is_paced: bool,
    /// Its labels, besides those of its workflow.
    pub labels: Labels,
}

/// A request to change an execution. Only the commands that another server may pass on are serialized.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Finish the step visit that the token names.
    Advance {
        /// The token of that visit.
        token: Token,
        /// The output or error of the step, and the option that the client chose.
        submission: Arc<Submission>,
    },
    /// Go back to a step.
    Rewind(Arc<RewindRequest>),
    /// Replace the tokens that have expired.
    RenewTokens,
    /// Change the state.
    ChangeState(LifecycleChange),
    /// Begin the step of the server that waits for the caller, if the execution is still at this revision.
    LiftPace {
        /// The revision that the caller was shown.
        revision: u64,
    },
    /// Process timers, retries, expiries and time limits that are due.
    #[serde(skip)]
    Tick,
    /// Record the outcome of an attempt that the server or a child made.
    #[serde(skip)]
    RecordOutcome {
        /// The attempt.
        attempt_id: AttemptId,
        /// Its result.
        outcome: Arc<Result<EffectOutput, OperationFailure>>,
        /// What an activity reports besides.
        notes: Arc<AttemptNotes>,
    },
    /// Recover attempts whose process ended: begin them again where repeating is safe, else pause the execution with
    /// `outcome_unknown`. Attempts in `alive` are left alone.
    #[serde(skip)]
    RecoverAttempts {
        /// The attempts that this process is working on.
        live_attempts: Arc<BTreeSet<AttemptId>>,
    },
    /// Postpone an attempt that this process could not begin, because it is shutting down or does not execute steps of
    /// this kind.
    #[serde(skip)]
    PostponeAttempt {
        /// The attempt.
        attempt_id: AttemptId,
    },
    /// Take in a signal.
    ReceiveSignal(SignalRequest),
    /// Take in a person's answer to a gate.
    #[serde(skip)]
    AnswerGate(Arc<GateAnswer>),
    /// Record the decision of a caller (a person or a model) about an attempt whose outcome is unknown.
    ResolveAttempt(Arc<Resolution>),
    /// Carry out an order of the parent. Ignored if the execution has ended or already is as ordered.
    ApplyParentOrder(OrderKind),
    /// Record that children received these orders.
    MarkOrdersDelivered(Vec<ChildOrder>),
    /// Pause a root execution because too many executions are open below it to begin another one.
    PauseForBudget {
        /// The limit on open executions.
        open_max: usize,
    },
}

impl From<RewindRequest> for Command {
    fn from(request: RewindRequest) -> Self {
        Self::Rewind(Arc::new(request))
    }
}

impl From<LifecycleChange> for Command {
    fn from(change: LifecycleChange) -> Self {
        Self::ChangeState(change)
    }
}

impl From<SignalRequest> for Command {
    fn from(signal: SignalRequest) -> Self {
        Self::ReceiveSignal(signal)
    }
}

impl From<GateAnswer> for Command {
    fn from(answer: GateAnswer) -> Self {
        Self::AnswerGate(Arc::new(answer))
    }
}

impl From<Resolution> for Command {
    fn from(resolution: Resolution) -> Self {
        Self::ResolveAttempt(Arc::new(resolution))
    }
}

/// What a model reports of its step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// The step's output.
    Output(Value),
    /// The user's own answer, which the client collected by elicitation.
    Answer(Value),
    /// The step could not be done.
    Error {
        /// What happened.
        message: String,
        /// A stable error code.
        code: Option<String>,
        /// Whether another attempt may succeed.
        retryable: Option<bool>,
    },
}

impl Command {
    /// Whether another server may pass it on to the owner of the execution. Not what only the owner knows, and not what only a
    /// person may do: a server does not believe another one that a person did it.
    pub const fn can_be_passed_on(&self) -> bool {
        !matches!(
            self,
            Self::Tick
                | Self::RecordOutcome { .. }
                | Self::RecoverAttempts { .. }
                | Self::PostponeAttempt { .. }
                | Self::AnswerGate(_)
        )
    }

    /// Whether a repeat has no further effect, so that it may be sent again if it is not known whether it took effect.
    pub const fn is_repeatable(&self) -> bool {
        !matches!(
            self,
            Self::ReceiveSignal(_)
                | Self::ChangeState(_)
                | Self::Rewind(_)
                | Self::ResolveAttempt(_)
                | Self::AnswerGate(_)
        )
    }

    /// The value in the command that is checked against a schema, if it has one.
    pub fn schema_checked_value(&self) -> Option<&Value> {
        match self {
            Self::Advance { submission, .. } => match submission.report.as_ref()? {
                Report::Output(value) | Report::Answer(value) => Some(value),
                Report::Error { .. } => None,
            },
            Self::RecordOutcome { outcome, .. } => match &**outcome {
                Ok(EffectOutput::Output(value)) => Some(value),
                Ok(EffectOutput::Page(_) | EffectOutput::Attachment(_)) | Err(_) => None,
            },
            Self::ResolveAttempt(resolution) => match &resolution.verdict {
                Verdict::Output(value) => Some(value),
                Verdict::Retry | Verdict::Failed(_) => None,
            },
            _ => None,
        }
    }
}

/// The content of a call that finishes a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// The output or error of the step. May be missing only if the choice ends the execution as diverged.
    pub report: Option<Report>,
    /// The offered option that the client chose: its id, or the name of its tool.
    pub choice: Option<String>,
}

impl From<Report> for Submission {
    fn from(report: Report) -> Self {
        Self { report: Some(report), choice: None }
    }
}

impl Submission {
    /// The digest by which a repeat of this call is recognised. `report` is the report after texts that hold JSON were
    /// parsed.
    pub(super) fn call_digest(&self, report: Option<&Report>) -> Digest {
        let report = report.map(Report::report_digest);
        match (&self.choice, report) {
            (None, Some(report)) => report,
            (choice, report) => canonical_digest(&json!(["choice", choice, report])),
        }
    }
}

impl Report {
    /// The digest by which a repeat of this report is recognised.
    fn report_digest(&self) -> Digest {
        match self {
            Self::Output(value) | Self::Answer(value) => {
                canonical_list_digest([&json!("output"), value])
            }
            Self::Error { message, code, retryable } => {
                canonical_digest(&json!(["error", message, code, retryable]))
            }
        }
    }
}

/// Changes of state that a caller may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LifecycleAction {
    /// running → paused.
    Pause,
    /// paused → running.
    Resume,
    /// running or paused → abandoned.
    Abandon,
    /// running → diverged: the work continues outside of the workflow.
    Diverge,
    /// running → failed, as if a required step had failed: steps that run after a failure come first. A second request
    /// ends the execution at once.
    Fail,
}

impl LifecycleAction {
    /// Every change.
    pub const ALL: [Self; 5] =
        [Self::Pause, Self::Resume, Self::Abandon, Self::Diverge, Self::Fail];

    /// The state it leads to.
    pub const fn target_state(self) -> State {
        match self {
            Self::Pause => State::Paused,
            Self::Resume => State::Running,
            Self::Abandon => State::Abandoned,
            Self::Diverge => State::Diverged,
            Self::Fail => State::Failed,
        }
    }
}

/// A requested change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleChange {
    /// The kind of change.
    pub action: LifecycleAction,
    /// The reason, in the caller's words.
    pub reason: Option<String>,
}

/// A signal: an event from outside that a step may wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalRequest {
    /// Its name.
    pub name: String,
    /// Its content.
    pub content: SignalContent,
}

/// The content of a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SignalContent {
    /// The event happened: the payload is the output of the step that waits.
    Payload(Arc<Value>),
    /// It failed: the step that waits fails.
    Error {
        /// A stable code; `None` means [`FailureCode::SignalFailed`](crate::FailureCode::SignalFailed).
        code: Option<String>,
        /// What happened.
        message: String,
    },
    /// The sender is still at work: steps that wait with `alive` wait on.
    Alive,
}

impl SignalRequest {
    /// A signal of this name.
    pub fn new(name: impl Into<String>, payload: Value) -> Self {
        Self { name: name.into(), content: SignalContent::Payload(Arc::new(payload)) }
    }

    /// A signal that fails the step that waits for it.
    pub fn failure(
        name: impl Into<String>,
        code: Option<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), content: SignalContent::Error { code, message: message.into() } }
    }

    /// A sign of life for the steps that wait for the signal of this name.
    pub fn alive(name: impl Into<String>) -> Self {
        Self { name: name.into(), content: SignalContent::Alive }
    }
}

/// A request to rewind an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindRequest {
    /// The step to do again, with everything after it.
    pub to_step: StepId,
    /// Why, in the caller's words.
    pub reason: Option<String>,
    /// Whether the compensations of the steps to do again run first.
    pub compensates: bool,
    /// The values to restore: see [`super::Execution::find_past_values`]. Empty: all stay as they are.
    pub past: PastValues,
}

/// A person's answer to a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateAnswer {
    /// The gate.
    pub step: StepId,
    /// The number of its visit.
    pub visit: u32,
    /// The digest of the question that the person saw. An answer to any other question is refused.
    pub question_digest: Digest,
    /// Whether they approve.
    pub is_approved: bool,
    /// The person's name, as far as it is known.
    pub person: String,
    /// How they were asked.
    pub channel: Channel,
    /// An additional comment.
    pub comment: Option<String>,
}

/// The decision of a caller (a person or a model) about an attempt whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// The step.
    pub step: StepId,
    /// The number of the item, from 0, if the step is a `foreach`.
    pub item: Option<u32>,
    /// The visit and the attempt, if known, so that a late decision does not apply to a newer attempt.
    pub attempt: Option<(u32, u32)>,
    /// The decision.
    pub verdict: Verdict,
}

/// The possible outcomes of an attempt that was cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// It had no effect: begin it again.
    Retry,
    /// It took effect, and this is its output.
    Output(Arc<Value>),
    /// It failed, with this message.
    Failed(String),
}
