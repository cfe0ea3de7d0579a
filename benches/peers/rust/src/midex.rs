//! midex as a library: an engine on its store.

use std::{path::Path, sync::Arc};

use midex_domain::{clock::{SteadyClock, SystemIds}, Definition, ExecutionId, execution::Report};
use midex_engine::{Engine, Options, StartRequest, store::{self, RedbStore}};

use super::{Result, STEPS, manifest::manifest, work};

pub(crate) struct Midex {
    engine: Engine,
    definition: Arc<Definition>,
}

impl Midex {
    pub(crate) async fn open(directory: &Path) -> Result<Self> {
        let store = Arc::new(RedbStore::open(directory, store::Options::default())?);
        let options = Options::new(store, Arc::new(SteadyClock::default()), Arc::new(SystemIds));
        let steps: String = (0..STEPS)
            .map(|at| format!("  - {{ id: step-{at}, guidance: Work., result: {{}} }}\n"))
            .collect();
        Ok(Self {
            engine: Engine::new(options).await?,
            definition: manifest(&format!("steps:\n{steps}")),
        })
    }
}

impl super::Engine for Midex {
    async fn run(&self, name: String) -> Result<()> {
        let request = StartRequest { execution_id: Some(ExecutionId::parse(&name)?), ..StartRequest::new(Arc::clone(&self.definition)) };
        let (mut at, mut last) = (0, self.engine.start(request).await?);
        while let Some(token) = last.new_token {
            let report = Report::Output(serde_json::to_value(work(at))?);
            last = self.engine.advance(&token, report).await?;
            at += 1;
        }
        match (last.workflow_state.as_str(), at) {
            ("completed", STEPS) => Ok(()),
            (state, steps) => Err(format!("it is {state} after {steps} steps").into()),
        }
    }
}
