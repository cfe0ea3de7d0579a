//! A tool of a workflow, and the schemas of its arguments.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{parse_arguments, schemas::input_schema};
use midex_domain::{
    Definition,
    definition::ExposedAction,
    error::{Code, Error, Result},
    execution::Report,
    schema::Schema,
};

/// A tool of a workflow, found by its name.
#[derive(Clone, Debug)]
pub(crate) struct ExposedTool {
    pub(super) name: String,
    pub(super) definition: Arc<Definition>,
    pub(crate) action: ExposedAction,
}

impl ExposedTool {
    /// Whether a call changes nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        !matches!(
            self.action,
            ExposedAction::Start | ExposedAction::Continue | ExposedAction::Orchestrate
        )
    }

    /// The name of the tool.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Why a step has no result.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ReportedError {
    #[schemars(length(min = 1))]
    message: String,
    code: Option<String>,
    retryable: Option<bool>,
}

/// The report that a call hands in; `None` for a call that only reads. `field` is the argument that takes a result.
///
/// # Errors
/// `ARGUMENTS_INVALID` if the call has a result and an error.
pub(super) fn build_report(
    field: &str,
    result: Option<Value>,
    error: Option<ReportedError>,
) -> Result<Option<Report>> {
    match (result, error) {
        (Some(_), Some(_)) => {
            let message = format!("`{field}` and `error` exclude each other");
            Err(Error::new(Code::ArgumentsInvalid, message))
        }
        (result, None) => Ok(result.map(Report::Output)),
        (None, Some(ReportedError { message, code, retryable })) => {
            Ok(Some(Report::Error { message, code, retryable }))
        }
    }
}

/// The schema of the arguments of a tool.
pub(super) struct ArgumentsSchema {
    pub(super) json: Value,
    compiled: Schema,
}

impl ArgumentsSchema {
    pub(super) fn new<A: JsonSchema>() -> Self {
        let json = input_schema::<A>();
        let compiled = Schema::compile(&json).expect("the schema is derived from a type");
        Self { json, compiled }
    }

    /// Checks and reads the arguments of the tool of this name.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID`.
    pub(super) fn parse<A: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<A> {
        let violations = self.compiled.find_violations(&Value::Object(arguments.clone()));
        if !violations.is_empty() {
            return Err(Error::invalid_arguments(tool, violations));
        }
        parse_arguments(arguments)
    }
}
