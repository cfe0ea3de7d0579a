//! `workflow.validate`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::author::DefinitionSelection;
use midex_domain::{
    error::Result,
    finding::{Finding, has_errors},
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
    let subject = arguments.into_subject("workflow.validate")?;
    let check = app.check_definition(subject).await?;
    let valid = !has_errors(&check.findings);
    let (mut warnings, mut violations): (Vec<_>, Vec<_>) =
        { check.findings.into_iter() }.partition(Finding::is_warning);
    warnings.truncate(limits::VIOLATIONS_MAX);
    violations.truncate(limits::VIOLATIONS_MAX);
    Ok(ValidationReport {
        valid,
        workflow_id: Some(check.name).filter(|name| !name.is_empty()),
        violations,
        warnings,
    })
}
