//! The registry: definition files in, checked definitions out. A [`Registry`] is a snapshot that never
//! changes; a broken file is an entry with findings and stops nobody else. Executions keep the
//! definition they started with, so nothing here is asked twice about a running one.

mod author;
mod files;
mod keys;
mod load;
mod mapping;
mod markdown;
mod read;
mod schema;
mod shipped;
mod source;
mod template;
mod validate;
mod yaml;

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

pub use self::{
    author::{Existing, create},
    schema::{SchemaDraft, SchemaOf, schema},
    source::{Directory, Source, Sources},
    template::{Format, Template},
    validate::{FileReport, Kind, is_definition_file, validate, workflow_file},
};
use self::{files::File, load::Loaded};
use crate::{
    domain::{
        check::{Agent, Agents},
        definition::{Definition, Persona, Workflow},
        finding::Finding,
        nearest::nearest,
    },
    error::{Code, Error, Result},
    limits,
};

/// A workflow file and what became of it.
#[derive(Debug)]
pub struct WorkflowEntry {
    /// The name it gives; else the file's.
    pub name: String,
    /// Whose it is.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The definition, where there are no findings.
    pub definition: Option<Arc<Definition>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

/// An agent's file and what became of it.
#[derive(Debug)]
pub struct AgentEntry {
    /// The name it gives; else the file's.
    pub name: String,
    /// Whose it is.
    pub source: Source,
    /// The file; none for those that are part of midex.
    pub path: Option<PathBuf>,
    /// The persona, where there are no findings.
    pub persona: Option<Arc<Persona>>,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

/// Every definition there is, as of when it was loaded.
///
/// Invariant: entries are sorted by name, and of one name the first entry is the one that counts.
#[derive(Debug)]
pub struct Registry {
    sources: Sources,
    workflows: Vec<WorkflowEntry>,
    agents: Vec<AgentEntry>,
}

impl Registry {
    /// Reads every directory. It cannot fail as a whole: whatever is wrong is an entry's finding.
    pub fn load(sources: &Sources) -> Self {
        let agents: Vec<_> = levels(&sources.agents, &["md"], shipped::AGENTS)
            .map(|(source, files)| (source, files.into_iter().map(load::persona).collect()))
            .collect();
        let agents: Vec<_> = first_of_each_name(agents)
            .into_iter()
            .map(|(source, loaded)| agent_entry(source, loaded))
            .collect();
        let known = known(&agents);
        let workflows = levels(&sources.workflows, files::EXTENSIONS, shipped::WORKFLOWS)
            .map(|(source, files)| {
                let load = |file| load::workflow(file, &known);
                (source, files.into_iter().map(load).collect())
            })
            .collect();
        let mut registry = Self {
            sources: sources.clone(),
            workflows: Vec::new(),
            agents,
        };
        registry.workflows = first_of_each_name(workflows)
            .into_iter()
            .map(|(source, loaded)| registry.workflow_entry(source, loaded))
            .collect();
        registry
    }

    /// Where it was loaded from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Every workflow, also those with findings, sorted by name.
    pub fn workflows(&self) -> impl Iterator<Item = &WorkflowEntry> {
        self.workflows.iter()
    }

    /// The workflow of this name.
    pub fn workflow(&self, name: &str) -> Option<&WorkflowEntry> {
        let at = self
            .workflows
            .partition_point(|entry| entry.name.as_str() < name);
        self.workflows.get(at).filter(|entry| entry.name == name)
    }

    /// Every agent, also those with findings, sorted by name.
    pub fn agents(&self) -> impl Iterator<Item = &AgentEntry> {
        self.agents.iter()
    }

    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&AgentEntry> {
        let at = self
            .agents
            .partition_point(|entry| entry.name.as_str() < name);
        self.agents.get(at).filter(|entry| entry.name == name)
    }

    /// What an execution of this workflow would follow.
    pub fn definition(&self, name: &str) -> Result<Arc<Definition>> {
        let entry = self.workflow(name).ok_or_else(|| self.not_found(name))?;
        entry.definition.clone().ok_or_else(|| invalid(entry))
    }

