//! Purges: the values of inputs are removed from executions that have ended, one transaction for each. A purge that was
//! interrupted is finished by the same call, because an execution without the values is passed over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::{
    Engine,
    message::{ActorMessage, PreparedPurge},
};
use crate::store::{ContentHolders, ListQuery, PastChange, find_named_contents};
use midex_domain::{
    Digest, Execution, ExecutionId, Sequence, WorkflowName,
    error::{Code, Error, Result, format_count},
    execution::{InputPurge, PurgeDecision, Values},
    limits,
};

/// Which values a purge removes.
#[derive(Clone, Debug, Default)]
pub struct PurgeRequest {
    /// Only from executions of this workflow.
    pub workflow: Option<WorkflowName>,
    /// Only those of the inputs with these names; for calls of commands, of the arguments.
    pub keys: Option<BTreeSet<String>>,
    /// Only from executions of these projects.
    pub projects: Vec<String>,
}

/// What a purge removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// The values: the inputs of all these executions together.
    pub removed_entries: usize,
    /// The executions that had one.
    pub executions: usize,
}

impl PurgeReport {
    fn add(&mut self, purge: &InputPurge) {
        self.removed_entries += purge.keys.len();
        self.executions += 1;
    }
}

impl Engine {
    /// What [`Self::purge_inputs`] would remove. Changes nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn plan_purge(&self, request: &PurgeRequest) -> Result<PurgeReport> {
        let mut report = PurgeReport::default();
        for id in self.find_ended_executions(request).await? {
            if let Some(purge) = self.decide_purge(&id, request).await? {
                report.add(&purge);
            }
        }
        Ok(report)
    }

    /// Removes the values of inputs from the executions that have ended, so that nothing reads them any more. Running
    /// executions are left as they are, and so are the contents that they name.
    ///
    /// # Errors
    /// `SHARD_LOST` if other servers own some of the executions, after all others were purged; those of the store; `SERVER_STOPPING`.
    /// An error does not undo the purges before it.
    pub async fn purge_inputs(&self, request: &PurgeRequest) -> Result<PurgeReport> {
        // Two purges at once could both take the other for the last holder of a content.
        let _turn = self.shared.lock_removals().await;
        let mut ids = Vec::new();
        let mut released = BTreeSet::new();
        for id in self.find_ended_executions(request).await? {
            if let Some(purge) = self.decide_purge(&id, request).await? {
                released.extend(purge.released);
                ids.push(id);
            }
        }
        let mut report = PurgeReport::default();
        if ids.is_empty() {
            return Ok(report);
        }
        let mut holders = self.shared.store.find_holders(released).await?;
        let mut refusals = Vec::new();
        for id in ids {
            match self.purge_execution(&id, request, &mut holders).await {
                Ok(purge) => purge.iter().for_each(|purge| report.add(purge)),
                Err(error) if error.code() == Code::ShardLost => refusals.push(error),
                Err(error) => return Err(error),
            }
        }
        let elsewhere_count = refusals.len();
        let Some(error) = refusals.pop() else {
            return Ok(report);
        };
        let owner = error.context("owner").and_then(Value::as_str).unwrap_or("another server");
        let message = format!(
            "{} purged; {} on other servers, such as {owner}, where the same call purges them",
            format_count(report.executions, "execution"),
            format_count(elsewhere_count, "execution"),
        );
        Err(error.with_message(message))
    }

    /// The executions that have ended, in the order in which they moved last: a purge moves them, and keeps their order.
    async fn find_ended_executions(&self, request: &PurgeRequest) -> Result<Vec<ExecutionId>> {
        let is_in_project = |execution: &Execution| {
            let projects = &request.projects;
            execution.project().is_some_and(|of| projects.iter().any(|project| project == of))
        };
        let mut ended = BTreeMap::new();
        let mut before: Option<Sequence> = None;
        loop {
            let query = ListQuery {
                workflow: request.workflow.clone(),
                limit: limits::LIST_LIMIT_MAX,
                before,
                ..ListQuery::default()
            };
            let page = self.shared.store.list(query).await?;
            let executions = page
                .executions
                .into_iter()
                .filter(|(_, one)| one.has_ended() && one.inputs().is_some() && is_in_project(one));
            ended.extend(executions.map(|(key, execution)| (key, execution.id().clone())));
            before = page.next_key;
            if before.is_none() {
                return Ok(ended.into_values().collect());
            }
        }
    }

    /// The purge of one execution; `None` if it has not ended or has no such values.
    async fn decide_purge(
        &self,
        id: &ExecutionId,
        request: &PurgeRequest,
    ) -> Result<Option<Box<InputPurge>>> {
        let rows = self.shared.store.load_history(id).await?;
        let execution = Execution::replay(&rows);
        let Some(execution) = execution.filter(Execution::has_ended) else {
            return Ok(None);
        };
        let definition = self.shared.definitions.get(execution.definition()).await?;
        let (keys, now) = (request.keys.as_ref(), self.shared.clock.now());
        let mut values = Values::new();
        loop {
            match execution.purge_inputs(&definition, rows.clone(), &values, keys, now)? {
                PurgeDecision::Nothing => return Ok(None),
                PurgeDecision::Purge(purge) => return Ok(Some(purge)),
                PurgeDecision::MissingValues(missing) => {
                    for digest in missing {
                        let value = self.shared.contents.value(digest).await?;
                        let gone = || Error::internal("a value that the execution names is gone");
                        values.insert(digest, value.ok_or_else(gone)?);
                    }
                }
            }
        }
    }

    async fn purge_execution(
        &self,
        id: &ExecutionId,
        request: &PurgeRequest,
        holders: &mut ContentHolders,
    ) -> Result<Option<Box<InputPurge>>> {
        loop {
            let Some(purge) = self.decide_purge(id, request).await? else {
                return Ok(None);
            };
            let released = holders.find_released(id, &purge)?;
            let rows = purge.rows.iter();
            let rows = rows.filter(|row| purge.changed_revisions.contains(&row.revision));
            let prepared = Arc::new(PreparedPurge {
                transition: purge.transition.clone(),
                past: PastChange {
                    rows: rows.cloned().collect(),
                    released: released.clone(),
                    searched_before: holders.searched_before,
                },
            });
            let message = |reply| ActorMessage::Purge { purge: prepared.clone(), reply };
            match self.send_message(id, message).await {
                Ok(_) => {}
                // The execution has moved: its parts that have ended may still tell each other of it.
                Err(error) if error.code() == Code::RevisionConflict => continue,
                Err(error) => return Err(error),
            }
            for digest in released {
                self.shared.contents.forget(digest);
            }
            return Ok(Some(purge));
        }
    }
}

impl ContentHolders {
    /// Takes the execution out of the holders of what it no longer names after the purge. Returns the contents that nobody
    /// names then.
    fn find_released(&mut self, id: &ExecutionId, purge: &InputPurge) -> Result<BTreeSet<Digest>> {
        let still_named = find_named_contents(&purge.rows, &purge.released)?;
        let mut released = BTreeSet::new();
        for digest in purge.released.difference(&still_named) {
            let holders = self.by_content.entry(*digest).or_default();
            holders.remove(id);
            if holders.is_empty() {
                released.insert(*digest);
            }
        }
        Ok(released)
    }
}
