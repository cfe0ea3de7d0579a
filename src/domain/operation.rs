//! The interface to operations of other services: a `run` step names a catalog and one of its operations. The engine
//! calls them through [`Operations`], which the catalogs implement.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use serde_json::Value;

pub use crate::cursor::PageCursor;
use crate::{
    FailureCode,
    definition::PaginateOptions,
    execution::{EffectOutput, OperationFailure},
};

/// The result of a call.
pub type Outcome = Result<EffectOutput, OperationFailure>;

/// A future that a `dyn Operations` can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The operations of all catalogs.
pub trait Operations: fmt::Debug + Send + Sync {
    /// Calls an operation. The future is dropped if the step's time limit passes or its attempt is cancelled.
    ///
    /// # Errors
    /// The class of the failure is what a step's `retry.on` names: `network`, `http_5xx`…
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome>;

    /// Whether the operation is idempotent, possibly because the service recognises its idempotency key. Only then it
    /// is called again after the process ended during a call. A step may override this.
    fn is_safe(&self, catalog: &str, operation: &str) -> bool;

    /// Whether a catalog of this name exists and is enabled. A step whose catalog is not available waits for it.
    fn has_catalog(&self, catalog: &str) -> bool;
}

/// A call of an operation.
#[derive(Clone)]
pub struct OperationCall {
    /// The catalog.
    pub catalog: String,
    /// The operation.
    pub operation: String,
    /// Its arguments: an object, or null if there are none.
    pub with: Value,
    /// Its body.
    pub body: Option<Value>,
    /// The names of the secrets that its arguments and its body contain.
    pub secrets: Vec<String>,
    /// The limit of pages, if the step asks for all pages of a list.
    pub paginate: Option<PaginateOptions>,
    /// The page of the list to fetch; `None` for the first one.
    pub cursor: Option<PageCursor>,
    /// Whether the output is the whole response, with status and headers, instead of the payload alone.
    pub whole: bool,
    /// How long it may take. The caller enforces this limit as well.
    pub timeout: Option<Duration>,
    /// The idempotency key: 64 hexadecimal digits, the same for every attempt of a visit and different for any other
    /// visit.
    pub idempotency_key: String,
    /// Whether the operation is idempotent, if the step declares it.
    pub is_idempotent: Option<bool>,
}

/// Leaves out the arguments and the body, because they contain secrets.
impl fmt::Debug for OperationCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationCall({} {})", self.catalog, self.operation)
    }
}

/// An implementation without any catalog.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOperations;

impl Operations for NoOperations {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        let (catalog, operation) = (call.catalog, call.operation);
        let message = format!(
            "there is no catalog '{catalog}' here, so its operation '{operation}' cannot be called"
        );
        let failure = OperationFailure::new("not_found", message);
        Box::pin(async { Err(failure.with_code(FailureCode::OperationNotFound)) })
    }

    fn is_safe(&self, _: &str, _: &str) -> bool {
        false
    }

    /// True, so that steps do not wait for a catalog that will never be added: their calls fail at once.
    fn has_catalog(&self, _: &str) -> bool {
        true
    }
}
