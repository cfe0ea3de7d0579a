//! The registry from outside: files on a disk in, definitions and findings out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod activities;
mod agents;
mod broken;
pub(crate) mod calls;
mod commands;
mod directories;
mod extends;
mod failures;
mod findings;
mod growth;
mod hostile;
mod loading;
mod manifests;
mod operations;
mod providers;
mod reload;
mod running;
mod schema;
mod served;
mod warnings;
mod watching;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use midex_domain::{
    check::ServerCapabilities,
    finding::{Finding, Rule},
};
use midex_registry::{DefinitionDirectory, DefinitionPlaces, Registry, Source, Sources};
use tempfile::TempDir;

/// What is part of midex, loaded once, for a server with the activities that the tests name.
pub(crate) static SHIPPED: LazyLock<Registry> = LazyLock::new(|| {
    Registry::load_with_abilities(&Sources::default(), &activities(&["build", "x"]))
});

/// A server that has these activities.
fn activities(names: &[&str]) -> ServerCapabilities {
    ServerCapabilities {
        activities: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ServerCapabilities::default()
    }
}

/// A project with `workflows/` and `agents/` of its own.
struct Project(TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self(TempDir::new().unwrap());
        for directory in ["workflows", "agents"] {
            fs::create_dir(project.path(directory)).unwrap();
        }
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sources(&self) -> Sources {
        let directory =
            |name: &str| DefinitionDirectory { source: Source::Project, path: self.path(name) };
        Sources {
            workflows: vec![directory("workflows")],
            agents: vec![directory("agents")],
            ..Sources::default()
        }
    }

    /// Loads the project. Every file that any test writes is also held against its schema.
    fn load(&self) -> Registry {
        let registry = Registry::load(&self.sources());
        schema::agree_all(&registry);
        registry
    }
}

/// The places of this project, and no others.
fn places_of(project: &Path) -> DefinitionPlaces {
    DefinitionPlaces {
        program: Arc::default(),
        home: None,
        flag_workflows: None,
        flag_agents: None,
        registry: None,
        project_directories: midex_domain::ProjectDirectories::default(),
        project: project.to_owned(),
        cluster: None,
        user: None,
    }
}

/// The findings but those of what many fixtures read without declaring it: inputs, and fields of outputs. `manifests::silent`
/// has the tests of these.
pub(crate) fn strict(mut findings: Vec<Finding>) -> Vec<Finding> {
    let is_loose = |one: &Finding| {
        one.rule == Rule::UndeclaredInput || one.message.contains("without a `result` only")
    };
    findings.retain(|one| !is_loose(one));
    findings
}

/// Each finding as `line:column rule path`.
pub(crate) fn places(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| {
            format!("{}:{} {} {}", finding.line, finding.column, finding.rule, finding.path)
        })
        .collect()
}

/// Holds findings to have these places.
#[track_caller]
fn holds(findings: &[Finding], expected: &[&str]) {
    assert_eq!(places(findings), expected, "{findings:#?}");
}

/// Holds what is found in the workflow of this name to these places.
#[track_caller]
fn finds(registry: &Registry, name: &str, expected: &[&str]) {
    holds(&registry.workflow(name).unwrap().findings, expected);
}

/// What the registry finds in a project with this one workflow file.
fn findings_of(name: &str, text: &str) -> Vec<Finding> {
    let project = Project::new(&[(&format!("workflows/{name}"), text)]);
    let registry = project.load();
    let entry = registry.workflows().find(|entry| entry.source == Source::Project).unwrap();
    assert_eq!(entry.value.is_none(), entry.is_broken());
    strict(entry.findings.clone())
}

#[track_caller]
fn check(name: &str, text: &str, expected: &[&str]) {
    assert_eq!(places(&findings_of(name, text)), expected, "{name}\n{text}");
}

/// The same of a manifest with these steps.
#[track_caller]
fn check_steps(rest: &str, expected: &[&str]) {
    check("w.yaml", &steps(rest), expected);
}

/// The same of front matter with these lines.
#[track_caller]
fn check_front(rest: &str, expected: &[&str]) {
    check("w.md", &front(rest), expected);
}

/// The dependencies of each step of the one workflow in `text`.
fn order_of(name: &str, text: &str) -> Vec<String> {
    let project = Project::new(&[(&format!("workflows/{name}"), text)]);
    let definition = project.load().definition("w").unwrap();
    let line = |step: &midex_domain::Step| {
        let after: Vec<&str> = step.depends_on.iter().map(AsRef::as_ref).collect();
        format!("{} after [{}]", step.id, after.join(" "))
    };
    definition.workflow.steps.iter().map(line).collect()
}

const PHASE: &str = "  - phase: a\n    agent: reviewer\n";

fn front(rest: &str) -> String {
    format!("---\nname: w\ndescription: d\n{rest}---\n# Body\n")
}

fn steps(rest: &str) -> String {
    format!("workflow: w\ndescription: d\nsteps:\n{rest}")
}
