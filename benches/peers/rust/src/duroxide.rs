//! duroxide on its SQLite provider. It looks for work every millisecond: by itself it does so every 100 ms, and most of its
//! time is waiting. With more than its two workers of a kind their transactions refuse each other.

use std::{path::Path, sync::Arc, time::Duration};

use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    providers::sqlite::SqliteProvider,
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};

use super::{Output, Result, STEPS, work};

/// Longer than any execution takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Duroxide {
    client: Client,
    _runtime: Arc<Runtime>,
}

impl Duroxide {
    pub(crate) async fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("duroxide.sqlite");
        std::fs::File::create(&path)?;
        let provider = SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?;
        let store = Arc::new(provider);
        let activities = ActivityRegistry::builder()
            .register("work", activity)
            .build();
        let orchestrations = OrchestrationRegistry::builder()
            .register("chain", chain)
            .build();
        let options = RuntimeOptions {
            dispatcher_min_poll_interval: Duration::from_millis(1),
            ..RuntimeOptions::default()
        };
        let runtime =
            Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
        Ok(Self {
            client: Client::new(store),
            _runtime: runtime,
        })
    }
}

async fn activity(_: ActivityContext, at: String) -> std::result::Result<String, String> {
    let at = at.parse().map_err(|_| "not a number")?;
    serde_json::to_string(&work(at)).map_err(|error| error.to_string())
}

async fn chain(ctx: OrchestrationContext, _: String) -> std::result::Result<String, String> {
    let mut last = String::new();
    for at in 0..STEPS {
        last = ctx.schedule_activity("work", at.to_string()).await?;
    }
    Ok(last)
}

impl super::Engine for Duroxide {
    async fn run(&self, name: String) -> Result<()> {
        self.client.start_orchestration(&name, "chain", "").await?;
        match self.client.wait_for_orchestration(&name, PATIENCE).await? {
            OrchestrationStatus::Completed { output, .. } => {
                let last: Output = serde_json::from_str(&output)?;
                assert_eq!(last.at + 1, STEPS);
                Ok(())
            }
            other => Err(format!("it ended as {other:?}").into()),
        }
    }
}
