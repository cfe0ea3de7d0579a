//! Checks definition files for their authors: the named files, or all files that would be loaded.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    DefinitionDirectory, Registry, Source,
    bases::{DefinitionLevels, NearerFiles},
    entries::{collect_known_agents, is_readme, read_levels, read_workflow_levels},
    extend::{Bases, CheckContext},
    files::{self, DefinitionFile, is_definition_file},
    load::{self, LoadResult},
    shipped,
};
use midex_domain::{
    check::{AgentFileState, KnownAgents},
    definition::{Persona, Workflow},
    error::{Code, Error, Result, describe_io_error},
    finding::{Finding, Rule, has_errors},
    limits,
};

/// The kind of definition in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionKind {
    /// A workflow.
    Workflow,
    /// An agent.
    Agent,
}

/// The result of checking a file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The path of the file, for people.
    pub path: String,
    /// The kind of definition in the file.
    pub kind: DefinitionKind,
    /// The name that the file states, or else its file name.
    pub name: String,
    /// The text of the file, for showing excerpts with the findings.
    pub text: String,
    /// All findings, warnings included.
    pub findings: Vec<Finding>,
}

impl FileReport {
    /// Whether the file has errors, so that it cannot be used.
    pub fn is_broken(&self) -> bool {
        has_errors(&self.findings)
    }
}

/// Checks the files and directories in `paths`. If there are none, checks everything that `registry` was loaded from
/// and all that is part of midex. Agents in the `agents/` directory inside or next to a named directory count as known.
/// Workflows in the directory of a named file can be extended by it.
pub fn validate_paths(paths: &[PathBuf], registry: &Registry) -> Result<Vec<FileReport>> {
    let mut agents = collect_known_agents(&registry.agents);
    if paths.is_empty() {
        return Ok(check_everything(registry, &agents));
    }
    let mut groups = Vec::new();
    for path in paths {
        groups.extend(group_files(path)?);
    }
    for directory in groups.iter().filter_map(|group| group.agents.as_deref()) {
        add_known_agents(&mut agents, directory);
    }
    Ok(groups
        .into_iter()
        .flat_map(|group| {
            let bases = NearerFiles::new(registry, || group.extendable_workflows());
            check_files(group.files.clone(), check_context(&agents, registry, &bases))
        })
        .collect())
}

/// Loads one named file as a workflow, with its report. The workflow is `None` if the report has errors. Known agents
/// are as in [`validate_paths`].
pub fn load_workflow_file(
    path: &Path,
    registry: &Registry,
) -> Result<(FileReport, Option<Workflow>)> {
    let real = resolve_path(path)?;
    let mut agents = collect_known_agents(&registry.agents);
    if let Some(directory) = find_agents_directory(&real) {
        add_known_agents(&mut agents, &directory);
    }
    let bases = NearerFiles::new(registry, || read_sibling_workflows(path));
    let mut loaded =
        load::load_workflow(read_named_file(path), check_context(&agents, registry, &bases));
    let workflow = loaded.value.take();
    Ok((report_on_file(DefinitionKind::Workflow, loaded), workflow))
}

/// Checks a text as if it were a file of this name, against the agents and the abilities of `registry`.
pub fn check_text(name: &str, text: &str, registry: &Registry) -> (Option<Workflow>, Vec<Finding>) {
    let file = DefinitionFile::from_text(PathBuf::from(name), text.to_owned());
    let agents = collect_known_agents(&registry.agents);
    let loaded = load::load_workflow(file, registry.check_context(&agents));
    (loaded.value, loaded.findings)
}

/// The context of a check: these agents and bases, and the abilities of the registry.
fn check_context<'a>(
    agents: &'a KnownAgents,
    registry: &'a Registry,
    bases: &'a dyn Bases,
) -> CheckContext<'a> {
    CheckContext { bases, ..registry.check_context(agents) }
}

