//! Orchestrator tools: the state that a client sends back, the results that a model hands in, and the properties that
//! the utility tools ask for. Their names are those of mcp-workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    definition::{ExposedAction, Workflow},
    error::Violation,
    id::InputName,
    input::{AnswerViolation, Input, Inputs},
    limits,
    schema::Schema,
};

/// The argument with the state of a thread.
pub const WORKFLOW_STATE_DATA: &str = "workflowStateData";
/// The argument with what the user wants, or with the result of a step.
pub const USER_INPUT: &str = "userInput";
/// The field of a result with what the user said.
pub const USER_UTTERANCE: &str = "userUtterance";
/// The field of a result with the properties that were found in a text.
pub const EXTRACTED_PROPERTIES: &str = "extractedProperties";

/// The state of a thread, which a client sends back unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowStateData {
    /// Id of the thread, which is an execution; empty to start one
    pub thread_id: String,
    /// The token of the open step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Whether the schema of a tool's input declares `workflowStateData`: such a tool reports to the orchestrator.
pub fn declares_state(input_schema: &Value) -> bool {
    input_schema["properties"].get(WORKFLOW_STATE_DATA).is_some()
}

/// The schema of a tool's input without `workflowStateData`, which is added to the input by the orchestrator.
pub(crate) fn without_state_property(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove(WORKFLOW_STATE_DATA);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != WORKFLOW_STATE_DATA);
    }
    schema
}

/// The only JSON object in a text, which may stand in a code block or between sentences. `None` if there is none or more than
/// one, if one is damaged, or if the text is longer than an output may be.
pub fn find_json_object(text: &str) -> Option<Value> {
    if text.len() > limits::OUTPUT_BYTES_MAX {
        return None;
    }
    let (mut found, mut at) = (None, 0);
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        at = start + 1;
        // Any other brace is part of a sentence.
        if !text[at..].trim_start().starts_with(['"', '}']) {
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
        let object: Value = values.next()?.ok()?;
        at = start + values.byte_offset();
        let is_in_list = text[..start].trim_end().ends_with('[');
        if found.replace(object).is_some() || is_in_list {
            return None;
        }
    }
    found
}

/// A property that a call of a utility tool asks for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyRequest {
    /// The name of the property in the result
    property_name: String,
    /// The name of the property for the user
    friendly_name: Option<String>,
    /// A description of the property
    description: Option<String>,
    /// JSON Schema of its value
    schema: Option<Map<String, Value>>,
    /// Why an earlier value was refused
    reason: Option<String>,
}

/// The properties of a call, as inputs that a step could ask for.
#[derive(Clone, Debug, Default)]
pub struct RequestedProperties {
    pub(crate) inputs: Inputs,
    pub(crate) names: Vec<String>,
    pub(crate) refused: Vec<AnswerViolation>,
}

impl RequestedProperties {
    /// The properties of a list.
    ///
    /// # Errors
    /// A violation for each invalid or repeated name and for each invalid schema, or one if there are more properties than
    /// [`limits::INPUTS_DECLARED_MAX`].
    pub fn new(properties: Vec<PropertyRequest>) -> Result<Self, Vec<Violation>> {
        let limit = limits::INPUTS_DECLARED_MAX;
        if properties.len() > limit {
            let message = format!("at most {limit} properties are allowed");
            return Err(vec![Violation::new("", "maxItems", message)]);
        }
        let mut requested = Self::default();
        let (mut inputs, mut violations) = (Vec::new(), Vec::new());
        for (index, property) in properties.into_iter().enumerate() {
            let name = property.property_name.clone();
            let refused = property.reason.as_ref().map(|reason| AnswerViolation {
                property: name.clone(),
                value: Value::Null,
                rule: "refused".to_owned(),
                message: format!("`{name}`: {reason}"),
                expected: None,
            });
            requested.refused.extend(refused);
            let problem = if requested.names.contains(&name) {
                Some(("propertyName", format!("two properties have the name `{name}`")))
            } else {
                property.into_input().map(|input| inputs.push(input)).err()
            };
            violations.extend(problem.map(|(field, problem)| {
                Violation::new(format!("/{index}/{field}"), "property", problem)
            }));
            requested.names.push(name);
        }
        requested.inputs = inputs.into();
        if violations.is_empty() { Ok(requested) } else { Err(violations) }
    }
}

