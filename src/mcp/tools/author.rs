//! Shared parts of the authoring tools: the arguments that select a definition, and the class of a tool.

use rmcp::model::MetaObject;
use serde_json::{Map, Value, json};

use super::{shared_with, text, unfit};
pub(super) use midex_domain::Class;
use midex_domain::{error::Result, limits};
use midex_registry::{Format, Manifest};
use midex_server::app::Subject;

/// The `execution_type` and `http_method` of a tool, for hosts that route calls by them.
pub(super) fn metadata(class: Class) -> MetaObject {
    let method = match class {
        Class::Safe => "GET",
        Class::Standard => "POST",
        Class::Destructive => "DELETE",
    };
    let mut meta = MetaObject::default();
    meta.0
        .insert("execution_type".into(), class.as_str().into());
    meta.0.insert("http_method".into(), method.into());
    meta
}

/// The schema of an argument that names a workflow.
pub(super) fn workflow_id_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": limits::WORKFLOW_NAME_BYTES_MAX })
}

/// The schema of a definition that the caller provides.
pub(super) fn manifest_schema() -> Value {
    json!({ "type": ["string", "object"] })
}

/// The schema of the format of such a text, for texts whose format cannot be detected.
pub(super) fn format_schema() -> Value {
    json!({ "enum": Format::NAMES })
}

/// The schema of the version that the caller expects.
pub(super) fn version_schema() -> Value {
    json!({ "type": "string", "maxLength": 64 })
}

/// The version that the caller expects.
pub(super) fn version(arguments: &Map<String, Value>) -> Option<String> {
    text(arguments, "expected_version").map(str::to_owned)
}

/// The schema of the references to a workflow.
pub(super) fn references_schema() -> Value {
    json!({ "type": "array", "items": { "type": "object" } })
}

/// The properties of a tool that works on one definition, merged with its own properties.
pub(super) fn with_subject(own: Value) -> Value {
    let subject = json!({
        "manifest": manifest_schema(), "workflow_id": workflow_id_schema(), "format": format_schema()
    });
    shared_with(subject, own)
}

/// The definition that the arguments of `tool` provide or name. Exactly one of the two must be given.
pub(super) fn subject(arguments: &Map<String, Value>, tool: &'static str) -> Result<Subject> {
    let named = text(arguments, "workflow_id").map(str::to_owned);
    match (manifest(arguments), named) {
        (Some(manifest), None) => Ok(Subject::Lent(manifest)),
        (None, Some(name)) => Ok(Subject::Named(name)),
        (given, _) => {
            let (path, which) = match given {
                Some(_) => ("/workflow_id", "both are given"),
                None => ("", "neither is given"),
            };
            let message =
                format!("{tool} takes exactly one of `manifest` and `workflow_id`: {which}");
            Err(unfit(tool, path, "oneOf", &message))
        }
    }
}

/// The definition that the arguments provide, if any.
pub(super) fn manifest(arguments: &Map<String, Value>) -> Option<Manifest> {
    let format = text(arguments, "format").and_then(Format::parse);
    Some(match arguments.get("manifest")? {
        Value::String(text) => Manifest::of_text(text.clone(), format),
        document => Manifest::of_object(document),
    })
}
