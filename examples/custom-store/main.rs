//! An engine on a store that this program brings, and that passes the suite of `midex::store::contract`.
//!
//! `cargo run --example custom-store DIRECTORY`. Each run does one step of the execution `demo`.

mod log_store;

use std::{error::Error, io::Write as _, path::PathBuf, sync::Arc};

use midex::{
    ExecutionId, Registry, Report, Sources, SteadyClock, SystemIds,
    engine::{Engine, Options, StartRequest},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("name a directory")?);
    let store = Arc::new(log_store::LogStore::open(&directory).await?);
    let (clock, ids) = (Arc::new(SteadyClock::default()), Arc::new(SystemIds));
    let engine = Engine::new(Options::new(store, clock, ids)).await?;
    let id = ExecutionId::parse("demo")?;
    if engine.status(&id).await.is_err() {
        let definition = Registry::load(&Sources::default()).definition("bug-fix")?;
        let (execution_id, inputs) = (Some(id.clone()), Some(json!({ "task": "count again" })));
        let (project, lookup) = (None, None);
        engine
            .start(StartRequest {
                execution_id,
                project,
                inputs,
                lookup,
                ..StartRequest::new(definition)
            })
            .await?;
    }
    let current = engine.current_step(&id).await?;
    if let Some(token) = &current.continuation_token {
        engine.advance(token, Report::Output(json!({ "summary": "done" }))).await?;
    }
    let (step, status) = (current.current_step.unwrap_or_default(), engine.status(&id).await?);
    writeln!(std::io::stdout(), "{step} done, {} in {}", status.state, directory.display())?;
    engine.stop().await?;
    Ok(())
}
