//! Figures of a store: how many executions it holds, how long they took, and how much room they take.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Engine;
use crate::store::{ClusterStatus, ExecutionSummary, ListQuery, StoreSizes};
use midex_domain::{State, WorkflowName, error::Result, limits};

const DAY: Duration = Duration::from_secs(86_400);

/// The figures of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreStats {
    /// The sizes of the files and tables.
    #[serde(flatten)]
    pub sizes: StoreSizes,
    /// The number of executions, children included.
    pub executions: u64,
    /// By workflow.
    pub workflows: Vec<WorkflowStats>,
    /// The number of executions that were started in the last [`limits::GROWTH_DAYS`] days, and are still there.
    pub started_lately: u64,
    /// By how many bytes they let the store grow in a day, with the average size of an execution.
    pub growth_bytes_a_day: u64,
    /// The executions that ended longer ago than was asked for, without their children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older: Option<u64>,
    /// What removing them would free, with the average size of an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_bytes: Option<u64>,
    /// The executions with [`limits::EVENTS_WARNED`] transitions or more; the first ones found.
    pub long_executions: Vec<LongExecution>,
}

/// The figures of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowStats {
    /// Its name.
    pub workflow_name: String,
    /// The number of its executions by state.
    pub states: BTreeMap<String, u64>,
    /// How long half of the latest completed ones took at most: of [`limits::DURATIONS_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// How long 95 in 100 of them took at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
}

/// An execution with so many transitions that it is slow to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongExecution {
    /// The execution.
    pub execution_id: String,
    /// The number of its transitions.
    pub revision: u64,
}

impl WorkflowStats {
    fn new(name: &WorkflowName, states: BTreeMap<String, u64>, mut durations: Vec<u64>) -> Self {
        durations.sort_unstable();
        let percentile = |share: usize| {
            let rank = (durations.len() * share).div_ceil(100).max(1) - 1;
            durations.get(rank).copied()
        };
        let (p50_ms, p95_ms) = (percentile(50), percentile(95));
        Self { workflow_name: name.to_string(), states, p50_ms, p95_ms }
    }
}

impl Engine {
    /// Counts the executions, also those that ended longer ago than `age`, and measures the tables. Reads much of a large
    /// store. An execution that moves during the count may be counted twice or not at all.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stats(&self, age: Option<Duration>) -> Result<StoreStats> {
        let now = self.shared.clock.now();
        let growth_since = now.minus(DAY * limits::GROWTH_DAYS);
        let mut stats = StoreStats { older: age.map(|_| 0), ..StoreStats::default() };
        let mut workflows = BTreeMap::<WorkflowName, (BTreeMap<String, u64>, Vec<u64>)>::new();
        self.visit_summaries(ListQuery::default(), |summary| {
            stats.executions += 1;
            stats.started_lately += u64::from(summary.started_at >= growth_since);
            if let (Some(age), Some(older)) = (age, &mut stats.older) {
                let is_older = summary.is_over && now.since(summary.ended_at()) > age;
                *older += u64::from(is_older && !summary.is_child);
            }
            if summary.revision >= limits::EVENTS_WARNED
                && stats.long_executions.len() < limits::LIST_LIMIT_DEFAULT
            {
                let execution_id = summary.id.to_string();
                let revision = summary.revision;
                stats.long_executions.push(LongExecution { execution_id, revision });
            }
            let ended_at = summary.completed_at.filter(|_| summary.state == State::Completed);
            let (states, durations) = workflows.entry(summary.workflow).or_default();
            *states.entry(summary.state.to_string()).or_default() += 1;
            if let Some(ended_at) = ended_at.filter(|_| durations.len() < limits::DURATIONS_MAX) {
                let duration = ended_at.since(summary.started_at).as_millis();
                durations.push(u64::try_from(duration).unwrap_or(u64::MAX));
            }
        })
        .await?;
        let workflows = workflows.into_iter();
        stats.workflows = workflows
            .map(|(name, (states, durations))| WorkflowStats::new(&name, states, durations))
            .collect();
        stats.sizes = self.shared.store.sizes().await?;
        let bytes: u64 = stats.sizes.tables.iter().map(|table| table.bytes).sum();
        let average = bytes.checked_div(stats.executions).unwrap_or_default();
        stats.growth_bytes_a_day = stats.started_lately * average / u64::from(limits::GROWTH_DAYS);
        stats.older_bytes = stats.older.map(|count| count * average);
        Ok(stats)
    }

    /// The servers that share the store; `None` if it belongs to this process alone.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn cluster_status(&self) -> Result<Option<ClusterStatus>> {
        self.shared.store.cluster_status().await
    }

    /// Visits the summaries of all executions that the query admits, page by page. Its limit and `before` are not used.
    pub(super) async fn visit_summaries(
        &self,
        query: ListQuery,
        mut visit: impl FnMut(ExecutionSummary),
    ) -> Result<()> {
        let mut query = ListQuery { limit: limits::SUMMARIES_LISTED_MAX, before: None, ..query };
        loop {
            let page = self.shared.store.list_summaries(query.clone()).await?;
            page.summaries.into_iter().for_each(&mut visit);
            query.before = page.next_key;
            if query.before.is_none() {
                return Ok(());
            }
        }
    }
}
