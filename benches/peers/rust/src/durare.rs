//! durare on SQLite: with its own settings (WAL, `synchronous = NORMAL`), and with `FULL`.

use std::{path::Path, sync::Arc};

use durare::{DurableContext, DurableEngine, SqliteProvider, WorkflowOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::{Output, Result, STEPS, work};

#[durare::step]
async fn step(ctx: &DurableContext, at: u32) -> durare::Result<Output> {
    Ok(work(at))
}

#[durare::workflow]
async fn chain(ctx: DurableContext, steps: u32) -> durare::Result<u32> {
    let mut last = 0;
    for at in 0..steps {
        last = step(&ctx, at).await?.at;
    }
    Ok(last)
}

pub(crate) struct Durare(DurableEngine);

impl Durare {
    pub(crate) async fn open(directory: &Path, is_full: bool) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("durare.sqlite");
        if !is_full {
            let url = format!("sqlite://{}", path.display());
            return Ok(Self(DurableEngine::connect(&url).await?.build().await?));
        }
        // As its own `connect` does, but for `synchronous`.
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(std::time::Duration::from_secs(5));
        let pool = SqlitePoolOptions::new().max_connections(5);
        let provider = SqliteProvider::from_pool(pool.connect_with(options).await?);
        Ok(Self(DurableEngine::new(Arc::new(provider)).await?))
    }
}

impl super::Engine for Durare {
    async fn run(&self, name: String) -> Result<()> {
        let options = WorkflowOptions::with_id(name);
        let last = self.0.start_with(Chain, STEPS, options).await?.await?;
        if last + 1 == STEPS {
            return Ok(());
        }
        Err(format!("its last step was {last}").into())
    }
}
