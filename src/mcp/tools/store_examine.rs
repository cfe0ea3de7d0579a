//! `store.examine`: lets `midex doctor` check the store through the process that has it open. Only for midex's own
//! commands.

use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, shape_of, unfit, view};
use midex_domain::error::Result;
use midex_server::app::{App, Examination, Reached};

pub(super) const NAME: &str = "store.examine";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "from": { "description": "What the call before said is next; left out at first" }
    });
    ToolSpec::new(
        (
            NAME,
            "Examine the store",
            "Examines a small portion of what is stored.",
        ),
        || acts(true, false, true),
        (properties, &[], shape_of::<Examination>()),
        |app, arguments| Box::pin(examine(app, arguments)),
    )
}

async fn examine(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let from = match arguments.remove("from") {
        None => Reached::default(),
        Some(from) => serde_json::from_value(from).map_err(|error| {
            let message = "`from` is not what an examination said last";
            unfit(NAME, "/from", "next", message).because(error)
        })?,
    };
    view(&app.examine(from).await?)
}
