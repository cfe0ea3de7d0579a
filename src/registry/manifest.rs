//! The text of a definition: checked on its own, read from its file, renamed, copied, or merged with its bases.

use std::{path::PathBuf, slice, sync::Arc};

use serde_json::Value;

use super::{
    Format, Registry, Source, WorkflowEntry, entries,
    extend::{self, CheckContext},
    files::{self, DefinitionFile},
    load::LoadResult,
    markdown, program, read, shipped,
    template::DefinitionTemplate,
    yaml,
};
use midex_domain::{
    check::{KnownAgents, KnownNames},
    definition::Definition,
    document::Digest,
    draft::WorkflowFormat,
    error::Result,
    finding::{Finding, has_errors},
    grammar::EXTENDS_KEY,
    id::WorkflowName,
    inherit,
    node::DocumentNode,
};

/// The text of a workflow's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The text, as a file would hold it.
    pub text: String,
    /// How it is written.
    pub format: Format,
    /// Whether it was passed as a JSON object. The caller never saw line numbers then, so findings have no places.
    is_object: bool,
}

/// The result of checking a definition.
#[derive(Clone, Debug)]
pub struct ManifestCheck {
    /// The name of the workflow. Empty for a text that states none.
    pub name: String,
    /// The definition, if it has no errors.
    pub definition: Option<Arc<Definition>>,
    /// All findings, warnings included.
    pub findings: Vec<Finding>,
}

impl Manifest {
    /// A text in this format. If `format` is `None`, the format is detected: front matter means Markdown, a leading
    /// brace means JSON.
    pub fn from_text(text: String, format: Option<Format>) -> Self {
        let format = format.unwrap_or_else(|| Format::from_text(&text));
        Self { text, format, is_object: false }
    }

    /// A manifest that was passed as a JSON object. Keys keep their order.
    pub fn from_object(document: &Value) -> Self {
        Self { text: format!("{document:#}"), format: Format::Json, is_object: true }
    }

    /// The version of the text: its SHA-256 digest.
    pub fn version(&self) -> Digest {
        Digest::compute(self.text.as_bytes())
    }

    /// Like [`Manifest::from_object`], written as YAML, which is easier to edit.
    pub fn from_object_as_yaml(document: &Value) -> Self {
        match serde_saphyr::to_string(document) {
            Ok(text) => Self { is_object: true, ..Self::from_text(text, Some(Format::Yaml)) },
            Err(_) => Self::from_object(document),
        }
    }

    /// The document as JSON; for Markdown, the front matter. `None` if it cannot be parsed.
    pub fn parse_document(&self) -> Option<Value> {
        let document = match self.format {
            Format::Markdown => markdown::parse(&self.text).ok()?.front,
            Format::Yaml => yaml::parse(&self.text).ok()?,
            Format::Json => yaml::parse_json(&self.text).ok()?,
        };
        Some(document.to_json())
    }
}

impl Registry {
    /// Checks a text as if it were one of the definition files, with the agents and abilities of this registry.
    pub fn check_manifest(&self, manifest: &Manifest) -> ManifestCheck {
        let mut loaded = self.load_manifest(manifest);
        if manifest.is_object {
            for finding in &mut loaded.findings {
                finding.clear_location();
            }
        }
        ManifestCheck {
            // For a file, the file name replaces a missing name. A text has no file name.
            name: loaded.name_place.map(|_| loaded.name).unwrap_or_default(),
            definition: loaded.value.filter(|_| !has_errors(&loaded.findings)),
            findings: loaded.findings,
        }
    }

    fn load_manifest(&self, manifest: &Manifest) -> LoadResult<Arc<Definition>> {
        let agents = entries::collect_known_agents(&self.agents);
        let path = PathBuf::from(format!("workflow.{}", manifest.format.extension()));
        let file = DefinitionFile::from_text(path, manifest.text.clone()).limit_file_size();
        let loaded = entries::load_definition(file, &self.agents, self.check_context(&agents));
        if let Some(definition) = &loaded.value {
            self.mark_project_definition(None, definition, &loaded.name_lookups);
        }
        loaded
    }

