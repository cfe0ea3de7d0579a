//! The input and the result of a decision.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Execution, Failure, Row, VisitId,
    work::{Effect, NeverSafeToRetry, WorkPolicy},
};
use crate::{
    FailureCode,
    definition::{Definition, Step},
    document::Digest,
    error::{Code, Error},
    event::OwnerEpoch,
    failure::truncate_message,
    id::StepId,
};

/// Everything that a decision may read besides the execution.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    /// The definition of the execution.
    pub definition: &'a Definition,
    /// The opening of the store under which new attempts begin.
    pub owner: OwnerEpoch,
    /// How long a token lives.
    pub token_ttl: Duration,
    /// Outputs, inputs and memory values that earlier [`Decision::MissingValues`]s asked for.
    pub values: &'a Values,
    /// The environment variables that expressions may read.
    pub env: &'a BTreeMap<String, String>,
    /// The names of the known secrets.
    pub secrets: &'a [String],
    /// What the process knows of the work that steps ask the server for.
    pub work: &'a dyn WorkPolicy,
    /// Whether attempts of the server begin later, because another server is about to own the execution.
    pub postpones_work: bool,
}

impl<'a> DecisionContext<'a> {
    /// A context without looked-up values, environment variables and secrets, in which no work is safe to repeat.
    pub fn new(definition: &'a Definition, token_ttl: Duration) -> Self {
        static NO_VALUES_OR_ENV: (Values, BTreeMap<String, String>) =
            (Values::new(), BTreeMap::new());
        Self {
            definition,
            owner: OwnerEpoch::default(),
            token_ttl,
            values: &NO_VALUES_OR_ENV.0,
            env: &NO_VALUES_OR_ENV.1,
            secrets: &[],
            work: &NeverSafeToRetry,
            postpones_work: false,
        }
    }
}

/// Values by digest.
pub type Values = BTreeMap<Digest, Arc<Value>>;

/// A reference to a value that a decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueReference {
    /// Its digest.
    pub digest: Digest,
    /// The revision whose journal row holds the value if it is small; `None` if it is stored by digest whatever its
    /// size.
    pub revision: Option<u64>,
}

impl ValueReference {
    /// A value that is stored by digest, whatever its size.
    pub const fn by_digest(digest: Digest) -> Self {
        Self { digest, revision: None }
    }
}

/// Why a decision stops before its transition is complete.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// The call is refused.
    Refused(Error),
    /// These values must be looked up first.
    MissingValues(Vec<ValueReference>),
    /// The step fails with this failure.
    Failed(Failure),
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Interrupt {
    /// Turns a `LIMIT_EXCEEDED` that arose in a step into a failure of that step, so that the call or timer that
    /// entered the step still succeeds.
    pub(super) fn into_step_failure(self, visit_id: &VisitId) -> Self {
        match self {
            Self::Refused(error) if error.code() == Code::LimitExceeded => {
                Self::Failed(Failure::from_error(&error, visit_id.step()))
            }
            interrupt => interrupt,
        }
    }

    /// Lets `add_context` complete a refusal that has no context yet.
    pub(super) fn with_error_context(self, add_context: impl FnOnce(Error) -> Error) -> Self {
        match self {
            Self::Refused(error) if error.context("execution_id").is_none() => {
                Self::Refused(add_context(error))
            }
            interrupt => interrupt,
        }
    }

    /// An interrupt that fails `step` with `code`.
    pub(super) fn step_failure(step: &Step, code: FailureCode, message: impl AsRef<str>) -> Self {
        Self::Failed(Failure::new(code, message, Some(&step.id)))
    }
}

impl Failure {
    /// A failure of a step, or of the execution as a whole. The message is cut to its limit.
    pub(super) fn new(
        code: impl Into<String>,
        message: impl AsRef<str>,
        step: Option<&StepId>,
    ) -> Self {
        Self {
            code: code.into(),
            message: truncate_message(message.as_ref()),
            step: step.cloned(),
            item: None,
            response: None,
            is_retryable: false,
        }
    }

    /// Turns a refusal into a failure of `step`.
    pub(super) fn from_error(error: &Error, step: &StepId) -> Self {
        Self::new(error.code().as_str(), error.message(), Some(step))
    }
}

/// The result of a part of a decision.
pub(super) type DecideResult<T> = Result<T, Interrupt>;

/// The result of [`Execution::decide`].
#[derive(Clone, Debug)]
pub enum Decision {
    /// A transition: store it, replace the state by its `next`, then reply.
    Transition(Box<Transition>),
    /// The same call was answered before: reply from the state at this revision.
    Replay(u64),
    /// Nothing changes.
    NoChange,
    /// Look up these values, add them to the facts, and decide again.
    MissingValues(Vec<ValueReference>),
}

/// One transition of one execution: the content to store, the next state, and the work to do afterwards.
#[derive(Clone, Debug)]
pub struct Transition {
    /// The state after it. Unchanged parts are shared with the state before.
    pub execution: Execution,
    /// The journal row.
    pub row: Row,
    /// Content that the row refers to by digest.
    pub contents: Vec<(Digest, Arc<[u8]>)>,
    /// The refusal to reply with once the row is durable, if the call is refused although it changes the state, as with
    /// a malformed output.
    pub refusal: Option<Error>,
    /// Work to begin, cancel or send to children once the row is durable.
    pub effects: Vec<Effect>,
    /// New small values, kept in memory so that the next decision need not look them up.
    pub new_values: Values,
}
