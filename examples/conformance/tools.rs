//! The table of tools: what is listed, and what answers.

use std::{pin::Pin, sync::Arc};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, InputResponses, JsonObject,
        ProtocolVersion, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::{asking, changes::Change, content, rounds, server::Fixtures, tasks, telling};

pub(crate) type Answer<'a> =
    Pin<Box<dyn Future<Output = Result<CallToolResponse, ErrorData>> + Send + 'a>>;

/// One tool.
pub(crate) struct Spec {
    name: &'static str,
    description: &'static str,
    arguments: fn() -> Value,
    work: for<'a> fn(&'a Fixtures, Call) -> Answer<'a>,
}

/// What a tool is given.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: JsonObject,
    /// What the client answered to an earlier round's questions.
    pub(crate) answers: InputResponses,
    /// What an earlier round gave the client to keep.
    pub(crate) state: Option<String>,
    pub(crate) cx: RequestContext<RoleServer>,
}

impl Call {
    /// Whether the client speaks the protocol without sessions.
    pub(crate) fn is_modern(&self) -> bool {
        let version = self.cx.protocol_version();
        version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
    }
}

const fn spec(
    name: &'static str,
    description: &'static str,
    work: for<'a> fn(&'a Fixtures, Call) -> Answer<'a>,
) -> Spec {
    Spec { name, description, arguments: nothing, work }
}

impl Spec {
    const fn taking(mut self, arguments: fn() -> Value) -> Self {
        self.arguments = arguments;
        self
    }

