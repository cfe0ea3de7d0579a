//! `workflow.read`: reads any resource, for hosts whose models can only call tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resources;
use midex_domain::error::Result;
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1))]
    uri: String,
}

/// The content of a resource, or a part of it.
#[derive(Serialize, JsonSchema)]
pub(super) struct ResourceRead {
    uri: String,
    content: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ResourceRead> {
    let uri = arguments.uri.trim();
    let read_result = resources::read_resource(app, uri, false).await;
    // The error names the request for resources, which is not what was called.
    let read_result = read_result.map_err(|error| error.with_context("tool", "workflow.read"))?;
    Ok(ResourceRead {
        uri: uri.to_owned(),
        content: read_result.content.into_value(),
        next: read_result.next_uri,
    })
}
