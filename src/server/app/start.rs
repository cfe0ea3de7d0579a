//! Starts of executions.

use std::sync::Arc;

use serde_json::Value;

use super::{App, errors};
use crate::config;
use midex_domain::{Definition, ExecutionId, error::Result, label::Labels, view::AdvanceReply};
use midex_engine::StartRequest;

impl App {
    /// Starts an execution (`workflow.start`). The project is the one that the directory `project` belongs to, or the caller's if it
    /// is `None`.
    pub async fn start(
        &self,
        workflow_name: &str,
        execution_id: Option<ExecutionId>,
        inputs: Option<Value>,
        project: Option<String>,
    ) -> Result<AdvanceReply> {
        self.start_with_labels(workflow_name, execution_id, inputs, project, Labels::new()).await
    }

    /// Like [`App::start`], with labels besides those of the workflow.
    ///
    /// # Errors
    /// As [`App::start`], and `ARGUMENTS_INVALID` for labels that break their rules and for a project that is no directory.
    pub async fn start_with_labels(
        &self,
        workflow_name: &str,
        execution_id: Option<ExecutionId>,
        inputs: Option<Value>,
        project: Option<String>,
        labels: Labels,
    ) -> Result<AdvanceReply> {
        let project = project.map(|directory| {
            config::resolve_project(&directory)
                .ok_or_else(|| errors::unknown_project_error(&directory))
        });
        let project = project.transpose()?;
        let definition = self.definition(workflow_name).await?;
        let start =
            self.start_definition(definition.clone(), execution_id, inputs, project, labels);
        let mut advanced = start.await?;
        advanced.warnings.extend(self.hidden_definition_warning(&definition));
        Ok(advanced)
    }

    /// Like [`App::start`], for a definition that is already loaded.
    pub(super) async fn start_definition(
        &self,
        definition: Arc<Definition>,
        execution_id: Option<ExecutionId>,
        inputs: Option<Value>,
        project: Option<String>,
        labels: Labels,
    ) -> Result<AdvanceReply> {
        let project = self.prepare_start(&definition, project).await?;
        let request = StartRequest {
            execution_id,
            project: Some(project),
            inputs,
            lookup: Some((*self.lookup).clone()),
            labels,
            ..StartRequest::new(definition)
        };
        self.engine().await?.start(request).await
    }

    /// Checks that an execution of this definition may be started, and sets the environment of its project, which is
    /// returned: the caller's if `project` is `None`.
    pub(super) async fn prepare_start(
        &self,
        definition: &Arc<Definition>,
        project: Option<String>,
    ) -> Result<String> {
        self.definitions.check_requirements(definition)?;
        self.check_trust(definition).await?;
        #[cfg(feature = "catalog")]
        if self.shared.catalogs.is_some() && definition.workflow.operation_calls().next().is_some()
        {
            // Load the user's latest catalog changes before the start.
            self.catalog_set().await?;
        }
        let caller_project = self.caller_project();
        let project = project.unwrap_or_else(|| caller_project.clone());
        let environments = &self.shared.environments;
        if project == caller_project {
            // If several clients have this project open, the one that starts the execution sets the environment.
            environments.set(&project, self.environment.clone());
        } else if !environments.claim_project(&project, &self.environment) {
            return Err(errors::foreign_environment_error(&project));
        }
        Ok(project)
    }
}
