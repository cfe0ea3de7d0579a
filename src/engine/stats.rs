//! Figures of a store: how many executions it holds, how long they took, and how much room they take.

use std::{collections::BTreeMap, time::Duration};

use super::Engine;
use crate::store::{ExecutionSummary, ListQuery, StoreSizes};
use midex_domain::{ExecutionId, State, WorkflowName, error::Result, limits};

const DAY: Duration = Duration::from_secs(86_400);

/// The figures of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The number of executions by workflow and state, children included.
    pub executions: BTreeMap<(WorkflowName, State), u64>,
    /// How long the latest completed executions took, by workflow.
    pub durations: BTreeMap<WorkflowName, DurationStats>,
    /// The number of executions that were started in the last [`limits::GROWTH_DAYS`] days, and are still there.
    pub started_lately: u64,
    /// The executions with [`limits::EVENTS_WARNED`] transitions or more, each with their number; the first ones found.
    pub long_executions: Vec<(ExecutionId, u64)>,
    /// The sizes of the tables.
    pub sizes: StoreSizes,
}

/// How long executions of a workflow took, in milliseconds: of the latest [`limits::DURATIONS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
    /// The number of executions that are counted.
    pub executions: u64,
    /// Half of them took at most this long.
    pub p50_ms: u64,
    /// 95 in 100 of them took at most this long.
    pub p95_ms: u64,
}

impl StoreStats {
    /// The number of all executions.
    pub fn total(&self) -> u64 {
        self.executions.values().sum()
    }

    /// The average size of an execution in bytes, with everything that is stored for it.
    pub fn bytes_per_execution(&self) -> u64 {
        self.sizes.stored_bytes().checked_div(self.total()).unwrap_or_default()
    }
}

impl DurationStats {
    fn from_durations(mut durations: Vec<u64>) -> Self {
        durations.sort_unstable();
        let percentile = |share: usize| {
            let rank = (durations.len() * share).div_ceil(100).max(1) - 1;
            durations.get(rank).copied().unwrap_or_default()
        };
        Self { executions: durations.len() as u64, p50_ms: percentile(50), p95_ms: percentile(95) }
    }
}

impl Engine {
    /// Counts the executions, and measures the tables. Reads much of a large store. An execution that moves during the count
    /// may be counted twice or not at all.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stats(&self) -> Result<StoreStats> {
        let mut stats = StoreStats::default();
        let mut durations = BTreeMap::<WorkflowName, Vec<u64>>::new();
        let growth_since = self.shared.clock.now().minus(DAY * limits::GROWTH_DAYS);
        self.visit_summaries(ListQuery::default(), |summary| {
            stats.started_lately += u64::from(summary.started_at >= growth_since);
            let has_room = stats.long_executions.len() < limits::LIST_LIMIT_DEFAULT;
            if summary.revision >= limits::EVENTS_WARNED && has_room {
                stats.long_executions.push((summary.id, summary.revision));
            }
            let ended_at = summary.completed_at.filter(|_| summary.state == State::Completed);
            if let Some(ended_at) = ended_at {
                let durations = durations.entry(summary.workflow.clone()).or_default();
                if durations.len() < limits::DURATIONS_MAX {
                    let duration = ended_at.since(summary.started_at).as_millis();
                    durations.push(u64::try_from(duration).unwrap_or(u64::MAX));
                }
            }
            *stats.executions.entry((summary.workflow, summary.state)).or_default() += 1;
        })
        .await?;
        let durations = durations.into_iter();
        stats.durations =
            durations.map(|(name, all)| (name, DurationStats::from_durations(all))).collect();
        stats.sizes = self.shared.store.sizes().await?;
        Ok(stats)
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
