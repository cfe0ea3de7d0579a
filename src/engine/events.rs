//! The events of one execution as they happen.

use std::collections::VecDeque;

use super::{Engine, Listener, Topic};
use midex_domain::{
    ExecutionId,
    error::Result,
    telemetry::build_row_telemetry,
    view::{TelemetryEvent, telemetry_event},
};

/// The events of one execution, from its beginning, each once and in order: [`Engine::events`].
#[derive(Debug)]
pub struct ExecutionEvents {
    engine: Engine,
    id: ExecutionId,
    listener: Listener,
    /// The revision up to which events were read.
    revision: u64,
    pending: VecDeque<TelemetryEvent>,
}

impl Engine {
    /// The events of an execution, from its beginning until its end.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, `EXECUTION_DELETED`, and those of the store.
    pub async fn events(&self, id: &ExecutionId) -> Result<ExecutionEvents> {
        let listener = self.shared.notifier.new_listener();
        listener.subscribe(&id.as_str().into(), Some(Topic::Execution(id.clone())));
        self.read_execution(id).await?;
        let (engine, id) = (self.clone(), id.clone());
        Ok(ExecutionEvents { engine, id, listener, revision: 0, pending: VecDeque::new() })
    }
}

impl ExecutionEvents {
    /// The next event; its `id` is the revision of its transition. Waits until there is one. `None` once the execution has
    /// ended and all its events were returned, and when the engine stops.
    ///
    /// # Errors
    /// `EXECUTION_DELETED`, and those of the store. A later call tries again.
    pub async fn next(&mut self) -> Result<Option<TelemetryEvent>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            while self.listener.take_marked_name().is_some() {}
            let execution = self.engine.read_execution(&self.id).await?.execution;
            let revision = execution.revision();
            if revision > self.revision {
                let rows =
                    self.engine.load_row_range(&self.id, self.revision + 1..=revision).await?;
                self.pending = rows
                    .iter()
                    .rev()
                    .flat_map(|row| {
                        let records = build_row_telemetry(row).into_iter();
                        records.map(|record| {
                            telemetry_event(row.revision, Some(&row.execution_id), row.at, record)
                        })
                    })
                    .collect();
                self.revision = revision;
                continue;
            }
            if execution.is_over() {
                return Ok(None);
            }
            tokio::select! {
                () = self.engine.shared.wait_for_change(&self.listener) => {}
                () = self.engine.shared.stopping.cancelled() => return Ok(None),
            }
        }
    }
}
