//! For authors: saves, renames and deletes workflows in the authoring directory. A change is loaded before the call
//! returns.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::{App, ListRequest};
use crate::app::list::{ALL_PROJECTS_FILTER, OPEN_STATES_FILTER};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_registry::{
    self as registry, DefinitionDirectory, DeletedWorkflow, LiveDefinitions, RenamedWorkflow,
    SaveRequest, SavedWorkflow, Source,
};

/// Something that refers to a workflow by its id.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkflowReference {
    /// Open executions. They keep the definition that they started with.
    OpenExecutions {
        /// The count. [`limits::LIST_LIMIT_MAX`] means that many or more.
        count: usize,
    },
    /// The prompt that starts it.
    Prompt {
        /// The name of the prompt.
        name: String,
    },
    /// Another workflow that needs this one.
    Definition {
        /// Its name.
        workflow: String,
        /// Its file.
        path: Option<String>,
        /// How it refers to the workflow: `extends`, or `workflow` in a step or a hook.
        by: &'static str,
    },
    /// Another file with the same id, which takes effect once this one is gone.
    Workflow {
        /// The file. `None` for a workflow that is part of midex or of the embedding program.
        path: Option<String>,
        /// The kind of its source.
        #[schemars(with = "String")]
        source: Source,
    },
}

/// A workflow file, together with everything that refers to its id.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WithReferences<T> {
    /// The file.
    #[serde(flatten)]
    pub file: T,
    /// What refers to its id.
    pub referred_by: Vec<WorkflowReference>,
}

impl App {
    /// Saves a workflow.
    ///
    /// # Errors
    /// As [`registry::save_workflow`].
    pub async fn save_workflow(&self, save: SaveRequest) -> Result<SavedWorkflow> {
        self.with_author_directory(move |definitions, target| {
            registry::save_workflow(definitions, target, &save)
        })
        .await
    }

    /// The file that a save would replace, if there is one.
    pub async fn find_file_to_overwrite(&self, save: &SaveRequest) -> Option<DeletedWorkflow> {
        let manifest = save.manifest.clone();
        let file = self.with_author_directory(move |definitions, target| {
            let id = definitions.current_registry().check_manifest(&manifest).name;
            registry::preview_delete(definitions, target, &id, None)
        });
        // `ok`: the save that follows reports the same error.
        file.await.ok()
    }

    /// Gives a workflow another id.
    ///
    /// # Errors
    /// As [`registry::rename_workflow`].
    pub async fn rename_workflow(
        &self,
        id: &str,
        new_id: &str,
        expected_version: Option<String>,
    ) -> Result<WithReferences<RenamedWorkflow>> {
        let (old, new) = (id.to_owned(), new_id.to_owned());
        let renamed = self.with_author_directory(move |definitions, target| {
            registry::rename_workflow(
                definitions,
                target,
                (&old, &new),
                expected_version.as_deref(),
            )
        });
        Ok(self.attach_references(id, renamed.await?).await)
    }

    /// What [`App::delete_workflow`] would delete. Changes nothing.
    ///
    /// # Errors
    /// As [`registry::delete_workflow`].
    pub async fn preview_delete(
        &self,
        id: &str,
        expected_version: Option<String>,
    ) -> Result<WithReferences<DeletedWorkflow>> {
        self.change_workflow_file(id, expected_version, registry::preview_delete).await
    }

    /// Deletes the file of a workflow.
    ///
    /// # Errors
    /// As [`registry::delete_workflow`].
    pub async fn delete_workflow(
        &self,
        id: &str,
        expected_version: Option<String>,
    ) -> Result<WithReferences<DeletedWorkflow>> {
        self.change_workflow_file(id, expected_version, registry::delete_workflow).await
    }

    async fn change_workflow_file(
        &self,
        id: &str,
        expected: Option<String>,
        work: fn(
            &LiveDefinitions,
            &DefinitionDirectory,
            &str,
            Option<&str>,
        ) -> Result<DeletedWorkflow>,
    ) -> Result<WithReferences<DeletedWorkflow>> {
        let owned = id.to_owned();
        let file = self.with_author_directory(move |definitions, target| {
            work(definitions, target, &owned, expected.as_deref())
        });
        Ok(self.attach_references(id, file.await?).await)
    }

    async fn attach_references<T>(&self, id: &str, file: T) -> WithReferences<T> {
        let referred_by = self.find_references(id).await;
        WithReferences { file, referred_by }
    }

    /// Runs `work` on the directory that the authoring tools write into.
    async fn with_author_directory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LiveDefinitions, &DefinitionDirectory) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let authoring = self.authoring.clone().ok_or_else(|| {
            let message = "there is no home directory to write workflows into";
            Error::new(Code::FileUnusable, message).with_context("path", "the user's directory")
        })?;
        self.with_definitions(move |definitions| work(definitions, &authoring.directory)).await?
    }

    /// What refers to an id whose file was renamed or deleted. If the store cannot be read, open executions are left
    /// out.
    async fn find_references(&self, id: &str) -> Vec<WorkflowReference> {
        let mut references = Vec::new();
        let request = ListRequest {
            state: Some(OPEN_STATES_FILTER.into()),
            workflow: Some(id.to_owned()),
            project: Some(ALL_PROJECTS_FILTER.into()),
            should_include_children: true,
            limit: Some(limits::LIST_LIMIT_MAX),
            ..ListRequest::default()
        };
        let listing = self.list(request).await;
        let count = listing.map_or(0, |open| open.executions.len());
        if count > 0 {
            references.push(WorkflowReference::OpenExecutions { count });
        }
        let name = format!("run.{id}");
        references.push(WorkflowReference::Prompt { name });
        let registry = self.definitions().last_loaded_registry();
        let display_path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string());
        let dependents = registry.find_referring_workflows(id).take(limits::LIST_LIMIT_MAX);
        references.extend(dependents.map(|(entry, is_heir)| WorkflowReference::Definition {
            workflow: entry.name.clone(),
            path: display_path(entry.path.as_ref()),
            by: if is_heir { "extends" } else { "workflow" },
        }));
        let is_target = |path: &std::path::Path| {
            let target = self.authoring.as_ref().map(|authoring| &authoring.directory.path);
            target.is_some_and(|target| path.starts_with(target))
        };
        let same_name_entries = registry.all_workflows().filter(|entry| entry.name == id);
        let same_name_entries =
            same_name_entries.filter(|entry| !entry.path.as_deref().is_some_and(is_target));
        references.extend(same_name_entries.map(|entry| WorkflowReference::Workflow {
            path: display_path(entry.path.as_ref()),
            source: entry.source,
        }));
        references
    }
}

impl WithReferences<DeletedWorkflow> {
    /// The references in words, for the confirmation before a delete. Starts with a space unless it is empty.
    pub fn describe_references(&self) -> String {
        let descriptions = self.referred_by.iter().map(|reference| match reference {
            WorkflowReference::OpenExecutions { count } => {
                format!(" Executions of it that are open: {count}; they keep their definition.")
            }
            WorkflowReference::Definition { workflow, by, .. } => {
                format!(" `{workflow}` names it (`{by}`), and does not work without it.")
            }
            WorkflowReference::Prompt { name } => format!(" The prompt {name} goes with it."),
            WorkflowReference::Workflow { path, source } => {
                let place = path.as_deref().unwrap_or(source.origin());
                format!(" Another one of that id stays ({}: {place}).", source.as_str())
            }
        });
        descriptions.collect()
    }
}
