//! Work that goes on after its call was answered: a store in memory, and the tools that use it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData,
    model::{
        CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult, DetailedTask,
        InputRequests, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
    },
    task_manager::current_timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    content::{refused, said, word},
    rounds::{ask, ask_name, field, form, typed},
    server::Fixtures,
    tools::Call,
};

/// Nothing is forgotten while the server runs; a client that wants more than this is refused.
const TASKS_MAX: usize = 1_000;
/// How long a task is kept, for the client to plan with.
const TTL_MILLISECONDS: u64 = 3_600_000;
/// How often a client is asked to look.
const POLL_MILLISECONDS: u64 = 100;
/// How long a job takes that fails.
const FAILS_AFTER: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Row>>);

struct Row {
    task: Task,
    payload: TaskPayload,
    cancelled: CancellationToken,
    /// What was answered so far, and who waits for the rest.
    answers: InputResponses,
    waiting: Option<oneshot::Sender<InputResponses>>,
}

/// What a task's work may do with its task.
#[derive(Clone)]
struct Handle {
    tasks: Arc<Tasks>,
    id: String,
}

impl Tasks {
    pub(crate) fn get(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        self.with(id, |row| DetailedTask::new(row.task.clone(), row.payload.clone()))
    }

    /// Takes what was asked for; whatever else is given means nothing.
    pub(crate) fn answer(&self, id: &str, given: InputResponses) -> Result<(), ErrorData> {
        self.with(id, |row| {
            let TaskPayload::InputRequired { input_requests } = &mut row.payload else {
                return;
            };
            for (key, answer) in given {
                if input_requests.remove(&key).is_some() {
                    row.answers.insert(key, answer);
                }
            }
            if input_requests.is_empty() {
                row.turn(TaskPayload::Working);
                if let Some(waiting) = row.waiting.take() {
                    let _ = waiting.send(std::mem::take(&mut row.answers));
                }
            }
        })
    }

    /// A task that has ended stays as it ended.
    pub(crate) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.with(id, |row| {
            row.turn(TaskPayload::Cancelled);
            row.cancelled.cancel();
        })
    }

    /// Begins a task. It can be looked at before the call is answered.
    fn begin<W>(
        self: &Arc<Self>,
        work: impl FnOnce(Handle) -> W,
    ) -> Result<CallToolResponse, ErrorData>
    where
        W: Future<Output = Result<CallToolResult, ErrorData>> + Send + 'static,
    {
        let id = format!("{:032x}", rand::random::<u128>());
        let now = current_timestamp();
        let task = Task::new(id.clone(), TaskStatus::Working, now.clone(), now)
            .with_ttl_ms(TTL_MILLISECONDS)
            .with_poll_interval_ms(POLL_MILLISECONDS);
        let cancelled = CancellationToken::new();
        self.insert(Row {
            task: task.clone(),
            payload: TaskPayload::Working,
            cancelled: cancelled.clone(),
            answers: InputResponses::new(),
            waiting: None,
        })?;
        let handle = Handle { tasks: self.clone(), id };
        let work = work(handle.clone());
        tokio::spawn(async move {
            if let Some(ended) = cancelled.run_until_cancelled(work).await {
                handle.settle(&ended);
            }
        });
        Ok(CreateTaskResult::new(task).into())
    }

    fn insert(&self, row: Row) -> Result<(), ErrorData> {
        let mut rows = self.lock();
        if rows.len() >= TASKS_MAX {
            return Err(ErrorData::internal_error("there are too many tasks", None));
        }
        rows.insert(row.task.task_id.clone(), row);
        Ok(())
    }

    fn with<T>(&self, id: &str, see: impl FnOnce(&mut Row) -> T) -> Result<T, ErrorData> {
        let mut rows = self.lock();
        let row = rows.get_mut(id);
        row.map(see).ok_or_else(|| ErrorData::invalid_params("there is no such task", None))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn turn(&mut self, payload: TaskPayload) {
        if !self.payload.status().is_terminal() {
            self.task.last_updated_at = current_timestamp();
            self.payload = payload;
        }
    }
}

impl Handle {
    /// Waits until the client has answered every one of these questions.
    async fn ask(&self, questions: Value) -> Result<InputResponses, ErrorData> {
        let input_requests: InputRequests = typed(questions)?;
        let (waiting, answered) = oneshot::channel();
        self.tasks.with(&self.id, |row| {
            row.waiting = Some(waiting);
            row.turn(TaskPayload::InputRequired { input_requests });
        })?;
        answered.await.map_err(|_| ErrorData::internal_error("the task has gone", None))
    }

