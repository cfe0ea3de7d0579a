//! `store.back_up`: lets `midex backup` copy the store through the process that has it open. Only for midex's own commands.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use midex_domain::error::{Error, Result};
use midex_server::app::{App, BackupReport};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// The absolute path of the backup, where no file is yet
    file: PathBuf,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<BackupReport> {
    if !arguments.file.is_absolute() {
        return Err(Error::argument_rule("/file", "absolute", "`file` is not an absolute path"));
    }
    app.back_up(arguments.file).await
}
