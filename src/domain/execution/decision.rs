//! What a decision is made of, and what it comes to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{
    Execution, Failure, Row,
    work::{Effect, Safety, Unsafe},
};
use crate::{
    domain::{definition::Definition, document::Digest, event::Owner},
    error::Error,
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
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<Digest, Arc<Value>>);

impl Values {
    /// None.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The value with this digest.
    pub fn get(&self, digest: &Digest) -> Option<&Arc<Value>> {
        self.0.get(digest)
    }

    /// Takes a value in.
    pub fn insert(&mut self, digest: Digest, value: Arc<Value>) {
        self.0.insert(digest, value);
    }

    /// Lets a value go.
    pub fn remove(&mut self, digest: &Digest) {
        self.0.remove(digest);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps those with one of these digests.
    pub(super) fn keep_only(&mut self, digests: &BTreeSet<Digest>) {
        self.0.retain(|digest, _| digests.contains(digest));
    }

    /// Takes others in.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

/// A value that a decision cannot be made without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
