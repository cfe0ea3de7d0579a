//! What may be asked of an execution.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{AttemptId, Brought, OperationFailure, State};
use crate::{
    document::{Digest, meaning, meaning_of_list},
    event::{Channel, Order, Ordered, Parent},
    id::{ExecutionId, StepId},
    input::DefaultSources,
    lookup::Lookup,
    token::Token,
};

/// What a new execution is started with.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its id.
    pub id: ExecutionId,
    /// The project it is started for.
    pub project: Option<String>,
    /// Its inputs as they were given: an object.
    pub inputs: Option<Value>,
    /// Where defaults of inputs come from that are not in the definition.
    pub defaults: DefaultSources,
    /// The execution that it is a child of.
    pub parent: Option<Box<Parent>>,
    /// Where it looks up workflows, where its definition names any.
    pub lookup: Option<Box<Lookup>>,
}

/// A request to move an execution.
#[derive(Clone, Debug)]
pub enum Command {
    /// Finish the step visit that the token names.
    Advance {
        /// The right to do so.
        token: Token,
        /// What came of the step, and what the client took of what was offered.
        submission: Arc<Submission>,
    },
    /// Replace the tokens that have expired.
    RenewTokens,
    /// Change the state.
    Change(Change),
    /// Do what is due by now.
    Tick,
    /// Take in what a server's step came to.
    Outcome {
        /// Of which attempt.
        attempt_id: AttemptId,
        /// What it came to.
        outcome: Arc<Result<Brought, OperationFailure>>,
    },
    /// Go on with what the server was doing when its process ended, or find out that nobody knows what came of it.
    /// `alive` are the attempts that this process is working on.
    Recover {
        /// Those.
        alive: Arc<BTreeSet<AttemptId>>,
    },
    /// An attempt could not be begun, for the process is about to end: it is begun later.
    PutOff {
        /// Which.
        attempt_id: AttemptId,
    },
    /// Take in a signal.
    Signal(SignalRequest),
    /// Take in a person's answer to a gate.
    Answer(Arc<GateAnswer>),
    /// Take in somebody's word on what came of work that was cut off.
    Resolve(Arc<Resolution>),
    /// Do as the parent did. What has ended, or does so already, stays as it is.
    FromParent(Ordered),
    /// Children were told this.
    Told(Vec<Order>),
    /// Pause the root of a family in which so many executions are open that no further one is begun.
    PauseForBudget {
        /// How many may be open.
        open_max: usize,
    },
}

impl From<Change> for Command {
    fn from(change: Change) -> Self {
        Self::Change(change)
    }
}

impl From<SignalRequest> for Command {
    fn from(signal: SignalRequest) -> Self {
        Self::Signal(signal)
    }
}

impl From<GateAnswer> for Command {
    fn from(answer: GateAnswer) -> Self {
        Self::Answer(Arc::new(answer))
    }
}

impl From<Resolution> for Command {
    fn from(resolution: Resolution) -> Self {
        Self::Resolve(Arc::new(resolution))
    }
}

/// What a model reports of its step.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The step's output.
    Output(Value),
    /// What the user answered, whom the client asked.
    Answer(Value),
    /// The step could not be done.
    Error {
        /// What happened.
        message: String,
        /// A stable name for it.
        code: Option<String>,
        /// Whether another attempt may succeed.
        retryable: Option<bool>,
    },
}

impl Command {
    /// The value that it brings, which is held to a schema.
    pub fn brings(&self) -> Option<&Value> {
        match self {
            Self::Advance { submission, .. } => match submission.report.as_ref()? {
                Report::Output(value) | Report::Answer(value) => Some(value),
                Report::Error { .. } => None,
            },
            Self::Outcome { outcome, .. } => match &**outcome {
                Ok(Brought::Output(value)) => Some(value),
                Ok(Brought::Page(_) | Brought::Attachment(_)) | Err(_) => None,
            },
            Self::Resolve(resolution) => match &resolution.verdict {
                Verdict::Output(value) => Some(value),
                Verdict::Retry | Verdict::Failed(_) => None,
            },
            _ => None,
        }
    }
}

/// What a client hands in with a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// What came of the step; may be missing where the choice leaves the workflow.
    pub report: Option<Report>,
    /// Which of the options that were offered the client took: the id of one, or the name of its tool.
    pub choice: Option<String>,
}

impl From<Report> for Submission {
    fn from(report: Report) -> Self {
        Self {
            report: Some(report),
            choice: None,
        }
    }
}

impl Submission {
    /// The meaning of the call, whose report was meant as `report`.
    pub(super) fn call(&self, report: Option<&Report>) -> Digest {
        let report = report.map(Report::call);
        match (&self.choice, report) {
            (None, Some(report)) => report,
            (choice, report) => meaning(&json!(["choice", choice, report])),
        }
    }
}

impl Report {
    /// The meaning of the report.
    fn call(&self) -> Digest {
        match self {
            Self::Output(value) | Self::Answer(value) => meaning_of_list([&json!("output"), value]),
            Self::Error {
                message,
                code,
                retryable,
            } => meaning(&json!(["error", message, code, retryable])),
        }
    }
}

/// What somebody may ask of an execution's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifecycle {
    /// running → paused.
    Pause,
    /// paused → running.
    Resume,
    /// running or paused → abandoned: somebody gives it up.
    Abandon,
    /// running → diverged: the work took another path.
    Diverge,
    /// running → failed, as where a required step failed: what is to run nevertheless runs first. Asked again, it ends at once.
    Fail,
}

impl Lifecycle {
    /// Every change.
    pub const ALL: [Self; 5] = [
        Self::Pause,
        Self::Resume,
        Self::Abandon,
        Self::Diverge,
        Self::Fail,
    ];

    /// The state it leads to.
    pub const fn state(self) -> State {
        match self {
            Self::Pause => State::Paused,
            Self::Resume => State::Running,
            Self::Abandon => State::Abandoned,
            Self::Diverge => State::Diverged,
            Self::Fail => State::Failed,
        }
    }
}

/// A change of state that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub lifecycle: Lifecycle,
    /// Why, in their words.
    pub reason: Option<String>,
}

/// Something that happened elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRequest {
    /// What it is called.
    pub name: String,
    /// What came with it.
    pub payload: Arc<Value>,
}

impl SignalRequest {
    /// A signal of this name.
    pub fn new(name: impl Into<String>, payload: Value) -> Self {
        Self {
            name: name.into(),
            payload: Arc::new(payload),
        }
    }
}

/// A person's answer to a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateAnswer {
    /// The gate.
    pub step: StepId,
    /// Which visit of it.
    pub visit: u32,
    /// The digest of what the person was shown: an answer to anything else counts for nothing.
    pub shown: Digest,
    /// Whether they approve.
    pub approved: bool,
    /// Who they are, as far as it is known.
    pub by: String,
    /// How they were asked.
    pub via: Channel,
    /// What else they say.
    pub comment: Option<String>,
}

/// Somebody's word on what came of work that was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// The step.
    pub step: StepId,
    /// Which item, where it is a `foreach`.
    pub item: Option<u32>,
    /// Which visit and attempt, where that is known: so that a word on one of them is none on a later one.
    pub attempt: Option<(u32, u32)>,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of work that was cut off.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing: it is to be done again.
    Retry,
    /// It took effect, and this is its output.
    Output(Arc<Value>),
    /// It failed, and why.
    Failed(String),
}
