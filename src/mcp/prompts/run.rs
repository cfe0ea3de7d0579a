//! The prompts that help to start a workflow.

use rmcp::model::{Prompt, PromptArgument};
use serde_json::{Map, Value, json};

use super::{PromptArguments, PromptText, page};
use midex_domain::{
    definition::{Definition, Workflow},
    error::{Code, Error, Result, Violation},
    input::{InputReport, Inputs},
    view,
};
use midex_registry::{Manifest, Registry};
use midex_server::app::{App, DefinitionSubject};

/// The prompt that starts a workflow, with the workflow's inputs as arguments.
pub(super) fn build_workflow_prompt(name: String, workflow: &Workflow) -> Prompt {
    let inputs = workflow.inputs.iter().flat_map(Inputs::iter);
    let arguments = inputs.map(|input| {
        let argument =
            PromptArgument::new(input.key.to_string()).with_required(input.is_required());
        match &input.description {
            Some(words) => argument.with_description(words),
            None => argument,
        }
    });
    let title = workflow.title.clone().unwrap_or_else(|| format!("Run {}", workflow.name));
    let prompt = Prompt::new(name, Some(&workflow.description), Some(arguments.collect()));
    prompt.with_title(title)
}

/// The allowed values of an input of a workflow.
pub(super) fn list_allowed_values(registry: &Registry, id: &str, input: &str) -> Vec<String> {
    let entry = registry.workflow(id).and_then(|entry| entry.value.as_ref());
    let inputs = entry.and_then(|known| known.workflow.inputs.as_ref());
    let input = inputs.and_then(|inputs| inputs.iter().find(|one| one.key.as_str() == input));
    let options = input.map_or(&[][..], |input| &input.one_of);
    options.iter().cloned().map(page::format_argument).collect()
}

/// The prompt for starting a workflow with these inputs.
pub(super) async fn build_start_prompt(
    app: &App,
    mut page: PromptText,
    id: String,
    arguments: Map<String, Value>,
) -> Result<String> {
    let definition = app.find_valid_definition(DefinitionSubject::Named(id.clone())).await?;
    let input_values = parse_typed_arguments(&definition.workflow, arguments);
    let missing_inputs = describe_unresolved_inputs(app, &definition, input_values.clone()).await?;
    page.add_instructions(&format!("Take your user through the workflow `{id}` of midex."));
    page.add_quoted_data("What it achieves:", "text", &definition.workflow.description);
    page.add_quoted_data("The inputs that are known:", "json", &json!(input_values).to_string());
    if missing_inputs.is_empty() {
        page.add_instructions(
            "Call workflow.start with its name as workflow_name and these inputs.",
        );
    } else {
        page.add_quoted_data(
            "Inputs that are missing or do not do:",
            "json",
            &missing_inputs.join("\n"),
        );
        page.add_instructions("Ask your user one question for each of them; then call workflow.start with the workflow's name and all inputs.");
    }
    page.add_instructions("Do each step as its persona and its instructions say, and hand it in with workflow.next_step, until workflow_state is completed.");
    Ok(page.finish())
}

/// The prompt for collecting the inputs of a definition that the caller provides.
pub(super) async fn build_inputs_prompt(
    app: &App,
    mut page: PromptText,
    arguments: &PromptArguments,
) -> Result<String> {
    let text = arguments.get("manifest").unwrap_or_default().to_owned();
    let is_known = app.registry().await?.workflow(&text).is_some();
    let definition = app.find_valid_definition(if is_known {
        DefinitionSubject::Named(text)
    } else {
        DefinitionSubject::Inline(Manifest::from_text(text, None))
    });
    let definition = definition.await?;
    let partial_inputs = parse_partial_inputs(arguments.get("partial_inputs"))?;
    let missing_inputs =
        describe_unresolved_inputs(app, &definition, partial_inputs.clone()).await?;
    let inputs = definition.workflow.inputs.as_ref().map(view::input_views);
    page.add_instructions("Come to the inputs of this workflow of midex.");
    page.add_quoted_data("The workflow:", "text", definition.workflow.name.as_str());
    page.add_quoted_data(
        "Its inputs, with their rules and their defaults:",
        "json",
        &json!(inputs.unwrap_or_default()).to_string(),
    );
    page.add_quoted_data("What is known:", "json", &json!(partial_inputs).to_string());
    if missing_inputs.is_empty() {
        page.add_instructions("Nothing is missing. Answer with one JSON object that has all inputs, and nothing beside it.");
    } else {
        page.add_quoted_data("What is missing or does not do:", "json", &missing_inputs.join("\n"));
        page.add_instructions("Answer with one question for each of them that nothing above answers; once none is left, with one JSON object that has all inputs and nothing beside it.");
    }
    page.add_instructions("workflow.resolve_inputs says whether a start can be made with them.");
    Ok(page.finish())
}

/// The inputs that are missing or invalid, one JSON line each.
async fn describe_unresolved_inputs(
    app: &App,
    definition: &Definition,
    input_values: Map<String, Value>,
) -> Result<Vec<String>> {
    let resolved = app.resolve_provider_arguments(definition, input_values).await?;
    let unresolved_inputs =
        resolved.inputs.iter().filter(|report| InputReport::is_unresolved(report));
    let line = |report: &InputReport| {
        json!({ "input": report.name, "violations": report.violations }).to_string()
    };
    Ok(unresolved_inputs.map(line).collect())
}

/// Arguments are texts. If an input has another type, its argument is parsed as JSON.
fn parse_typed_arguments(workflow: &Workflow, arguments: Map<String, Value>) -> Map<String, Value> {
    let is_text = |name: &str| {
        let mut inputs = workflow.inputs.iter().flat_map(Inputs::iter);
        let input = inputs.find(|input| input.key.as_str() == name);
        input.is_none_or(|input| input.constraints().get("type") == Some(&json!("string")))
    };
    let parse_value = |(name, value): (String, Value)| match value {
        Value::String(text) if !is_text(&name) => {
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            (name, value)
        }
        value => (name, value),
    };
    let present = arguments.into_iter().filter(|(_, value)| *value != "");
    present.map(parse_value).collect()
}

fn parse_partial_inputs(text: Option<&str>) -> Result<Map<String, Value>> {
    let Some(text) = text else {
        return Ok(Map::new());
    };
    serde_json::from_str(text).map_err(|error| {
        let message = "`partial_inputs` is no JSON object";
        Error::new(Code::ArgumentsInvalid, message)
            .with_context("tool", "prompts/get")
            .with_violations(vec![Violation::new("/partial_inputs", "type", message)])
            .with_source(error)
    })
}
