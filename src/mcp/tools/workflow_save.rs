//! `workflow.save`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{author::manifest, schemas::output_of, view};
use crate::asking::{Confirmation, Unasked};
use midex_domain::error::Result;
use midex_registry::{Format, Manifest, Save};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(extend("type" = ["string", "object"]))]
    manifest: Value,
    #[schemars(extend("enum" = Format::NAMES))]
    format: Option<String>,
    /// Replaces a file you have not read
    #[serde(default)]
    overwrite: bool,
    #[schemars(length(max = 64))]
    expected_version: Option<String>,
}

pub(super) fn output() -> Value {
    let text = json!({ "type": "string" });
    let required = json!({
        "workflow_id": text, "path": text, "format": text, "version": text, "created": { "type": "boolean" },
        "warnings": { "type": "array", "items": { "type": "object" } }, "sync": { "type": "object" }
    });
    output_of(required, json!({ "replaced_version": text }))
}

/// If the save would overwrite a file that the caller has not read, asks the user, if possible.
pub(super) async fn question(app: &App, arguments: Arguments) -> Result<Option<Confirmation>> {
    let save = save(arguments);
    if !save.overwrite || save.expected_version.is_some() {
        return Ok(None);
    }
    let Some(there) = app.overwritten(&save).await else {
        return Ok(None);
    };
    Ok(Some(Confirmation {
        key: format!(
            "workflow.save:{}:{}:{}",
            there.path,
            there.version,
            save.manifest.version()
        ),
        message: format!(
            "Replace the workflow `{}` in `{}`?",
            there.workflow_id, there.path
        ),
        about: vec![("workflow_id", there.workflow_id), ("path", there.path)],
        unasked: Unasked::Done,
        by: app.by(),
        version: Some(there.version),
    }))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let mut saved = view(&app.save(save(arguments)).await?)?;
    saved["success"] = json!(true);
    Ok(saved)
}

fn save(arguments: Arguments) -> Save {
    let format = arguments.format.as_deref();
    let manifest = match arguments.manifest {
        document @ Value::Object(_) if format != Some("json") => Manifest::in_yaml(&document),
        document => manifest(&document, format),
    };
    Save {
        manifest,
        overwrite: arguments.overwrite,
        expected_version: arguments.expected_version,
    }
}
