//! Previews an execution: its inputs, its plan, and its steps as they would be entered. Nothing is started.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::author::DefinitionSelection;
use midex_domain::{
    definition::{Step, StepKind},
    error::{Result, Violation},
    execution::DryRunStep,
    expression::UnresolvedExpression,
    input::{Input, InputReport, InputStatus, Inputs, ProviderResolution},
    view::GraphView,
};
use midex_server::app::{App, ExecutionPlan};

/// The definition to preview, and the values of its inputs.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[serde(flatten)]
    selection: DefinitionSelection,
    #[serde(default)]
    inputs: Map<String, Value>,
}

/// The inputs of a workflow.
#[derive(Serialize, JsonSchema)]
pub(super) struct InputList {
    workflow_id: String,
    required: Vec<String>,
    inputs: Vec<Value>,
}

/// The inputs of a start.
#[derive(Serialize, JsonSchema)]
pub(super) struct StartInputs {
    workflow_id: String,
    ready: bool,
    required_missing: Vec<String>,
    defaults: Map<String, Value>,
    resolved_inputs: Map<String, Value>,
    #[schemars(with = "Vec<Value>")]
    inputs: Vec<InputReport>,
    #[schemars(with = "Vec<Value>")]
    violations: Vec<Violation>,
    #[schemars(with = "Vec<Value>")]
    provider_resolutions: Vec<ProviderResolution>,
}

/// The steps in order, before a start.
#[derive(Serialize, JsonSchema)]
pub(super) struct StepPlan {
    workflow_id: String,
    steps: Vec<Value>,
}

/// The texts of the steps, before a start.
#[derive(Serialize, JsonSchema)]
pub(super) struct RenderedSteps {
    workflow_id: String,
    steps: Vec<Value>,
    final_output: Value,
    #[schemars(skip)]
    final_output_unresolved: Vec<UnresolvedExpression>,
}

pub(super) async fn preview_inputs(app: &App, arguments: DefinitionSelection) -> Result<InputList> {
    let subject = arguments.into_subject("workflow.preview_inputs")?;
    let definition = app.find_valid_definition(subject).await?;
    let workflow = &definition.workflow;
    let inputs: Vec<&Input> = workflow.inputs.iter().flat_map(Inputs::iter).collect();
    let required = inputs.iter().filter(|input| input.is_required());
    Ok(InputList {
        workflow_id: workflow.name.to_string(),
        required: required.map(|input| input.key.to_string()).collect(),
        inputs: inputs.iter().map(|input| describe_input_value(input)).collect(),
    })
}

fn describe_input_value(input: &Input) -> Value {
    let mut input_json = json!({
        "name": input.key,
        "type": input.effective_type(),
        "required": input.is_required(),
        "rules": input.constraints(),
        "depends_on": input.dependencies(),
        "source": input.value_source(),
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
        input_json[name] = value;
    }
    input_json
}

pub(super) async fn build_graph(app: &App, arguments: DefinitionSelection) -> Result<GraphView> {
    let subject = arguments.into_subject("workflow.graph")?;
    let definition = app.find_valid_definition(subject).await?;
    Ok(GraphView::from_workflow(&definition.workflow))
}

pub(super) async fn resolve_inputs(app: &App, arguments: Arguments) -> Result<StartInputs> {
    let subject = arguments.selection.into_subject("workflow.resolve_inputs")?;
    let definition = app.find_valid_definition(subject).await?;
    let resolved = app.resolve_inputs(&definition, arguments.inputs).await?;
    let reports_with_status = |wanted: InputStatus| {
        let reports = resolved.inputs.iter();
        reports.filter(move |report| report.status == wanted)
    };
    let value = |report: &InputReport| (report.name.clone(), report.value.clone());
    let missing = reports_with_status(InputStatus::Missing).map(|report| report.name.clone());
    Ok(StartInputs {
        workflow_id: definition.workflow.name.to_string(),
        ready: resolved.is_ready(),
        required_missing: missing.collect(),
        defaults: reports_with_status(InputStatus::Defaulted).map(value).collect(),
        violations: resolved.violations().into_iter().cloned().collect(),
        resolved_inputs: resolved.known_values,
        inputs: resolved.inputs,
        provider_resolutions: resolved.providers,
    })
}

pub(super) async fn plan_steps(app: &App, arguments: Arguments) -> Result<StepPlan> {
    let subject = arguments.selection.into_subject("workflow.step_plan")?;
    let ExecutionPlan { definition, rehearsal } =
        app.plan_execution(subject, arguments.inputs).await?;
    let schemas = app.activities().input_schemas();
    let waves = definition.graph().wave_numbers();
    let steps = definition.workflow.steps.iter().zip(&rehearsal.steps).zip(waves);
    let steps = steps.enumerate().map(|(index, ((step, known), wave))| {
        let mut step_json = json!({
            "index": index,
            "step_id": step.id,
            "kind": step.kind.as_str(),
            "wave": wave,
            "depends_on": step.depends_on,
            "will_run": describe_will_run(known),
            "why": known.why,
        });
        if let Some(condition) = &step.condition {
            step_json["condition"] = json!(condition);
        }
        if let StepKind::Activity { name, .. } = &step.kind {
            step_json["activity"] = json!(name);
            step_json["input_schema"] = json!(schemas.get(name));
            step_json["output_schema"] = json!(app.activities().output_schema(name));
        }
        step_json
    });
    Ok(StepPlan { workflow_id: definition.workflow.name.to_string(), steps: steps.collect() })
}

pub(super) async fn preview_rendered(app: &App, arguments: Arguments) -> Result<RenderedSteps> {
    let subject = arguments.selection.into_subject("workflow.preview_rendered")?;
    let ExecutionPlan { definition, rehearsal } =
        app.plan_execution(subject, arguments.inputs).await?;
    let step = |(step, known): (&Step, &DryRunStep)| {
        json!({
            "step_id": step.id,
            "kind": step.kind.as_str(),
            "will_run": describe_will_run(known),
            "rendered": known.rendered,
            "unresolved": known.unresolved,
        })
    };
    let steps = definition.workflow.steps.iter().zip(&rehearsal.steps);
    Ok(RenderedSteps {
        workflow_id: definition.workflow.name.to_string(),
        steps: steps.map(step).collect(),
        final_output: rehearsal.final_output,
        final_output_unresolved: rehearsal.final_output_unresolved,
    })
}

fn describe_will_run(rehearsed: &DryRunStep) -> Value {
    rehearsed.will_run.map_or_else(|| json!("unknown"), Value::from)
}
