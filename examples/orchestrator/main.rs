//! A workflow behind one orchestrator tool, with its state in `.magen`: `cargo run --example orchestrator`

use std::sync::Arc;

use midex::{
    App, Config, Environment, Options, Result, SteadyClock, SystemIds,
    activity::{Activities, Node, Outcome, node},
    mcp::{self, Server},
    orchestrator::well_known_directory_path,
    workflow::{Step, Workflow},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[derive(schemars::JsonSchema, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    user_message: String,
}

struct ProcessMessage;

impl Node for ProcessMessage {
    type State = State;

    fn name(&self) -> &'static str {
        "ProcessMessage"
    }

    fn execute(&self, state: &State) -> Outcome {
        Ok(json!({ "response": format!("You said: {}", state.user_message) }))
    }
}

pub(crate) fn open_app(config: Config, environment: Environment) -> Result<App> {
    let simple = Workflow::new("simple")
        .description("A simple workflow orchestrator")
        .input("userMessage", json!({ "type": "string" }))
        .step(Step::activity("ProcessMessage"))
        .set("memory", json!({ "response": null }))
        .set("final_output", json!({ "response": "${{ memory.response }}" }))
        .set("expose", json!({ "orchestrator": { "tool_id": "simple-orchestrator", "title": "Simple Orchestrator" } }));
    Ok(App::with_options(Options {
        activities: Activities::default().with_activity(node(ProcessMessage))?,
        definitions: vec![simple],
        environment,
        ..Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds))
    }))
}

#[tokio::main]
async fn main() -> Result<()> {
    let config = Config::new(Some(well_known_directory_path()?))?;
    let app = open_app(config, Environment::Production)?;
    mcp::serve_stdio(Server::new(Arc::new(app.clone())), CancellationToken::new()).await?;
    app.stop().await
}
