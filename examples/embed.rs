//! Using midex as a library: an engine on a directory of your choice, without MCP. A workflow that the program defines waits
//! for a signal between its two steps, which this program does itself.
//!
//! `cargo run --example embed`

use std::{error::Error, io::Write, path::Path, sync::Arc};

use midex::{
    ExecutionId, Registry, Report, SignalRequest, Sources, SteadyClock, SystemIds,
    engine::{Engine, Options, StartRequest},
    store::{self, RedbStore},
    workflow::{Step, Workflow},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = std::env::temp_dir().join(format!("midex-embed-{}", std::process::id()));
    run(&data_dir, &mut std::io::stdout()).await
}

/// Leads an execution to its end, and writes what happened to `out`.
pub(crate) async fn run(data_dir: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let store = Arc::new(RedbStore::open(data_dir, store::Options::default())?);
    let (clock, ids) = (Arc::new(SteadyClock::default()), Arc::new(SystemIds));
    let engine = Engine::new(Options::new(store, clock, ids)).await?;

    let report = Workflow::new("report")
        .description("Collect figures, and publish them once they are approved")
        .input("month", json!({ "type": "string" }))
        .step(Step::guidance("Collect the figures of ${{ inputs.month }}.").id("collect"))
        .step(Step::wait(json!({ "signal": "approved" })).id("approval"))
        .step(Step::guidance("Publish them.").id("publish"))
        .final_output("${{ steps.publish.output.summary }}");
    let sources = Sources { program: vec![report].into(), ..Sources::default() };
    let definition = Registry::load(&sources).definition("report")?;

    // `start` answers with the first step, and `advance` with the next one. Its token is the place in the execution.
    let inputs = Some(json!({ "month": "May" }));
    let started = engine.start(StartRequest { inputs, ..StartRequest::new(definition) }).await?;
    let id = ExecutionId::parse(&started.execution_id)?;
    let mut events = engine.events(&id).await?;
    let done = |what: &str| Report::Output(json!({ "summary": format!("{what} is done") }));
    let token = started.new_token.ok_or("the first step has a token")?;
    engine.advance(&token, done("collect")).await?;

    // The execution waits, through restarts of this program too, until somebody sends the signal.
    let waiting = engine.status(&id).await?;
    assert_eq!(waiting.waits[0].waits_for, "signal");
    engine.apply_command(&id, SignalRequest::new("approved", json!("by Ann"))).await?;
    let current = engine.current_step(&id).await?;
    let token = current.continuation_token.ok_or("the last step has a token")?;
    engine.advance(&token, done("publish")).await?;

    while let Some(event) = events.next().await? {
        let step = event.step_name.as_deref().unwrap_or("the workflow");
        writeln!(out, "{:>2} {} {step}", event.id, event.event_type.as_str())?;
    }
    let ended = engine.status(&id).await?;
    let output = ended.final_output.unwrap_or_default();
    writeln!(out, "{}: {output}; the data lies in {}", ended.state, data_dir.display())?;
    engine.stop().await?;
    Ok(())
}
