#![doc = include_str!("README.md")]

mod author;
mod bases;
mod builder;
mod cache;
mod difference;
mod entries;
mod entry;
mod extend;
mod files;
mod format;
mod last_good;
mod lenient;
mod live;
mod load;
mod manifest;
mod markdown;
mod names;
mod program;
mod provenance;
mod read;
mod recover;
mod schema;
mod sections;
mod shipped;
mod source;
mod stamps;
mod template;
mod validate;
mod write;
mod yaml;
mod yaml_fixes;

use std::{path::Path, sync::Arc};

pub use self::{
    author::create_definition,
    builder::{StepBuilder, WorkflowBuilder},
    entry::{AgentEntry, WorkflowEntry},
    files::is_definition_file,
    format::Format,
    live::LiveDefinitions,
    manifest::{Manifest, ManifestCheck},
    schema::{SchemaDraft, SchemaKind, build_schema},
    source::{DefinitionDirectory, DefinitionPlaces, Source, Sources},
    template::DefinitionTemplate,
    validate::{DefinitionKind, FileReport, check_text, load_workflow_file, validate_paths},
    write::{
        DeletedWorkflow, RenamedWorkflow, SaveRequest, SavedWorkflow, delete_workflow,
        preview_delete, rename_workflow, save_workflow,
    },
};
use self::{entry::Collection, extend::BaseMatch, load::LoadResult};
pub use self::{files::read_definition_file as read_file, source::find_user_dir};
use midex_domain::{
    check::{KnownNames, ServerCapabilities},
    definition::{Definition, Persona},
    document::Digest,
    error::{Code, Error, NextCall, Result, call_tool, repeat_call},
    finding::{Finding, filter_errors},
    limits,
    nearest::find_nearest,
};
pub use midex_folder::ExistingFilePolicy;

/// All definitions, as of the time of loading.
#[derive(Debug)]
pub struct Registry {
    sources: Sources,
    abilities: ServerCapabilities,
    workflows: Collection<Definition>,
    agents: Collection<Persona>,
}

impl Registry {
    /// Reads every directory, and checks definitions against default abilities: no activities, and unknown secrets and
    /// catalogs. Loading never fails as a whole: problems become findings of entries.
    pub fn load(sources: &Sources) -> Self {
        Self::load_with_abilities(sources, &ServerCapabilities::default())
    }

    /// Like [`Registry::load`], for a server with these abilities.
    pub fn load_with_abilities(sources: &Sources, abilities: &ServerCapabilities) -> Self {
        Self::load_with_previous(sources, abilities, None)
    }

    /// Reads every directory again. A file that now has errors keeps the last good version that this registry has of
    /// it, under the name that it had, and its entry is stale (`Entry::is_stale`). A file that no longer exists is
    /// dropped.
    #[must_use]
    pub fn reload(&self, sources: &Sources) -> Self {
        Self::load_with_previous(sources, &self.abilities, Some(self))
    }

    fn load_with_previous(
        sources: &Sources,
        abilities: &ServerCapabilities,
        previous: Option<&Self>,
    ) -> Self {
        let previous_agents = previous.map(|before| &before.agents);
        let agents = entries::load_agents(&sources.agents, previous_agents);
        let names = entries::collect_known_agents(&agents);
        // A workflow is checked against the known agents and the abilities. If either differs, check all workflows
        // again.
        let is_same = |before: &&Self| {
            before.abilities == *abilities && entries::collect_known_agents(&before.agents) == names
        };
        let previous_workflows = previous.map(|before| &before.workflows);
        let reusable = previous.filter(is_same).and(previous_workflows);
        let known = KnownNames { agents: &names, abilities };
        let workflows =
            entries::load_workflows(sources, &agents, known, (previous_workflows, reusable));
        let registry =
            Self { sources: sources.clone(), abilities: abilities.clone(), workflows, agents };
        registry.mark_project_definitions();
        registry
    }

