//! What an activity reads and reports while it runs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{BoxFuture, Context};
use midex_domain::{
    JsonText,
    check::check_memory_name,
    error::Result,
    execution::{AttemptNotes, OperationFailure},
    limits,
    view::ProgressView,
};

/// The class of the failure if an activity writes something that memory or the history does not take.
const REPORT_INVALID: &str = "report_invalid";

/// What a running attempt asks of the engine.
pub(crate) trait AttemptHost: Send + Sync {
    /// What `memory.NAME` was when the attempt began.
    fn load_memory<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>>>;

    /// Shows how far the attempt has come.
    fn set_progress(&self, progress: ProgressView);
}

/// The connection of a running attempt to its execution. Clones share it.
#[derive(Clone)]
pub(crate) struct AttemptHandle(Arc<HandleState>);

struct HandleState {
    host: Box<dyn AttemptHost>,
    started_at: Instant,
    notes: Mutex<WrittenNotes>,
}

#[derive(Default)]
struct WrittenNotes {
    memory: BTreeMap<String, Value>,
    metadata: Map<String, Value>,
}

impl fmt::Debug for AttemptHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptHandle(since {:?})", self.0.started_at)
    }
}

impl AttemptHandle {
    #[expect(
        clippy::disallowed_methods,
        reason = "the limit of an attempt is one of tokio's timers, and the time left is measured by the same clock"
    )]
    pub(crate) fn new(host: impl AttemptHost + 'static) -> Self {
        let (host, started_at, notes) = (Box::new(host), Instant::now(), Mutex::default());
        Self(Arc::new(HandleState { host, started_at, notes }))
    }

    fn lock_notes(&self) -> MutexGuard<'_, WrittenNotes> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the activity wrote, with the time that its run took.
    pub(crate) fn take_notes(&self) -> AttemptNotes {
        let WrittenNotes { memory, mut metadata } = std::mem::take(&mut *self.lock_notes());
        let elapsed = self.0.started_at.elapsed().as_millis();
        metadata.insert(
            "executionTimeMs".to_owned(),
            json!(u64::try_from(elapsed).unwrap_or(u64::MAX)),
        );
        AttemptNotes { memory, metadata: Some(JsonText::from_value(&metadata.into())) }
    }
}

impl Context {
    /// What `memory.NAME` is for this run: what the run itself wrote, or else the value in the memory of the execution when
    /// the attempt began, or else the output of the step with this id. The inputs are at `__workflow_input__`.
    ///
    /// # Errors
    /// A retryable failure if the store cannot be read.
    pub async fn read_memory(&self, name: &str) -> Result<Option<Value>, OperationFailure> {
        if let Some(written) = self.handle.lock_notes().memory.get(name) {
            return Ok(Some(written.clone()));
        }
        self.handle.0.host.load_memory(name).await.map_err(|error| {
            let message = format!("`memory.{name}` cannot be read: {}", error.message());
            OperationFailure::new(error.code().as_str(), message).as_retryable()
        })
    }

    /// Writes a value to the memory of the execution. It becomes visible together with the output of this attempt, and is
    /// dropped if the attempt fails. The workflow declares the names that its expressions read, as in `memory: { total: 0 }`.
    ///
    /// # Errors
    /// `report_invalid` if memory cannot have this name, if the value is longer than
    /// [`limits::MEMORY_VALUE_BYTES_MAX`] as JSON, or if the run writes more than [`limits::MEMORY_ENTRIES_MAX`] names.
    pub fn write_memory(&self, name: &str, value: impl Serialize) -> Result<(), OperationFailure> {
        let refuse = |message: String| OperationFailure::new(REPORT_INVALID, message);
        check_memory_name(name).map_err(refuse)?;
        let value = serde_json::to_value(value)
            .map_err(|error| refuse(format!("`memory.{name}` is no JSON: {error}")))?;
        if value.to_string().len() > limits::MEMORY_VALUE_BYTES_MAX {
            let limit = limits::MEMORY_VALUE_BYTES_MAX;
            return Err(refuse(format!("`memory.{name}` may have {limit} bytes as JSON")));
        }
        let memory = &mut self.handle.lock_notes().memory;
        memory.insert(name.to_owned(), value);
        if memory.len() > limits::MEMORY_ENTRIES_MAX {
            memory.remove(name);
            let limit = limits::MEMORY_ENTRIES_MAX;
            return Err(refuse(format!("a run may write {limit} names of memory")));
        }
        Ok(())
    }

    /// Adds an entry to `metadata` of this attempt in the history of the step, whether the attempt succeeds or fails. The
    /// entry `executionTimeMs` is always there.
    ///
    /// # Errors
    /// `report_invalid` if the metadata would have more than [`limits::ACTIVITY_METADATA_BYTES_MAX`] bytes as JSON.
    pub fn add_metadata(
        &self,
        name: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<(), OperationFailure> {
        let written = &mut self.handle.lock_notes().metadata;
        let mut metadata = written.clone();
        metadata.insert(name.into(), value.into());
        let metadata = Value::Object(metadata);
        if metadata.to_string().len() > limits::ACTIVITY_METADATA_BYTES_MAX {
            let limit = limits::ACTIVITY_METADATA_BYTES_MAX;
            let message = format!("the metadata of an attempt may have {limit} bytes as JSON");
            return Err(OperationFailure::new(REPORT_INVALID, message));
        }
        if let Value::Object(metadata) = metadata {
            *written = metadata;
        }
        Ok(())
    }

    /// Shows how far the attempt has come in the status of the execution, as long as it runs. `total` is `None` if it is not
    /// known. The text is cut at [`limits::PROGRESS_TEXT_BYTES_MAX`] bytes.
    pub fn report_progress(&self, done: u64, total: Option<u64>, text: &str) {
        let text = text[..text.floor_char_boundary(limits::PROGRESS_TEXT_BYTES_MAX)].to_owned();
        self.handle.0.host.set_progress(ProgressView { done, total, text });
    }

    /// The time until the limit of the attempt; `None` if it has no limit.
    pub fn time_left(&self) -> Option<Duration> {
        let elapsed = self.handle.0.started_at.elapsed();
        self.timeout.map(|timeout| timeout.saturating_sub(elapsed))
    }
}
