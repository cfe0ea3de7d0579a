//! Shared parts of the authoring tools: the arguments that select a definition, and the class of a tool.

use rmcp::model::MetaObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use midex_domain::{
    OperationClass,
    error::{Error, Result},
    limits,
};
use midex_registry::{Format, Manifest};
use midex_server::app::DefinitionSubject;

/// The `execution_type` and `http_method` of a tool, for hosts that route calls by them.
pub(super) fn build_tool_metadata(class: OperationClass) -> MetaObject {
    let method = match class {
        OperationClass::Safe => "GET",
        OperationClass::Standard => "POST",
        OperationClass::Destructive => "DELETE",
    };
    let mut meta = MetaObject::default();
    meta.0.insert("execution_type".into(), class.as_str().into());
    meta.0.insert("http_method".into(), method.into());
    meta
}

/// The arguments that select the definition that a tool works on.
#[derive(Deserialize, JsonSchema)]
pub(super) struct DefinitionSelection {
    #[schemars(extend("type" = ["string", "object"]))]
    manifest: Option<Value>,
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: Option<String>,
    #[schemars(extend("enum" = Format::NAMES))]
    format: Option<String>,
}

impl DefinitionSelection {
    /// The definition that the arguments of `tool` provide or name. Exactly one of the two must be given.
    pub(super) fn into_subject(self, tool: &str) -> Result<DefinitionSubject> {
        match (self.manifest, self.workflow_id) {
            (Some(document), None) => Ok(DefinitionSubject::Inline(parse_manifest_argument(
                &document,
                self.format.as_deref(),
            ))),
            (None, Some(name)) => Ok(DefinitionSubject::Named(name)),
            (given, _) => {
                let (path, problem) = match given {
                    Some(_) => ("/workflow_id", "both are given"),
                    None => ("", "neither is given"),
                };
                let message =
                    format!("{tool} takes exactly one of `manifest` and `workflow_id`: {problem}");
                Err(Error::argument_rule(path, "oneOf", &message))
            }
        }
    }
}

/// The definition that an argument provides, as a text of a format or as an object.
pub(super) fn parse_manifest_argument(document: &Value, format: Option<&str>) -> Manifest {
    match document {
        Value::String(text) => Manifest::from_text(text.clone(), format.and_then(Format::parse)),
        document => Manifest::from_object(document),
    }
}
