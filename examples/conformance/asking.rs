//! Tools that ask the client while they work, as clients with a session are asked.
#![expect(deprecated, reason = "newer revisions deprecate sampling; older clients have it")]

use rmcp::{
    ErrorData,
    model::{CallToolResponse, ClientCapabilities},
};
use serde_json::{Value, json};

use crate::{
    content::{refused, said, word},
    rounds::{spoken, typed},
    tools::Call,
};

pub(crate) async fn sampling(call: Call) -> Result<CallToolResponse, ErrorData> {
    let prompt = word(&call.arguments, "prompt");
    let request = typed(json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    }))?;
    let answer = match call.cx.peer.create_message(request).await {
        Ok(message) => {
            let message = serde_json::to_value(message).unwrap_or_default();
            said(format!("LLM response: {}", spoken(&message).unwrap_or_default()))
        }
        Err(error) => refused(format!("the client's model did not answer: {error}")),
    };
    Ok(answer.into())
}

pub(crate) async fn elicitation(call: Call) -> Result<CallToolResponse, ErrorData> {
    let message = word(&call.arguments, "message").to_owned();
    let properties = json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    });
    ask(call, "User response", &message, properties, &["username", "email"]).await
}

pub(crate) async fn defaults(call: Call) -> Result<CallToolResponse, ErrorData> {
    let properties = json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    });
    ask(call, "Elicitation completed", "Change what is not right", properties, &[]).await
}

pub(crate) async fn choices(call: Call) -> Result<CallToolResponse, ErrorData> {
    let plain = json!(["option1", "option2", "option3"]);
    let properties = json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    });
    ask(call, "Elicitation completed", "Choose", properties, &[]).await
}

fn titled(noun: &str) -> Value {
    json!([
        { "const": "value1", "title": format!("First {noun}") },
        { "const": "value2", "title": format!("Second {noun}") },
        { "const": "value3", "title": format!("Third {noun}") },
    ])
}

async fn ask(
    call: Call,
    label: &str,
    message: &str,
    properties: Value,
    required: &[&str],
) -> Result<CallToolResponse, ErrorData> {
    let request = typed(json!({
        "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
    }))?;
    let answer = match call.cx.peer.create_elicitation(request).await {
        Ok(answer) => {
            let action = serde_json::to_value(answer.action).unwrap_or_default();
            let action = action.as_str().unwrap_or_default();
            let content = answer.content.unwrap_or_default();
            said(format!("{label}: action={action}, content={content}"))
        }
        Err(error) => refused(format!("the user could not be asked: {error}")),
    };
    Ok(answer.into())
}

pub(crate) fn needs_sampling(call: &Call) -> Result<CallToolResponse, ErrorData> {
    let client = call.cx.client_capabilities().unwrap_or_default();
    if client.sampling.is_none() {
        let needed = ClientCapabilities::builder().enable_sampling().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    Ok(said("The client has a model").into())
}
