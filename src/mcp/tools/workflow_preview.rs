//! Previews an execution: its inputs, its plan, and its steps as they would be entered. Nothing is started.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts,
    author::{Class, subject, with_subject},
};
use midex_domain::{
    definition::Step,
    error::Result,
    execution::Rehearsed,
    input::{Input, InputReport, InputStatus, Inputs},
};
use midex_server::app::{App, Plan};

const PREVIEW_INPUTS: &str = "workflow.preview_inputs";
const RESOLVE_INPUTS: &str = "workflow.resolve_inputs";
const STEP_PLAN: &str = "workflow.step_plan";
const PREVIEW_RENDERED: &str = "workflow.preview_rendered";

pub(super) fn specs() -> [ToolSpec; 4] {
    let inputs = || with_subject(json!({ "inputs": { "type": "object" } }));
    let list = || json!({ "type": "array", "items": { "type": "object" } });
    let names = || json!({ "type": "array", "items": { "type": "string" } });
    let object = || json!({ "type": "object" });
    let tool = |names, properties: Value, output: Value, run| {
        let required: Vec<_> = { output.as_object().into_iter().flatten() }
            .map(|(name, _)| name.as_str())
            .collect();
        let required = [&["success", "workflow_id"], required.as_slice()].concat();
        let mut fields = output.clone();
        fields["workflow_id"] = json!({ "type": ["string", "null"] });
        let output = json!({ "type": "object", "properties": fields, "required": required });
        ToolSpec::new(
            names,
            || acts(true, false, true),
            (properties, &[], output),
            run,
        )
    };
    [
        tool(
            (
                PREVIEW_INPUTS,
                "Show inputs",
                "Returns each input with type, rules, default, and where its value comes from.",
            ),
            with_subject(json!({})),
            json!({ "required": names(), "inputs": list() }),
            |app, arguments| Box::pin(preview_inputs(app, arguments)),
        )
        .of(Class::Safe),
        tool(
            (
                RESOLVE_INPUTS,
                "Resolve inputs",
                "Says what each input comes to with these, and whether a start could be made (ready).",
            ),
            inputs(),
            json!({
                "ready": { "type": "boolean" }, "required_missing": names(), "defaults": object(),
                "resolved_inputs": object(), "inputs": list(), "violations": list(), "provider_resolutions": list()
            }),
            |app, arguments| Box::pin(resolve_inputs(app, arguments)),
        )
        .of(Class::Standard),
        tool(
            (
                STEP_PLAN,
                "Plan the steps",
                "Returns the steps in order, each with its wave, its dependencies, and whether it would run with these inputs, and why.",
            ),
            inputs(),
            json!({ "steps": list() }),
            |app, arguments| Box::pin(step_plan(app, arguments)),
        )
        .of(Class::Standard),
        tool(
            (
                PREVIEW_RENDERED,
                "Render the steps",
                "Returns every step as it would be entered with these inputs; what is not known yet stands in unresolved.",
            ),
            inputs(),
            json!({ "steps": list(), "final_output": {} }),
            |app, arguments| Box::pin(preview_rendered(app, arguments)),
        )
        .of(Class::Safe),
    ]
}

fn given(arguments: &Map<String, Value>) -> Map<String, Value> {
    let given = arguments.get("inputs").and_then(Value::as_object);
    given.cloned().unwrap_or_default()
}

async fn preview_inputs(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let definition = app.sound(subject(&arguments, PREVIEW_INPUTS)?).await?;
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

async fn resolve_inputs(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let definition = app.sound(subject(&arguments, RESOLVE_INPUTS)?).await?;
    let resolved = app.resolved(&definition, given(&arguments)).await?;
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

async fn step_plan(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let Plan {
        definition,
        rehearsal,
        ..
    } = app
        .plan(subject(&arguments, STEP_PLAN)?, given(&arguments))
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

async fn preview_rendered(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let plan = app
        .plan(subject(&arguments, PREVIEW_RENDERED)?, given(&arguments))
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
