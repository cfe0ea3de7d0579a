//! `store.examine`: lets `midex doctor` check the store through the process that has it open. Only for midex's own
//! commands.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::deserialize_present;
use midex_domain::error::{Error, Result};
use midex_server::app::{App, Examination, ExaminationProgress};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// What the call before said is next; left out at first
    #[serde(default, deserialize_with = "deserialize_present")]
    from: Option<Value>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Examination> {
    let from = match arguments.from {
        None => ExaminationProgress::default(),
        Some(from) => serde_json::from_value(from).map_err(|error| {
            let message = "`from` is not what an examination said last";
            Error::argument_rule("/from", "next", message).with_source(error)
        })?,
    };
    app.examine_store(from).await
}
