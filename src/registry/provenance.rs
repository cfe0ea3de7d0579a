//! Marks definitions that come in part from the project: their file, one of their personas, or a workflow that they
//! extend.

use super::{
    Registry, Source,
    extend::{BaseMatch, Used},
    shipped,
};
use midex_domain::definition::Definition;

impl Registry {
    /// Marks every definition that comes in part from the project.
    pub(super) fn mark_project_definitions(&self) {
        let cache = &self.workflows.cache;
        for entry in self.all_workflows() {
            let loaded = entry.path.as_ref().and_then(|path| cache.result_for_path(path));
            let used = loaded.map_or(&[][..], |loaded| &loaded.used);
            if let Some(definition) = &entry.value {
                self.mark_project_definition(Some(entry.source), definition, used);
            }
        }
        // Definitions that are part of midex have no path in their entry, so find them in the cache.
        let shipped = cache.all_results().filter(|one| shipped::is_shipped_path(&one.file.path));
        for loaded in shipped {
            if let Some(definition) = &loaded.value {
                self.mark_project_definition(None, definition, &loaded.used);
            }
        }
    }

    /// The source of the workflow that the project's workflow of this name hides, if it hides one.
    pub fn hidden_by_project(&self, name: &str) -> Option<Source> {
        let shown = self.workflow(name)?.source;
        let hidden = self.hidden_workflows().filter(|entry| entry.name == name);
        let mut sources = hidden.map(|entry| entry.source);
        sources.find(|source| shown == Source::Project && *source > shown)
    }

    /// Marks a definition of this source if it comes in part from the project. `used` lists the workflows that it
    /// refers to.
    pub(super) fn mark_project_definition(
        &self,
        source: Option<Source>,
        definition: &Definition,
        used: &[Used],
    ) {
        let extends = |one: &&Used| matches!(one.meant, BaseMatch::Base(_));
        let bases = used.iter().filter(extends);
        let bases = bases.filter_map(|one| Some(self.workflow(&one.name)?.source));
        let agents = definition.personas.keys();
        let agents = agents.filter_map(|name| Some(self.agent(name.as_str())?.source));
        let mut sources = source.into_iter().chain(bases).chain(agents);
        if sources.any(Source::is_project_source) {
            definition.mark_of_project();
        }
    }
}