    /// The workflow as one manifest, merged with everything that it inherits. A workflow that extends nothing is
    /// returned as it is in its file.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `WORKFLOW_VALIDATION_FAILED`.
    pub fn merge_manifest(&self, name: &str) -> Result<Manifest> {
        let entry = self.workflow(name).ok_or_else(|| self.workflow_not_found_error(name))?;
        let file = self.read_workflow_file(entry).filter(|_| !entry.is_broken());
        let file = file.ok_or_else(|| super::invalid_workflow_error(entry))?;
        let (draft, _) =
            read::read_draft(&file).map_err(|_| super::invalid_workflow_error(entry))?;
        if draft.form == WorkflowFormat::Phases || draft.document.get(EXTENDS_KEY).is_none() {
            let format = Format::from_path(&file.path);
            return Ok(Manifest::from_text(file.text_with_bom(), Some(format)));
        }
        let agents = entries::collect_known_agents(&self.agents);
        let merged =
            extend::check_draft(draft, slice::from_ref(&entry.name), self.check_context(&agents));
        let document = inherit::remove_inheritance_keys(&merged.document);
        let mut merged_json = document.to_json();
        // Keep `version` exactly as it is written, not as a parsed number.
        if let Some(version) = document.get("version").and_then(DocumentNode::text_or_number) {
            merged_json["version"] = Value::String(version);
        }
        Ok(Manifest::from_object_as_yaml(&merged_json))
    }

    /// The context of a check with these agents: the workflows and the abilities of this registry.
    pub(super) fn check_context<'a>(&'a self, agents: &'a KnownAgents) -> CheckContext<'a> {
        let known = KnownNames { agents, abilities: &self.abilities };
        CheckContext { known_names: known, bases: self }
    }

    /// The text with another id, and otherwise unchanged. `None` if the place of the id cannot be determined.
    pub(super) fn rename_manifest(
        &self,
        manifest: &Manifest,
        (old, new): (&str, &str),
    ) -> Option<Manifest> {
        let loaded = self.load_manifest(manifest);
        let Some(place) = loaded.name_place else {
            // The text states no id, so the file name is all that has to change.
            return Some(manifest.clone());
        };
        // Places refer to the text without its byte order mark.
        let bom_length = manifest.text.len()
            - DefinitionFile::from_text(loaded.file.path, manifest.text.clone()).text.len();
        let (before, rest) = manifest.text.split_at_checked(bom_length + place.start)?;
        let line = rest.lines().next()?;
        let (key, after) = rest.split_at(line.find(old)?);
        let after = after.strip_prefix(old)?;
        // A name that looks like a number or a boolean must be quoted, so try both forms.
        let spellings = [new.to_owned(), format!("\"{new}\"")];
        let mut texts = spellings.map(|new| format!("{before}{key}{new}{after}")).into_iter();
        let texts = texts.by_ref().map(|text| Manifest::from_text(text, Some(manifest.format)));
        let has_new_name = |manifest: &Manifest| {
            let renamed = self.load_manifest(manifest);
            renamed.name == new
                && renamed.name_place.is_some()
                && renamed.value.is_some() == loaded.value.is_some()
        };
        texts.into_iter().find(has_new_name)
    }

    /// Reads the file of a workflow as it is now.
    pub(super) fn read_workflow_file(&self, entry: &WorkflowEntry) -> Option<DefinitionFile> {
        match entry.source {
            Source::Program => program::find_program_file(&self.sources.program, &entry.cache_path),
            Source::Shipped => shipped::find_shipped_workflow(&entry.name),
            _ => files::reread_file(&self.sources.workflows, &entry.cache_path),
        }
    }

    /// A copy of a workflow's file under another name, and otherwise unchanged.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`; `WORKFLOW_VALIDATION_FAILED` if the file cannot be read, or the place of its name cannot
    /// be determined.
    pub fn copy_workflow(&self, name: &str, new: &WorkflowName) -> Result<DefinitionTemplate> {
        let entry = self.workflow(name).ok_or_else(|| self.workflow_not_found_error(name))?;
        let manifest =
            self.read_manifest(entry).ok_or_else(|| super::invalid_workflow_error(entry))?;
        let copied_manifest = self.rename_manifest(&manifest, (&entry.name, new.as_str()));
        let copy = copied_manifest.ok_or_else(|| super::invalid_workflow_error(entry))?;
        Ok(DefinitionTemplate::new_copy(new, copy.format, copy.text))
    }

    /// The current text of the workflow's file. `None` if the file is missing or not a text.
    pub fn read_manifest(&self, entry: &WorkflowEntry) -> Option<Manifest> {
        let file = self.read_workflow_file(entry)?;
        let format = Format::from_path(&file.path);
        let text = file.read_finding.is_none().then(|| file.text_with_bom())?;
        Some(Manifest::from_text(text, Some(format)))
    }
}
