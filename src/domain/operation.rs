//! The port to operations of other services: a `run` step names a catalog and an operation of it. The engine calls through
//! [`Operations`]; the catalogs implement it.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use serde_json::Value;

use crate::{
    FailureCode,
    execution::{Brought, OperationFailure},
};

/// What a call comes to.
pub type Outcome = Result<Brought, OperationFailure>;

/// A future that a `dyn Operations` can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The operations of every catalog that there is.
pub trait Operations: fmt::Debug + Send + Sync {
    /// Calls one. The future is dropped where the step's time is up or nobody waits for the outcome any more.
    ///
    /// # Errors
    /// The class of the failure is what a step's `retry.on` names: `network`, `http_5xx`…
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome>;

    /// Whether doing it twice is doing it once, be it that the other side knows it by its idempotency key. Only then it
    /// is called again where the process ended in the midst of it. A step may say otherwise.
    fn is_safe(&self, catalog: &str, operation: &str) -> bool;

    /// Whether there is a catalog of this name and it is enabled. A step whose catalog is not there waits for it.
    fn has_catalog(&self, catalog: &str) -> bool;
}

/// A call of an operation.
#[derive(Clone)]
pub struct OperationCall {
    /// The catalog.
    pub catalog: String,
    /// The operation.
    pub operation: String,
    /// Its arguments: an object, or null where there are none.
    pub with: Value,
    /// Its body.
    pub body: Option<Value>,
    /// The names of the secrets that stand in both.
    pub secrets: Vec<String>,
    /// Which page of a list is asked for, where all of them are wanted.
    pub pages: Option<Pages>,
    /// Whether all that came back is wanted, status and headers too, and not the payload alone.
    pub whole: bool,
    /// How long it may take. Whoever calls keeps to it too.
    pub timeout: Option<Duration>,
    /// The same for every attempt of a visit, and of no other. 64 hexadecimal digits.
    pub idempotency_key: String,
    /// Whether doing it twice is doing it once, where its step says so.
    pub is_idempotent: Option<bool>,
}

/// A list that comes in pages, each a call of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    /// How many are asked for at most; without it [`limits::CALL_PAGES`](crate::limits::CALL_PAGES).
    pub max_pages: Option<u32>,
    /// What the page before said of where this one is ([`Page::next`]); `None` for the first.
    ///
    /// [`Page::next`]: crate::execution::Page::next
    pub next: Option<Value>,
}

/// Without what is sent: secrets stand in it.
impl fmt::Debug for OperationCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationCall({} {})", self.catalog, self.operation)
    }
}

/// No catalog at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOperations;

impl Operations for NoOperations {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        let (catalog, operation) = (call.catalog, call.operation);
        let message = format!(
            "there is no catalog '{catalog}' here, so its operation '{operation}' cannot be called"
        );
        let failure = OperationFailure::new("not_found", message);
        Box::pin(async { Err(failure.coded(FailureCode::OperationNotFound)) })
    }

    fn is_safe(&self, _: &str, _: &str) -> bool {
        false
    }

    /// None will ever come: a step that names one fails at once.
    fn has_catalog(&self, _: &str) -> bool {
        true
    }
}