    fn not_found(&self, name: &str) -> Error {
        let names = self.workflows.iter().map(|entry| entry.name.as_str());
        let hint = nearest(name, names)
            .map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        let shown: String = name.chars().take(limits::WORKFLOW_NAME_BYTES_MAX).collect();
        Error::new(
            Code::WorkflowNotFound,
            format!("Workflow '{shown}' not found{hint}"),
        )
        .with("workflow", shown)
    }

    fn workflow_entry(&self, source: Source, loaded: Loaded<Workflow>) -> WorkflowEntry {
        WorkflowEntry {
            name: loaded.name,
            source,
            path: path(source, loaded.file),
            definition: loaded.value.map(|workflow| Arc::new(self.define(workflow))),
            findings: loaded.findings,
        }
    }

    /// A checked workflow with the personas of its agents, all of which the check has found.
    fn define(&self, workflow: Workflow) -> Definition {
        let personas: BTreeMap<_, _> = workflow
            .steps
            .iter()
            .filter_map(|step| {
                let name = step.agent()?;
                let persona = self.agent(name.as_str())?.persona.as_ref()?;
                Some((name.clone(), persona.as_ref().clone()))
            })
            .collect();
        Definition::new(workflow, personas)
    }
}

fn agent_entry(source: Source, loaded: Loaded<Persona>) -> AgentEntry {
    AgentEntry {
        name: loaded.name,
        source,
        path: path(source, loaded.file),
        persona: loaded.value.map(Arc::new),
        findings: loaded.findings,
    }
}

fn path(source: Source, file: File) -> Option<PathBuf> {
    (source != Source::Shipped).then_some(file.path)
}

/// The files of every directory, nearest first, and those that are part of midex last.
fn levels(
    directories: &[Directory],
    extensions: &'static [&'static str],
    shipped: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = (Source, Vec<File>)> {
    directories
        .iter()
        .map(move |directory| {
            let mut files = files::read_directory(&directory.path, extensions);
            files.retain(|file| !is_readme(file));
            (directory.source, files)
        })
        .chain([(Source::Shipped, shipped::files(shipped))])
}

/// A `README.md` may lie among the definitions; only front matter makes it one.
fn is_readme(file: &File) -> bool {
    file.trouble.is_none()
        && file.stem().eq_ignore_ascii_case("readme")
        && files::extension(&file.path) == "md"
        && !markdown::has_front_matter(&file.text)
}

/// Of each name the nearest level's entries: also a broken file hides what lies farther off, so that
/// an author never runs another workflow than the one he edits.
fn first_of_each_name<T>(levels: Vec<(Source, Vec<Loaded<T>>)>) -> Vec<(Source, Loaded<T>)> {
    let mut taken = HashSet::new();
    let mut kept: Vec<(Source, Loaded<T>)> = Vec::new();
    for (source, mut level) in levels {
        load::refuse_duplicates(&mut level);
        level.retain(|loaded| !taken.contains(&loaded.name));
        taken.extend(level.iter().map(|loaded| loaded.name.clone()));
        kept.extend(level.into_iter().map(|loaded| (source, loaded)));
    }
    // The sort is stable: among those that give the same name the first file stays first.
    kept.sort_by(|(_, a), (_, b)| {
        (&a.name, a.named_at.is_none()).cmp(&(&b.name, b.named_at.is_none()))
    });
    kept
}

fn known(agents: &[AgentEntry]) -> Agents {
    let mut known = Agents::new();
    for entry in agents {
        let state = if entry.persona.is_some() {
            Agent::Usable
        } else {
            Agent::Broken
        };
        known.entry(entry.name.clone()).or_insert(state);
    }
    known
}

fn invalid(entry: &WorkflowEntry) -> Error {
    let count = entry.findings.len();
    let noun = if count == 1 { "finding" } else { "findings" };
    let error = Error::new(
        Code::WorkflowInvalid,
        format!("Workflow '{}' has {count} {noun}", entry.name),
    );
    let violations = entry.findings.iter().map(Finding::violation);
    error
        .with("workflow", entry.name.as_str())
        .with(
            "path",
            entry
                .path
                .as_ref()
                .map_or_else(String::new, |path| path.display().to_string()),
        )
        .with_violations(violations.take(limits::VIOLATIONS_MAX).collect())
}
