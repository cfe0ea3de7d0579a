//! Builds the entries of the registry: decides which files are in effect, and under which names.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Instant,
};

use super::{
    DefinitionDirectory, Source, Sources,
    bases::DefinitionLevels,
    cache::{CachedLoader, LoadCache},
    entry::{Collection, DefinitionEntry, WorkflowEntry},
    extend::CheckContext,
    files::{self, DefinitionFile},
    last_good::LastGoodVersions,
    load::{self, LoadResult},
    markdown, program, shipped,
};
use midex_domain::{
    check::{AgentFileState, KnownAgents, KnownNames},
    definition::{Definition, Persona, Workflow},
    finding::{Finding, Rule},
    limits,
};

/// The result of the previous load, if there was one.
type PreviousCollection<'a, T> = Option<&'a Collection<T>>;

/// Loads the agents of these directories and those that are part of midex. Unchanged files are taken from `previous`.
pub(super) fn load_agents(
    directories: &[DefinitionDirectory],
    previous: PreviousCollection<'_, Persona>,
) -> Collection<Persona> {
    let levels: Vec<_> = read_levels(directories, &["md"], shipped::AGENTS).collect();
    let load = |file| load::load_persona(file).map(Arc::new);
    load_collection(&levels, (previous, previous), |_| true, load)
}

/// Loads the workflows of these sources and those that are part of midex, checked against the `known` names. Unchanged
/// files are taken from `cached`.
pub(super) fn load_workflows(
    sources: &Sources,
    agents: &Collection<Persona>,
    known: KnownNames<'_>,
    (previous, cached): (PreviousCollection<'_, Definition>, PreviousCollection<'_, Definition>),
) -> Collection<Definition> {
    let levels = read_workflow_levels(sources);
    let bases = DefinitionLevels::new(Cow::Borrowed(&levels), previous.map(|before| &before.cache));
    let is_result_valid = |loaded: &LoadResult<Arc<Definition>>| {
        let is_valid = |value: &Arc<Definition>| has_current_personas(value, agents);
        loaded.value.as_ref().is_none_or(is_valid)
            && loaded.name_lookups.iter().all(|used| used.is_current(&bases))
    };
    let context = CheckContext { known_names: known, bases: &bases };
    let load = |file| load_definition(file, agents, context);
    let mut workflows = load_collection(&levels, (previous, cached), is_result_valid, load);
    add_tool_name_findings(&mut workflows.entries);
    workflows
}

/// Adds a finding to each workflow whose tools have the names of another one's: those of the nearer source are offered, and
/// within a source those of the first name.
fn add_tool_name_findings(entries: &mut [WorkflowEntry]) {
    let mut owners = BTreeMap::<String, (Source, String)>::new();
    for entry in &*entries {
        for (tool, _) in entry.list_exposed_tools() {
            let candidate = (entry.source, entry.name.clone());
            let owner = owners.entry(tool).or_insert_with(|| candidate.clone());
            *owner = candidate.min(owner.clone());
        }
    }
    for entry in entries {
        let mut tools = entry.list_exposed_tools().into_iter();
        let taken = tools.find_map(|(tool, action)| {
            let (_, owner) = &owners[&tool];
            (*owner != entry.name).then(|| (tool, action, owner.clone()))
        });
        if let Some((tool, action, owner)) = taken {
            let message = format!("the tool `{tool}` is one of workflow `{owner}`");
            let (key, name_key) = action.manifest_keys();
            let advice = format!("set another `{name_key}` in `expose.{key}`");
            let finding = Finding::new_for_file(Rule::ToolNameTaken, message);
            entry.findings.push(finding.suggest(advice));
        }
    }
}

