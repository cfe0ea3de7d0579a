//! Using midex as a library: an engine on a directory of your choice, without MCP.
//!
//! `cargo run --example embed`

use std::{error::Error, io::Write, sync::Arc};

use midex::{
    Registry, Report, Sources, SteadyClock, SystemIds,
    engine::{Engine, Options, StartRequest},
    store::{self, RedbStore},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = std::env::temp_dir().join(format!("midex-embed-{}", std::process::id()));
    let store = RedbStore::open(&data_dir, store::Options::default())?;
    let engine = Engine::new(Options::new(
        Arc::new(store),
        Arc::new(SteadyClock::default()),
        Arc::new(SystemIds),
    ))
    .await?;

    // The shipped definitions; `Sources::discover` also finds a project's and the user's.
    let definition = Registry::load(&Sources::default()).definition("bug-fix")?;
    let inputs = Some(json!({ "task": "the total is off by one" }));
    let request = StartRequest { inputs, ..StartRequest::new(definition) };

    let mut out = std::io::stdout().lock();
    let mut step = engine.start(request).await?;
    while let (Some(name), Some(token)) = (&step.step_name, &step.new_token) {
        writeln!(
            out,
            "{} {name} as {}",
            step.progress.as_deref().unwrap_or(""),
            step.agent_name.as_deref().unwrap_or("")
        )?;
        let report = Report::Output(json!({ "summary": format!("{name} is done") }));
        step = engine.advance(token, report).await?;
    }
    writeln!(out, "{}; the data lies in {}", step.message, data_dir.display())?;
    engine.stop().await?;
    Ok(())
}
