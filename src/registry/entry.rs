//! The entries of the registry: a definition file each, with the result of loading it.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use super::{
    Format, Source,
    cache::LoadCache,
    last_good::{GoodVersions, LastGoodVersions},
};
use midex_domain::{
    definition::{Definition, ExposedAction, Persona},
    document::Digest,
    finding::{Finding, Rule, has_errors},
};

/// A definition file with the result of loading it.
#[derive(Clone, Debug)]
pub struct DefinitionEntry<T> {
    /// The name of the definition. Without a definition, the name that the file states, or else its file name.
    pub name: String,
    /// The source that it was loaded from.
    pub source: Source,
    /// The path of the file. `None` for a definition that is part of midex or of the embedding program.
    pub path: Option<PathBuf>,
    /// The path under which the cache has the file, whether it is on disk or not.
    pub(super) cache_path: PathBuf,
    /// The digest of the file's bytes.
    pub version: Digest,
    /// The definition, if the file has no errors. Otherwise its last good version, if there is one.
    pub value: Option<Arc<T>>,
    /// All findings, warnings included.
    pub findings: Vec<Finding>,
}

/// A workflow file.
pub type WorkflowEntry = DefinitionEntry<Definition>;
/// An agent file.
pub type AgentEntry = DefinitionEntry<Persona>;

/// Entries are equal if they come from the same file with the same bytes, and have the same definition and findings.
impl<T: PartialEq> PartialEq for DefinitionEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.source, &self.path) == (&other.name, other.source, &other.path)
            && self.version == other.version
            && self.value == other.value
            && self.findings == other.findings
    }
}

impl<T> DefinitionEntry<T> {
    /// Whether the file has errors.
    pub fn is_broken(&self) -> bool {
        has_errors(&self.findings)
    }

    /// Whether the file has errors and its last good version is served instead.
    pub fn is_stale(&self) -> bool {
        self.value.is_some() && self.is_broken()
    }
}

impl WorkflowEntry {
    /// The tools that the workflow exposes: the name and the action of each.
    pub fn list_exposed_tools(&self) -> Vec<(String, ExposedAction)> {
        self.value.as_ref().map_or_else(Vec::new, |value| value.workflow.list_exposed_tools())
    }

    /// Whether its tools are offered: it has some, and no other workflow has tools of the same names.
    pub fn offers_tools(&self) -> bool {
        let is_taken = self.findings.iter().any(|finding| finding.rule == Rule::ToolNameTaken);
        !is_taken && !self.list_exposed_tools().is_empty()
    }
}

/// All definitions of one kind, with the state that the next load reuses.
///
/// Invariant: entries are sorted by name. If several have the same name, the first one is in effect.
#[derive(Debug)]
pub(super) struct Collection<T> {
    pub(super) entries: Vec<DefinitionEntry<T>>,
    /// Entries that a nearer one of the same name hides, sorted by name.
    pub(super) hidden_entries: Vec<DefinitionEntry<T>>,
    /// The last good versions of files that were missing in this load.
    pub(super) missing_versions: GoodVersions<T>,
    pub(super) cache: LoadCache<T>,
    /// How many files this load parsed.
    pub(super) parsed_files: usize,
}

impl<T> Collection<T> {
    /// The entry that is in effect for a name.
    pub(super) fn effective_entry(&self, name: &str) -> Option<&DefinitionEntry<T>> {
        let all = &self.entries;
        let position = all.partition_point(|entry| entry.name.as_str() < name);
        all.get(position).filter(|entry| entry.name == name)
    }

    /// The last good versions, for the next load.
    pub(super) fn last_good(&self) -> LastGoodVersions<'_, T> {
        LastGoodVersions::new(&self.entries, &self.missing_versions)
    }
}

impl WorkflowEntry {
    /// The format of its file.
    pub fn format(&self) -> Format {
        Format::from_path(&self.cache_path)
    }

    /// The metadata that the author added, if there is any.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        let metadata = &self.value.as_ref()?.workflow.metadata;
        (!metadata.is_empty()).then_some(metadata)
    }

    /// Whether the name, the title, the description or the tags contain each of these words. The words must be
    /// lowercase.
    pub fn contains_words<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> bool {
        let mut words = words.into_iter().peekable();
        if words.peek().is_none() {
            return true;
        }
        let mut texts = vec![self.name.as_str()];
        if let Some(definition) = &self.value {
            let workflow = &definition.workflow;
            texts.extend(workflow.title.as_deref());
            texts.push(&workflow.description);
            texts.extend(workflow.tags.iter().map(String::as_str));
        }
        let text = texts.join("\n").to_lowercase();
        words.all(|word| text.contains(word))
    }
}