fn load_collection<T>(
    levels: &[(DefinitionDirectory, Vec<DefinitionFile>)],
    (previous, cached): (PreviousCollection<'_, T>, PreviousCollection<'_, T>),
    is_valid: impl Fn(&LoadResult<Arc<T>>) -> bool,
    load: impl Fn(DefinitionFile) -> LoadResult<Arc<T>>,
) -> Collection<T> {
    let empty = LoadCache::default();
    let mut loader = CachedLoader::new(cached.map_or(&empty, |before| &before.cache));
    let mut load_file = |file: &DefinitionFile| loader.load_or_reuse(file, &is_valid, &load);
    let levels = levels.iter();
    let levels = levels.map(|(directory, files)| {
        (directory.source, load_within_limits(directory, files, &mut load_file))
    });
    let levels = levels.collect();
    let mut last_good = previous.map_or_else(LastGoodVersions::default, Collection::last_good);
    let (effective, hidden) = split_by_precedence(levels, &mut last_good);
    let make_entries = |of: Vec<_>| {
        let entries = of.into_iter();
        entries.map(|(source, loaded)| make_entry(source, loaded)).collect()
    };
    let (cache, parsed) = loader.into_cache();
    Collection {
        entries: make_entries(effective),
        hidden_entries: make_entries(hidden),
        missing_versions: last_good.into_missing_versions(),
        cache,
        parsed_files: parsed,
    }
}

/// Loads the files of one directory, within its limits on values and time, so that a repository can neither exhaust
/// memory nor block a command for long.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a check takes is told by the machine's own clock"
)]
fn load_within_limits<T>(
    directory: &DefinitionDirectory,
    files: &[DefinitionFile],
    mut read: impl FnMut(&DefinitionFile) -> LoadResult<Arc<T>>,
) -> Vec<LoadResult<Arc<T>>> {
    let (started_at, mut value_count) = (Instant::now(), 0);
    let (max_values, max_duration) =
        (limits::DEFINITION_SOURCE_VALUES_MAX, limits::DEFINITION_SOURCE_WITHIN);
    let mut level = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let exceeded_limit = if value_count > max_values {
            format!("hold more than {max_values} values together")
        } else if started_at.elapsed() > max_duration {
            format!("take longer than {} s to be checked", max_duration.as_secs())
        } else {
            let loaded = read(file);
            value_count += loaded.value_count;
            level.push(loaded);
            continue;
        };
        let remaining = files.len() - index;
        let message =
            format!("the definitions here {exceeded_limit}: {remaining} more files are not used");
        let finding = Finding::new_for_file(Rule::LimitExceeded, message);
        level.push(read(&DefinitionFile::from_finding(directory.path.clone(), finding)));
        break;
    }
    level
}

/// The workflow files of every source, nearest first.
pub(super) fn read_workflow_levels(
    sources: &Sources,
) -> Vec<(DefinitionDirectory, Vec<DefinitionFile>)> {
    let program_files = program::build_program_files(&sources.program).collect();
    let program_level = (program::program_directory(), program_files);
    let other_levels = read_levels(&sources.workflows, files::EXTENSIONS, shipped::WORKFLOWS);
    [program_level].into_iter().chain(other_levels).collect()
}

/// The files of every directory, nearest first, then those that are part of midex, then those of hosts.
pub(super) fn read_levels(
    directories: &[DefinitionDirectory],
    extensions: &'static [&'static str],
    shipped: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = (DefinitionDirectory, Vec<DefinitionFile>)> {
    let is_own = |directory: &&DefinitionDirectory| !directory.source.is_host_source();
    let host_directories = directories.iter().filter(move |directory| !is_own(directory));
    let read_level = move |directory: &DefinitionDirectory| {
        (directory.clone(), read_definition_files(directory, extensions))
    };
    let shipped =
        (DefinitionDirectory::new(Source::Shipped), shipped::build_shipped_files(shipped));
    let own_levels = directories.iter().filter(is_own).map(read_level);
    own_levels.chain([shipped]).chain(host_directories.map(read_level))
}

/// The files of a directory that may be definitions. In a host's directory, only files with front matter are.
fn read_definition_files(
    directory: &DefinitionDirectory,
    extensions: &[&str],
) -> Vec<DefinitionFile> {
    let mut files = files::read_directory(directory, extensions);
    if directory.source.is_host_source() {
        files.retain(|file| markdown::has_front_matter(&file.text));
    }
    files.retain(|file| !is_readme(file));
    files
}

/// Whether the file is a plain `README.md` next to the definitions. One with front matter is a definition.
pub(super) fn is_readme(file: &DefinitionFile) -> bool {
    file.read_finding.is_none()
        && file.file_stem().eq_ignore_ascii_case("readme")
        && files::lowercase_extension(&file.path) == "md"
        && !markdown::has_front_matter(&file.text)
}

