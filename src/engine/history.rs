//! The history of an execution: every visit of its steps, with outputs.

use std::{cell::Cell, collections::HashMap, sync::Arc};

use serde_json::Value;

use super::Engine;
use midex_domain::{
    Definition, Digest, Event, ExecutionId, Row,
    error::Result,
    event::Payload,
    limits,
    view::{self, HistoryRow},
};

impl Engine {
    /// Every visit of every step, with outputs. Wakes no actor.
    pub async fn history(&self, id: &ExecutionId) -> Result<Vec<HistoryRow>> {
        let rows = self.load_rows(id).await?;
        self.build_history(&self.read_execution(id).await?.definition, &rows).await
    }

    /// The attempt of a step that ended last, with its output. Hooks and skipped steps do not count.
    pub async fn last_ended_attempt(&self, id: &ExecutionId) -> Result<Option<HistoryRow>> {
        let rows = self.load_rows(id).await?;
        let attempts = view::build_history(rows.iter(), |_| None).into_iter();
        let ended = attempts.filter(HistoryRow::is_ended_work);
        let Some(mut last) = ended.max_by(|a, b| a.completed_at.cmp(&b.completed_at)) else {
            return Ok(None);
        };
        if let Some(digest) = last.omitted_output() {
            let output = self.shared.contents.value(digest).await?;
            last.output = output.map(Arc::unwrap_or_clone);
        }
        Ok(Some(last))
    }

    /// Every visit of every step in these rows, with outputs.
    pub(super) async fn build_history(
        &self,
        definition: &Definition,
        rows: &[Row],
    ) -> Result<Vec<HistoryRow>> {
        let contents = self.load_outputs_outside_rows(rows).await?;
        // A content that several rows name is read once, and counts each time that it is shown.
        let bytes_left = Cell::new(limits::HISTORY_OUTPUT_BYTES_MAX);
        let mut history = view::build_history(rows.iter(), |digest| {
            let (value, bytes) = contents.get(digest)?;
            bytes_left.set(bytes_left.get().checked_sub(*bytes)?);
            Some(value.clone())
        });
        for row in &mut history {
            row.add_command(definition);
        }
        Ok(history)
    }

    /// The outputs that are stored outside of the rows, each with its length, as long as their total stays within
    /// [`limits::HISTORY_OUTPUT_BYTES_MAX`].
    async fn load_outputs_outside_rows(
        &self,
        rows: &[Row],
    ) -> Result<HashMap<Digest, (Value, usize)>> {
        let mut contents = HashMap::new();
        let mut bytes_left = limits::HISTORY_OUTPUT_BYTES_MAX;
        for payload in rows.iter().flat_map(|row| &row.events).filter_map(payload_outside_row) {
            let bytes = usize::try_from(payload.bytes).unwrap_or(usize::MAX);
            if bytes <= bytes_left
                && !contents.contains_key(&payload.digest)
                && let Some(bytes) = self.shared.store.load_content(payload.digest).await?
                && let Ok(value) = serde_json::from_slice(&bytes)
            {
                bytes_left -= bytes.len();
                contents.insert(payload.digest, (value, bytes.len()));
            }
        }
        Ok(contents)
    }
}

/// The payload of an event that is stored outside of its row: the output of a completed visit, or the options that a
/// step offers.
fn payload_outside_row(event: &Event) -> Option<&Payload> {
    let payload = match event {
        Event::OptionsOffered { options, .. } => options,
        Event::PollKept { output, .. } => output,
        event => event.output()?.1,
    };
    payload.inline.is_none().then_some(payload)
}