/// The workflow files in the directory of a file.
fn read_sibling_workflows(path: &Path) -> Vec<DefinitionFile> {
    let directory = path.parent().map(|parent| match parent.as_os_str() {
        here if here.is_empty() => Path::new("."),
        _ => parent,
    });
    let files = directory.map(|path| read_directory_files(Source::Flag, path, files::EXTENSIONS));
    let mut files = files.unwrap_or_default();
    files.retain(|file| detect_definition_kind(&file.path, &file.text) == DefinitionKind::Workflow);
    files
}

fn add_known_agents(agents: &mut KnownAgents, directory: &Path) {
    for loaded in load_personas(read_directory_files(Source::Project, directory, &["md"])) {
        let state = classify_agent_file(&loaded);
        agents.insert(loaded.name, state);
    }
}

fn resolve_path(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| {
        let path_text = path.display();
        let message = match error.kind() {
            io::ErrorKind::NotFound => format!("there is no file `{path_text}`"),
            _ => format!("`{path_text}` cannot be read: {}", describe_io_error(&error)),
        };
        Error::new(Code::UsageInvalid, message)
            .with_action("Name a file or a directory that can be read")
            .with_source(error)
    })
}

fn check_everything(registry: &Registry, agents: &KnownAgents) -> Vec<FileReport> {
    let sources = registry.sources();
    let workflows = read_workflow_levels(sources);
    let bases = DefinitionLevels::new(Cow::Borrowed(&workflows), None);
    let context = check_context(agents, registry, &bases);
    let workflows = workflows.iter().map(|(_, files)| (DefinitionKind::Workflow, files.clone()));
    let personas = read_levels(&sources.agents, &["md"], shipped::AGENTS)
        // Skip files written for hosts, since they are not the user's to fix here.
        .filter(|(directory, _)| !directory.source.is_host_source())
        .map(|(_, files)| (DefinitionKind::Agent, files))
        .collect::<Vec<_>>();
    workflows
        .into_iter()
        .chain(personas)
        .map(|(kind, files)| files.into_iter().map(|file| (kind, file)).collect())
        .flat_map(|files| check_files(files, context))
        .collect()
}

/// Files that are checked together; each name may occur once.
struct FileGroup {
    files: Vec<(DefinitionKind, DefinitionFile)>,
    /// The directory of the agents that these files may refer to.
    agents: Option<PathBuf>,
}

impl FileGroup {
    /// The workflows that the files may extend: those of the group, or for a single named file those of its directory.
    fn extendable_workflows(&self) -> Vec<DefinitionFile> {
        match &self.files[..] {
            [(DefinitionKind::Workflow, file)] => read_sibling_workflows(&file.path),
            files => {
                let workflows = files.iter().filter(|(kind, _)| *kind == DefinitionKind::Workflow);
                workflows.map(|(_, file)| file.clone()).collect()
            }
        }
    }
}

fn group_files(path: &Path) -> Result<Vec<FileGroup>> {
    let real = resolve_path(path)?;
    if !real.is_dir() {
        let file = read_named_file(path);
        return Ok(vec![FileGroup {
            agents: find_agents_directory(&real),
            files: vec![(detect_definition_kind(&real, &file.text), file)],
        }]);
    }
    let definition_directories = ["workflows", "agents"].map(|name| path.join(name));
    if definition_directories.iter().any(|part| part.is_dir()) {
        let definition_directories = definition_directories.iter().filter(|part| part.is_dir());
        return Ok(definition_directories
            .map(|part| build_directory_group((Source::Project, part), &real.join("agents")))
            .collect());
    }
    let agents = find_agents_directory(&real.join("any")).unwrap_or_default();
    Ok(vec![build_directory_group((Source::Flag, path), &agents)])
}

