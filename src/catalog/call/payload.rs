//! The body of an answer: its type, its value in the output of a step, and its file name if it is stored as an
//! artifact.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName},
};
use serde_json::{Value, json};

use super::serialize::is_json;
use midex_domain::{
    SecretMask,
    document::count_json_values,
    error::{Error, Result},
    limits,
    truncate::json_length,
    uri,
};

/// The body of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseBody {
    /// No body.
    #[default]
    Empty,
    /// JSON.
    Json(Value),
    /// Text.
    Text(String),
    /// Any other content.
    Bytes {
        /// The media type that the answer declares.
        media_type: String,
        /// The content.
        bytes: Vec<u8>,
    },
}

impl ResponseBody {
    /// The body as a JSON value: an empty one is null, and bytes are `{content_type, base64}`.
    pub fn into_value(self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Json(value) => value,
            Self::Text(text) => Value::String(text),
            Self::Bytes { media_type, bytes } => {
                json!({ "content_type": media_type, "base64": BASE64_STANDARD.encode(bytes) })
            }
        }
    }

    /// The body as the content of a file.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Empty => Vec::new(),
            Self::Json(value) => value.to_string().into_bytes(),
            Self::Text(text) => text.into_bytes(),
            Self::Bytes { bytes, .. } => bytes,
        }
    }

    /// Whether the body is stored as an artifact instead of in the output. Expressions read JSON, so JSON stays in
    /// the output of a step however long it is, unless `is_shown`: then only the reply to the caller contains it.
    pub fn is_stored_as_artifact(&self, is_shown: bool) -> bool {
        let max_bytes =
            if is_shown { limits::CALL_REPLY_SHOWN_MAX } else { limits::CALL_PAYLOAD_SHOWN_MAX };
        let is_too_long = |bytes: usize| bytes > max_bytes;
        match self {
            Self::Empty => false,
            Self::Json(value) => is_shown && is_too_long(json_length(value)),
            Self::Text(text) => is_too_long(json_length(text)),
            Self::Bytes { bytes, .. } => bytes.len() > limits::CALL_BYTES_SHOWN_MAX,
        }
    }

    /// The media type of a body whose answer declares none.
    pub fn default_media_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Text(_) => "text/plain",
            Self::Empty | Self::Bytes { .. } => "application/octet-stream",
        }
    }

    /// Reads the body of an answer with these headers, and masks secrets in it.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if it is JSON of more than [`limits::CALL_ANSWER_VALUES_MAX`] values.
    pub(super) fn from_answer(
        headers: &HeaderMap,
        bytes: Vec<u8>,
        mask: &SecretMask,
    ) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::Empty);
        }
        let media_type = get_header_text(headers, &CONTENT_TYPE).unwrap_or_default();
        let media_type = mask.mask_text(strip_media_type_parameters(&media_type)).into_owned();
        let (is_json, max_values) = (is_json(&media_type), limits::CALL_ANSWER_VALUES_MAX);
        let is_within_limit = count_json_values(&bytes) <= max_values;
        if is_json && !is_within_limit {
            let message = format!("an answer may hold {max_values} values, and this one has more");
            return Err(Error::limit_exceeded(message));
        }
        if is_within_limit
            && (is_json || media_type.is_empty())
            && let Ok(mut value) = serde_json::from_slice(&bytes)
        {
            mask.mask_value(&mut value);
            return Ok(Self::Json(value));
        }
        let bytes = mask.mask_bytes(&bytes).unwrap_or(bytes);
        Ok(match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text),
            Ok(text) => Self::Bytes { media_type, bytes: text.into_bytes() },
            Err(error) => Self::Bytes { media_type, bytes: error.into_bytes() },
        })
    }
}

/// The value of a header, if it is text.
pub(super) fn get_header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// A media type without its parameters.
pub(super) fn strip_media_type_parameters(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// The file name for a body: from `Content-Disposition`, or else the last segment of the path.
pub(super) fn choose_file_name(disposition: Option<&str>, url: &Url) -> String {
    let suggested_name = disposition.and_then(parse_disposition_name);
    suggested_name
        .or_else(|| {
            let last_segment = url.path_segments()?.rfind(|segment| !segment.is_empty())?;
            Some(uri::decode_segment(last_segment).unwrap_or_else(|| last_segment.to_owned()))
        })
        .unwrap_or_default()
}

/// The name in `Content-Disposition` (RFC 6266). `filename*` takes precedence over `filename`.
fn parse_disposition_name(disposition: &str) -> Option<String> {
    let find_parameter = |wanted: &str| {
        let mut parameters = parse_header_parameters(disposition);
        parameters.find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let extended = find_parameter("filename*").and_then(|value| {
        let (charset, rest) = value.split_once('\'')?;
        let (_, name) = rest.split_once('\'')?;
        let is_known = charset.eq_ignore_ascii_case("utf-8");
        uri::decode_segment(name).filter(|_| is_known)
    });
    let file_name = extended.or_else(|| find_parameter("filename"));
    file_name.filter(|name| !name.is_empty())
}

/// The parameters of a header: their names in lower case, their values without quotes.
fn parse_header_parameters(header: &str) -> impl Iterator<Item = (String, String)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_end = move |letter: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match letter {
            '\\' if is_quoted => is_escaped = !was_escaped,
            '"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        letter == ';' && !is_quoted
    };
    header.split(is_end).skip(1).filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        Some((name.trim().to_ascii_lowercase(), unquote_value(value.trim())))
    })
}

