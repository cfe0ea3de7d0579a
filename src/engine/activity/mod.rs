//! Work of this process's own that a workflow may ask for: an `activity` step names one. The engine runs it, with
//! retries and time limits as the step declares them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use midex_domain::operation::BoxFuture;
use midex_domain::{
    ExecutionId, StepId,
    error::{Error, Result},
    execution::OperationFailure,
};

/// What an activity comes to.
pub type Outcome = std::result::Result<Value, OperationFailure>;

/// Work that a step names. It may be begun in many executions at once.
pub trait Activity: Send + Sync {
    /// The name by which steps ask for it.
    fn name(&self) -> &str;

    /// Whether doing it twice is doing it once. Only then it is begun again where the process ended in the midst of it;
    /// of any other the execution pauses, with the reason `outcome_unknown`. A step may say otherwise.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Does it. The future is dropped at its next await where the step's time is up or nobody waits for the outcome any
    /// more; work that it handed to somebody else watches [`Context::cancelled`]. A panic is a failure of class `panic`.
    ///
    /// # Errors
    /// The class of the failure is what a step's `retry.on` names.
    fn run(&self, context: Context) -> BoxFuture<'_, Outcome>;
}

/// What an activity is begun with.
#[derive(Clone, Debug)]
pub struct Context {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The step.
    pub step: StepId,
    /// Which visit of the step, from 1.
    pub visit: u32,
    /// Which item of a `foreach`, from 0.
    pub item: Option<u32>,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
    /// The step's `with`; where it has none, what the steps before it brought, or the inputs of the execution.
    pub input: Value,
    /// The same for every attempt of a visit, and of no other: whoever is asked to do something may know by it that it
    /// was asked before. 64 hexadecimal digits.
    pub idempotency_key: String,
    /// Cancelled as soon as nobody waits for the outcome any more.
    pub cancelled: CancellationToken,
}

/// The activities that there are, each under its name. Cheap to clone.
#[derive(Clone, Default)]
pub struct Activities(Arc<BTreeMap<String, Arc<dyn Activity>>>);

impl Activities {
    /// These and `activity`.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` where there is one of that name: which one a step means could not be told.
    pub fn with(mut self, activity: impl Activity + 'static) -> Result<Self> {
        let name = activity.name().to_owned();
        if self.0.contains_key(&name) {
            return Err(Error::internal(format!(
                "there are two activities with the name '{name}'"
            )));
        }
        Arc::make_mut(&mut self.0).insert(name, Arc::new(activity));
        Ok(self)
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Activity>> {
        self.0.get(name)
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// An activity that is a function.
pub struct Function<F> {
    name: String,
    is_idempotent: bool,
    run: F,
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name)
    }
}

/// An activity with this name that does what `run` does.
pub fn function<F, R>(name: impl Into<String>, run: F) -> Function<F>
where
    F: Fn(Context) -> R + Send + Sync,
    R: Future<Output = Outcome> + Send + 'static,
{
    Function {
        name: name.into(),
        is_idempotent: false,
        run,
    }
}

impl<F> Function<F> {
    /// The same, where doing it twice is doing it once.
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self {
            is_idempotent: true,
            ..self
        }
    }
}

impl<F, R> Activity for Function<F>
where
    F: Fn(Context) -> R + Send + Sync,
    R: Future<Output = Outcome> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn run(&self, context: Context) -> BoxFuture<'_, Outcome> {
        Box::pin((self.run)(context))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_of_one_name_are_refused() {
        let one = || function("send", |_| async { Ok(json!(1)) });
        let activities = Activities::default().with(one()).expect("the first");
        let error = activities.clone().with(one()).expect_err("the second");
        assert!(error.message().contains("'send'"), "{}", error.message());
        assert_eq!(activities.names().collect::<Vec<_>>(), ["send"]);
    }
}