fn build_directory_group((source, path): (Source, &Path), agents: &Path) -> FileGroup {
    let files = read_directory_files(source, path, files::EXTENSIONS).into_iter();
    FileGroup {
        files: files
            .map(|file| (detect_definition_kind(&file.path, &file.text), file))
            // Other files may be next to personas, but only a Markdown file can be one.
            .filter(|(kind, file)| {
                *kind == DefinitionKind::Workflow || files::lowercase_extension(&file.path) == "md"
            })
            .collect(),
        agents: agents.is_dir().then(|| agents.to_owned()),
    }
}

fn read_directory_files(source: Source, path: &Path, extensions: &[&str]) -> Vec<DefinitionFile> {
    let path = path.to_owned();
    let mut files = files::read_directory(&DefinitionDirectory { source, path }, extensions);
    files.retain(|file| !is_readme(file));
    files
}

/// Reads a file that was named explicitly. Any file name is accepted, but the extension must be one that midex reads.
fn read_named_file(path: &Path) -> DefinitionFile {
    let mut file = files::read_definition_file(path, limits::DEFINITION_BYTES_MAX);
    if file.read_finding.is_none() && !is_definition_file(path) {
        let finding =
            Finding::new_for_file(Rule::UnsupportedFile, "midex does not read such files")
                .with_expected(".md, .yaml, .yml or .json", files::lowercase_extension(path));
        file.read_finding = Some(finding);
    }
    file
}

/// The kind of a file: from the nearest directory called `agents` or `workflows`, or else from its keys.
fn detect_definition_kind(path: &Path, text: &str) -> DefinitionKind {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let kind_from_path =
        real.ancestors().skip(1).find_map(|directory| match directory.file_name()?.to_str()? {
            "agents" => Some(DefinitionKind::Agent),
            "workflows" => Some(DefinitionKind::Workflow),
            _ => None,
        });
    let is_key = |line: &str| {
        let mut keys = ["phases:", "steps:", "workflow:"].iter();
        keys.any(|key| line.starts_with(key))
    };
    let mut front = text.lines().skip(1).take_while(|line| line.trim_end() != "---");
    let mut has_phases = || front.any(is_key);
    kind_from_path.unwrap_or_else(|| {
        if files::lowercase_extension(path) != "md" || has_phases() {
            DefinitionKind::Workflow
        } else {
            DefinitionKind::Agent
        }
    })
}

/// The nearest `agents/` directory: in the file's directory, or in one of the two directories above it.
fn find_agents_directory(real: &Path) -> Option<PathBuf> {
    real.ancestors()
        .skip(1)
        .take(3)
        .map(|directory| directory.join("agents"))
        .find(|agents| agents.is_dir())
}

fn load_personas(files: Vec<DefinitionFile>) -> Vec<LoadResult<Persona>> {
    let mut loaded: Vec<_> = files.into_iter().map(load::load_persona).collect();
    load::refuse_duplicates(&mut loaded);
    loaded
}

fn classify_agent_file(loaded: &LoadResult<Persona>) -> AgentFileState {
    if loaded.value.is_some() { AgentFileState::Usable } else { AgentFileState::Broken }
}

fn check_files(
    files: Vec<(DefinitionKind, DefinitionFile)>,
    context: CheckContext<'_>,
) -> Vec<FileReport> {
    let (workflows, agents): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(kind, _)| *kind == DefinitionKind::Workflow);
    let mut workflows: Vec<_> =
        workflows.into_iter().map(|(_, file)| load::load_workflow(file, context)).collect();
    load::refuse_duplicates(&mut workflows);
    let personas = load_personas(agents.into_iter().map(|(_, file)| file).collect());
    let workflows =
        workflows.into_iter().map(|loaded| report_on_file(DefinitionKind::Workflow, loaded));
    workflows
        .chain(personas.into_iter().map(|loaded| report_on_file(DefinitionKind::Agent, loaded)))
        .collect()
}

fn report_on_file<T>(kind: DefinitionKind, loaded: LoadResult<T>) -> FileReport {
    FileReport {
        path: loaded.file.path.display().to_string(),
        kind,
        name: loaded.name,
        text: loaded.file.text,
        findings: loaded.findings,
    }
}
