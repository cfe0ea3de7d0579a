//! Turns of a model as sampling requests of a task: the client samples its model, and no agent calls tools for the run.

#![allow(deprecated, reason = "sampling is deprecated, and clients of tasks may still offer it")]

use rmcp::{
    RoleServer,
    model::{
        CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, InputRequest,
        SamplingMessage,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::metadata::has_modern_metadata;
use midex_domain::{limits, view::CurrentStep};

/// Whether a turn of a model goes to this client as a sampling request. Only tasks of the extension carry them.
pub(super) fn can_sample(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    has_modern_metadata(context)
        && capabilities.is_some_and(|client| client.supports_tasks() && client.sampling.is_some())
}

/// Identifies the turn of a step while it is open. A new token leaves it as it is; an answer that is refused changes it.
/// `None` if the first open step asks the user for inputs.
pub(super) fn build_turn_key(step: &CurrentStep) -> Option<String> {
    let turn = step.step.as_ref().filter(|turn| turn.kind != "input")?;
    let item = turn.item.map(|item| format!("[{item}]")).unwrap_or_default();
    Some(format!(
        "model:{}:{}{item}:{}:{}:{}",
        step.execution_id,
        step.current_step.as_ref()?,
        turn.visit,
        turn.attempt,
        turn.refused_count
    ))
}

/// The request for the first open step of this view for people, which has no calls in its text.
pub(super) fn build_sampling_request(step: &CurrentStep) -> Option<InputRequest> {
    let turn = step.step.as_ref()?;
    let mut parts = Vec::new();
    parts.extend(step.description.clone());
    parts.extend(step.instructions.clone());
    let values = [
        ("The input of the step", turn.input.clone()),
        ("The inputs of the workflow", step.inputs.clone()),
        ("What earlier steps decided", Some(json!(step.previous))),
        ("An example of an output", turn.example.clone()),
    ];
    let is_empty = |value: &Value| value.is_null() || *value == json!([]) || *value == json!({});
    for (title, value) in values {
        parts.extend(value.filter(|it| !is_empty(it)).map(|value| format!("{title}:\n{value:#}")));
    }
    parts.push(match &step.output_schema {
        Some(schema) => format!("Answer with JSON alone, which satisfies this schema:\n{schema:#}"),
        None => "Answer with a summary of what you did and found, as plain text.".to_owned(),
    });
    if turn.refused_count > 0 {
        parts.push(
            "The last answer was refused, because it does not satisfy the schema.".to_owned(),
        );
    }
    parts.retain(|part| !part.is_empty());
    let message = SamplingMessage::user_text(parts.join("\n\n"));
    let mut params = CreateMessageRequestParams::new(vec![message], limits::SAMPLED_TOKENS_MAX);
    params.system_prompt.clone_from(&step.agent_content);
    Some(InputRequest::CreateMessage(CreateMessageRequest::new(params)))
}

/// The output of a step from the client's answer: JSON, also in a fenced block, or else the summary. `None` if the answer
/// has no text.
pub(super) fn read_sampled_output(response: Value) -> Option<Value> {
    let result: CreateMessageResult = serde_json::from_value(response).ok()?;
    let blocks = result.message.content.into_vec();
    let texts: Vec<_> = blocks.iter().filter_map(|block| Some(&*block.as_text()?.text)).collect();
    let text = texts.concat();
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let json_text = fenced.and_then(|text| text.split_once('\n')).map_or(text, |(_, body)| body);
    let summary = || json!({ "summary": text });
    (!text.is_empty()).then(|| serde_json::from_str(json_text).unwrap_or_else(|_| summary()))
}
