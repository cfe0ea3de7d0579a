//! `workflow.read`: reads any resource, for hosts whose models can only call tools.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schemas::output_of;
use crate::resources;
use midex_domain::error::Result;
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1))]
    uri: String,
}

pub(super) fn output() -> Value {
    output_of(
        json!({ "uri": { "type": "string" }, "content": {} }),
        json!({ "next": { "type": "string" } }),
    )
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let uri = arguments.uri.trim();
    let shown = resources::read(app, uri, false).await;
    // The error names the request for resources, which is not what was called.
    let shown = shown.map_err(|error| error.with("tool", "workflow.read"))?;
    let mut answer = json!({ "success": true, "uri": uri, "content": shown.content.into_value() });
    if let Some(next) = shown.next {
        answer["next"] = next.into();
    }
    Ok(answer)
}
