//! What a decision is made of, and what it comes to.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Execution, Failure, Row, VisitId,
    work::{Effect, Safety, Unsafe},
};
use crate::{
    FailureCode,
    definition::{Definition, Step},
    document::Digest,
    error::{Code, Error},
    event::Owner,
    failure::cut_message,
    id::StepId,
};

/// What a decision may look at besides the execution.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// Who begins the work of the server.
    pub owner: Owner,
    /// How long a token lives.
    pub token_ttl: Duration,
    /// Values that lie elsewhere than in the execution, as far as they were asked for.
    pub values: &'a Values,
    /// The environment variables that expressions may see.
    pub env: &'a BTreeMap<String, String>,
    /// The names of the secrets there are.
    pub secrets: &'a [String],
    /// What may be done again where nobody knows whether it was done.
    pub safety: &'a dyn Safety,
}

impl<'a> Facts<'a> {
    /// The facts of an execution that asks for nothing from elsewhere.
    pub fn new(definition: &'a Definition, token_ttl: Duration) -> Self {
        static NOTHING: (Values, BTreeMap<String, String>) = (Values::new(), BTreeMap::new());
        Self {
            definition,
            owner: Owner::default(),
            token_ttl,
            values: &NOTHING.0,
            env: &NOTHING.1,
            secrets: &[],
            safety: &Unsafe,
        }
    }
}

/// Values by digest.
pub type Values = BTreeMap<Digest, Arc<Value>>;

/// A value that a decision cannot be made without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Need {
    /// Its digest.
    pub digest: Digest,
    /// The revision whose journal row holds it where it is small; `None` where it is stored by digest whatever its size.
    pub revision: Option<u64>,
}

impl Need {
    /// A value that is stored by digest, whatever its size.
    pub const fn stored(digest: Digest) -> Self {
        Self {
            digest,
            revision: None,
        }
    }
}

/// Why a decision comes to no transition.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// The call is refused.
    Refused(Error),
    /// Something must be looked up first.
    Needs(Vec<Need>),
    /// The step fails.
    Fails(Failure),
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Interrupt {
    /// What is too much for a step is the failure of that step, not of the call or the instant that led to it.
    pub(super) fn within(self, visit_id: &VisitId) -> Self {
        match self {
            Self::Refused(error) if error.code() == Code::LimitExceeded => {
                Self::Fails(Failure::of(&error, visit_id.step()))
            }
            interrupt => interrupt,
        }
    }

    /// A refusal says where it arose.
    pub(super) fn placed(self, place: impl FnOnce(Error) -> Error) -> Self {
        match self {
            Self::Refused(error) if error.context("execution_id").is_none() => {
                Self::Refused(place(error))
            }
            interrupt => interrupt,
        }
    }

    /// The step fails.
    pub(super) fn fails(step: &Step, code: FailureCode, message: impl AsRef<str>) -> Self {
        Self::Fails(Failure::new(code, message, Some(&step.id)))
    }
}

impl Failure {
    /// The failure of a step, or of the execution as a whole, with its message cut to the limit.
    pub(super) fn new(
        code: impl Into<String>,
        message: impl AsRef<str>,
        step: Option<&StepId>,
    ) -> Self {
        Self {
            code: code.into(),
            message: cut_message(message.as_ref()),
            step: step.cloned(),
            item: None,
            response: None,
            is_retryable: false,
        }
    }

    /// A refusal as the failure of a step.
    pub(super) fn of(error: &Error, step: &StepId) -> Self {
        Self::new(error.code().as_str(), error.message(), Some(step))
    }
}

/// What a part of a decision comes to.
pub(super) type DecideResult<T> = Result<T, Interrupt>;

/// What [`Execution::decide`] answers.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Something happens: store it, become it, then answer.
    Move(Box<Transition>),
    /// This very call was answered before: answer as this revision did.
    Replay(u64),
    /// Nothing is to be done.
    Stay,
    /// These values must be among the facts first.
    Need(Vec<Need>),
}

/// One step forward of one execution.
#[derive(Clone, Debug)]
pub struct Transition {
    /// The execution after it. Shares with its predecessor what did not change.
    pub next: Execution,
    /// What happened.
    pub row: Row,
    /// Content that the row refers to by digest.
    pub contents: Vec<(Digest, Arc<[u8]>)>,
    /// Where the call is refused although something happens: the answer, once the row is durable.
    pub refusal: Option<Error>,
    /// What the server begins or breaks off, once the row is durable.
    pub effects: Vec<Effect>,
    /// Small values that came to be, so that nobody need look them up.
    pub made: Values,
}
