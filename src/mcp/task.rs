//! An execution as an MCP task. Nothing of a task is stored: it is a view of the execution whose id it has.

use std::time::Duration;

use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, InputRequests, MetaObject, Task,
    TaskPayload, TaskStatus,
};
use serde_json::{Value, json};

use midex_domain::{
    State,
    clock::Timestamp,
    error::{Error, Result, format_count},
    limits,
    state::Vocabulary,
    view::{StatusView, WaitView},
};
use midex_server::app::{ExecutionTurn, Turn};

/// A task with the metadata that describes the run.
#[derive(Debug)]
pub(super) struct TaskReading {
    task: DetailedTask,
    meta: MetaObject,
}

impl TaskReading {
    /// The task of a run whose end, or first turn of a model, has come.
    pub(super) fn completed(status: &StatusView, result: &CallToolResult) -> Result<Self> {
        let to_error = |error| Error::internal("a result cannot be shown").with_source(error);
        let payload = match serde_json::to_value(result).map_err(to_error)? {
            Value::Object(result) => TaskPayload::Completed { result },
            _ => return Err(Error::internal("a result is no object")),
        };
        Ok(Self::new(status, payload, None, None))
    }

    /// The task of a run that goes on, or was abandoned before a model had a turn.
    /// `input_requests` is what the client can be asked for.
    pub(super) fn open(turn: ExecutionTurn, input_requests: InputRequests, now: Timestamp) -> Self {
        let ExecutionTurn { status, turn } = turn;
        match turn {
            Turn::Ended => Self::new(&status, TaskPayload::Cancelled, None, None),
            _ if !input_requests.is_empty() => {
                let summary = format_count(input_requests.len(), "request");
                let summary = format!("{summary} to be answered through this client");
                let payload = TaskPayload::InputRequired { input_requests };
                Self::new(&status, payload, Some(summary), Some(limits::TASK_POLL_IDLE))
            }
            Turn::Server => {
                let summary = describe_server_work(&status);
                let interval = find_poll_interval(&status.waits, now);
                Self::new(&status, TaskPayload::Working, summary, Some(interval))
            }
            Turn::Person { step, .. } | Turn::Outside(step) | Turn::Model(step) => {
                let summary = step.asked.or(step.message);
                let interval = Some(limits::TASK_POLL_IDLE);
                Self::new(&status, TaskPayload::Working, summary, interval)
            }
        }
    }

    fn new(
        status: &StatusView,
        payload: TaskPayload,
        summary: Option<String>,
        poll_interval: Option<Duration>,
    ) -> Self {
        let mut task = build_task(status, payload.status());
        task.status_message = Some(summary.unwrap_or_else(|| describe_state(status)));
        let milliseconds = |interval: Duration| u64::try_from(interval.as_millis()).ok();
        task.poll_interval_ms = poll_interval.and_then(milliseconds);
        let meta = build_run_metadata(status, task.status_message.as_deref());
        Self { task: DetailedTask::new(task, payload), meta }
    }

    /// The task, without the metadata.
    pub(super) fn into_task(self) -> DetailedTask {
        self.task
    }

    /// Whether its status is final.
    pub(super) fn is_terminal(&self) -> bool {
        self.task.status().is_terminal()
    }

    /// The result of `tasks/get`.
    pub(super) fn into_result(self) -> GetTaskResult {
        let mut result = GetTaskResult::new(self.task);
        result.meta = Some(self.meta);
        result
    }
}

/// The answer of a call that has started an execution as a task.
pub(super) fn create_task(status: &StatusView) -> CreateTaskResult {
    let summary = describe_state(status);
    let meta = build_run_metadata(status, Some(&summary));
    let task = build_task(status, TaskStatus::Working).with_status_message(summary);
    let interval = u64::try_from(limits::TASK_POLL_MIN.as_millis()).unwrap_or(u64::MAX);
    CreateTaskResult::new(task.with_poll_interval_ms(interval)).with_meta(meta)
}

/// A task without a limit of its life.
fn build_task(status: &StatusView, task_status: TaskStatus) -> Task {
    let StatusView { execution_id, started_at, updated_at, .. } = status;
    Task::new(execution_id.as_str(), task_status, started_at.as_str(), updated_at.as_str())
}

/// What a host is told of the progress of a run.
fn build_run_metadata(status: &StatusView, summary: Option<&str>) -> MetaObject {
    let state = State::parse(&status.state).unwrap_or(State::Running);
    let fields = [
        ("run_id", json!(status.execution_id)),
        ("step", json!(status.current_step)),
        ("progress", json!(state.word(Vocabulary::Run))),
        ("summary", json!(summary)),
    ];
    let mut meta = MetaObject::default();
    meta.0.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    meta
}

fn describe_state(status: &StatusView) -> String {
    match &status.current_step {
        Some(step) => format!("The run is {}, at step '{step}'", status.state),
        None => format!("The run is {}", status.state),
    }
}

/// What the server does in the run.
fn describe_server_work(status: &StatusView) -> Option<String> {
    let wait = status.waits.first()?;
    let step = &wait.step_name;
    Some(match (wait.waits_for.as_str(), &wait.due) {
        ("timer", Some(due)) => format!("Step '{step}' waits until {due}"),
        ("retry", Some(due)) => format!("Step '{step}' is tried again at {due}"),
        ("child", _) => format!("Step '{step}' waits for its child workflow"),
        _ => format!("The server works on step '{step}'"),
    })
}

/// When to ask again while the server works: at the next time that it waits for, or soon.
fn find_poll_interval(waits: &[WaitView], now: Timestamp) -> Duration {
    let mut earliest = limits::TASK_POLL_MAX;
    for wait in waits {
        let due = wait.due.as_ref().and_then(|due| due.parse::<Timestamp>().ok());
        earliest = earliest.min(due.map_or(Duration::ZERO, |due| due.since(now)));
    }
    earliest.max(limits::TASK_POLL_MIN)
}
