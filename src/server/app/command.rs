//! Commands: the operations of catalogs, and workflows that are run like operations. A call of an operation is an
//! execution with one step, so it is journaled and recovered like any other.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{App, ExecutionTurn};
use midex_catalog::{CatalogOperation, CatalogSet, OperationMatch};
use midex_domain::{
    Definition, ExecutionId, OperationClass, StepId, StepKind,
    check::{OperationLookup, OperationLookupResult},
    definition::{PaginateOptions, Step, Workflow},
    error::{Code, Error, NextCall, Result, call_tool, repeat_call},
    limits,
    nearest::find_nearest,
    span::HumanDuration,
};
use midex_engine::StartRequest;

/// The arguments of a command to run.
#[derive(Clone, Debug)]
pub struct CommandCall {
    /// The parameters, by name.
    pub with: Map<String, Value>,
    /// The request body.
    pub body: Option<Value>,
    /// The timeout of one attempt.
    pub timeout: Option<Duration>,
    /// How many pages of a list to gather. `None` for a single request.
    pub pages: Option<u32>,
}

/// The target of a command id.
#[derive(Clone, Debug)]
pub enum CommandTarget {
    /// An operation of a catalog.
    Operation(CatalogOperation),
    /// A workflow.
    Workflow(String),
}

/// The first word of the command id of a workflow.
pub const WORKFLOW_PREFIX: &str = "workflow";

impl App {
    /// Resolves a command id to its target and safety class.
    ///
    /// # Errors
    /// `COMMAND_NOT_FOUND` with the nearest id; `CATALOG_MISSING` if its catalog is disabled.
    pub async fn resolve_command(&self, id: &str) -> Result<(CommandTarget, OperationClass)> {
        let words: Vec<_> = id.split_whitespace().collect();
        let Some((first, rest)) = words.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return Err(command_not_found_error(id, None));
        };
        let rest = rest.join(" ");
        if *first == WORKFLOW_PREFIX {
            let class = self.with_registry(move |registry| {
                let definition = registry.definition(&rest)?;
                Ok((
                    CommandTarget::Workflow(rest.clone()),
                    compute_workflow_class(
                        &definition.workflow,
                        registry.abilities().operation_lookup(),
                    ),
                ))
            });
            return class.await?;
        }
        let set = self.catalog_set().await?;
        match set.resolve_operation(first, &rest) {
            OperationMatch::Operation(named) => {
                let class = named.class();
                Ok((CommandTarget::Operation(named), class))
            }
            OperationMatch::Disabled => {
                let message = format!("the catalog of `{id}` is disabled or cannot be used");
                let error = Error::new(Code::CommandNotFound, message);
                Err(error.with_context("catalog_id", *first).with_next(ENABLE_CATALOG_CALL))
            }
            OperationMatch::Several(ids) => {
                let near = format!("{} {rest}", ids[0]);
                let message = format!("several catalogs have it: {}", ids.join(", "));
                Err(command_not_found_error(id, Some(near))
                    .with_message(format!("`{id}` is not one command: {message}")))
            }
            OperationMatch::NoOperation(near) => {
                Err(command_not_found_error(id, near.map(|near| format!("{first} {near}"))))
            }
            OperationMatch::NoCatalog(_) => {
                Err(command_not_found_error(id, find_nearest_command(&set, id)))
            }
        }
    }

    /// Checks before the start whether a call could be sent, so that a call that cannot is never journaled.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` with every violation; `ADDRESS_REFUSED` if the catalog has no address, or one that is not
    /// allowed.
    pub async fn check_operation_call(
        &self,
        id: &str,
        operation: &CatalogOperation,
        call: &CommandCall,
    ) -> Result<()> {
        let (id, named, call) = (id.to_owned(), operation.clone(), call.clone());
        self.with_catalogs(move |catalogs| {
            let catalog = &named.catalog;
            let (Ok(prepared), Ok(target)) =
                (catalog.prepare_operation(named.index), catalog.call_target())
            else {
                // The catalog itself is broken: the call reports that.
                return Ok(());
            };
            let (with, body) = (Value::Object(call.with), call.body.as_ref());
            let caller = catalogs.caller();
            let admission = caller.check_call(&id, (&prepared, &target), &with, body);
            admission.map_err(|error| {
                error
                    .with_context("command", id.as_str())
                    .with_context("catalog_id", catalog.id.as_str())
            })
        })
        .await
    }

    /// Calls an operation. Returns the state of its execution when it has ended, or after `timeout`.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the arguments are too large, and the errors of a start.
    pub async fn call_operation(
        &self,
        id: &str,
        call: CommandCall,
        timeout: Duration,
    ) -> Result<ExecutionTurn> {
        let (definition, inputs) = build_call_definition(id, &call)?;
        let request = StartRequest {
            project: Some(self.commands_project()),
            inputs: Some(inputs),
            ..StartRequest::new(Arc::new(definition))
        };
        let execution = self.engine().await?.start(request).await?;
        self.turn(&ExecutionId::parse(&execution.execution_id)?, timeout).await
    }

    /// Adds to an authentication failure (the service rejected the credentials) the credential that the user has to
    /// set.
    pub async fn add_credential_hint(&self, id: &str, error: Error) -> Error {
        let Ok((CommandTarget::Operation(catalog_operation), _)) = self.resolve_command(id).await
        else {
            return error;
        };
        let (catalog, operation) = (
            catalog_operation.catalog.clone(),
            catalog_operation.catalog.read_operation(catalog_operation.index),
        );
        let missing_credential =
            operation.ok().and_then(|one| catalog.find_missing_credential(&one));
        let error = error.with_context("catalog_id", catalog.id.as_str());
        match missing_credential {
            Some(scheme) => error.with_context("scheme", scheme).with_next(SET_CREDENTIAL_CALL),
            None => error,
        }
    }

    /// How many attempts a call has taken: one, plus one for each further page and one for each retry after a crash.
    ///
    /// # Errors
    /// The errors of reading its history.
    pub async fn count_attempts(&self, execution_id: &str) -> Result<u32> {
        let id = ExecutionId::parse(execution_id)?;
        let rows = self.engine().await?.history(&id).await?;
        Ok(rows.iter().map(|row| row.attempt).max().unwrap_or_default())
    }
}

