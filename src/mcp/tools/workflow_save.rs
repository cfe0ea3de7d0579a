//! `workflow.save`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::author::manifest_from_argument;
use crate::asking::{Confirmation, ConfirmationFallback};
use midex_domain::error::Result;
use midex_registry::{Format, Manifest, SaveRequest, SavedWorkflow};
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

/// If the save would overwrite a file that the caller has not read, asks the user, if possible.
pub(super) async fn confirm_overwrite(
    app: &App,
    arguments: Arguments,
) -> Result<Option<Confirmation>> {
    let save = save_request(arguments);
    if !save.overwrite || save.expected_version.is_some() {
        return Ok(None);
    }
    let Some(there) = app.file_to_overwrite(&save).await else {
        return Ok(None);
    };
    Ok(Some(Confirmation {
        key: format!("workflow.save:{}:{}:{}", there.path, there.version, save.manifest.version()),
        message: format!("Replace the workflow `{}` in `{}`?", there.workflow_id, there.path),
        about: vec![("workflow_id", there.workflow_id), ("path", there.path)],
        unasked: ConfirmationFallback::Done,
        by: app.requester(),
        version: Some(there.version),
    }))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<SavedWorkflow> {
    app.save_workflow(save_request(arguments)).await
}

fn save_request(arguments: Arguments) -> SaveRequest {
    let format = arguments.format.as_deref();
    let manifest = match arguments.manifest {
        document @ Value::Object(_) if format != Some("json") => {
            Manifest::from_object_as_yaml(&document)
        }
        document => manifest_from_argument(&document, format),
    };
    SaveRequest {
        manifest,
        overwrite: arguments.overwrite,
        expected_version: arguments.expected_version,
    }
}
