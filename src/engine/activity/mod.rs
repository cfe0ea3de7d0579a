//! Activities: work in this process that an `activity` step of a workflow names. The engine runs it with the retries
//! and time limits that the step declares.

mod handle;
mod middleware;
mod node;
mod typed;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::handle::{AttemptHandle, AttemptHost};
pub use self::{
    middleware::{Middleware, NextRun},
    node::{Node, NodeActivity, node},
    typed::{TypedActivity, activity},
};
pub use midex_domain::definition::RetryPolicy;
pub use midex_domain::operation::BoxFuture;
use midex_domain::{
    ExecutionId, StepId, WorkflowName,
    clock::Timestamp,
    error::{Error, Result, Violation, format_count},
    execution::OperationFailure,
    schema::Schema,
};

/// The class of the failure if the input of an activity breaks its schema.
const INPUT_INVALID: &str = "input_invalid";
/// The class of the failure if the output of an activity breaks its schema.
const OUTPUT_INVALID: &str = "output_invalid";

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

    /// The description of the MCP tool that calls this activity, which has its name; `None` for an activity that is no tool. Each
    /// call is an execution of one step.
    fn tool_description(&self) -> Option<&str> {
        None
    }

    /// The time limit of an attempt whose step has no `timeout`.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// The retries of a step that has no `retry`.
    fn retry(&self) -> Option<RetryPolicy> {
        None
    }

    /// The JSON Schema of the input. `None`: any value. The `with` of a step is checked when its file is read, and the
    /// input before each run: if it breaks the schema, the attempt fails with the class `input_invalid`.
    fn input_schema(&self) -> Option<Value> {
        None
    }

    /// The JSON Schema of the output. `None`: any value. If the output of a run breaks it, the attempt fails with the class
    /// `output_invalid`.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Runs the activity. The future is dropped at its next await once the step's time is up or the outcome is no
    /// longer needed. Work that it passed to another task or thread must watch [`Context::cancelled`]. A panic is a
    /// failure of class `panic`.
    ///
    /// # Errors
    /// The class of the failure is what a step's `retry.on` names.
    fn run(&self, context: Context) -> BoxFuture<'_, Outcome>;

    /// Called once the output of an attempt is recorded. Like the other two, it is for notes, figures and messages: it
    /// changes nothing in the execution, `context.input` is null, a panic is logged, it is dropped after
    /// [`midex_domain::limits::ACTIVITY_HOOK_MAX`], and it is not called again if the process ends before.
    fn on_success<'a>(&'a self, _context: &'a Context, _output: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called once the failure of an attempt is recorded: see [`Activity::on_success`].
    fn on_failure<'a>(
        &'a self,
        _context: &'a Context,
        _failure: &'a OperationFailure,
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called after either of them: see [`Activity::on_success`].
    fn on_complete<'a>(&'a self, _context: &'a Context) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The arguments of one run of an activity.
#[derive(Clone, Debug)]
pub struct Context {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// When it was started.
    pub started_at: Timestamp,
    /// The step.
    pub step: StepId,
    /// The place of the step among all steps of the workflow, from 1.
    pub step_number: usize,
    /// How many steps the workflow has.
    pub step_count: usize,
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
    /// The time limit of the attempt, if the step has one.
    pub timeout: Option<Duration>,
    /// Cancelled once the attempt is over, or its outcome is no longer needed.
    pub cancelled: CancellationToken,
    pub(crate) handle: AttemptHandle,
}

/// The activities of a process, by name. Cheap to clone.
#[derive(Clone, Default)]
pub struct Activities(Arc<BTreeMap<String, Arc<RegisteredActivity>>>);

/// An activity with its schemas.
pub(crate) struct RegisteredActivity {
    activity: Arc<dyn Activity>,
    /// The schema of its input, and the same compiled.
    input: Option<(Value, Schema)>,
    output: Option<(Value, Schema)>,
}

