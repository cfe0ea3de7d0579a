//! `midex graph`: draws the steps of a workflow and their order, as text or in the format of a drawing program; or
//! those of an execution, with the state of each.

use std::{fmt::Write as _, io::Write as _, path::Path};

use super::{
    EXIT_FINDINGS, EXIT_OK, Output, diagnostic, execution_id,
    link::ServerLink,
    picture::{StepNotes, draw_graph},
    screen::Screen,
    visible::is_invisible,
};
use midex_domain::{
    Workflow,
    error::{Code, Error, Result},
    finding::{Finding, filter_errors, has_errors},
    limits,
    view::GraphView,
};
use midex_registry::{self as registry, DefinitionKind, FileReport, Registry};
use midex_server::config::Config;

/// What to draw, and for which program.
#[derive(Clone, Debug, clap::Args)]
pub struct GraphArgs {
    /// The name of a workflow, a file (.md, .yaml, .yml or .json), or an execution, which is drawn with the states of its steps
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub workflow: String,
    /// The output format [default: text on a terminal, else mermaid]
    #[arg(long, value_enum)]
    pub format: Option<GraphFormat>,
}

/// What draws graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GraphFormat {
    /// A text diagram
    Text,
    /// A Mermaid flowchart
    #[default]
    Mermaid,
    /// An SVG picture
    Svg,
    /// The DOT language of Graphviz
    Dot,
}

/// Prints the graph. The findings of an invalid workflow go to stderr, and the exit code is 1.
pub fn print_definition_graph(
    args: &GraphArgs,
    registry: &Registry,
    mut out: Output<'_>,
) -> Result<u8> {
    let graph = match find_graph_source(&args.workflow, registry)? {
        GraphSource::Valid(graph) => graph,
        GraphSource::Invalid(report) if out.is_json => return Err(invalid_workflow_error(&report)),
        GraphSource::Invalid(report) => {
            let rendering = diagnostic::render(&report.path, &report.text, &report.findings, true);
            // If writing to stderr fails, the exit code still reports findings.
            let _ = anstream::stderr().write_all(rendering.as_bytes());
            return Ok(EXIT_FINDINGS);
        }
    };
    print_graph(&graph, args.format, &mut out)
}

/// Prints the graph of an execution, with the state of each step.
pub(super) async fn print_execution_graph(
    args: GraphArgs,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let fetch = async |link: &mut ServerLink<'_>, id: &str| link.fetch_graph(id).await;
    let graph = execution_id::run_with_execution(&mut link, &args.workflow, fetch).await;
    link.close().await?;
    print_graph(&graph?, args.format, &mut out)
}

fn print_graph(graph: &GraphView, format: Option<GraphFormat>, out: &mut Output<'_>) -> Result<u8> {
    let screen = Screen::stdout();
    let format = format.unwrap_or(if screen.is_terminal() {
        GraphFormat::Text
    } else {
        GraphFormat::Mermaid
    });
    let text = || match format {
        GraphFormat::Text => draw_graph(graph, &screen, |_| StepNotes::default()),
        GraphFormat::Mermaid => escape_invisible(&midex_picture::mermaid(graph)),
        GraphFormat::Svg => midex_picture::svg(graph),
        GraphFormat::Dot => escape_invisible(&midex_picture::dot(graph)),
    };
    out.print(|| serde_json::json!(graph), text)?;
    Ok(EXIT_OK)
}

/// Whether the argument names a file or a workflow, rather than an execution.
pub(super) fn is_definition_argument(args: &GraphArgs, registry: &Registry) -> bool {
    let path = Path::new(&args.workflow);
    registry.workflow(&args.workflow).is_some()
        || path.exists()
        || registry::is_definition_file(path)
}

/// Writes invisible characters as numeric entities, which Mermaid and DOT both understand, so that similar names stay
/// distinguishable.
fn escape_invisible(graph: &str) -> String {
    let mut escaped = String::with_capacity(graph.len());
    for c in graph.chars() {
        if is_invisible(c) {
            let _ = write!(escaped, "&#{};", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

enum GraphSource {
    Valid(GraphView),
    Invalid(FileReport),
}

/// Finds the file or the workflow that the argument names: an existing file with the extension of a definition first,
/// then a known workflow, then any other file.
fn find_graph_source(argument: &str, registry: &Registry) -> Result<GraphSource> {
    let path = Path::new(argument);
    let entry = registry.workflow(argument);
    let is_file = match (path.is_file(), registry::is_definition_file(path)) {
        (true, true) => true,
        (exists, has_extension) => entry.is_none() && (exists || has_extension),
    };
    if is_file {
        let (report, workflow) = registry::load_workflow_file(path, registry)?;
        return Ok(
            workflow.map_or(GraphSource::Invalid(report), |workflow| make_graph_source(&workflow))
        );
    }
    if let Some(entry) = entry
        && let Some(report) = invalid_workflow_report(&entry.name, &entry.findings, registry)?
    {
        return Ok(GraphSource::Invalid(report));
    }
    let definition = registry.definition(argument).map_err(|error| {
        error.with_action("Run `midex list` and use one of its names, or name a file")
    })?;
    Ok(make_graph_source(&definition.workflow))
}

fn make_graph_source(workflow: &Workflow) -> GraphSource {
    GraphSource::Valid(GraphView::from_workflow(workflow))
}

/// The report of an invalid workflow, which contains the text in which to draw the errors; `None` if it has none.
fn invalid_workflow_report(
    name: &str,
    findings: &[Finding],
    registry: &Registry,
) -> Result<Option<FileReport>> {
    if !has_errors(findings) {
        return Ok(None);
    }
    let reports = registry::validate_paths(&[], registry)?;
    Ok(reports.into_iter().find(|report| {
        report.kind == DefinitionKind::Workflow
            && report.name == name
            && report.findings == findings
    }))
}

fn invalid_workflow_error(report: &FileReport) -> Error {
    let violations = filter_errors(&report.findings).map(Finding::to_violation);
    Error::new(Code::WorkflowValidationFailed, format!("{} has findings", report.path))
        .with_next(registry::FIX_FILE_CALL)
        .with_context("workflow", report.name.as_str())
        .with_context("path", report.path.as_str())
        .with_violations(violations.take(limits::VIOLATIONS_MAX).collect())
}
