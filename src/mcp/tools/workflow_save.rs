//! `workflow.save`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::author::parse_manifest_argument;
use crate::elicitation::{Confirmation, ConfirmationFallback};
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
    let save = build_save_request(arguments);
    if !save.should_overwrite || save.expected_version.is_some() {
        return Ok(None);
    }
    let Some(existing_file) = app.find_file_to_overwrite(&save).await else {
        return Ok(None);
    };
    Ok(Some(Confirmation {
        key: format!(
            "workflow.save:{}:{}:{}",
            existing_file.path,
            existing_file.version,
            save.manifest.version()
        ),
        message: format!(
            "Replace the workflow `{}` in `{}`?",
            existing_file.workflow_id, existing_file.path
        ),
        error_context: vec![
            ("workflow_id", existing_file.workflow_id),
            ("path", existing_file.path),
        ],
        fallback: ConfirmationFallback::Proceed,
        requester: app.requester(),
        version: Some(existing_file.version),
    }))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<SavedWorkflow> {
    app.save_workflow(build_save_request(arguments)).await
}

fn build_save_request(arguments: Arguments) -> SaveRequest {
    let format = arguments.format.as_deref();
    let manifest = match arguments.manifest {
        document @ Value::Object(_) if format != Some("json") => {
            Manifest::from_object_as_yaml(&document)
        }
        document => parse_manifest_argument(&document, format),
    };
    SaveRequest {
        manifest,
        should_overwrite: arguments.overwrite,
        expected_version: arguments.expected_version,
    }
}
