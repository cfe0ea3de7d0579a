//! Previews an execution: its inputs, its plan, and its steps as they would be entered. Nothing is started.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{author::DefinitionSelection, schemas::output_of};
use midex_domain::{
    definition::Step,
    error::Result,
    execution::Rehearsed,
    input::{Input, InputReport, InputStatus, Inputs},
};
use midex_server::app::{App, Plan};

/// The definition to preview, and the values of its inputs.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[serde(flatten)]
    selection: DefinitionSelection,
    #[serde(default)]
    inputs: Map<String, Value>,
}

pub(super) fn inputs_shown() -> Value {
    output(json!({ "required": names(), "inputs": list() }))
}

pub(super) fn inputs_resolved() -> Value {
    let object = json!({ "type": "object" });
    output(json!({
        "ready": { "type": "boolean" }, "required_missing": names(), "defaults": object, "resolved_inputs": object,
        "inputs": list(), "violations": list(), "provider_resolutions": list()
    }))
}

pub(super) fn steps_planned() -> Value {
    output(json!({ "steps": list() }))
}

pub(super) fn steps_rendered() -> Value {
    output(json!({ "steps": list(), "final_output": {} }))
}

/// The schema of an answer about a workflow, which need not have an id.
fn output(mut fields: Value) -> Value {
    fields["workflow_id"] = json!({ "type": ["string", "null"] });
    output_of(fields, json!({}))
}

fn list() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

fn names() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

pub(super) async fn preview_inputs(app: &App, arguments: DefinitionSelection) -> Result<Value> {
    let definition = app
        .sound(arguments.subject("workflow.preview_inputs")?)
        .await?;
    let workflow = &definition.workflow;
    let inputs: Vec<&Input> = workflow.inputs.iter().flat_map(Inputs::iter).collect();
    let required = inputs.iter().filter(|input| input.is_required());
    let required: Vec<_> = required.map(|input| &input.key).collect();
    let inputs: Vec<_> = inputs.iter().map(|input| shown(input)).collect();
    Ok(
        json!({ "success": true, "workflow_id": workflow.name, "required": required, "inputs": inputs }),
    )
}

fn shown(input: &Input) -> Value {
    let mut shown = json!({
        "name": input.key,
        "type": input.effective_type(),
        "required": input.is_required(),
        "rules": input.constraints(),
        "depends_on": input.dependencies(),
        "source": input.source(),
    });
    let optional = [
        ("label", json!(input.label)),
        ("description", json!(input.description)),
        ("default", json!(input.default)),
        ("hint", json!(input.hint)),
        ("example", json!(input.example)),
        ("provider", json!(input.provider)),
    ];
    for (name, value) in optional.into_iter().filter(|(_, value)| !value.is_null()) {
        shown[name] = value;
    }
    shown
}

pub(super) async fn resolve_inputs(app: &App, arguments: Arguments) -> Result<Value> {
    let definition = app
        .sound(arguments.selection.subject("workflow.resolve_inputs")?)
        .await?;
    let resolved = app.resolved(&definition, arguments.inputs).await?;
    let of = |wanted: InputStatus| {
        let reports = resolved.inputs.iter();
        reports.filter(move |report| report.status == wanted)
    };
    let values = |reports: &mut dyn Iterator<Item = &InputReport>| -> Map<String, Value> {
        reports
            .map(|report| (report.name.clone(), report.value.clone()))
            .collect()
    };
    let missing: Vec<_> = of(InputStatus::Missing)
        .map(|report| &report.name)
        .collect();
    Ok(json!({
        "success": true,
        "workflow_id": definition.workflow.name,
        "ready": resolved.is_ready(),
        "required_missing": missing,
        "defaults": values(&mut of(InputStatus::Defaulted)),
        "resolved_inputs": resolved.known,
        "inputs": resolved.inputs,
        "violations": resolved.violations(),
        "provider_resolutions": resolved.providers,
    }))
}

pub(super) async fn step_plan(app: &App, arguments: Arguments) -> Result<Value> {
    let Plan {
        definition,
        rehearsal,
        ..
    } = app
        .plan(
            arguments.selection.subject("workflow.step_plan")?,
            arguments.inputs,
        )
        .await?;
    let waves = definition.graph().waves();
    let steps = definition
        .workflow
        .steps
        .iter()
        .zip(&rehearsal.steps)
        .zip(waves);
    let steps = steps.enumerate().map(|(index, ((step, known), wave))| {
        let mut shown = json!({
            "index": index,
            "step_id": step.id,
            "kind": step.kind.as_str(),
            "wave": wave,
            "depends_on": step.depends_on,
            "will_run": will_run(known),
            "why": known.why,
        });
        if let Some(condition) = &step.condition {
            shown["condition"] = json!(condition);
        }
        shown
    });
    Ok(
        json!({ "success": true, "workflow_id": definition.workflow.name, "steps": steps.collect::<Vec<_>>() }),
    )
}

pub(super) async fn preview_rendered(app: &App, arguments: Arguments) -> Result<Value> {
    let plan = app
        .plan(
            arguments.selection.subject("workflow.preview_rendered")?,
            arguments.inputs,
        )
        .await?;
    let Plan {
        definition,
        rehearsal,
        ..
    } = plan;
    let step = |(step, known): (&Step, &Rehearsed)| {
        json!({
            "step_id": step.id,
            "kind": step.kind.as_str(),
            "will_run": will_run(known),
            "rendered": known.rendered,
            "unresolved": known.unresolved,
        })
    };
    let steps = definition
        .workflow
        .steps
        .iter()
        .zip(&rehearsal.steps)
        .map(step);
    Ok(json!({
        "success": true,
        "workflow_id": definition.workflow.name,
        "steps": steps.collect::<Vec<_>>(),
        "final_output": rehearsal.final_output,
        "final_output_unresolved": rehearsal.final_output_unresolved,
    }))
}

fn will_run(known: &Rehearsed) -> Value {
    known.will_run.map_or_else(|| json!("unknown"), Value::from)
}
