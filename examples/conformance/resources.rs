//! The resources.

use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use crate::{content::PNG, skills};

pub(crate) fn list() -> Vec<Resource> {
    let skill = skills::resource();
    vec![
        resource("test://static-text", "Words that never change", "text/plain"),
        resource("test://static-binary", "A picture that never changes", "image/png"),
        resource("test://watched-resource", "Words to subscribe to", "text/plain"),
        skill,
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "data by id");
    vec![template.with_description("What is known of an id").with_mime_type("application/json")]
}

pub(crate) fn read(uri: &str) -> Result<ResourceContents, ErrorData> {
    let contents = match uri {
        "test://static-text" => text("This is the content of the static text resource.", uri),
        "test://watched-resource" => text("This is the content of the watched resource.", uri),
        "test://static-binary" => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        skills::URI => skills::contents(),
        _ => templated(uri).ok_or_else(|| unknown(uri))?,
    };
    Ok(contents)
}

fn resource(uri: &str, about: &str, mime_type: &str) -> Resource {
    let name = uri.trim_start_matches("test://");
    Resource::new(uri, name).with_description(about).with_mime_type(mime_type)
}

fn text(text: &str, uri: &str) -> ResourceContents {
    ResourceContents::text(text, uri).with_mime_type("text/plain")
}

fn templated(uri: &str) -> Option<ResourceContents> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    if id.is_empty() || id.contains('/') {
        return None;
    }
    let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
    Some(ResourceContents::text(data.to_string(), uri).with_mime_type("application/json"))
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri })))
}
