//! `midex graph`: prints a workflow's steps and their order for Mermaid or Graphviz.

use std::{fmt::Write as _, io::Write as _, path::Path};

use super::{EXIT_FINDINGS, EXIT_OK, Output, diagnostic, visible::is_invisible};
use crate::{
    domain::{
        Workflow,
        finding::{Finding, errors, is_broken},
        view::GraphView,
    },
    error::{Code, Error, Result},
    limits,
    registry::{self, FileReport, Kind, Registry},
};

/// What to draw, and for which program.
#[derive(Clone, Debug, clap::Args)]
pub struct GraphArgs {
    /// The name of a workflow, or a file (.md, .yaml, .yml or .json)
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub workflow: String,
    /// What to draw it with
    #[arg(long, value_enum, default_value_t)]
    pub format: GraphFormat,
}

/// What draws graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GraphFormat {
    /// A Mermaid flowchart
    #[default]
    Mermaid,
    /// The DOT language of Graphviz
    Dot,
}

/// Prints the graph. The findings of a broken workflow go to stderr, and the exit code is 1.
pub fn graph(args: &GraphArgs, registry: &Registry, mut out: Output<'_>) -> Result<u8> {
    let graph = match find(&args.workflow, registry)? {
        Found::Sound(graph) => graph,
        Found::Broken(report) if out.json => return Err(invalid(&report)),
        Found::Broken(report) => {
            let drawn = diagnostic::render(&report.path, &report.text, &report.findings, true);
            // If stderr is closed, the exit code still says that there are findings.
            let _ = anstream::stderr().write_all(drawn.as_bytes());
            return Ok(EXIT_FINDINGS);
        }
    };
    let text = || match args.format {
        GraphFormat::Mermaid => shown(&graph.mermaid()),
        GraphFormat::Dot => shown(&graph.dot()),
    };
    out.print(|| serde_json::json!(graph), text)?;
    Ok(EXIT_OK)
}

/// Writes invisible characters as numeric entities, which both languages read, so that similar names stay apart.
fn shown(graph: &str) -> String {
    let mut shown = String::with_capacity(graph.len());
    for c in graph.chars() {
        if is_invisible(c) {
            let _ = write!(shown, "&#{};", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

enum Found {
    Sound(GraphView),
    Broken(FileReport),
}

/// Finds the file or the workflow that the argument names. An existing file with the extension of a definition comes first,
/// then a known workflow, then any other file.
fn find(argument: &str, registry: &Registry) -> Result<Found> {
    let path = Path::new(argument);
    let entry = registry.workflow(argument);
    let is_file = match (path.is_file(), registry::is_definition_file(path)) {
        (true, true) => true,
        (exists, called_so) => entry.is_none() && (exists || called_so),
    };
    if is_file {
        let (report, workflow) = registry::workflow_file(path, registry)?;
        return Ok(workflow.map_or(Found::Broken(report), |workflow| sound(&workflow)));
    }
    if let Some(entry) = entry
        && let Some(report) = broken(&entry.name, &entry.findings, registry)?
    {
        return Ok(Found::Broken(report));
    }
    let definition = registry.definition(argument).map_err(|error| {
        error.with_action("Run `midex list` and use one of its names, or name a file")
    })?;
    Ok(sound(&definition.workflow))
}

fn sound(workflow: &Workflow) -> Found {
    Found::Sound(GraphView::of(workflow))
}

/// The report of a workflow with errors, which has the text for drawing them; `None` without errors.
fn broken(name: &str, findings: &[Finding], registry: &Registry) -> Result<Option<FileReport>> {
    if !is_broken(findings) {
        return Ok(None);
    }
    let reports = registry::validate(&[], registry)?;
    Ok(reports.into_iter().find(|report| {
        report.kind == Kind::Workflow && report.name == name && report.findings == findings
    }))
}

fn invalid(report: &FileReport) -> Error {
    let violations = errors(&report.findings).map(Finding::violation);
    Error::new(
        Code::WorkflowValidationFailed,
        format!("{} has findings", report.path),
    )
    .with_next(registry::IN_FILE)
    .with("workflow", report.name.as_str())
    .with("path", report.path.as_str())
    .with_violations(violations.take(limits::VIOLATIONS_MAX).collect())
}