    fn settle(&self, ended: &Result<CallToolResult, ErrorData>) {
        let payload = match ended {
            Ok(result) => TaskPayload::Completed { result: object(result) },
            Err(error) => TaskPayload::Failed { error: object(error) },
        };
        let _ = self.tasks.with(&self.id, |row| row.turn(payload));
    }
}

fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

/// Whether the client can be given a task: it says so, and its revision of the protocol has them.
fn knows_tasks(call: &Call) -> bool {
    let client = call.cx.client_capabilities();
    call.is_modern() && client.is_some_and(|client| client.supports_tasks())
}

fn must_know_tasks(call: &Call) -> Result<(), ErrorData> {
    if knows_tasks(call) {
        return Ok(());
    }
    let needed = ClientCapabilities::builder().enable_tasks().build();
    Err(ErrorData::missing_required_client_capability(needed))
}

pub(crate) fn slow_compute_arguments() -> Value {
    json!({
        "type": "object",
        "properties": {
            "seconds": { "type": "number", "minimum": 0, "maximum": 3600 },
            "label": { "type": "string" },
        },
        "required": ["seconds"],
    })
}

pub(crate) async fn slow_compute(
    fixtures: &Fixtures,
    call: Call,
) -> Result<CallToolResponse, ErrorData> {
    let seconds = call.arguments.get("seconds").and_then(Value::as_f64);
    let takes = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let takes = takes.unwrap_or_default().min(Duration::from_secs(3_600));
    let label = word(&call.arguments, "label").to_owned();
    let work = async move {
        tokio::time::sleep(takes).await;
        Ok(said(format!("Computed {label} in {takes:?}")))
    };
    if knows_tasks(&call) {
        return fixtures.shared().tasks.begin(|_| work);
    }
    work.await.map(Into::into)
}

pub(crate) fn failing_job(fixtures: &Fixtures, call: &Call) -> Result<CallToolResponse, ErrorData> {
    must_know_tasks(call)?;
    fixtures.shared().tasks.begin(|_| async {
        tokio::time::sleep(FAILS_AFTER).await;
        Ok(refused("The job did not work out"))
    })
}

pub(crate) fn protocol_error_job(
    fixtures: &Fixtures,
    call: &Call,
) -> Result<CallToolResponse, ErrorData> {
    must_know_tasks(call)?;
    fixtures.shared().tasks.begin(|_| async {
        tokio::time::sleep(FAILS_AFTER).await;
        Err(ErrorData::internal_error("The job fell over", None))
    })
}

pub(crate) fn confirm_delete(
    fixtures: &Fixtures,
    call: &Call,
) -> Result<CallToolResponse, ErrorData> {
    must_know_tasks(call)?;
    let file = word(&call.arguments, "filename").to_owned();
    fixtures.shared().tasks.begin(|task| async move {
        let question = form(&format!("Delete {file}?"), "confirm", "boolean");
        let answers = task.ask(json!({ "confirm": question })).await?;
        let yes = field(&answers, "confirm", "confirm").is_some_and(|answer| answer == "true");
        Ok(said(if yes { format!("{file} is deleted") } else { format!("{file} is kept") }))
    })
}

pub(crate) fn multi_input(fixtures: &Fixtures, call: &Call) -> Result<CallToolResponse, ErrorData> {
    must_know_tasks(call)?;
    fixtures.shared().tasks.begin(|task| async move {
        let questions = json!({
            "first": form("The first name", "name", "string"),
            "second": form("The second name", "name", "string"),
        });
        let answers = task.ask(questions).await?;
        let name = |key| field(&answers, key, "name").unwrap_or_default();
        Ok(said(format!("{} and {}", name("first"), name("second"))))
    })
}

pub(crate) fn ask_then_work(
    fixtures: &Fixtures,
    call: &Call,
) -> Result<CallToolResponse, ErrorData> {
    must_know_tasks(call)?;
    let Some(name) = field(&call.answers, "user_name", "name") else {
        return ask(json!({ "user_name": ask_name() }), None);
    };
    fixtures.shared().tasks.begin(|_| async move { Ok(said(format!("Done for {name}"))) })
}