impl PropertyRequest {
    /// The input that a step would ask for.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    fn into_input(self) -> Result<Input, (&'static str, String)> {
        let name = InputName::parse(&self.property_name);
        let key = name.map_err(|error| ("propertyName", error.message().to_owned()))?;
        let mut schema = self.schema.unwrap_or_default();
        Schema::compile(&Value::Object(schema.clone()))
            .map_err(|problem| ("schema", format!("it is not a valid JSON Schema: {problem}")))?;
        let label = self.friendly_name;
        let description =
            schema.remove("description").as_ref().and_then(Value::as_str).map(str::to_owned);
        let description = self.description.or(description);
        let declaration = json!({ "key": key, "label": label, "description": description });
        let declaration: Result<Input, _> = serde_json::from_value(declaration);
        let mut input = declaration.map_err(|error| ("schema", error.to_string()))?;
        input.kind = schema.get("type").and_then(|kind| serde_json::from_value(kind.clone()).ok());
        if let Some(Value::Array(values)) = schema.remove("enum") {
            input.one_of = values;
        }
        if input.kind.is_some() {
            schema.remove("type");
        }
        input.schema = schema;
        Ok(input)
    }
}

/// The call of a utility tool that a step asks for.
pub(crate) struct UtilityCall {
    action: ExposedAction,
    properties: RequestedProperties,
}

impl UtilityCall {
    /// The call that a step with this tool and this `with` asks for; `None` if the tool is no utility of the workflow, or if it
    /// would refuse the call.
    pub(crate) fn from_step(workflow: &Workflow, tool: &str, with: &Value) -> Option<Self> {
        let action = workflow.find_exposed_action(tool)?;
        let list = match action {
            ExposedAction::GetInput => &with["propertiesRequiringInput"],
            ExposedAction::ExtractInput => &with["propertiesToExtract"],
            _ => return None,
        };
        let properties = serde_json::from_value(list.clone()).ok()?;
        Some(Self { action, properties: RequestedProperties::new(properties).ok()? })
    }

    /// The result without values that are null, or that were not asked for. The names of the latter are in `dropped`.
    ///
    /// # Errors
    /// The violations for which the user is asked again. Values that a text does not have are no violations.
    pub(crate) fn check_result(&self, result: &Value) -> Result<Value, Vec<Violation>> {
        let is_question = self.action == ExposedAction::GetInput;
        let field = if is_question { USER_UTTERANCE } else { EXTRACTED_PROPERTIES };
        let answers = match &result[field] {
            Value::Object(answers) => answers,
            Value::String(words) if is_question && !words.trim().is_empty() => {
                return Ok(json!({ USER_UTTERANCE: words }));
            }
            _ => {
                let message = format!("`{field}` must be an object with the properties");
                return Err(vec![Violation::new(format!("/{field}"), "type", message)]);
            }
        };
        let RequestedProperties { inputs, names, .. } = &self.properties;
        let (known, unknown): (Map<_, _>, Map<_, _>) =
            answers.clone().into_iter().partition(|(name, _)| names.contains(name));
        let resolved = inputs.validate_answers(names, &known);
        if is_question && !resolved.rejected.is_empty() {
            let path = format!("/{field}");
            return Err(resolved.rejected.iter().map(|one| one.to_violation(&path)).collect());
        }
        let mut output = json!({ field: resolved.accepted });
        if !is_question {
            output["missing"] = json!(resolved.missing);
            output["rejected"] = json!(resolved.rejected);
        }
        if !unknown.is_empty() {
            output["dropped"] = unknown.keys().cloned().collect();
        }
        Ok(output)
    }
}
