//! Marks definitions that come in part from the project: their file, one of their personas, or a workflow that they
//! extend.

use super::{
    Registry, Source,
    extend::{BaseMatch, NameLookup},
};
use midex_domain::definition::Definition;

impl Registry {
    /// Marks every definition that comes in part from the project.
    pub(super) fn mark_project_definitions(&self) {
        let cache = &self.workflows.cache;
        for entry in self.all_workflows() {
            let loaded = cache.result_for_path(&entry.cache_path);
            let used = loaded.map_or(&[][..], |loaded| &loaded.name_lookups);
            if let Some(definition) = &entry.value {
                self.mark_project_definition(Some(entry.source), definition, used);
            }
        }
    }

    /// The source of the workflow that the project's workflow of this name hides, if it hides one.
    pub fn find_hidden_source(&self, name: &str) -> Option<Source> {
        let effective_source = self.workflow(name)?.source;
        let hidden = self.hidden_workflows().filter(|entry| entry.name == name);
        let mut sources = hidden.map(|entry| entry.source);
        sources.find(|source| effective_source == Source::Project && *source > effective_source)
    }

    /// Marks a definition of this source if it comes in part from the project. `name_lookups` lists the workflows that it
    /// refers to.
    pub(super) fn mark_project_definition(
        &self,
        source: Option<Source>,
        definition: &Definition,
        name_lookups: &[NameLookup],
    ) {
        let is_base = |one: &&NameLookup| matches!(one.base_match, BaseMatch::Base(_));
        let bases = name_lookups.iter().filter(is_base);
        let bases = bases.filter_map(|one| Some(self.workflow(&one.name)?.source));
        let agents = definition.personas.keys();
        let agents = agents.filter_map(|name| Some(self.agent(name.as_str())?.source));
        let mut sources = source.into_iter().chain(bases).chain(agents);
        if sources.any(Source::is_project_source) {
            definition.mark_from_project();
        }
    }
}
