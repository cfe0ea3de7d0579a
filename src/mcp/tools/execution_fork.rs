//! `execution.{fork,retry,rewind,diff}`: forks, retries, rewinds and comparisons of executions.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{parse_execution_id, serialize_view};
use midex_domain::{
    StepId,
    error::{Error, Result},
    execution::{PastValues, RewindRequest},
    limits,
    view::{DiffView, RewindView},
};
use midex_server::app::{App, ForkRequest};

// The definition that a fork follows: that of the execution, or the present file. Without a doc comment, which `tools/list`
// would show.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ForkDefinition {
    #[default]
    Pinned,
    Current,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RetryArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    /// To begin earlier
    #[schemars(length(min = 1, max = limits::STEP_ID_BYTES_MAX))]
    from_step: Option<String>,
    #[serde(default)]
    definition: ForkDefinition,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ForkToolArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    #[schemars(length(min = 1, max = limits::STEP_ID_BYTES_MAX))]
    from_step: Option<String>,
    #[schemars(range(min = 1))]
    revision: Option<u64>,
    inputs: Option<Map<String, Value>>,
    memory: Option<Map<String, Value>>,
    #[serde(default)]
    definition: ForkDefinition,
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    new_execution_id: Option<String>,
    dry_run: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RewindArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    #[schemars(length(min = 1, max = limits::STEP_ID_BYTES_MAX))]
    to_step: String,
    #[schemars(length(min = 1, max = limits::REASON_CHARS_MAX))]
    reason: Option<String>,
    compensate: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DiffArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    a: String,
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    b: String,
    /// The `next_offset`
    offset: Option<usize>,
}

pub(super) async fn retry(app: &App, arguments: RetryArguments) -> Result<Value> {
    let (request, is_current) = read_retry(arguments)?;
    fork_and_reply(app, request, is_current).await
}

/// Like [`retry`], for a person, who may repeat work whose outcome is unknown.
pub(super) async fn retry_unknown(app: &App, arguments: RetryArguments) -> Result<Value> {
    let (request, is_current) = read_retry(arguments)?;
    let request = ForkRequest { repeats_unknown: true, ..request };
    fork_and_reply(app, request, is_current).await
}

fn read_retry(arguments: RetryArguments) -> Result<(ForkRequest, bool)> {
    let RetryArguments { execution_id, from_step, definition } = arguments;
    let request = ForkRequest {
        from_step: parse_step("from_step", from_step.as_deref())?,
        is_retry: true,
        ..ForkRequest::new(parse_execution_id(&execution_id)?)
    };
    Ok((request, definition.is_current()))
}

pub(super) async fn fork(app: &App, arguments: ForkToolArguments) -> Result<Value> {
    fork_or_plan(app, arguments, false).await
}

/// Like [`fork`], for a person, who may repeat work whose outcome is unknown.
pub(super) async fn fork_unknown(app: &App, arguments: ForkToolArguments) -> Result<Value> {
    fork_or_plan(app, arguments, true).await
}

async fn fork_or_plan(
    app: &App,
    arguments: ForkToolArguments,
    repeats_unknown: bool,
) -> Result<Value> {
    let id = arguments.new_execution_id.as_deref().map(parse_execution_id);
    let request = ForkRequest {
        from_step: parse_step("from_step", arguments.from_step.as_deref())?,
        revision: arguments.revision,
        inputs: arguments.inputs.unwrap_or_default(),
        memory: arguments.memory.unwrap_or_default(),
        new_execution_id: id.transpose()?,
        repeats_unknown,
        ..ForkRequest::new(parse_execution_id(&arguments.execution_id)?)
    };
    let is_current = arguments.definition.is_current();
    if arguments.dry_run != Some(true) {
        return fork_and_reply(app, request, is_current).await;
    }
    let id = request.execution_id.clone();
    let plan = app.plan_fork(request, is_current).await?;
    let violations = plan.violations().len();
    let mut answer = serialize_view(&plan)?;
    answer["success"] = json!(true);
    answer["execution_id"] = json!(id);
    answer["message"] = json!(match violations {
        0 => format!("Nothing was done: this is what a fork of '{id}' does with each step"),
        _ => format!("A fork of '{id}' would be refused: stored outputs break the current file"),
    });
    Ok(answer)
}

async fn fork_and_reply(app: &App, request: ForkRequest, is_current: bool) -> Result<Value> {
    let source = request.execution_id.clone();
    let (fork, mut reply) = app.fork(request, is_current).await?;
    reply.message = if reply.replayed {
        format!(
            "Execution '{}' continues '{source}' already. {}",
            reply.execution_id, reply.message
        )
    } else {
        let summary = fork.summary();
        format!(
            "Execution '{}' continues '{source}' ({summary}). {}",
            reply.execution_id, reply.message
        )
    };
    let mut answer = serialize_view(&reply)?;
    answer["fork"] = serialize_view(&fork)?;
    Ok(answer)
}

pub(super) async fn diff(app: &App, arguments: DiffArguments) -> Result<DiffView> {
    let DiffArguments { a, b, offset } = arguments;
    // Both histories may be large.
    let _turn = app.acquire_large_read().await;
    app.diff(&parse_execution_id(&a)?, &parse_execution_id(&b)?, offset.unwrap_or_default()).await
}

pub(super) async fn rewind(app: &App, arguments: RewindArguments) -> Result<RewindView> {
    let to_step = parse_step("to_step", Some(&arguments.to_step))?;
    let request = RewindRequest {
        to_step: to_step.ok_or_else(|| Error::argument_rule("/to_step", "required", "a step"))?,
        reason: arguments.reason,
        compensates: arguments.compensate.unwrap_or_default(),
        past: PastValues::default(),
    };
    app.rewind(&parse_execution_id(&arguments.execution_id)?, request).await
}

impl ForkDefinition {
    const fn is_current(self) -> bool {
        matches!(self, Self::Current)
    }
}

/// Parses the id of a step. Items of a `foreach` and hooks cannot be named: the step is done again as a whole.
fn parse_step(argument: &str, text: Option<&str>) -> Result<Option<StepId>> {
    let step = text.map(|text| {
        StepId::parse(text).map_err(|error| {
            let message = format!(
                "{}; name the step alone: a `foreach` is done again with all its items",
                error.message()
            );
            Error::argument_rule(&format!("/{argument}"), "format", &message)
        })
    });
    step.transpose()
}
