//! `midex resolve`: says what came of a step that the server was cut off in.

use serde_json::{Value, json};

use super::{EXIT_OK, Output, link::Link, run};
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

/// Calls `execution.resolve` and prints its reply.
pub(super) async fn resolve(args: ResolveArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
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
    let answer = call_for_attempt(&mut link, arguments).await;
    link.end().await;
    out.reply(&answer?).map(|()| EXIT_OK)
}

/// Calls the tool with the visit and the attempt that are open now, so that a repeated call cannot resolve a later attempt.
async fn call_for_attempt(link: &mut Link<'_>, mut arguments: Value) -> Result<Value> {
    let id = arguments["execution_id"].as_str().unwrap_or_default();
    let status = link.read_of("workflow_status", id).await?;
    let waits = status["waits"].as_array().into_iter().flatten();
    let is_meant = |wait: &&Value| {
        let is_item = arguments["item"].is_null() || wait["item"] == arguments["item"];
        wait["waits_for"] == "unknown" && wait["step_name"] == arguments["step_name"] && is_item
    };
    let meant: Vec<_> = waits.filter(is_meant).collect();
    // If no attempt matches, or several do, the tool refuses the call and says so.
    if let [wait] = meant.as_slice() {
        (arguments["visit"], arguments["attempt"]) =
            (wait["visit"].clone(), wait["attempt"].clone());
    }
    link.call("execution.resolve", arguments).await
}
