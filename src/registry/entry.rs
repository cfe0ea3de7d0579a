//! The entries of the registry: a definition file each, with the result of loading it.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use super::{
    Format, Source,
    cache::Cache,
    last_good::{LastGood, Versions},
    shipped,
};
use midex_domain::{
    definition::{Definition, Persona},
    document::Digest,
    finding::{Finding, is_broken},
};

/// A definition file with the result of loading it.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// The definition's name; without a definition the name in the file, else the file's own.
    pub name: String,
    /// Which level of directories it belongs to.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The digest of the file's bytes.
    pub version: Digest,
    /// The definition, if all findings are warnings; else the last good version, if one is known.
    pub value: Option<Arc<T>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

/// A workflow file.
pub type WorkflowEntry = Entry<Definition>;
/// An agent's file.
pub type AgentEntry = Entry<Persona>;

/// Equal are two of one text that show the same.
impl<T: PartialEq> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.source, &self.path) == (&other.name, other.source, &other.path)
            && self.version == other.version
            && self.value == other.value
            && self.findings == other.findings
    }
}

impl<T> Entry<T> {
    /// Whether the file has errors.
    pub fn is_broken(&self) -> bool {
        is_broken(&self.findings)
    }

    /// Whether the file has errors and the last good version is served in its place.
    pub fn is_stale(&self) -> bool {
        self.value.is_some() && self.is_broken()
    }
}

/// All definitions of one kind, with what the next load takes over.
///
/// Invariant: entries are sorted by name, and of one name the first entry is the one that counts.
#[derive(Debug)]
pub(super) struct Collection<T> {
    pub(super) entries: Vec<Entry<T>>,
    /// Those that a nearer one of the same name hides, sorted by name.
    pub(super) hidden: Vec<Entry<T>>,
    /// The last good versions of files that this load missed.
    pub(super) departed: Versions<T>,
    pub(super) cache: Cache<T>,
    /// How many files were parsed for it.
    pub(super) parsed: usize,
}

impl<T> Collection<T> {
    /// The entry that counts for a name.
    pub(super) fn get(&self, name: &str) -> Option<&Entry<T>> {
        let all = &self.entries;
        let at = all.partition_point(|entry| entry.name.as_str() < name);
        all.get(at).filter(|entry| entry.name == name)
    }

    /// The versions that the next load can fall back on.
    pub(super) fn last_good(&self) -> LastGood<'_, T> {
        LastGood::new(&self.entries, &self.departed)
    }
}

impl WorkflowEntry {
    /// How its file is written.
    pub fn format(&self) -> Format {
        let of_path = |path: &PathBuf| Format::of_path(path);
        let shipped = || shipped::workflow(&self.name).map(|file| Format::of_path(&file.path));
        self.path
            .as_ref()
            .map(of_path)
            .or_else(shipped)
            .unwrap_or_default()
    }

    /// What its author says of it for people, where there is something.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        let metadata = &self.value.as_ref()?.workflow.metadata;
        (!metadata.is_empty()).then_some(metadata)
    }

    /// Whether each of these words, in lower case, stands in the name, the title, the description or the tags.
    pub fn speaks_of<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> bool {
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