    /// How many files were parsed for this load.
    fn parsed_file_count(&self) -> usize {
        self.workflows.parsed_files + self.agents.parsed_files
    }

    /// Whether both registries have the same entries: names, sources, paths, definitions, personas and findings.
    pub fn has_same_entries(&self, other: &Self) -> bool {
        self.workflows.entries == other.workflows.entries
            && self.agents.entries == other.agents.entries
    }

    /// Whether all files have the same stamps as in `other`.
    fn has_same_stamps(&self, other: &Self) -> bool {
        self.workflows.cache.has_same_stamps(&other.workflows.cache)
            && self.agents.cache.has_same_stamps(&other.agents.cache)
    }

    /// Whether the workflows come from the same files with the same bytes, whatever their findings are.
    fn has_same_files(&self, other: &Self) -> bool {
        fn workflow_files(
            registry: &Registry,
        ) -> impl Iterator<Item = (&str, Source, &Path, Digest)> {
            let entries = registry.all_workflows();
            entries.map(|entry| {
                let path = entry.path.as_deref().unwrap_or(Path::new(""));
                (entry.name.as_str(), entry.source, path, entry.version)
            })
        }
        workflow_files(self).eq(workflow_files(other))
    }

    /// The directories that the registry was loaded from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The abilities that the registry was loaded for.
    pub fn abilities(&self) -> &ServerCapabilities {
        &self.abilities
    }

    /// Every workflow, including broken ones, sorted by name.
    pub fn workflows(&self) -> impl Iterator<Item = &WorkflowEntry> {
        self.workflows.entries.iter()
    }

    /// The workflows that are hidden by a nearer one of the same name, sorted by name.
    pub fn hidden_workflows(&self) -> impl Iterator<Item = &WorkflowEntry> {
        self.workflows.hidden_entries.iter()
    }

    /// Every workflow file: those in effect and those that are hidden.
    pub fn all_workflows(&self) -> impl Iterator<Item = &WorkflowEntry> {
        self.workflows().chain(self.hidden_workflows())
    }

    /// The workflow of this name.
    pub fn workflow(&self, name: &str) -> Option<&WorkflowEntry> {
        self.workflows.effective_entry(name)
    }

    /// Whether the embedding program defines the workflow of this name, so that no file can.
    pub fn is_program_workflow(&self, name: &str) -> bool {
        self.workflow(name).is_some_and(|entry| entry.source == Source::Program)
    }

    /// Every agent, including broken ones, sorted by name.
    pub fn agents(&self) -> impl Iterator<Item = &AgentEntry> {
        self.agents.entries.iter()
    }

    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&AgentEntry> {
        self.agents.effective_entry(name)
    }

    /// The definition that a start of this workflow uses.
    pub fn definition(&self, name: &str) -> Result<Arc<Definition>> {
        let entry = self.workflow(name).ok_or_else(|| self.workflow_not_found_error(name))?;
        entry.value.clone().ok_or_else(|| invalid_workflow_error(entry))
    }

    /// Checks that the file of this workflow has no errors. A workflow that does not exist has none.
    fn check_file(&self, name: &str) -> Result<()> {
        let broken = self.workflow(name).filter(|entry| entry.is_broken());
        broken.map_or(Ok(()), |entry| Err(invalid_workflow_error(entry)))
    }

    /// The names of the workflows that this one refers to: those it extends, nearest first, then those that its steps
    /// start.
    fn referenced_names(&self, name: &str) -> Vec<String> {
        let entry = self.workflow(name);
        let loaded =
            entry.and_then(|entry| self.workflows.cache.result_for_path(&entry.cache_path));
        let name_lookups = loaded.map_or(&[][..], |loaded| &loaded.name_lookups);
        name_lookups.iter().map(|used| used.name.clone()).collect()
    }

