//! Activities: work in this process that an `activity` step of a workflow names. The engine runs it with the retries
//! and time limits that the step declares.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use midex_domain::operation::BoxFuture;
use midex_domain::{
    ExecutionId, StepId,
    error::{Error, Result},
    execution::OperationFailure,
};

/// The outcome of an activity.
pub type Outcome = std::result::Result<Value, OperationFailure>;

/// Work that a step can name. It may run for many executions at once.
pub trait Activity: Send + Sync {
    /// The name by which steps ask for it.
    fn name(&self) -> &str;

    /// Whether running the activity twice has the effect of running it once. Only then it is started again if the
    /// process ended while it ran. For any other activity the execution pauses, with the reason `outcome_unknown`. A
    /// step may override this.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Runs the activity. The future is dropped at its next await once the step's time is up or the outcome is no
    /// longer needed. Work that it passed to another task or thread must watch [`Context::cancelled`]. A panic is a
    /// failure of class `panic`.
    ///
    /// # Errors
    /// The class of the failure is what a step's `retry.on` names.
    fn run(&self, context: Context) -> BoxFuture<'_, Outcome>;
}

/// The arguments of one run of an activity.
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
    /// The step's `with`. If it has none: the output of the steps before it, or the inputs of the execution.
    pub input: Value,
    /// The same for every attempt of a visit, and different for every other visit, so that an external service can
    /// recognise a repeated request. 64 hexadecimal digits.
    pub idempotency_key: String,
    /// Cancelled once the attempt is over, or its outcome is no longer needed.
    pub cancelled: CancellationToken,
}

/// The activities of a process, by name. Cheap to clone.
#[derive(Clone, Default)]
pub struct Activities(Arc<BTreeMap<String, Arc<dyn Activity>>>);

impl Activities {
    /// Adds `activity`.
    ///
    /// # Errors
    /// `INTERNAL` if there is an activity of that name already: a step could not tell the two apart.
    pub fn with_activity(mut self, activity: impl Activity + 'static) -> Result<Self> {
        let name = activity.name().to_owned();
        if self.0.contains_key(&name) {
            return Err(Error::internal(format!(
                "there are two activities with the name '{name}'"
            )));
        }
        Arc::make_mut(&mut self.0).insert(name, Arc::new(activity));
        Ok(self)
    }

    /// The activity of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Activity>> {
        self.0.get(name)
    }

    /// The names of the activities, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// An activity made from a function.
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

/// Makes an activity with this name from the function `run`.
pub fn function<F, R>(name: impl Into<String>, run: F) -> Function<F>
where
    F: Fn(Context) -> R + Send + Sync,
    R: Future<Output = Outcome> + Send + 'static,
{
    Function { name: name.into(), is_idempotent: false, run }
}

impl<F> Function<F> {
    /// Declares that running the activity twice has the effect of running it once.
    #[must_use]
    pub fn as_idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
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
    fn two_activities_of_one_name_are_refused() {
        let one = || function("send", |_| async { Ok(json!(1)) });
        let activities = Activities::default().with_activity(one()).expect("the first");
        let error = activities.clone().with_activity(one()).expect_err("the second");
        assert!(error.message().contains("'send'"), "{}", error.message());
        assert_eq!(activities.names().collect::<Vec<_>>(), ["send"]);
    }
}
