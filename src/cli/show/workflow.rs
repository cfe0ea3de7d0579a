//! `midex show workflow NAME`: the description of a workflow, its inputs, and its steps.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    EXIT_OK, Output,
    command::quoted,
    picture::{Notes, picture},
    run::Field,
    screen::{Screen, Style},
};
use midex_domain::{
    Workflow,
    error::Result,
    finding::Finding,
    view::{self, GraphView},
};
use midex_registry::{Registry, WorkflowEntry};

/// The prefix of lines below a title.
const INDENT: &str = "  ";

/// Shows a workflow of the registry, or the findings if its definition is invalid.
pub(super) fn show(name: &str, registry: &Registry, mut out: Output<'_>) -> Result<u8> {
    let entry = registry
        .workflow(name)
        .ok_or_else(|| registry.not_found(name))?;
    out.print(|| json(entry), || page(entry, &Screen::stdout()))?;
    Ok(EXIT_OK)
}

fn json(entry: &WorkflowEntry) -> Value {
    let workflow = entry.value.as_ref().map(|definition| &definition.workflow);
    let inputs = workflow.and_then(|workflow| workflow.inputs.as_ref());
    json!({
        "name": entry.name,
        "description": workflow.map(|workflow| &workflow.description),
        "source": entry.source,
        "path": path(entry),
        "inputs": inputs.map(view::input_views),
        "graph": workflow.map(GraphView::of),
        "valid": !entry.is_broken(),
        "findings": entry.findings,
    })
}

fn path(entry: &WorkflowEntry) -> Option<String> {
    let path = entry.path.as_ref()?;
    Some(path.display().to_string())
}

fn page(entry: &WorkflowEntry, screen: &Screen) -> String {
    let place = path(entry).unwrap_or_else(|| "comes with midex".to_owned());
    let mut text = screen.indent_block(Some(Style::Bold), "", &entry.name);
    let workflow = entry.value.as_ref().map(|definition| &definition.workflow);
    if let Some(workflow) = workflow {
        text += &screen.indent_block(None, INDENT, &workflow.description);
    }
    text += &screen.indent_block(Some(Style::Dim), INDENT, &place);
    text += &findings(&entry.findings, screen);
    if let Some(workflow) = workflow {
        text += &inputs(workflow, screen);
        let _ = writeln!(text, "\n{}", screen.paint(Style::Dim, "steps"));
        text += &picture(&GraphView::of(workflow), screen, |_| Notes::default());
        text += &screen.indent_block(None, "", &format!("\nstart it: {}", start(workflow)));
    }
    text
}

fn findings(findings: &[Finding], screen: &Screen) -> String {
    let mut text = String::new();
    for finding in findings {
        let line = format!("line {}: {}", finding.line, finding.message);
        text += &screen.indent_block(Some(Style::Bad), INDENT, &line);
    }
    text
}

fn inputs(workflow: &Workflow, screen: &Screen) -> String {
    let declared = workflow
        .inputs
        .as_ref()
        .map(view::input_views)
        .unwrap_or_default();
    if declared.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", screen.paint(Style::Dim, "inputs"));
    for input in declared {
        let field = Field::from_input(&input);
        text += &screen.indent_block(None, INDENT, &field.describe_as_flag());
    }
    text
}

/// The command that starts it, with its required inputs.
fn start(workflow: &Workflow) -> String {
    let mut command = format!("midex run {}", quoted(workflow.name.as_str()));
    let declared = workflow
        .inputs
        .as_ref()
        .map(view::input_views)
        .unwrap_or_default();
    for input in declared
        .iter()
        .filter(|input| input.required && input.default.is_none())
    {
        let _ = write!(command, " --input {}=…", quoted(&input.name));
    }
    command
}
