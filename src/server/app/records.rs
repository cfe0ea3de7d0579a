//! Removal of executions that have ended, and figures of the store.

use std::{collections::BTreeMap, time::Duration};

use super::App;
use midex_domain::{ExecutionId, error::Result, limits};
use midex_engine::{Cleanup, PruneReport, PruneRule, StoreStats};
use serde::{Deserialize, Serialize};

/// An execution that can be deleted.
#[derive(Clone, Debug, Serialize)]
pub struct DeletableExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its workflow.
    pub workflow_name: String,
    /// Its state.
    pub state: String,
    /// How many child executions are deleted with it.
    pub child_count: usize,
}

/// The progress of a prune that several calls may make.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct PruneProgress {
    /// The executions that the rule is about and its conditions select, children not counted.
    pub selected: usize,
    /// The executions of the rule's project that have ended, children not counted.
    pub ended: usize,
    /// The executions that this call removed.
    pub removed: usize,
    /// Those that it kept, because something that depends on them has not ended, or because they cannot be read.
    pub kept: usize,
    /// Whether the same call has more to remove.
    pub has_more: bool,
}

impl App {
    /// Removes an execution that has ended: see [`Engine::delete`](midex_engine::Engine::delete).
    ///
    /// # Errors
    /// As [`Engine::delete`](midex_engine::Engine::delete).
    pub async fn delete(&self, id: &ExecutionId) -> Result<Vec<ExecutionId>> {
        self.engine().await?.delete(id).await
    }

    /// The execution that [`App::delete`] would remove.
    ///
    /// # Errors
    /// As [`App::delete`].
    pub async fn preview_deletion(&self, id: &ExecutionId) -> Result<DeletableExecution> {
        let family = self.engine().await?.load_deletable_family(id).await?;
        let execution = &family[0].execution;
        Ok(DeletableExecution {
            execution_id: id.clone(),
            workflow_name: execution.workflow().to_string(),
            state: execution.state().to_string(),
            child_count: family.len() - 1,
        })
    }

    /// Removes executions that have ended: see [`Engine::clean_up`](midex_engine::Engine::clean_up).
    ///
    /// # Errors
    /// Those of the store.
    pub async fn clean_up(&self, cleanup: Cleanup) -> Result<usize> {
        self.engine().await?.clean_up(cleanup).await
    }

    /// Removes the executions that a rule selects, for at most [`limits::PRUNE_CALL_MAX`]. Removes nothing if `is_dry_run`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn prune(&self, rule: PruneRule, is_dry_run: bool) -> Result<PruneProgress> {
        let engine = self.engine().await?;
        let plan = engine.plan_prune(&[rule]).await?;
        let mut progress = PruneProgress {
            selected: plan.ids.len(),
            ended: plan.ended,
            ..PruneProgress::default()
        };
        if is_dry_run {
            return Ok(progress);
        }
        let began_at = self.now();
        let mut portions = plan.ids.chunks(limits::LIST_LIMIT_MAX);
        for ids in portions.by_ref() {
            let PruneReport { removed, kept } = engine.prune(ids.to_vec()).await?;
            progress.removed += removed;
            progress.kept += kept;
            if self.now().since(began_at) >= limits::PRUNE_CALL_MAX {
                break;
            }
        }
        progress.has_more = portions.next().is_some() && progress.removed > 0;
        Ok(progress)
    }

    /// The figures of the store.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stats(&self) -> Result<StoreStats> {
        self.engine().await?.stats().await
    }

    /// The figures of the store for people, and what the removal of executions that ended longer ago than `age` would free.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn figures(&self, age: Option<Duration>) -> Result<StoreFigures> {
        let stats = self.stats().await?;
        let older = match age {
            Some(age) => {
                let rule = PruneRule { older_than: Some(age), ..PruneRule::default() };
                Some(self.prune(rule, true).await?.selected)
            }
            None => None,
        };
        Ok(StoreFigures::new(&stats, older))
    }
}

/// The figures of the store, as people read them.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoreFigures {
    /// The length of the data file in bytes.
    pub file_bytes: u64,
    /// The length of the redo log in bytes.
    pub log_bytes: u64,
    /// The number of executions.
    pub executions: u64,
    /// By workflow.
    pub workflows: Vec<WorkflowFigures>,
    /// By table.
    pub tables: Vec<TableFigures>,
    /// The number of executions that were started in the last [`limits::GROWTH_DAYS`] days, and are still there.
    pub started_lately: u64,
    /// By how many bytes they let the store grow in a day, with the average size of an execution.
    pub growth_bytes_a_day: u64,
    /// The executions that ended longer ago than was asked for, without their children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older: Option<usize>,
    /// What removing them would free, with the average size of an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_bytes: Option<u64>,
    /// The executions with so many transitions that they are slow to read.
    pub long_executions: Vec<LongExecution>,
}

/// The figures of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkflowFigures {
    /// Its name.
    pub workflow_name: String,
    /// The number of its executions by state.
    pub states: BTreeMap<String, u64>,
    /// How long half of the latest completed ones took at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// How long 95 in 100 of them took at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
}

/// The figures of a table.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TableFigures {
    /// Its name.
    pub name: String,
    /// The number of its entries.
    pub entries: u64,
    /// The bytes of them.
    pub bytes: u64,
}

/// An execution with many transitions.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LongExecution {
    /// The execution.
    pub execution_id: String,
    /// The number of its transitions.
    pub revision: u64,
}

impl StoreFigures {
    fn new(stats: &StoreStats, older: Option<usize>) -> Self {
        let mut workflows = BTreeMap::<_, BTreeMap<String, u64>>::new();
        for ((workflow, state), count) in &stats.executions {
            let states = workflows.entry(workflow).or_default();
            states.insert(state.to_string(), *count);
        }
        let workflows = workflows.into_iter().map(|(workflow, states)| {
            let durations = stats.durations.get(workflow);
            WorkflowFigures {
                workflow_name: workflow.to_string(),
                states,
                p50_ms: durations.map(|durations| durations.p50_ms),
                p95_ms: durations.map(|durations| durations.p95_ms),
            }
        });
        let tables = stats.sizes.tables.iter().map(|table| TableFigures {
            name: table.name.clone(),
            entries: table.entries,
            bytes: table.stored_bytes,
        });
        let long_executions = stats.long_executions.iter().map(|(id, revision)| LongExecution {
            execution_id: id.to_string(),
            revision: *revision,
        });
        let average = stats.bytes_per_execution();
        Self {
            file_bytes: stats.sizes.file_bytes,
            log_bytes: stats.sizes.log_bytes,
            executions: stats.total(),
            workflows: workflows.collect(),
            tables: tables.collect(),
            started_lately: stats.started_lately,
            growth_bytes_a_day: stats.started_lately * average / u64::from(limits::GROWTH_DAYS),
            older,
            older_bytes: older.map(|count| count as u64 * average),
            long_executions: long_executions.collect(),
        }
    }
}