    fn tool(&self) -> Tool {
        let schema = match (self.arguments)() {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        Tool::new(self.name, self.description, Arc::new(schema))
    }
}

/// In the order in which they are listed.
const TOOLS: &[Spec] = &[
    spec("test_simple_text", "Answers with text", |_, call| plain(content::text, &call)),
    spec("test_image_content", "Answers with a picture", |_, call| plain(content::image, &call)),
    spec("test_audio_content", "Answers with sound", |_, call| plain(content::audio, &call)),
    spec("test_embedded_resource", "Answers with a resource", |_, call| {
        plain(content::embedded, &call)
    }),
    spec(
        "test_multiple_content_types",
        "Answers with text, a picture and a resource",
        |_, call| plain(content::mixed, &call),
    ),
    spec("test_error_handling", "Always fails", |_, call| plain(content::error, &call)),
    spec("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", |_, call| {
        plain(content::echo, &call)
    })
    .taking(rich_schema),
    spec(
        "test_header_argument",
        "Takes an argument that HTTP clients repeat in a header",
        |_, call| plain(content::echo, &call),
    )
    .taking(|| one_with("region", &json!({ "type": "string", "x-mcp-header": "Region" }))),
    spec("test_tool_with_progress", "Tells how far it is", |_, call| {
        Box::pin(telling::progress(call))
    }),
    spec("test_tool_with_logging", "Logs while it works", |this, call| {
        Box::pin(telling::logging(this, call))
    }),
    spec("test_logging_tool", "Logs if it was asked to", |this, call| {
        Box::pin(telling::logging(this, call))
    }),
    spec(
        "test_reconnection",
        "Answers on the stream of its call, which stays open until then",
        |_, call| plain(content::text, &call),
    ),
    spec("test_trigger_tool_change", "Announces that the list of tools has changed", |this, _| {
        announce(this, Change::Tools)
    }),
    spec(
        "test_trigger_prompt_change",
        "Announces that the list of prompts has changed",
        |this, _| announce(this, Change::Prompts),
    ),
    spec("test_trigger_resource_change", "Announces that a resource has changed", |this, call| {
        announce(this, Change::Resource(content::word(&call.arguments, "uri").to_owned()))
    })
    .taking(|| one("uri")),
    spec("test_sampling", "Asks the client's model", |_, call| Box::pin(asking::sampling(call)))
        .taking(|| one("prompt")),
    spec("test_elicitation", "Asks the user", |_, call| Box::pin(asking::elicitation(call)))
        .taking(|| one("message")),
    spec("test_elicitation_sep1034_defaults", "Asks the user, with defaults", |_, call| {
        Box::pin(asking::defaults(call))
    }),
    spec(
        "test_elicitation_sep1330_enums",
        "Asks the user to choose, in every form of choice",
        |_, call| Box::pin(asking::choices(call)),
    ),
    spec("test_missing_capability", "Needs a client with a model", |_, call| {
        now(asking::needs_sampling(&call))
    }),
    spec("test_streaming_elicitation", "Asks the user in its answer", |_, call| {
        now(rounds::name(&call))
    }),
    spec("test_input_required_result_elicitation", "Asks the user for a name", |_, call| {
        now(rounds::name(&call))
    }),
    spec(
        "test_input_required_result_sampling",
        "Asks the client's model for a capital",
        |_, call| now(rounds::capital(&call)),
    ),
    spec("test_input_required_result_list_roots", "Asks for the client's roots", |_, call| {
        now(rounds::roots(&call))
    }),
    spec(
        "test_input_required_result_request_state",
        "Asks with a state to be given back",
        |this, call| now(rounds::confirmed(this, &call)),
    ),
    spec(
        "test_input_required_result_tampered_state",
        "Accepts no state but its own",
        |this, call| now(rounds::confirmed(this, &call)),
    ),
    spec(
        "test_input_required_result_multiple_inputs",
        "Asks three things at once",
        |this, call| now(rounds::several(this, &call)),
    ),
    spec("test_input_required_result_multi_round", "Asks twice", |this, call| {
        now(rounds::twice(this, &call))
    }),
    spec(
        "test_input_required_result_capabilities",
        "Asks only what the client can answer",
        |_, call| now(rounds::within_capabilities(&call)),
    ),
    spec("greet", "Greets at once", |_, call| plain(content::greeting, &call))
        .taking(|| one("name")),
    spec("slow_compute", "Takes its time; a task where the client knows tasks", |this, call| {
        Box::pin(tasks::slow_compute(this, call))
    })
    .taking(tasks::slow_compute_arguments),
    spec("failing_job", "A task that ends in a tool's error", |this, call| {
        now(tasks::failing_job(this, &call))
    }),
    spec("protocol_error_job", "A task that ends in a protocol error", |this, call| {
        now(tasks::protocol_error_job(this, &call))
    }),
    spec("confirm_delete", "A task that asks before it goes on", |this, call| {
        now(tasks::confirm_delete(this, &call))
    })
    .taking(|| one("filename")),
    spec("multi_input", "A task that asks two things at once", |this, call| {
        now(tasks::multi_input(this, &call))
    }),
    spec("test_tool_with_task", "Asks first, and becomes a task then", |this, call| {
        now(tasks::ask_then_work(this, &call))
    }),
];

pub(crate) fn list() -> Vec<Tool> {
    TOOLS.iter().map(Spec::tool).collect()
}

pub(crate) fn find(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|spec| spec.name == name).map(Spec::tool)
}

pub(crate) async fn call(
    fixtures: &Fixtures,
    request: CallToolRequestParams,
    cx: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let Some(spec) = TOOLS.iter().find(|spec| spec.name == request.name) else {
        let message = format!("no tool is named `{}`", request.name);
        return Err(ErrorData::invalid_params(message, None));
    };
    let call = Call {
        tool: spec.name,
        arguments: request.arguments.unwrap_or_default(),
        answers: request.input_responses.unwrap_or_default(),
        state: request.request_state,
        cx,
    };
    (spec.work)(fixtures, call).await
}

fn plain(answer: fn(&JsonObject) -> CallToolResult, call: &Call) -> Answer<'static> {
    now(Ok(answer(&call.arguments).into()))
}

fn now(answer: Result<CallToolResponse, ErrorData>) -> Answer<'static> {
    Box::pin(async { answer })
}

/// Nothing has changed: a client that looks again finds what it knew, which the protocol allows.
fn announce(fixtures: &Fixtures, change: Change) -> Answer<'static> {
    fixtures.shared().changes.announce(change);
    now(Ok(content::said("announced").into()))
}

fn nothing() -> Value {
    json!({ "type": "object", "additionalProperties": false })
}

/// One text, which must be there.
fn one(name: &str) -> Value {
    one_with(name, &json!({ "type": "string" }))
}

fn one_with(name: &str, schema: &Value) -> Value {
    json!({ "type": "object", "properties": { name: schema }, "required": [name] })
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
