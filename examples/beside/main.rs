//! midex beside a tool of this program, in one server over standard input and output.
//!
//! `cargo run --example beside DATA_DIRECTORY`

use std::{path::PathBuf, sync::Arc};

use midex::{
    App, Config, Options, SteadyClock, SystemIds,
    mcp::{self, Beside, Server},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The server of this program: one tool, which counts the words of a text.
pub(crate) struct Words;

impl ServerHandler for Words {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("words", env!("CARGO_PKG_VERSION")))
            .with_instructions("count_words counts the words of a text.")
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let schema = json!({
            "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"]
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = || Tool::new("count_words", "Counts the words of a text", Arc::new(schema));
        (name == "count_words").then(tool)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.get_tool("count_words").into_iter().collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(|text| text.as_str());
        let text = text.ok_or_else(|| ErrorData::invalid_params("`text` is missing", None))?;
        let count = text.split_whitespace().count();
        Ok(CallToolResult::structured(json!({ "words": count })).into())
    }
}

pub(crate) fn build_server(app: App) -> Beside<Words> {
    Beside::new(Server::new(Arc::new(app)), Words)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data_dir = PathBuf::from(std::env::args_os().nth(1).ok_or("name a data directory")?);
    let config = Config::new(Some(data_dir))?;
    let clock = Arc::new(SteadyClock::default());
    let app = App::with_options(Options::new(config, clock, Arc::new(SystemIds)));
    mcp::serve_stdio(build_server(app.clone()), CancellationToken::new()).await?;
    app.stop().await?;
    Ok(())
}