fn unquote_value(value: &str) -> String {
    let unquoted = value.strip_prefix('"');
    match unquoted.and_then(|inside| inside.strip_suffix('"')) {
        // Other backslashes are kept: they belong to a Windows path that was not escaped.
        Some(inside) => inside.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use midex_domain::error::Code;

    fn read_payload(media_type: &'static str, bytes: &[u8]) -> Result<ResponseBody> {
        let headers = [(CONTENT_TYPE, media_type.parse().expect("a value"))];
        let headers = HeaderMap::from_iter(headers);
        ResponseBody::from_answer(&headers, bytes.to_vec(), &SecretMask::default())
    }

    fn payload_of_bytes(media_type: &'static str, bytes: &[u8]) -> ResponseBody {
        read_payload(media_type, bytes).unwrap_or_else(|_| panic!("few values"))
    }

    #[test]
    fn json_answers_have_a_value_limit() {
        let list = |values: usize| format!("[{}0]", "1,".repeat(values - 2)).into_bytes();
        let most = limits::CALL_ANSWER_VALUES_MAX;
        assert!(read_payload("application/json", &list(most)).is_ok());
        let refused = read_payload("application/json", &list(most + 1));
        let refused = refused.expect_err("too many values");
        assert_eq!(refused.code(), Code::LimitExceeded);
        assert!(read_payload("text/csv", &list(most + 1)).is_ok());
    }

    #[test]
    fn body_follows_its_declared_media_type() {
        assert_eq!(
            payload_of_bytes("application/json; charset=utf-8", b"{}"),
            ResponseBody::Json(json!({}))
        );
        assert_eq!(
            payload_of_bytes("application/problem+json", b"[1]"),
            ResponseBody::Json(json!([1]))
        );
        assert_eq!(
            payload_of_bytes("application/json", b"<html>"),
            ResponseBody::Text("<html>".into())
        );
        assert_eq!(payload_of_bytes("text/plain", b"1"), ResponseBody::Text("1".into()));
        assert_eq!(payload_of_bytes("application/json", b""), ResponseBody::Empty);
        let bytes = ResponseBody::Bytes { media_type: "image/png".into(), bytes: vec![0x89, 0xff] };
        assert_eq!(payload_of_bytes("image/png", &[0x89, 0xff]), bytes);
        assert_eq!(bytes.into_value(), json!({ "content_type": "image/png", "base64": "if8=" }));
        let deep = "[".repeat(100_000);
        assert_eq!(payload_of_bytes("application/json", deep.as_bytes()), ResponseBody::Text(deep));
    }

    #[test]
    fn large_bodies_are_stored_as_artifacts() {
        let (shown, bytes) = (limits::CALL_PAYLOAD_SHOWN_MAX, limits::CALL_BYTES_SHOWN_MAX);
        let told = limits::CALL_REPLY_SHOWN_MAX;
        const { assert!(limits::CALL_REPLY_SHOWN_MAX < limits::FINAL_OUTPUT_BYTES_MAX) };
        // The limit includes the quotes.
        let text = |bytes: usize| "x".repeat(bytes - 2);
        for (payload, of_a_step, of_a_reply) in [
            (ResponseBody::Empty, false, false),
            (ResponseBody::Text(text(told)), false, false),
            (ResponseBody::Text(text(told + 1)), false, true),
            (ResponseBody::Text(text(shown)), false, true),
            (ResponseBody::Text(text(shown + 1)), true, true),
            (ResponseBody::Json(json!(text(told))), false, false),
            (ResponseBody::Json(json!(text(told + 1))), false, true),
            (payload_of_bytes("image/png", &vec![0xff; bytes]), false, false),
            (payload_of_bytes("image/png", &vec![0xff; bytes + 1]), true, true),
        ] {
            assert_eq!(payload.is_stored_as_artifact(false), of_a_step);
            assert_eq!(payload.is_stored_as_artifact(true), of_a_reply);
        }
    }

    #[test]
    fn file_name_comes_from_header_or_path() {
        let url = Url::parse("https://a/things/a%20b.png/?q=1").expect("a URL");
        for (disposition, expected) in [
            ("attachment", "a b.png"),
            ("attachment; filename=x.csv", "x.csv"),
            ("attachment; FileName = \"x; \\\"y\\\".csv\" ; size=3", "x; \"y\".csv"),
            ("inline; filename=\"x.csv\"; filename*=UTF-8''%C3%A9.csv", "é.csv"),
            ("inline; filename*=latin1''%E9.csv; filename=e.csv", "e.csv"),
            ("attachment; filename=\"C:\\temp\\x.csv\"", "C:\\temp\\x.csv"),
            ("attachment; filename=\"\"", "a b.png"),
            ("attachment; filename=\"open", "\"open"),
        ] {
            assert_eq!(choose_file_name(Some(disposition), &url), expected);
        }
        let bare = Url::parse("https://a/").expect("a URL");
        assert_eq!(choose_file_name(None, &bare), "");
    }
}