/// Splits the entries into those in effect and those that are hidden. For each name, the nearest level that has it is
/// in effect, even if its file is broken: otherwise an author would run another workflow than the edited one.
/// `last_good` restores the last good versions of broken files.
fn split_by_precedence<T>(
    levels: Vec<(Source, Vec<LoadResult<Arc<T>>>)>,
    last_good: &mut LastGoodVersions<'_, T>,
) -> (SourcedResults<T>, SourcedResults<T>) {
    let mut taken_names = HashSet::new();
    let (mut effective, mut hidden) = (SourcedResults::new(), SourcedResults::new());
    for (source, mut level) in levels {
        load::refuse_duplicates(&mut level);
        last_good.restore_broken_files(&mut level);
        let (unnamed, level): (Vec<_>, Vec<_>) =
            level.into_iter().partition(|loaded| taken_names.contains(&loaded.name));
        taken_names.extend(level.iter().map(|loaded| loaded.name.clone()));
        effective.extend(level.into_iter().map(|loaded| (source, loaded)));
        hidden.extend(unnamed.into_iter().map(|loaded| (source, loaded)));
    }
    effective.sort_by(|(_, a), (_, b)| build_precedence_key(a).cmp(&build_precedence_key(b)));
    for (_, loaded) in &mut hidden {
        let mut nearer_results = effective.iter().filter(|(_, nearer)| nearer.name == loaded.name);
        if let Some((_, nearer)) = nearer_results.next() {
            let path = nearer.file.path.display();
            let message = format!(
                "{path} is nearer and has the name `{}` too: that one is started",
                loaded.name
            );
            loaded.findings.push(Finding::new_for_file(Rule::ShadowedName, message));
        }
    }
    hidden.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    (effective, hidden)
}

/// Loaded files, each with its source.
type SourcedResults<T> = Vec<(Source, LoadResult<Arc<T>>)>;

/// The sort key: by name, then usable entries first, then entries that state their name. The sort is stable, so the
/// first file wins among equals.
fn build_precedence_key<T>(loaded: &LoadResult<T>) -> (&str, bool, bool) {
    (&loaded.name, loaded.value.is_none(), loaded.name_place.is_none())
}

/// The agents that steps may refer to.
pub(super) fn collect_known_agents(agents: &Collection<Persona>) -> KnownAgents {
    let mut states = KnownAgents::new();
    for entry in &agents.entries {
        let state =
            if entry.value.is_some() { AgentFileState::Usable } else { AgentFileState::Broken };
        states.entry(entry.name.clone()).or_insert(state);
    }
    states
}

/// Loads a workflow and adds the personas of its agents.
pub(super) fn load_definition(
    file: DefinitionFile,
    agents: &Collection<Persona>,
    context: CheckContext<'_>,
) -> LoadResult<Arc<Definition>> {
    let make_definition = |workflow| Arc::new(add_personas(workflow, agents));
    load::load_workflow(file, context).map(make_definition)
}

/// Whether the personas in a definition are still those of its agents.
fn has_current_personas(definition: &Definition, agents: &Collection<Persona>) -> bool {
    let mut personas = definition.personas.iter();
    personas.all(|(name, persona)| {
        let agent = agents.effective_entry(name.as_str());
        agent.is_some_and(|agent| agent.value.as_deref() == Some(persona))
    })
}

/// Adds the personas of its agents to a checked workflow. The check has found all of them.
fn add_personas(workflow: Workflow, agents: &Collection<Persona>) -> Definition {
    let personas: BTreeMap<_, _> = workflow
        .steps
        .iter()
        .filter_map(|step| {
            let name = step.agent_name()?;
            let persona = agents.effective_entry(name.as_str())?.value.as_ref()?;
            Some((name.clone(), persona.as_ref().clone()))
        })
        .collect();
    Definition::new(workflow, personas)
}

fn make_entry<T>(source: Source, loaded: LoadResult<Arc<T>>) -> DefinitionEntry<T> {
    DefinitionEntry {
        name: loaded.name,
        source,
        path: source.has_files().then(|| loaded.file.path.clone()),
        cache_path: loaded.file.path,
        version: loaded.file.version,
        value: loaded.value,
        findings: loaded.findings,
    }
}
