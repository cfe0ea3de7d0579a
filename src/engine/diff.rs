//! The comparison of two executions.

use std::sync::Arc;

use serde_json::Value;

use super::{DurableExecution, Engine};
use midex_domain::{
    ExecutionId, Payload,
    error::Result,
    view::{self, DiffSide, DiffView},
};

impl Engine {
    /// What differs between two executions, in pages: `offset` is [`DiffView::next_offset`] of the page before, or 0. Wakes
    /// no actor.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn diff(
        &self,
        before: &ExecutionId,
        after: &ExecutionId,
        offset: usize,
    ) -> Result<DiffView> {
        let (before, after) =
            (self.read_execution(before).await?, self.read_execution(after).await?);
        let sides = (self.load_diff_side(&before).await?, self.load_diff_side(&after).await?);
        let (mut diff, pairs) = DiffView::new(sides.0, sides.1, offset);
        let (mut pairs, mut next_offset) = (pairs.into_iter(), offset);
        while let Some(pair) = pairs.next() {
            let [before, after] = pair.outputs();
            let outputs = (self.load_payload(before).await?, self.load_payload(after).await?);
            let is_full = diff.add_step(pair, [outputs.0.as_deref(), outputs.1.as_deref()]);
            next_offset += 1;
            if is_full && pairs.len() > 0 {
                diff.next_offset = Some(next_offset);
                break;
            }
        }
        Ok(diff)
    }

    async fn load_diff_side<'a>(&self, durable: &'a DurableExecution) -> Result<DiffSide<'a>> {
        let execution = &*durable.execution;
        let rows = self.load_rows(execution.id()).await?;
        // The execution may have moved since it was read.
        let rows = rows.iter().filter(|row| row.revision <= execution.revision());
        let inputs = match execution.inputs() {
            Some(digest) => self.shared.contents.value(digest).await?,
            None => None,
        };
        Ok(DiffSide {
            execution,
            definition: &durable.definition,
            inputs: inputs.map_or(Value::Null, |inputs| inputs.as_ref().clone()),
            history: view::build_history(rows, |_| None),
        })
    }

    async fn load_payload(&self, payload: Option<&Payload>) -> Result<Option<Arc<Value>>> {
        match payload {
            None => Ok(None),
            Some(Payload { inline: Some(document), .. }) => Ok(Some(Arc::new(document.value()))),
            Some(payload) => self.shared.contents.value(payload.digest).await,
        }
    }
}
