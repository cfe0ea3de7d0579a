//! `workflow.validate`.

use serde_json::{Value, json};

use super::{author::DefinitionSelection, schemas::output_of};
use midex_domain::{
    error::Result,
    finding::{Finding, is_broken},
    limits,
};
use midex_server::app::App;

pub(super) fn output() -> Value {
    let findings = json!({ "type": "array", "items": { "type": "object" } });
    let required = json!({
        "valid": { "type": "boolean" }, "workflow_id": { "type": ["string", "null"] },
        "violations": findings, "warnings": findings
    });
    output_of(required, json!({}))
}

pub(super) async fn run(app: &App, arguments: DefinitionSelection) -> Result<Value> {
    let examined = app
        .examined(arguments.subject("workflow.validate")?)
        .await?;
    let (warnings, violations): (Vec<_>, Vec<_>) =
        { examined.findings.iter() }.partition(|finding| finding.is_warning());
    let shown = |findings: Vec<&Finding>| -> Vec<Value> {
        let findings = findings.into_iter().take(limits::VIOLATIONS_MAX);
        findings.map(|finding| json!(finding)).collect()
    };
    Ok(json!({
        "success": true,
        "valid": !is_broken(&examined.findings),
        "workflow_id": Some(examined.name).filter(|name| !name.is_empty()),
        "violations": shown(violations),
        "warnings": shown(warnings),
    }))
}
