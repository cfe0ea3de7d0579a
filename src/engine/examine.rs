//! Examines the data of an engine, for `midex doctor`: whether it is consistent, and which executions are stuck.

use schemars::JsonSchema;
use serde::Serialize;

use super::Engine;
use crate::store::{ExaminationProgress, ExaminedPortion};
use midex_domain::{Execution, clock::Timestamp, error::Result, limits};

/// A portion of what is stored that was examined and holds together.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Examination {
    /// How many entries of the store.
    pub entries: u64,
    /// The open executions among them for which nothing happens.
    pub stuck: Vec<StuckExecution>,
    /// To how many of the executions the index does not lead.
    pub misindexed: u64,
    /// Where the next portion begins; null at the end.
    #[schemars(with = "Option<serde_json::Value>")]
    pub next: Option<ExaminationProgress>,
}

/// An open execution for which nothing happens, although it waits neither for a model nor for a person.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StuckExecution {
    /// The execution.
    pub execution_id: String,
    /// The activity that it needs and that the owner of the store has not.
    pub activity: Option<String>,
    /// The catalog that a step of it waits for.
    pub catalog: Option<String>,
    /// When time should have moved it.
    pub due: Option<String>,
}

impl Engine {
    /// Examines a portion of the stored data after `from`.
    ///
    /// # Errors
    /// `STORE_CORRUPT` where the data is inconsistent.
    pub async fn examine(&self, from: ExaminationProgress) -> Result<Examination> {
        let examined = self.shared.store.examine(from).await?;
        let mut stuck = Vec::new();
        for execution in &examined.open {
            stuck.extend(self.find_stuck(execution).await?);
        }
        let ExaminedPortion { entries, misindexed, next_progress: next, .. } = examined;
        Ok(Examination { entries, stuck, misindexed, next })
    }

    async fn find_stuck(&self, execution: &Execution) -> Result<Option<StuckExecution>> {
        let definition = self.shared.definitions.get(execution.definition()).await?;
        let missing_activity = self.shared.runner.executors.missing_capability(&definition);
        let activity = missing_activity.map(str::to_owned);
        let now = self.shared.clock.now();
        let is_overdue = |due: &Timestamp| *due <= now && now.since(*due) > limits::OVERDUE_AFTER;
        let due = execution.deadline(&definition).filter(is_overdue);
        let stuck = StuckExecution {
            execution_id: execution.id().to_string(),
            activity,
            catalog: execution.missing_catalog_name().map(str::to_owned),
            due: due.map(|due| due.to_string()),
        };
        let is_stuck = stuck.activity.is_some() || stuck.catalog.is_some() || stuck.due.is_some();
        Ok(is_stuck.then_some(stuck))
    }
}