impl RegisteredActivity {
    fn new(activity: Arc<dyn Activity>) -> Result<Self> {
        let compile = |schema: &Value, subject| {
            Schema::compile(schema).map_err(|problem| {
                let name = activity.name();
                Error::internal(format!(
                    "the schema of the {subject} of activity '{name}': {problem}"
                ))
            })
        };
        let with_compiled = |schema: Option<Value>, subject| {
            let pair = schema.map(|schema| Ok((compile(&schema, subject)?, schema)));
            pair.map(|pair: Result<_>| pair.map(|(compiled, schema)| (schema, compiled)))
                .transpose()
        };
        Ok(Self {
            input: with_compiled(activity.input_schema(), "input")?,
            output: with_compiled(activity.output_schema(), "output")?,
            activity,
        })
    }

    pub(crate) fn activity(&self) -> &dyn Activity {
        &*self.activity
    }

    /// Runs the activity inside of the middleware. The input is checked before, and the output after.
    pub(crate) async fn run(
        &self,
        middleware: &[Arc<dyn Middleware>],
        context: Context,
    ) -> Outcome {
        if let Some((_, schema)) = &self.input {
            let violations = schema.find_violations_named(&context.input, "the input");
            self.check_violations(INPUT_INVALID, "input", &violations)?;
        }
        let output = NextRun::new(middleware, &*self.activity).run(context).await?;
        if let Some((_, schema)) = &self.output {
            let violations = schema.find_violations_named(&output, "the output");
            self.check_violations(OUTPUT_INVALID, "output", &violations)?;
        }
        Ok(output)
    }

    fn check_violations(
        &self,
        class: &str,
        subject: &str,
        violations: &[Violation],
    ) -> std::result::Result<(), OperationFailure> {
        let Some(first) = violations.first() else {
            return Ok(());
        };
        let (name, count) = (self.activity.name(), format_count(violations.len(), "place"));
        let Violation { path, message, .. } = first;
        let message = format!(
            "the {subject} of activity '{name}' breaks its schema in {count}, first at '{path}': {message}"
        );
        Err(OperationFailure::new(class, message))
    }
}

impl Activities {
    /// Adds `activity`.
    ///
    /// # Errors
    /// `INTERNAL` if there is an activity of that name already, since a step could not tell the two apart, or if a schema of
    /// the activity is none.
    pub fn with_activity(mut self, activity: impl Activity + 'static) -> Result<Self> {
        let name = activity.name().to_owned();
        if self.0.contains_key(&name) {
            return Err(Error::internal(format!(
                "there are two activities with the name '{name}'"
            )));
        }
        let registered = RegisteredActivity::new(Arc::new(activity))?;
        Arc::make_mut(&mut self.0).insert(name, Arc::new(registered));
        Ok(self)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&RegisteredActivity> {
        self.0.get(name).map(|registered| &**registered)
    }

    /// The places where an input breaks the schema of an activity. None if the activity declares no schema.
    pub fn find_input_violations(&self, name: &str, input: &Value) -> Vec<Violation> {
        let schema = self.find(name).and_then(|registered| registered.input.as_ref());
        schema.map_or_else(Vec::new, |(_, schema)| schema.find_violations(input))
    }

    /// The schemas of the inputs, by the name of the activity.
    pub fn input_schemas(&self) -> BTreeMap<String, Value> {
        let schemas = self.0.iter().filter_map(|(name, registered)| {
            Some((name.clone(), registered.input.as_ref()?.0.clone()))
        });
        schemas.collect()
    }

    /// The schema of the output of an activity, if it declares one.
    pub fn output_schema(&self, name: &str) -> Option<&Value> {
        self.find(name)?.output.as_ref().map(|(schema, _)| schema)
    }

    /// The activities that are offered as tools: the name and the description of each.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, registered)| {
            Some((name.as_str(), registered.activity.tool_description()?))
        })
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
