//! Purges of inputs.

use std::collections::BTreeSet;

use super::{App, list::parse_workflow};
use midex_domain::error::{Error, Result};
use midex_engine::{PurgeReport, PurgeRequest};

impl App {
    /// What [`App::purge_history`] would remove.
    ///
    /// # Errors
    /// As [`App::purge_history`].
    pub async fn plan_purge(
        &self,
        workflow: Option<&str>,
        keys: Option<BTreeSet<String>>,
    ) -> Result<PurgeReport> {
        let request = self.build_purge_request(workflow, keys)?;
        self.engine().await?.plan_purge(&request).await
    }

    /// Removes the values of inputs from the ended executions of the caller's project and from the calls of commands that
    /// it made. `keys` are names of inputs or of arguments; `None` for all of them. The workflow need not have a file.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` without a workflow and keys, and the errors of the store.
    pub async fn purge_history(
        &self,
        workflow: Option<&str>,
        keys: Option<BTreeSet<String>>,
    ) -> Result<PurgeReport> {
        let request = self.build_purge_request(workflow, keys)?;
        self.engine().await?.purge_inputs(&request).await
    }

    fn build_purge_request(
        &self,
        workflow: Option<&str>,
        keys: Option<BTreeSet<String>>,
    ) -> Result<PurgeRequest> {
        if workflow.is_none() && keys.is_none() {
            let message = "`workflow_id` or `input_keys` must say what to purge";
            return Err(Error::argument_rule("/workflow_id", "required", message));
        }
        let projects = vec![self.caller_project(), self.commands_project()];
        Ok(PurgeRequest { workflow: workflow.map(parse_workflow).transpose()?, keys, projects })
    }
}
