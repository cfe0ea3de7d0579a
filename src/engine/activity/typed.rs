//! Activities whose input and output are Rust types.

use std::{any::type_name, fmt, marker::PhantomData, time::Duration};

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Activity, BoxFuture, Context, Outcome, RetryPolicy};
use midex_domain::execution::OperationFailure;

/// An activity made by [`activity`].
pub struct TypedActivity<I, O, F> {
    name: String,
    is_idempotent: bool,
    timeout: Option<Duration>,
    retry: Option<RetryPolicy>,
    tool_description: Option<String>,
    run: F,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O, F> fmt::Debug for TypedActivity<I, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, output) = (type_name::<I>(), type_name::<O>());
        write!(f, "TypedActivity({}: {input} -> {output})", self.name)
    }
}

/// Makes an activity with this name from the function `run`. The schemas of its input and output are those of the types:
/// the `with` of a step is checked when its file is read, the input before each run, and the output after it.
pub fn activity<I, O, F, R>(name: impl Into<String>, run: F) -> TypedActivity<I, O, F>
where
    I: DeserializeOwned + JsonSchema,
    O: Serialize + JsonSchema,
    F: Fn(Context, I) -> R + Send + Sync,
    R: Future<Output = Result<O, OperationFailure>> + Send + 'static,
{
    TypedActivity {
        name: name.into(),
        is_idempotent: false,
        timeout: None,
        retry: None,
        tool_description: None,
        run,
        types: PhantomData,
    }
}

impl<I, O, F> TypedActivity<I, O, F> {
    /// Declares that running the activity twice has the effect of running it once.
    #[must_use]
    pub fn as_idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    /// Sets the time limit of an attempt whose step has no `timeout`.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Offers the activity as an MCP tool of the same name, with this description.
    #[must_use]
    pub fn as_tool(self, description: impl Into<String>) -> Self {
        Self { tool_description: Some(description.into()), ..self }
    }

    /// Sets the retries of a step that has no `retry`.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry: Some(retry), ..self }
    }
}

impl<I, O, F, R> Activity for TypedActivity<I, O, F>
where
    I: DeserializeOwned + JsonSchema,
    O: Serialize + JsonSchema,
    F: Fn(Context, I) -> R + Send + Sync,
    R: Future<Output = Result<O, OperationFailure>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn tool_description(&self) -> Option<&str> {
        self.tool_description.as_deref()
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn retry(&self) -> Option<RetryPolicy> {
        self.retry.clone()
    }

    fn input_schema(&self) -> Option<Value> {
        Some(build_schema::<I>(SchemaSettings::draft2020_12()))
    }

    fn output_schema(&self) -> Option<Value> {
        Some(build_schema::<O>(SchemaSettings::draft2020_12().for_serialize()))
    }

    fn run(&self, mut context: Context) -> BoxFuture<'_, Outcome> {
        let input = match serde_json::from_value(context.input.take()) {
            Ok(input) => input,
            Err(error) => {
                let message =
                    format!("the input of activity '{}' is not valid: {error}", self.name);
                let failure = OperationFailure::new(super::INPUT_INVALID, message);
                return Box::pin(std::future::ready(Err(failure)));
            }
        };
        let run = (self.run)(context, input);
        Box::pin(async move {
            serde_json::to_value(run.await?).map_err(|error| {
                let message = format!("the output is no JSON: {error}");
                OperationFailure::new(super::OUTPUT_INVALID, message)
            })
        })
    }
}

fn build_schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value()
}
