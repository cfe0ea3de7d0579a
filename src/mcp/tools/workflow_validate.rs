//! `workflow.validate`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts,
    author::{Class, subject, with_subject},
};
use midex_domain::{
    error::Result,
    finding::{Finding, is_broken},
    limits,
};
use midex_server::app::App;

const NAME: &str = "workflow.validate";

pub(super) fn spec() -> ToolSpec {
    let output = json!({
        "type": "object",
        "properties": {
            "valid": { "type": "boolean" }, "workflow_id": { "type": ["string", "null"] },
            "violations": findings_schema(), "warnings": findings_schema()
        },
        "required": ["success", "valid", "workflow_id", "violations", "warnings"]
    });
    ToolSpec::new(
        (
            NAME,
            "Check a workflow",
            "Checks a manifest, or a saved workflow: all violations and warnings at once, each with its place and, where there is \
             one, the edit that mends it.",
        ),
        || acts(true, false, true),
        (with_subject(json!({})), &[], output),
        |app, arguments| Box::pin(run(app, arguments)),
    )
    .of(Class::Safe)
}

/// The schema of a list of findings.
pub(super) fn findings_schema() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let examined = app.examined(subject(&arguments, NAME)?).await?;
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
