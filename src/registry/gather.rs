//! Makes the entries of the registry: which files of the directories count, and under which name.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use super::{
    AgentEntry, Directory, Source, WorkflowEntry, agent,
    cache::CachedLoader,
    files::{self, File, Visit},
    last_good::LastGood,
    load::{self, Loaded},
    markdown, shipped,
};
use crate::domain::{
    check::{Agent, Agents, Built, Known},
    definition::{Definition, Persona, Workflow},
};

/// Loads the agents of these directories and the shipped ones, sorted by name.
pub(super) fn agents(
    directories: &[Directory],
    reader: &mut CachedLoader<'_, Persona>,
    last_good: &mut LastGood<'_, Persona>,
    visit: Visit<'_>,
) -> Vec<AgentEntry> {
    let load = |file| load::persona(file).map(Arc::new);
    let mut read = |file| reader.read(file, |_| true, load);
    let levels = levels(directories, &["md"], shipped::AGENTS, visit)
        .map(|(source, files)| (source, files.into_iter().map(&mut read).collect()))
        .collect();
    first_of_each_name(levels, last_good)
        .into_iter()
        .map(|(source, loaded)| agent_entry(source, loaded))
        .collect()
}

/// The workflows of these directories and the shipped ones, sorted by name, as a server with these abilities can run
/// them.
pub(super) fn workflows(
    directories: &[Directory],
    agents: &[AgentEntry],
    known: Known<'_>,
    reader: &mut CachedLoader<'_, Definition>,
    last_good: &mut LastGood<'_, Definition>,
    visit: Visit<'_>,
) -> Vec<WorkflowEntry> {
    let mut read = |file| {
        let valid = |definition: &Definition| has_personas_of(definition, agents);
        reader.read(file, valid, |file| workflow(file, agents, known))
    };
    let levels = levels(directories, files::EXTENSIONS, shipped::WORKFLOWS, visit)
        .map(|(source, files)| (source, files.into_iter().map(&mut read).collect()))
        .collect();
    first_of_each_name(levels, last_good)
        .into_iter()
        .map(|(source, loaded)| workflow_entry(source, loaded))
        .collect()
}

/// The files of every directory, nearest first, and those that are part of midex last.
pub(super) fn levels(
    directories: &[Directory],
    extensions: &'static [&'static str],
    shipped: &'static [(&'static str, &'static str)],
    visit: Visit<'_>,
) -> impl Iterator<Item = (Source, Vec<File>)> {
    directories
        .iter()
        .map(move |directory| {
            let mut files = files::read_directory(&directory.path, extensions, visit);
            files.retain(|file| !is_readme(file));
            (directory.source, files)
        })
        .chain([(Source::Shipped, shipped::files(shipped))])
}

/// A `README.md` may lie among the definitions; only front matter makes it one.
pub(super) fn is_readme(file: &File) -> bool {
    file.trouble.is_none()
        && file.stem().eq_ignore_ascii_case("readme")
        && files::extension(&file.path) == "md"
        && !markdown::has_front_matter(&file.text)
}

/// The entries of each name at the nearest level that has it. A broken file also hides those farther off, so that an
/// author never runs another workflow than the edited one; `last_good` restores its last good version.
fn first_of_each_name<T>(
    levels: Vec<(Source, Vec<Loaded<Arc<T>>>)>,
    last_good: &mut LastGood<'_, T>,
) -> Vec<(Source, Loaded<Arc<T>>)> {
    let mut taken = HashSet::new();
    let mut kept: Vec<(Source, Loaded<Arc<T>>)> = Vec::new();
    for (source, mut level) in levels {
        load::refuse_duplicates(&mut level);
        last_good.restore(&mut level);
        level.retain(|loaded| !taken.contains(&loaded.name));
        taken.extend(level.iter().map(|loaded| loaded.name.clone()));
        kept.extend(level.into_iter().map(|loaded| (source, loaded)));
    }
    kept.sort_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)));
    kept
}

/// The sort key: by name, then usable entries first, then those that state the name themselves. The sort is stable, so
/// that among the rest the first file stays first.
fn rank<T>(loaded: &Loaded<T>) -> (&str, bool, bool) {
    (
        &loaded.name,
        loaded.value.is_none(),
        loaded.named_at.is_none(),
    )
}

/// The agents that steps may name.
pub(super) fn known(agents: &[AgentEntry]) -> Agents {
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

/// Loads a workflow with the personas of its agents.
pub(super) fn workflow(
    file: File,
    agents: &[AgentEntry],
    known: Known<'_>,
) -> Loaded<Arc<Definition>> {
    let define = |workflow| Arc::new(define(workflow, agents));
    load::workflow(file, known, Built::Now).map(define)
}

/// Whether the personas in a definition are still those of the agents.
fn has_personas_of(definition: &Definition, agents: &[AgentEntry]) -> bool {
    let mut personas = definition.personas.iter();
    personas.all(|(name, persona)| {
        let agent = agent(agents, name.as_str());
        agent.is_some_and(|agent| agent.persona.as_deref() == Some(persona))
    })
}

/// A checked workflow with the personas of its agents, all of which the check has found. Agents are
/// sorted by name, and of one name the first counts.
fn define(workflow: Workflow, agents: &[AgentEntry]) -> Definition {
    let personas: BTreeMap<_, _> = workflow
        .steps
        .iter()
        .filter_map(|step| {
            let name = step.agent()?;
            let persona = agent(agents, name.as_str())?.persona.as_ref()?;
            Some((name.clone(), persona.as_ref().clone()))
        })
        .collect();
    Definition::new(workflow, personas)
}

fn workflow_entry(source: Source, loaded: Loaded<Arc<Definition>>) -> WorkflowEntry {
    WorkflowEntry {
        name: loaded.name,
        source,
        path: path(source, loaded.file),
        definition: loaded.value,
        findings: loaded.findings,
    }
}

fn agent_entry(source: Source, loaded: Loaded<Arc<Persona>>) -> AgentEntry {
    AgentEntry {
        name: loaded.name,
        source,
        path: path(source, loaded.file),
        persona: loaded.value,
        findings: loaded.findings,
    }
}

fn path(source: Source, file: File) -> Option<PathBuf> {
    (source != Source::Shipped).then_some(file.path)
}
