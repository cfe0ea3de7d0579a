//! `workflow.validate`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::author::DefinitionSelection;
use midex_domain::{
    error::Result,
    finding::{Finding, is_broken},
    limits,
};
use midex_server::app::App;

/// The findings about a definition: errors as `violations`, and `warnings`.
#[derive(Serialize, JsonSchema)]
pub(super) struct ValidationReport {
    valid: bool,
    workflow_id: Option<String>,
    #[schemars(with = "Vec<Value>")]
    violations: Vec<Finding>,
    #[schemars(with = "Vec<Value>")]
    warnings: Vec<Finding>,
}

pub(super) async fn run(app: &App, arguments: DefinitionSelection) -> Result<ValidationReport> {
    let subject = arguments.selected_definition("workflow.validate")?;
    let examined = app.check_definition(subject).await?;
    let valid = !is_broken(&examined.findings);
    let (mut warnings, mut violations): (Vec<_>, Vec<_>) =
        { examined.findings.into_iter() }.partition(Finding::is_warning);
    warnings.truncate(limits::VIOLATIONS_MAX);
    violations.truncate(limits::VIOLATIONS_MAX);
    Ok(ValidationReport {
        valid,
        workflow_id: Some(examined.name).filter(|name| !name.is_empty()),
        violations,
        warnings,
    })
}