    /// The workflow files that refer to this workflow, each with whether it extends it. If not, one of its steps or
    /// hooks starts it.
    pub fn find_referring_workflows(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (&WorkflowEntry, bool)> {
        // Workflows that are part of midex refer to each other alone, and these stay.
        let other_entries = self.all_workflows();
        let other_entries = other_entries
            .filter(move |entry| entry.name != name && entry.source != Source::Shipped);
        other_entries.filter_map(move |entry| {
            let loaded = self.workflows.cache.result_for_path(&entry.cache_path)?;
            // Bases are listed before children, so a workflow that is both counts as extended.
            let used = loaded.name_lookups.iter().find(|used| used.name == name)?;
            Some((entry, matches!(used.base_match, BaseMatch::Base(_))))
        })
    }

    /// The definition for a start of this workflow, parsed again if its file has changed. `None` if that is not enough
    /// and a reload is needed: the file is missing or renamed, one of its agents or bases has changed, or its new text
    /// refers to other workflows. Of a broken file it is the last good version, if the caller accepts that, else `None`.
    fn reparse_definition(&self, name: &str, accepts_last_good: bool) -> Option<Arc<Definition>> {
        let entry = self.workflow(name)?;
        let definition = entry.value.as_ref()?;
        if entry.is_broken() && !accepts_last_good {
            return None;
        }
        let mut agents = definition.personas.keys();
        let has_same_agents = agents.all(|name| self.is_agent_unchanged(name.as_str()));
        if !has_same_agents {
            return None;
        }
        let has_current_lookups =
            |loaded: &LoadResult<_>| loaded.name_lookups.iter().all(|used| used.is_current(self));
        let (path, cache) = (&entry.cache_path, &self.workflows.cache);
        let unchanged = if entry.source.has_files() {
            cache.unchanged_result(path)
        } else {
            cache.result_for_path(path)
        };
        if let Some(loaded) = unchanged {
            return has_current_lookups(loaded).then(|| definition.clone());
        }
        let file = files::reread_file(&self.sources.workflows, path)?;
        if let Some(loaded) = self.workflows.cache.result_for_file(&file) {
            return has_current_lookups(loaded).then(|| definition.clone());
        }
        let agents = entries::collect_known_agents(&self.agents);
        let loaded = entries::load_definition(file, &self.agents, self.check_context(&agents));
        if !loaded.name_lookups.is_empty() {
            return None;
        }
        match loaded.value {
            Some(value) => {
                self.mark_project_definition(Some(entry.source), &value, &[]);
                (loaded.name == name).then_some(value)
            }
            // Its file is broken now.
            None => accepts_last_good.then(|| definition.clone()),
        }
    }

    fn is_agent_unchanged(&self, name: &str) -> bool {
        let is_same = |path: &std::path::PathBuf| {
            let cache = &self.agents.cache;
            let reread = || files::reread_file(&self.sources.agents, path);
            cache.unchanged_result(path).is_some()
                || reread().is_some_and(|file| cache.has_same_text(&file))
        };
        let agent = self.agent(name);
        agent.is_some_and(|agent| agent.path.as_ref().is_none_or(is_same))
    }

    /// The error for an unknown workflow, with the nearest name if there is one.
    pub fn workflow_not_found_error(&self, name: &str) -> Error {
        let names = self.workflows().map(|entry| entry.name.as_str());
        let nearest = find_nearest(name, names);
        let hint = nearest.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        let short_name: String = name.chars().take(limits::WORKFLOW_NAME_BYTES_MAX).collect();
        let message = format!("Workflow '{short_name}' not found{hint}");
        let error =
            Error::new(Code::WorkflowNotFound, message).with_context("workflow", short_name);
        match nearest {
            Some(near) => error.with_context("nearest", near).with_next(NEAREST_WORKFLOW_CALL),
            None => error,
        }
    }

    /// Like [`Registry::workflow_not_found_error`], for callers that pass the name as `workflow_id`.
    pub fn unknown_id_error(&self, id: &str) -> Error {
        let error = self.workflow_not_found_error(id);
        let has_nearest = error.context("nearest").is_some();
        error.with_next(if has_nearest { NEAREST_ID_CALL } else { LIST_IDS_CALL })
    }
}

fn check_requirements(abilities: &ServerCapabilities, definition: &Definition) -> Result<()> {
    let Some(commands) = abilities.operation_lookup() else {
        return Ok(());
    };
    let workflow = &definition.workflow;
    let missing = workflow.requires.iter().find(|one| !commands.is_requirement_met(one));
    let Some(missing) = missing else {
        return Ok(());
    };
    if let Some(id) = commands.find_disabled_catalog(missing) {
        let message =
            format!("workflow '{}' requires the catalog `{id}`, which is disabled", workflow.name);
        return Err(Error::new(Code::CatalogMissing, message)
            .with_context("workflow", workflow.name.as_str())
            .with_context("catalog_id", id)
            .with_next(ENABLE_CATALOG_CALL));
    }
    let message =
        format!("workflow '{}' requires a catalog of {missing}, which is not here", workflow.name);
    Err(Error::new(Code::CatalogMissing, message)
        .with_context("workflow", workflow.name.as_str())
        .with_context("import", missing.import_catalog_call()))
}

/// Suggests enabling the catalog.
const ENABLE_CATALOG_CALL: NextCall = call_tool(
    "catalog.set_enabled",
    &[("catalog_id", "{catalog_id}"), ("enabled", "true")],
    "if your user wants it; the workflow can start then",
);

/// Suggests the same call with the nearest id.
const NEAREST_ID_CALL: NextCall =
    repeat_call("if that is the one meant").with_arguments(&[("workflow_id", "{nearest}")]);

/// Suggests listing the existing ids.
const LIST_IDS_CALL: NextCall = call_tool("workflow.list", &[], "use a workflow_id that it shows");

/// Suggests starting the workflow with the nearest name.
const NEAREST_WORKFLOW_CALL: NextCall = call_tool(
    "workflow.start",
    &[("workflow_name", "{nearest}")],
    "if that is the one meant; your other arguments stay as they were",
);

/// The next call if a definition file has errors.
pub const FIX_FILE_CALL: NextCall =
    call_tool("workflow.list", &[("brief", "true")], "for another workflow").after_person_does(
        "run `midex validate[ {path}]` and correct every finding, or start another workflow",
    );

/// The next call if a workflow of the embedding program has errors: no command of midex reads it.
const FIX_PROGRAM_CALL: NextCall =
    call_tool("workflow.list", &[("brief", "true")], "for another workflow")
        .after_person_does("correct the workflow in the program, or start another workflow");

/// The error for a workflow whose file has errors.
pub fn invalid_workflow_error(entry: &WorkflowEntry) -> Error {
    let next = if entry.source == Source::Program { FIX_PROGRAM_CALL } else { FIX_FILE_CALL };
    let error = invalid_definition_error(&entry.name, &entry.findings).with_next(next);
    match &entry.path {
        Some(path) => error.with_context("path", path.display().to_string()),
        // The workflow is part of midex or of the embedding program: no file of the user's has the error.
        None => error,
    }
}

/// The error for a definition with these findings. Its context has the place of the first one.
pub fn invalid_definition_error(name: &str, findings: &[Finding]) -> Error {
    let count = filter_errors(findings).count();
    let noun = if count == 1 { "finding" } else { "findings" };
    let subject =
        if name.is_empty() { "The manifest".to_owned() } else { format!("Workflow '{name}'") };
    let message = format!("{subject} has {count} {noun}");
    let violations = filter_errors(findings).map(Finding::to_violation);
    let error = Error::new(Code::WorkflowValidationFailed, message)
        .with_violations(violations.take(limits::VIOLATIONS_MAX).collect());
    let error = match name {
        "" => error,
        name => error.with_context("workflow", name),
    };
    match filter_errors(findings).next().filter(|first| first.line > 0) {
        Some(first) => error.with_context("line", first.line).with_context("column", first.column),
        None => error,
    }
}
