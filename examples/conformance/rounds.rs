//! Tools that ask in their answer, and are called again with what they asked for.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{CallToolResponse, InputRequests, InputRequiredResult, InputResponses, SealOptions},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{content::said, server::Fixtures, tools::Call};

/// How long a client may take for a round.
const STATE_TTL: Duration = Duration::from_secs(600);

pub(crate) fn name(call: &Call) -> Result<CallToolResponse, ErrorData> {
    match field(&call.answers, "user_name", "name") {
        Some(name) => Ok(said(format!("Hello, {name}!")).into()),
        None => ask(json!({ "user_name": ask_name() }), None),
    }
}

pub(crate) fn capital(call: &Call) -> Result<CallToolResponse, ErrorData> {
    match call.answers.get("capital_question").and_then(spoken) {
        Some(text) => Ok(said(text).into()),
        None => ask(json!({ "capital_question": ask_capital() }), None),
    }
}

pub(crate) fn roots(call: &Call) -> Result<CallToolResponse, ErrorData> {
    match rooted(&call.answers) {
        Some(roots) => Ok(said(format!("The client's roots: {roots}")).into()),
        None => ask(json!({ "client_roots": ask_roots() }), None),
    }
}

pub(crate) fn confirmed(fixtures: &Fixtures, call: &Call) -> Result<CallToolResponse, ErrorData> {
    let begun = open(fixtures, call)?.is_some();
    if begun && let Some(ok) = field(&call.answers, "confirm", "ok") {
        return Ok(said(format!("state-ok, and the answer is {ok}")).into());
    }
    let questions = json!({ "confirm": form("Please confirm", "ok", "boolean") });
    ask(questions, Some(seal(fixtures, call, &State::default())?))
}

pub(crate) fn several(fixtures: &Fixtures, call: &Call) -> Result<CallToolResponse, ErrorData> {
    let begun = open(fixtures, call)?.is_some();
    let name = field(&call.answers, "user_name", "name");
    let greeting = call.answers.get("greeting").and_then(spoken);
    if begun
        && let (Some(name), Some(greeting), Some(roots)) = (name, greeting, rooted(&call.answers))
    {
        return Ok(said(format!("{greeting} {name}, with {roots}")).into());
    }
    let questions = json!({
        "user_name": ask_name(),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ask_roots(),
    });
    ask(questions, Some(seal(fixtures, call, &State::default())?))
}

pub(crate) fn twice(fixtures: &Fixtures, call: &Call) -> Result<CallToolResponse, ErrorData> {
    let state = open(fixtures, call)?;
    let given = field(&call.answers, "step1", "name");
    let known = state.as_ref().and_then(|state| state.name.clone());
    let Some(name) = known.or_else(|| state.and(given)) else {
        let questions = json!({ "step1": form("Step 1: What is your name?", "name", "string") });
        return ask(questions, Some(seal(fixtures, call, &State::default())?));
    };
    if let Some(color) = field(&call.answers, "step2", "color") {
        return Ok(said(format!("{name} likes {color}")).into());
    }
    let questions =
        json!({ "step2": form("Step 2: What is your favorite color?", "color", "string") });
    let state = State { name: Some(name) };
    ask(questions, Some(seal(fixtures, call, &state)?))
}

pub(crate) fn within_capabilities(call: &Call) -> Result<CallToolResponse, ErrorData> {
    if !call.answers.is_empty() {
        return Ok(said("Answered within what the client can do").into());
    }
    let client = call.cx.client_capabilities().unwrap_or_default();
    let mut questions = serde_json::Map::new();
    if client.elicitation.is_some() {
        questions.insert("user_name".to_owned(), ask_name());
    }
    if client.sampling.is_some() {
        questions.insert("capital_question".to_owned(), ask_capital());
    }
    if client.roots.is_some() {
        questions.insert("client_roots".to_owned(), ask_roots());
    }
    if questions.is_empty() {
        return Ok(said("The client cannot be asked anything").into());
    }
    ask(Value::Object(questions), None)
}

/// What a client keeps for this server between two rounds.
#[derive(Default, Serialize, Deserialize)]
struct State {
    name: Option<String>,
}

/// A state that only this server can make, for this tool and a while.
fn seal(fixtures: &Fixtures, call: &Call, state: &State) -> Result<String, ErrorData> {
    let options = SealOptions::new().ttl(STATE_TTL).associated_data(call.tool.as_bytes());
    let sealed = fixtures.shared().states.seal_json_with(state, &options);
    sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn open(fixtures: &Fixtures, call: &Call) -> Result<Option<State>, ErrorData> {
    let Some(sealed) = &call.state else {
        return Ok(None);
    };
    let states = &fixtures.shared().states;
    let opened = states.open_json_with(sealed, call.tool.as_bytes());
    // One answer whatever is wrong with it, so that nobody can learn how to make one.
    opened.map(Some).map_err(|_| {
        ErrorData::invalid_params("requestState was not made by this server for this call", None)
    })
}

pub(crate) fn ask(questions: Value, state: Option<String>) -> Result<CallToolResponse, ErrorData> {
    let questions: InputRequests = typed(questions)?;
    Ok(InputRequiredResult::new(Some(questions), state).into())
}

pub(crate) fn ask_name() -> Value {
    form("What is your name?", "name", "string")
}

fn ask_capital() -> Value {
    sample("What is the capital of France?", 100)
}

fn ask_roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// A form of one field, which must be filled in.
pub(crate) fn form(message: &str, field: &str, kind: &str) -> Value {
    let properties = json!({ field: { "type": kind } });
    json!({ "method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": [field] },
    } })
}

fn sample(text: &str, tokens: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": tokens } })
}

/// What was put in a field of a form that was accepted: text as it is, all else as JSON.
pub(crate) fn field(answers: &InputResponses, key: &str, field: &str) -> Option<String> {
    let answer = answers.get(key)?;
    let value = answer.get("content")?.get(field)?;
    let shown = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (answer.get("action")? == "accept").then(shown)
}

/// What a model said.
pub(crate) fn spoken(answer: &Value) -> Option<&str> {
    answer.get("content")?.get("text")?.as_str()
}

fn rooted(answers: &InputResponses) -> Option<&Value> {
    let roots = answers.get("client_roots")?.get("roots")?;
    roots.is_array().then_some(roots)
}

/// What the protocol's types make of words written as JSON.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("the fixture is wrong: {error}"), None))
}
