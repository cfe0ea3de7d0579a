//! `midex cat`: prints the file of a workflow verbatim, also of a built-in one.

use serde_json::json;

use super::{EXIT_OK, Output};
use midex_domain::error::{Code, Error, Result};
use midex_registry::Registry;

/// Which workflow.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CatArgs {
    /// The workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
}

/// Prints the text of the workflow's file.
pub(super) fn cat(args: &CatArgs, registry: &Registry, mut out: Output<'_>) -> Result<u8> {
    let name = &args.workflow;
    let entry = registry.workflow(name).ok_or_else(|| registry.workflow_not_found_error(name))?;
    let manifest = registry.read_manifest(entry).ok_or_else(|| {
        let message = format!("the file of workflow '{name}' cannot be read as text");
        Error::new(Code::WorkflowValidationFailed, message).with_context("workflow", name.as_str())
    })?;
    let json = || {
        json!({
            "name": entry.name, "source": entry.source, "format": manifest.format.as_str(),
            "path": entry.path.as_ref().map(|path| path.display().to_string()),
            "text": manifest.text,
        })
    };
    out.print(json, || manifest.text.clone())?;
    Ok(EXIT_OK)
}
