//! Using midex as a library: a server over standard input and output with activities of its own, which the workflow
//! beside this file names. Any client of MCP may start `release`; its first two steps are done by this program.
//!
//! `cargo run --example activities [DATA_DIRECTORY]`

use std::{error::Error, path::PathBuf, sync::Arc};

use midex::{
    Config, Options, SteadyClock, SystemIds,
    activity::{Activities, Activity, BoxFuture, Context, OperationFailure, Outcome, activity},
    mcp::{self, Process, ToolProfile},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// What the step passes in `with`. A file that passes something else gets a finding.
#[derive(Deserialize, JsonSchema)]
struct Upload {
    version: String,
}

#[derive(Serialize, JsonSchema)]
struct Uploaded {
    url: String,
    receipt: String,
}

/// Brings a version to where it runs. It may be asked for again when the network fails, but after a crash of this program
/// nobody can know how far it came: then the execution pauses, with the reason `outcome_unknown`.
async fn upload(context: Context, input: Upload) -> Result<Uploaded, OperationFailure> {
    if context.attempt == 1 {
        // What `retry.on` of the step names, so there is another attempt.
        return Err(OperationFailure::new("network", "the line was cut").as_retryable());
    }
    // Attempts share it: whoever is asked to store the version can tell that it was asked before.
    let receipt = context.idempotency_key[..8].to_owned();
    Ok(Uploaded { url: format!("https://example.com/{}", input.version), receipt })
}

/// Looks whether a version is well. Looking twice is looking once, so it goes on after a crash too.
struct Health;

impl Activity for Health {
    fn name(&self) -> &'static str {
        "health"
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn run(&self, context: Context) -> BoxFuture<'_, Outcome> {
        // `repeat` of the step asks until it is ready.
        Box::pin(async move { Ok(json!({ "ready": context.attempt >= 3 })) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = std::env::args_os().nth(1).map(PathBuf::from);
    let data_dir = data_dir.unwrap_or_else(|| std::env::temp_dir().join("midex-activities"));
    let mut config = Config::new(Some(data_dir))?;
    config.workflows_dir = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/activities").into());

    let activities =
        Activities::default().with_activity(activity("upload", upload))?.with_activity(Health)?;
    let options = Options {
        activities,
        ..Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds))
    };
    // Opens the store, and goes on with what was under way when the last process ended; `midex --data-dir DATA_DIRECTORY
    // show` and its like find this server. Beside another process of this program it relays to that one.
    let process = Process::for_agent(options, ToolProfile::default());
    if let Some(owned) = mcp::relay_stdio(&process, CancellationToken::new()).await {
        owned.close().await?;
    }
    Ok(())
}
