//! `midex show workflow NAME`: the description of a workflow, its inputs, and its steps.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    EXIT_OK, Output,
    command::quoted,
    picture::{StepNotes, draw_graph},
    run::InputField,
    screen::{Screen, TextStyle},
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
pub(super) fn show_workflow(name: &str, registry: &Registry, mut out: Output<'_>) -> Result<u8> {
    let entry = registry.workflow(name).ok_or_else(|| registry.workflow_not_found_error(name))?;
    out.print(|| workflow_json(entry), || workflow_page(entry, &Screen::stdout()))?;
    Ok(EXIT_OK)
}

fn workflow_json(entry: &WorkflowEntry) -> Value {
    let workflow = entry.value.as_ref().map(|definition| &definition.workflow);
    let inputs = workflow.and_then(|workflow| workflow.inputs.as_ref());
    json!({
        "name": entry.name,
        "description": workflow.map(|workflow| &workflow.description),
        "source": entry.source,
        "path": workflow_path(entry),
        "inputs": inputs.map(view::input_views),
        "graph": workflow.map(GraphView::from_workflow),
        "valid": !entry.is_broken(),
        "findings": entry.findings,
    })
}

fn workflow_path(entry: &WorkflowEntry) -> Option<String> {
    let path = entry.path.as_ref()?;
    Some(path.display().to_string())
}

fn workflow_page(entry: &WorkflowEntry, screen: &Screen) -> String {
    let place = workflow_path(entry).unwrap_or_else(|| "comes with midex".to_owned());
    let mut text = screen.indent_block(Some(TextStyle::Bold), "", &entry.name);
    let workflow = entry.value.as_ref().map(|definition| &definition.workflow);
    if let Some(workflow) = workflow {
        text += &screen.indent_block(None, INDENT, &workflow.description);
    }
    text += &screen.indent_block(Some(TextStyle::Dim), INDENT, &place);
    text += &findings_text(&entry.findings, screen);
    if let Some(workflow) = workflow {
        text += &inputs_text(workflow, screen);
        let _ = writeln!(text, "\n{}", screen.paint(TextStyle::Dim, "steps"));
        text += &draw_graph(&GraphView::from_workflow(workflow), screen, |_| StepNotes::default());
        text += &screen.indent_block(None, "", &format!("\nstart it: {}", start_command(workflow)));
    }
    text
}

fn findings_text(findings: &[Finding], screen: &Screen) -> String {
    let mut text = String::new();
    for finding in findings {
        let line = format!("line {}: {}", finding.line, finding.message);
        text += &screen.indent_block(Some(TextStyle::Bad), INDENT, &line);
    }
    text
}

fn inputs_text(workflow: &Workflow, screen: &Screen) -> String {
    let declared_inputs = workflow.inputs.as_ref().map(view::input_views).unwrap_or_default();
    if declared_inputs.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", screen.paint(TextStyle::Dim, "inputs"));
    for input in declared_inputs {
        let field = InputField::from_input(&input);
        text += &screen.indent_block(None, INDENT, &field.describe_as_flag());
    }
    text
}

/// The command that starts it, with its required inputs.
fn start_command(workflow: &Workflow) -> String {
    let mut command = format!("midex run {}", quoted(workflow.name.as_str()));
    let declared_inputs = workflow.inputs.as_ref().map(view::input_views).unwrap_or_default();
    for input in declared_inputs.iter().filter(|input| input.required && input.default.is_none()) {
        let _ = write!(command, " --input {}=…", quoted(&input.name));
    }
    command
}