/// Suggests that the user sets the missing credential in a terminal.
const SET_CREDENTIAL_CALL: NextCall = repeat_call("once the user has done that").after_person_does(
    "run `midex catalog credential {catalog_id} {scheme} '${env:NAME}'` in a terminal, with the name of the secret",
);

/// Builds the one-step definition of a call, and the inputs to start it with. The caller's values are passed as inputs,
/// so an expression in them is not evaluated.
fn build_call_definition(id: &str, call: &CommandCall) -> Result<(Definition, Value)> {
    let (catalog, operation) = id.split_once(' ').unwrap_or((id, ""));
    let values: Vec<_> = call.with.values().cloned().collect();
    let indexed_keys = call.with.keys().enumerate();
    let with = indexed_keys
        .map(|(at, name)| (name.clone(), json!(format!("${{{{ inputs.with[{at}] }}}}"))));
    let kind = StepKind::Run {
        catalog: catalog.to_owned(),
        operation: operation.to_owned(),
        body: call.body.as_ref().map(|_| json!("${{ inputs.body }}")),
        idempotent: None,
        paginate: call.pages.map(|max_pages| PaginateOptions { max_pages: Some(max_pages) }),
        whole: true,
    };
    let step = Step {
        with: Some(with.collect()),
        timeout: call.timeout.map(HumanDuration::from_duration),
        ..Step::new(StepId::parse(CALL_STEP_ID)?, kind)
    };
    let name = format!("{catalog}.{operation}").replace(|sign: char| !is_name_char(sign), ".");
    let workflow = json!({
        "name": &name[..name.floor_char_boundary(limits::WORKFLOW_NAME_BYTES_MAX)],
        "description": format!("A call of `{id}`"),
        "steps": [step],
        "final_output": format!("${{{{ steps.{CALL_STEP_ID} }}}}"),
    });
    let text = json!({ "workflow": workflow, "personas": {} }).to_string();
    let definition = Definition::decode(text.as_bytes())?;
    Ok((definition, json!({ "with": values, "body": call.body })))
}

/// Whether a workflow name may contain this character.
fn is_name_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-".contains(character)
}

/// The id of the one step of a call.
const CALL_STEP_ID: &str = "call";

/// The class of a workflow: the strictest class of its operations, and at least [`OperationClass::Standard`], since it starts an
/// execution.
pub fn compute_workflow_class(
    workflow: &Workflow,
    commands: Option<&dyn OperationLookup>,
) -> OperationClass {
    let classes = workflow.operation_calls().filter_map(|(_, catalog, operation)| match commands?
        .find_operation(catalog, operation)
    {
        OperationLookupResult::Operation(callable) => Some(callable.class),
        _ => None,
    });
    classes.fold(OperationClass::Standard, OperationClass::max)
}

/// Suggests enabling the catalog.
const ENABLE_CATALOG_CALL: NextCall = call_tool(
    "catalog.set_enabled",
    &[("catalog_id", "{catalog_id}"), ("enabled", "true")],
    "if your user wants it",
);

/// Suggests the same call with the nearest command id.
const NEAREST_COMMAND_CALL: NextCall =
    repeat_call("if that is the one meant").with_arguments(&[("id", "{nearest}")]);

fn command_not_found_error(id: &str, near: Option<String>) -> Error {
    let short_id: String = id.chars().take(limits::WORKFLOW_NAME_BYTES_MAX).collect();
    let hint = near.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let message = format!("there is no command `{short_id}`{hint}");
    let error = Error::new(Code::CommandNotFound, message).with_context("words", short_id);
    match near {
        Some(near) => error.with_context("nearest", near).with_next(NEAREST_COMMAND_CALL),
        None => error,
    }
}

fn find_nearest_command(set: &CatalogSet, id: &str) -> Option<String> {
    let ids: Vec<_> = set.search_operations(id, limits::NEAREST_COMMANDS_MAX, |_| true);
    let ids: Vec<_> = ids.iter().map(|named| set.operation_id(named)).collect();
    find_nearest(id, ids.iter().map(String::as_str)).map(str::to_owned)
}
