//! `workflow.save`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, Work, acts,
    author::{Class, format_schema, manifest, manifest_schema, version, version_schema},
    flag, unfit, view,
};
use crate::asking::{Confirmation, Unasked};
use midex_domain::error::Result;
use midex_registry::{Manifest, Save};
use midex_server::app::App;

const NAME: &str = "workflow.save";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "manifest": manifest_schema(),
        "format": format_schema(),
        "overwrite": { "type": "boolean", "default": false, "description": "Replaces a file you have not read" },
        "expected_version": version_schema()
    });
    let output = json!({
        "type": "object",
        "properties": {
            "workflow_id": { "type": "string" }, "path": { "type": "string" }, "format": { "type": "string" },
            "version": { "type": "string" }, "created": { "type": "boolean" }, "replaced_version": { "type": "string" },
            "warnings": { "type": "array", "items": { "type": "object" } }, "sync": { "type": "object" }
        },
        "required": ["success", "workflow_id", "path", "format", "version", "created", "warnings", "sync"]
    });
    ToolSpec::doing(
        (
            NAME,
            "Save a workflow",
            "Checks a manifest and writes it. To replace a file give expected_version, as workflow.get has it, or \
             overwrite.",
        ),
        || acts(false, false, true),
        (properties, &["manifest"], output),
        Work::Confirmed(
            |app, arguments| Box::pin(question(app, arguments)),
            |app, arguments| Box::pin(run(app, arguments)),
        ),
    )
    .of(Class::Standard)
}

/// If the save would overwrite a file that the caller has not read, asks the user, if possible.
async fn question(app: &App, arguments: &Map<String, Value>) -> Result<Option<Confirmation>> {
    let save = save(arguments)?;
    if !save.overwrite || save.expected_version.is_some() {
        return Ok(None);
    }
    let Some(there) = app.overwritten(&save).await else {
        return Ok(None);
    };
    let mut confirmed = arguments.clone();
    confirmed.insert("expected_version".into(), json!(there.version));
    Ok(Some(Confirmation {
        key: format!(
            "{NAME}:{}:{}:{}",
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
        confirmed,
    }))
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let mut saved = view(&app.save(save(&arguments)?).await?)?;
    saved["success"] = json!(true);
    Ok(saved)
}

fn save(arguments: &Map<String, Value>) -> Result<Save> {
    let manifest = match arguments.get("manifest") {
        Some(document @ Value::Object(_)) if arguments.get("format") != Some(&json!("json")) => {
            Some(Manifest::in_yaml(document))
        }
        _ => manifest(arguments),
    };
    let missing = || unfit(NAME, "/manifest", "required", "`manifest` is missing");
    Ok(Save {
        manifest: manifest.ok_or_else(missing)?,
        overwrite: flag(arguments, "overwrite"),
        expected_version: version(arguments),
    })
}
