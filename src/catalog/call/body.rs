//! Bodies: JSON, forms, multipart with files, text and bytes.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use super::serialize::{escape_pointer_key, serialize_content, serialize_pairs};
use crate::{
    media_type::BodyFormat,
    operation::{BodyContent, ParameterStyle, ValueStyle},
};
use midex_domain::{
    document::{Digest, to_plain_text},
    error::Violation,
    schema::{composed_schemas, follow_references, non_null_types},
};

/// The value that is validated against the schema of the body. Files are replaced by their text. A body of bytes is
/// not validated, hence `None`.
pub(super) fn prepare_for_validation<'a>(
    content: &BodyContent,
    body: &'a Value,
) -> Option<Cow<'a, Value>> {
    match (BodyFormat::from_media_type(&content.media_type), body) {
        (BodyFormat::Bytes, _) => None,
        (BodyFormat::Multipart, Value::Object(fields)) => {
            let replace_file = |(name, value): (&String, &Value)| {
                (name.clone(), replace_files_by_text(value, is_file_field(content, name)))
            };
            Some(Cow::Owned(Value::Object(fields.iter().map(replace_file).collect())))
        }
        _ => Some(Cow::Borrowed(body)),
    }
}

/// Whether the document declares a field as a file: as a string or as `format: binary`, or as a list of these. If it
/// declares the field in several parts of a schema, all of them must.
fn is_file_field(content: &BodyContent, name: &str) -> bool {
    let root = &content.schema;
    let body = follow_references(root, root);
    let parts = composed_schemas(body, root).map(|part| follow_references(part, root));
    let schemas = [body].into_iter().chain(parts);
    let fields = schemas.filter_map(|schema| schema.get("properties")?.get(name));
    let are_files = fields.map(|field| {
        let field = follow_references(field, root);
        let items = field.get("items");
        let field = items.map_or(field, |items| follow_references(items, root));
        non_null_types(field) == ["string"]
            || field.get("format").is_some_and(|said| said == "binary")
    });
    are_files.reduce(|one, other| one && other) == Some(true)
}

fn replace_files_by_text(value: &Value, is_file_field: bool) -> Value {
    match value {
        Value::Array(items) => {
            items.iter().map(|item| replace_files_by_text(item, is_file_field)).collect()
        }
        Value::Object(map) if is_file_value(map, is_file_field) => {
            let text = map.get("content").or_else(|| map.get("base64"));
            text.cloned().unwrap_or_default()
        }
        value => value.clone(),
    }
}

/// Whether the value of a field is a file: `{filename?, content_type?, content | base64}`. Unless the document declares
/// the field as a file, an object with neither `filename` nor `base64` is none, because it may be JSON with a `content`.
fn is_file_value(map: &Map<String, Value>, is_file_field: bool) -> bool {
    let is_known =
        |key: &String| ["filename", "content_type", "content", "base64"].contains(&key.as_str());
    let is_marked_as_file =
        is_file_field || map.contains_key("filename") || map.contains_key("base64");
    is_marked_as_file
        && map.contains_key("content") != map.contains_key("base64")
        && map.keys().all(is_known)
        && map.values().all(Value::is_string)
}

/// Encodes a body. Returns its `Content-Type` and its bytes.
pub(super) fn encode_body(
    content: &BodyContent,
    body: &Value,
) -> Result<(String, Vec<u8>), Box<Violation>> {
    let media_type = content.media_type.clone();
    match BodyFormat::from_media_type(&media_type) {
        BodyFormat::Json if media_type == "*/*" => {
            Ok(("application/json".to_owned(), body.to_string().into_bytes()))
        }
        BodyFormat::Json => Ok((media_type, body.to_string().into_bytes())),
        BodyFormat::Form => {
            Ok((media_type, encode_form(content, require_fields(body)?).into_bytes()))
        }
        BodyFormat::Multipart => encode_multipart(content, require_fields(body)?),
        BodyFormat::Text => encode_text(media_type, body),
        BodyFormat::Bytes => {
            let media_type = if media_type.contains('*') {
                "application/octet-stream".to_owned()
            } else {
                media_type
            };
            let text = body.as_str().or_else(|| body.get("base64")?.as_str());
            let bytes = text.and_then(|text| BASE64_STANDARD.decode(text.trim()).ok());
            let message = "the body is bytes: write them as a text in base64, or as `{base64: …}`";
            bytes
                .map(|bytes| (media_type, bytes))
                .ok_or_else(|| Box::new(Violation::new("/body", "base64", message)))
        }
    }
}

fn require_fields(body: &Value) -> Result<&Map<String, Value>, Box<Violation>> {
    let message = "the body is a form: an object whose keys name its fields";
    body.as_object().ok_or_else(|| Box::new(Violation::new("/body", "type", message)))
}

fn encode_text(media_type: String, body: &Value) -> Result<(String, Vec<u8>), Box<Violation>> {
    match body {
        Value::Array(_) | Value::Object(_) => {
            let message = format!("the body is `{media_type}`: write it as a text");
            Err(Box::new(Violation::new("/body", "type", message)))
        }
        body if media_type.contains("charset") => {
            Ok((media_type, to_plain_text(body).into_bytes()))
        }
        body => Ok((format!("{media_type}; charset=utf-8"), to_plain_text(body).into_bytes())),
    }
}

