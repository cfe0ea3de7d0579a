//! `midex resolve`.

use std::io::Write;

use serde_json::{Value, json};

use super::{lifecycle, link::Link, run};
use crate::{config::Config, error::Result, limits};

/// Which step of which execution, and what came of it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ResolveArgs {
    /// The execution
    #[arg(value_name = "EXECUTION")]
    execution_id: String,
    /// The step that the server was cut off in
    #[arg(value_name = "STEP")]
    step: String,
    #[command(flatten)]
    verdict: VerdictArgs,
    /// Which item, from 0, where the step is a fan-out and several were cut off
    #[arg(long, value_name = "N")]
    item: Option<u32>,
}

/// What came of it.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct VerdictArgs {
    /// It did not take effect: do it again
    #[arg(long)]
    retry: bool,
    /// It failed, and why
    #[arg(long, value_name = "WHY")]
    failed: Option<String>,
    /// It took effect, and this is what it came to: any JSON value, or a file that holds one
    #[arg(long, value_name = "JSON|@FILE")]
    output: Option<String>,
}

/// Says what came of the step, and where the execution stands then.
pub(super) async fn resolve(
    args: ResolveArgs,
    config: &Config,
    json: bool,
    out: &mut dyn Write,
) -> Result<u8> {
    let mut arguments = json!({ "execution_id": args.execution_id, "step_name": args.step });
    let VerdictArgs { failed, output, .. } = args.verdict;
    match (failed, output) {
        (Some(why), _) => {
            (arguments["verdict"], arguments["message"]) = (json!("failed"), json!(why));
        }
        (_, Some(given)) => {
            let output = run::inputs::json("--output", &given, limits::OUTPUT_BYTES_MAX)?.1;
            (arguments["verdict"], arguments["output"]) = (json!("output"), output);
        }
        _ => arguments["verdict"] = json!("retry"),
    }
    if let Some(item) = args.item {
        arguments["item"] = json!(item);
    }
    let mut link = Link::new(config);
    let answer = resolved(&mut link, arguments).await;
    link.end().await;
    lifecycle::write(&answer?, json, out)
}

/// Names the attempt that is meant, so that the call, sent again where a server went away, says nothing of a later one.
async fn resolved(link: &mut Link<'_>, mut arguments: Value) -> Result<Value> {
    let id = arguments["execution_id"].as_str().unwrap_or_default();
    let status = link.read_of("workflow_status", id).await?;
    let waits = status["waits"].as_array().into_iter().flatten();
    let is_meant = |wait: &&Value| {
        let is_item = arguments["item"].is_null() || wait["item"] == arguments["item"];
        wait["waits_for"] == "unknown" && wait["step_name"] == arguments["step_name"] && is_item
    };
    let meant: Vec<_> = waits.filter(is_meant).collect();
    // Where none is, or several are, the call says so.
    if let [wait] = meant.as_slice() {
        (arguments["visit"], arguments["attempt"]) =
            (wait["visit"].clone(), wait["attempt"].clone());
    }
    link.call("execution.resolve", arguments).await
}
