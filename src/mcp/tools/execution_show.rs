//! `execution.show`: everything that `midex show` prints, in one reply, and `execution.definition`. Only for midex's own
//! commands.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::parse_execution_id;
use midex_domain::{
    error::{Error, Result},
    limits,
    view::ExecutionView,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    /// A revision or an instant: as it was then
    at: Option<String>,
}

pub(super) fn output_schema() -> Value {
    json!({ "type": "object", "properties": {}, "required": ["status"] })
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExecutionView> {
    // The history may be large.
    let _turn = app.acquire_large_read().await;
    let point = arguments.at.map(|text| {
        text.parse().map_err(|expected| Error::argument_rule("/at", "format", expected))
    });
    app.execution_view(&parse_execution_id(&arguments.execution_id)?, point.transpose()?).await
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DefinitionArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
}

pub(super) async fn read_definition(app: &App, arguments: DefinitionArguments) -> Result<Value> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let definition = app.execution_definition(&id).await?;
    serde_json::from_slice(&definition.encode())
        .map_err(|error| Error::internal("a definition is not JSON").with_source(error))
}
