//! `midex signal`: tells an execution that something happened.

use serde_json::{Value, json};

use super::{EXIT_OK, Output, link::Link, run};
use crate::{config::Config, error::Result, limits};

/// Which execution, which signal, and what comes with it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SignalArgs {
    /// The execution
    #[arg(value_name = "EXECUTION")]
    execution_id: String,
    /// The name that a step waits for
    #[arg(value_name = "SIGNAL")]
    signal: String,
    /// What comes with it: any JSON value, or a file that holds one
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
}

/// Calls `execution.signal` and prints its reply.
pub(super) async fn signal(args: SignalArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let payload = match &args.payload {
        Some(given) => run::inputs::json("--payload", given, limits::SIGNAL_BYTES_MAX)?.1,
        None => Value::Null,
    };
    let arguments = json!({
        "execution_id": args.execution_id, "signal": args.signal, "payload": payload
    });
    let mut link = Link::new(config);
    let answer = link.call("execution.signal", arguments).await;
    link.end().await;
    out.reply(&answer?).map(|()| EXIT_OK)
}
