//! Resources for authors: the files of workflows, and the list of commands.

use serde_json::Value;

use super::{AUTHORING_URI_PREFIX, ResourceContent, address::WorkflowPageFilter};
use crate::tools::{CommandFilter, page_of_commands};
use midex_domain::error::{NextCall, Result, read_resource};
use midex_registry::{self as registry, Registry};
use midex_server::app::App;

/// Suggests the manifest with the nearest id.
const NEAREST_MANIFEST_CALL: NextCall =
    read_resource(&[("uri", "midex://authoring/manifest/{nearest}")], "if that is the one meant");

/// A page of the commands.
pub(super) async fn read_commands_page(
    app: &App,
    page: &WorkflowPageFilter,
) -> Result<ResourceContent> {
    let filter = CommandFilter {
        query: page.query.clone().unwrap_or_default(),
        after: page.after.clone(),
        limit: page.limit,
        ..CommandFilter::default()
    };
    let (commands, end, _) = page_of_commands(app, filter).await?;
    let list = format!("{AUTHORING_URI_PREFIX}command-catalog");
    Ok(ResourceContent {
        next_uri: end.map(|end| page.next_page_uri(&list, &end)),
        ..Value::from(commands).into()
    })
}

/// The text of a workflow's file.
pub(super) fn read_manifest(registry: &Registry, id: &str) -> Result<ResourceContent> {
    let to_unknown_error = || match registry.workflow_not_found_error(id) {
        error if error.context("nearest").is_some() => error.with_next(NEAREST_MANIFEST_CALL),
        error => error,
    };
    let entry = registry.workflow(id).ok_or_else(to_unknown_error)?;
    match registry.read_manifest(entry) {
        Some(manifest) => {
            let media_type = manifest.format.media_type();
            Ok(ResourceContent::from_text(manifest.text, media_type))
        }
        // The file is too large, or not a text.
        None if entry.is_broken() => Err(registry::invalid_workflow_error(entry)),
        None => Err(to_unknown_error()),
    }
}
