//! Reads request bodies and answers: media types and their schemas.

use serde_json::{Map, Value, json};

use super::{
    operation::{self, OperationReader, OperationSite},
    reference::{follow_references, get_entries, get_flag, get_text},
};
use crate::{
    media_type::{BodyFormat, is_json},
    operation::{
        Body, BodyContent, CONTENT_TYPE_ARGUMENT, Operation, Parameter, ParameterLocation,
        ParameterStyle, ValueStyle,
    },
};
use midex_domain::{limits, truncate::truncate_to_chars};

impl<'a> OperationReader<'a, '_> {
    /// Reads the request body.
    pub(super) fn read_body(&mut self, site: OperationSite<'a>, operation: &mut Operation) {
        let Some(value) = site.value.get("requestBody") else {
            return;
        };
        let value = match follow_references(self.root, value) {
            Ok(value) => value,
            Err(broken) => {
                return self.mark_uncallable(operation, format!("its body is not known: {broken}"));
            }
        };
        let mut contents: Vec<BodyContent> = Vec::new();
        for (media_type, content) in
            get_entries(value, "content").take(limits::OPERATION_CONTENTS_MAX)
        {
            let media_type = normalize_media_type(media_type);
            if !contents.iter().any(|one| one.media_type == media_type) {
                contents.push(self.read_content(media_type, content, operation));
            }
        }
        contents.sort_by_key(|content| {
            (BodyFormat::from_media_type(&content.media_type), is_json_patch(&content.media_type))
        });
        if contents.len() > 1 {
            add_content_type_argument(&contents, &mut operation.parameters);
        }
        operation.body = (!contents.is_empty()).then(|| Body {
            is_required: get_flag(value, "required"),
            description: truncate_to_chars(
                get_text(value, "description").trim(),
                limits::OPERATION_SUMMARY_CHARS_MAX,
            )
            .into_owned(),
            contents,
        });
    }

    fn read_content(
        &mut self,
        media_type: String,
        content: &'a Value,
        operation: &mut Operation,
    ) -> BodyContent {
        let has_no_schema = BodyFormat::from_media_type(&media_type) >= BodyFormat::Text;
        let schema = match content.get("schema") {
            // Text and bytes are sent as they are, so a schema for the structure inside does not apply.
            Some(schema) if !has_no_schema || get_text(schema, "type") == "string" => {
                self.convert_request_schema(schema, operation)
            }
            _ if has_no_schema => json!({ "type": "string" }),
            _ => json!({}),
        };
        let encoding = get_entries(content, "encoding")
            .map(|(name, value)| (name.clone(), select_field_encoding(value)));
        BodyContent { media_type, schema, encoding: encoding.collect() }
    }

    /// Reads the schema of the answer. Returns whether an answer declares the header `Link`, which names the next
    /// page.
    pub(super) fn read_output(
        &mut self,
        site: OperationSite<'a>,
        operation: &mut Operation,
    ) -> bool {
        let mut success_responses: Vec<_> = get_entries(site.value, "responses")
            .filter(|(status, _)| status.starts_with('2'))
            .collect();
        success_responses.sort_by_key(|(status, _)| *status);
        let mut has_links = false;
        for (_, response) in success_responses {
            let Ok(response) = follow_references(self.root, response) else {
                continue;
            };
            has_links |=
                get_entries(response, "headers").any(|(name, _)| name.eq_ignore_ascii_case("link"));
            let json = get_entries(response, "content")
                .find(|(media_type, _)| is_json(&normalize_media_type(media_type)));
            let schema = json.and_then(|(_, content)| content.get("schema"));
            if let Some(schema) = schema.filter(|_| operation.output.is_none()) {
                operation.output = self.read_answer_schema(site, schema);
            }
        }
        has_links
    }

    fn read_answer_schema(&mut self, site: OperationSite<'a>, schema: &'a Value) -> Option<Value> {
        match self.schemas.convert_schema(schema, self.warnings) {
            Ok(schema) => Some(schema),
            Err(broken) => {
                let place = operation::build_operation_pointer(site.path, Some(site.method));
                self.warnings.add_warning(
                    place,
                    "reference",
                    format!("{broken}: what the operation answers is not known"),
                );
                None
            }
        }
    }
}

/// Adds the argument that selects one of several contents, after the other headers.
fn add_content_type_argument(contents: &[BodyContent], parameters: &mut Vec<Parameter>) {
    let media_types: Vec<_> = contents.iter().map(|content| &content.media_type).collect();
    let insert_index = parameters.iter().position(|one| one.location == ParameterLocation::Cookie);
    let choice = Parameter {
        argument: CONTENT_TYPE_ARGUMENT.to_owned(),
        name: CONTENT_TYPE_ARGUMENT.to_owned(),
        location: ParameterLocation::Header,
        is_required: false,
        description: format!("What the body is; `{}` where this is left out", media_types[0]),
        schema: json!({ "type": "string", "enum": media_types }),
        written: ValueStyle::Styled {
            style: ParameterStyle::Simple,
            explode: false,
            allow_reserved: false,
        },
    };
    parameters.insert(insert_index.unwrap_or(parameters.len()), choice);
}

/// Whether the media type is that of JSON Patch (RFC 6902): a list of changes, which is harder to write than the
/// changed value.
fn is_json_patch(media_type: &str) -> bool {
    media_type == "application/json-patch+json"
}

/// A media type without parameters. Wildcards and an empty type count as JSON, which is what services mean by them.
fn normalize_media_type(media_type: &str) -> String {
    let plain_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match plain_type.as_str() {
        "*/*" | "application/*" | "" => "application/json".into(),
        _ => plain_type,
    }
}

/// The encoding of one field: the keys that affect its bytes.
fn select_field_encoding(value: &Value) -> Value {
    let keys = ["contentType", "style", "explode", "allowReserved"];
    let entries = keys.iter().filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone())));
    Value::Object(entries.collect::<Map<_, _>>())
}
