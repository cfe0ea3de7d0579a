//! Prunes: removals of many executions that have ended, by rules about their age and number. A person asks for one, or the
//! retention of the server does.

use std::{collections::HashMap, time::Duration};

use tokio::task::JoinSet;

use super::Engine;
use crate::store::{ExecutionSummary, ListQuery};
use midex_domain::{
    ExecutionId, State, WorkflowName,
    error::{Code, Error, Result},
    limits,
};

/// A rule for the removal of executions that have ended. An execution is removed if all conditions that are given hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneRule {
    /// The rule is about executions of this workflow.
    pub workflow: Option<WorkflowName>,
    /// The rule is about executions of this project.
    pub project: Option<String>,
    /// The rule is about executions in this state.
    pub state: Option<State>,
    /// It ended longer ago than this.
    pub older_than: Option<Duration>,
    /// It is not one of the last executions, so many for each workflow, that the rule is about.
    pub keep_last: Option<usize>,
    /// It is not one of the last executions, so many in all, that the rule is about.
    pub keep_total: Option<usize>,
}

impl PruneRule {
    fn is_about(&self, summary: &ExecutionSummary) -> bool {
        self.state.is_none_or(|state| summary.state == state)
            && self.is_of_project(summary)
            && self.workflow.as_ref().is_none_or(|workflow| summary.workflow == *workflow)
    }

    fn is_of_project(&self, summary: &ExecutionSummary) -> bool {
        self.project.is_none() || self.project == summary.project
    }

    /// Whether the rule has a condition. Without one it removes nothing.
    pub(super) fn has_condition(&self) -> bool {
        self.older_than.is_some() || self.keep_last.is_some() || self.keep_total.is_some()
    }
}

/// What a prune removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunePlan {
    /// The executions, without their children, the one that moved first in front.
    pub ids: Vec<ExecutionId>,
    /// How many executions of the projects of the rules have ended, children not counted.
    pub ended: usize,
}

/// What a prune removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The executions that were removed, children not counted.
    pub removed: usize,
    /// Those that were kept because something that depends on them has not ended, or because they cannot be read.
    pub kept: usize,
}

impl Engine {
    /// The executions that these rules remove: the first rule that is about an execution decides on it. An execution that is
    /// open, and a child, is never among them.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn plan_prune(&self, rules: &[PruneRule]) -> Result<PrunePlan> {
        let now = self.shared.clock.now();
        let mut plan = PrunePlan::default();
        // For each rule the executions seen so far, by workflow and in all.
        let mut seen_by_workflow = HashMap::<(usize, WorkflowName), usize>::new();
        let mut seen = vec![0; rules.len()];
        let query = ListQuery { roots_only: true, ..ListQuery::default() };
        self.visit_summaries(query, |summary| {
            if !summary.is_over {
                return;
            }
            plan.ended += usize::from(rules.iter().any(|rule| rule.is_of_project(&summary)));
            let rule = rules.iter().enumerate().find(|(_, rule)| rule.is_about(&summary));
            let Some((index, rule)) = rule else {
                return;
            };
            let ended_at = summary.ended_at();
            let place = seen_by_workflow.entry((index, summary.workflow)).or_default();
            let (place_in_workflow, place_in_all) = (*place, seen[index]);
            *place += 1;
            seen[index] += 1;
            let is_removed = rule.has_condition()
                && rule.older_than.is_none_or(|age| now.since(ended_at) > age)
                && rule.keep_last.is_none_or(|kept| place_in_workflow >= kept)
                && rule.keep_total.is_none_or(|kept| place_in_all >= kept);
            if is_removed {
                plan.ids.push(summary.id);
            }
        })
        .await?;
        plan.ids.reverse();
        Ok(plan)
    }

    /// Removes executions with their children. One that cannot be removed now is passed over.
    ///
    /// # Errors
    /// Those of the store. What was removed before stays removed, and the same call removes the rest.
    pub async fn prune(&self, ids: Vec<ExecutionId>) -> Result<PruneReport> {
        let mut report = PruneReport::default();
        for ids in ids.chunks(limits::PRUNED_TOGETHER_MAX) {
            self.shared.check_running()?;
            let _turn = self.shared.lock_removals().await;
            let mut deletions = JoinSet::new();
            for id in ids {
                let (engine, id) = (self.clone(), id.clone());
                deletions.spawn(async move { engine.delete_family(&id).await });
            }
            while let Some(deleted) = deletions.join_next().await {
                match deleted
                    .map_err(|error| Error::internal("a removal panicked").with_source(error))?
                {
                    Ok(_) => report.removed += 1,
                    Err(error) if error.code() == Code::ExecutionStillOpen => report.kept += 1,
                    // One that cannot be read must not keep the others.
                    Err(error) if error.code() == Code::Internal => {
                        tracing::warn!(%error, "an execution cannot be removed");
                        report.kept += 1;
                    }
                    Err(error) if error.code().is_missing_execution() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(report)
    }
}