/// Encodes the fields of a form. If the document does not specify the encoding, a list repeats the name and an object
/// is JSON, as most services expect.
fn encode_form(content: &BodyContent, fields: &Map<String, Value>) -> String {
    let pairs = fields.iter().flat_map(|(name, value)| {
        serialize_pairs(name, value, &choose_field_style(content, name, value))
    });
    let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn choose_field_style(content: &BodyContent, name: &str, value: &Value) -> ValueStyle {
    let encoding = content.encoding.get(name);
    let encoding_value = |key: &str| encoding.and_then(|encoding| encoding.get(key));
    let flag = |key: &str| encoding_value(key).and_then(Value::as_bool);
    let style = encoding_value("style")
        .and_then(|style| serde_json::from_value::<ParameterStyle>(style.clone()).ok());
    let media_type = encoding_value("contentType").and_then(Value::as_str);
    let has_style = style.is_some() || flag("explode").is_some() || flag("allowReserved").is_some();
    match media_type {
        Some(media_type) if !has_style => ValueStyle::Content(media_type.to_owned()),
        _ if !has_style && value.is_object() => ValueStyle::Content("application/json".to_owned()),
        _ => ValueStyle::Styled {
            style: style.unwrap_or(ParameterStyle::Form),
            explode: flag("explode")
                .unwrap_or(style.is_none_or(|style| style == ParameterStyle::Form)),
            allow_reserved: flag("allowReserved").unwrap_or_default(),
        },
    }
}

/// A part of a multipart body (RFC 7578).
struct MultipartPart<'a> {
    name: &'a str,
    filename: Option<&'a str>,
    content_type: Option<Cow<'a, str>>,
    content: Vec<u8>,
}

fn encode_multipart(
    content: &BodyContent,
    fields: &Map<String, Value>,
) -> Result<(String, Vec<u8>), Box<Violation>> {
    let mut parts = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                for item in items {
                    parts.push(build_part(content, name, item)?);
                }
            }
            value => parts.push(build_part(content, name, value)?),
        }
    }
    // The boundary is a digest of the contents. So it does not occur in them, and equal requests have equal bytes.
    let all: Vec<u8> = parts.iter().flat_map(|part| part.content.iter().copied()).collect();
    let boundary = format!("midex-{}", &Digest::compute(&all).to_string()[..32]);
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(part.render_part_head(&boundary).as_bytes());
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("{}; boundary={boundary}", content.media_type), body))
}

fn build_part<'a>(
    body_content: &'a BodyContent,
    name: &'a str,
    value: &'a Value,
) -> Result<MultipartPart<'a>, Box<Violation>> {
    let declared_type =
        body_content.encoding.get(name).and_then(|encoding| encoding.get("contentType")?.as_str());
    // A list of types, or a wildcard, leaves the choice to the caller.
    let declared_type = declared_type.filter(|said| !said.contains([',', '*']));
    let (file, content, default_type) = match value {
        Value::Object(map) if is_file_value(map, is_file_field(body_content, name)) => {
            (Some(map), decode_file_bytes(name, map)?, Some("application/octet-stream"))
        }
        Value::Object(_) | Value::Array(_) => (
            None,
            serialize_content("application/json", value).into_bytes(),
            Some("application/json"),
        ),
        value => (None, to_plain_text(value).into_bytes(), None),
    };
    let file_text = |key: &str| file.and_then(|file| file.get(key)?.as_str());
    let content_type = file_text("content_type").or(declared_type).or(default_type);
    if let Some(content_type) = content_type
        && !content_type.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    {
        let message =
            format!("the content type of `{name}` has characters that no header may have");
        return Err(Box::new(Violation::new(
            format!("/body/{}/content_type", escape_pointer_key(name)),
            "header",
            message,
        )));
    }
    Ok(MultipartPart {
        name,
        filename: file.map(|_| file_text("filename").unwrap_or(name)),
        content_type: content_type.map(Cow::Borrowed),
        content,
    })
}

fn decode_file_bytes(name: &str, file: &Map<String, Value>) -> Result<Vec<u8>, Box<Violation>> {
    let text = |key: &str| file.get(key).and_then(Value::as_str);
    if let Some(text) = text("content") {
        return Ok(text.as_bytes().to_vec());
    }
    let decoded = BASE64_STANDARD.decode(text("base64").unwrap_or_default().trim());
    let message = format!("the file `{name}` is no base64");
    decoded.map_err(|_| {
        Box::new(Violation::new(
            format!("/body/{}/base64", escape_pointer_key(name)),
            "base64",
            message,
        ))
    })
}

impl MultipartPart<'_> {
    fn render_part_head(&self, boundary: &str) -> String {
        let mut head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
            escape_quoted_name(self.name)
        );
        if let Some(filename) = self.filename {
            head.extend(["; filename=\"", &escape_quoted_name(filename), "\""]);
        }
        if let Some(content_type) = &self.content_type {
            head.extend(["\r\nContent-Type: ", content_type]);
        }
        head + "\r\n\r\n"
    }
}

/// Escapes a name for a quoted string, as browsers do (WHATWG HTML, 4.10.21.8), so that it cannot end the string or
/// the line.
fn escape_quoted_name(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}
