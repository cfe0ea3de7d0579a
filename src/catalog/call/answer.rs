//! The answer to a call: read within limits, with its secrets covered, as a value or as a failure.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::fmt::rfc2822;
use reqwest::{
    Response,
    header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER},
};
use serde_json::{Value, json};

use super::{
    client::{Fault, causes},
    write::is_json,
};
use crate::{
    domain::{
        Document, FailureCode, Mask, event, execution::OperationFailure, truncate::shortened,
    },
    limits,
};

/// Headers that an answer keeps: what a step may go on with.
const KEPT: &[&str] = &[
    "content-type",
    "content-disposition",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
    "x-total-count",
    "ratelimit-remaining",
    "x-ratelimit-remaining",
];
/// Where services say in words what went wrong.
const WORDS: &[&str] = &[
    "/message",
    "/error/message",
    "/detail",
    "/error_description",
    "/error",
    "/title",
    "/errors/0/message",
];
/// Characters of those words that a message repeats.
const WORDS_CHARS: usize = 300;

/// What an operation answered. No secret of its catalog stands in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Some of its headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub payload: Payload,
    /// How many pages it was gathered from.
    pub pages: u32,
    /// What the caller should know: that it was redirected elsewhere, that there are more pages…
    pub notes: Vec<String>,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// There is none.
    Empty,
    /// JSON.
    Json(Value),
    /// Text.
    Text(String),
    /// Anything else.
    Bytes {
        /// What it is, as the answer says.
        media_type: String,
        /// It.
        bytes: Vec<u8>,
    },
}

impl Payload {
    /// The body as a value: nothing as null, bytes as `{content_type, base64}`.
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

    fn of(headers: &HeaderMap, bytes: Vec<u8>, mask: &Mask) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        let media_type = text_of(headers, &CONTENT_TYPE).unwrap_or_default();
        let bare = media_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        if (is_json(&bare) || bare.is_empty())
            && let Ok(mut value) = serde_json::from_slice(&bytes)
        {
            mask.value(&mut value);
            return Self::Json(value);
        }
        let bytes = mask.bytes(&bytes).unwrap_or(bytes);
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text),
            Ok(text) => Self::Bytes {
                media_type: bare,
                bytes: text.into_bytes(),
            },
            Err(error) => Self::Bytes {
                media_type: bare,
                bytes: error.into_bytes(),
            },
        }
    }
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// At most `most` bytes of the body, unpacked. The error is what broke; a body that goes on is [`Fault::TooLarge`] unless
/// it `may_be_cut`.
pub(super) async fn read(
    response: &mut Response,
    most: usize,
    may_be_cut: bool,
) -> Result<Vec<u8>, Fault> {
    let too_large = || {
        Fault::TooLarge(format!(
            "an answer may have {most} bytes, and this one has more"
        ))
    };
    let announced = response.content_length().unwrap_or_default();
    if !may_be_cut && announced > most as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(bytes),
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Err(_) if may_be_cut => return Ok(bytes),
            Err(error) => {
                return Err(Fault::Broken(format!(
                    "the answer broke off: {}",
                    causes(error)
                )));
            }
        }
        if bytes.len() > most {
            bytes.truncate(most);
            return if may_be_cut {
                Ok(bytes)
            } else {
                Err(too_large())
            };
        }
    }
}

/// The answer of a success.
pub(super) async fn success(response: &mut Response, mask: &Mask) -> Result<Answer, Fault> {
    let bytes = read(response, limits::CALL_ANSWER_BYTES_MAX, false).await?;
    let headers = response.headers();
    let is_kept = |name: &HeaderName| KEPT.contains(&name.as_str());
    let kept = headers
        .keys()
        .filter(|name| is_kept(name))
        .filter_map(|name| {
            let value = headers.get(name)?.to_str().ok()?;
            Some((name.to_string(), mask.text(value).into_owned()))
        });
    Ok(Answer {
        status: response.status().as_u16(),
        headers: kept.collect(),
        payload: Payload::of(headers, bytes, mask),
        pages: 1,
        notes: Vec::new(),
    })
}

/// The failure of any other status. `what` is what was called.
pub(super) async fn failure(response: &mut Response, what: &str, mask: &Mask) -> OperationFailure {
    let bytes = read(response, limits::CALL_ERROR_READ_BYTES_MAX, true)
        .await
        .unwrap_or_default();
    let status = response.status().as_u16();
    let payload = Payload::of(response.headers(), bytes, mask).into_value();
    let said = WORDS
        .iter()
        .find_map(|pointer| payload.pointer(pointer)?.as_str());
    let said = said
        .or(payload.as_str())
        .map(|words| format!(": {}", shortened(words.trim(), WORDS_CHARS)));
    let reason = response.status().canonical_reason().unwrap_or_default();
    let message = format!(
        "{what} answered {status} {reason}{}",
        said.unwrap_or_default()
    );
    OperationFailure {
        code: Some(format!("HTTP_{status}")),
        retryable: matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        retry_after: retry_after(response.headers()),
        response: Some(Box::new(event::Response {
            status,
            payload: kept(&payload),
        })),
        ..OperationFailure::new(class(status), message.trim_end())
    }
}

/// The class of a status, as `retry.on` names it.
fn class(status: u16) -> String {
    match status {
        429 => "http_429".to_owned(),
        status => format!("http_{}xx", status / 100),
    }
}

/// What is kept of the body of a failure.
fn kept(payload: &Value) -> Option<Document> {
    if payload.is_null() {
        return None;
    }
    let document = Document::of(payload);
    if document.as_str().len() <= limits::CALL_ERROR_BYTES_MAX {
        return Some(document);
    }
    let text = payload.as_str().unwrap_or(document.as_str());
    // As JSON some characters take more; those that are cut off are the last ones.
    let mut most = limits::CALL_ERROR_BYTES_MAX - 2;
    loop {
        let cut = Document::of(&json!(text[..text.floor_char_boundary(most)]));
        if cut.as_str().len() <= limits::CALL_ERROR_BYTES_MAX {
            return Some(cut);
        }
        most /= 2;
    }
}

/// How long the other side asks to be left alone (RFC 9110, 10.2.3): seconds, or a date, which counts from the answer's own.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = text_of(headers, &RETRY_AFTER)?;
    let date = |text: &str| {
        rfc2822::parse(text.trim())
            .ok()
            .map(|date| date.timestamp())
    };
    let pause = if let Ok(seconds) = said.trim().parse() {
        Duration::from_secs(seconds)
    } else {
        let from = date(&text_of(headers, &DATE)?)?;
        Duration::try_from(date(&said)?.duration_since(from)).unwrap_or_default()
    };
    Some(pause.min(limits::CALL_RETRY_AFTER_MAX))
}

impl Fault {
    /// The failure of the call. One of which nobody knows whether it was done is done again only where that `is_repeatable`.
    pub(super) fn into_failure(self, is_repeatable: bool) -> OperationFailure {
        match self {
            Self::Refused(refusal) => OperationFailure::new("address_refused", refusal.to_string())
                .coded(FailureCode::AddressRefused),
            Self::Redirect(message) => OperationFailure::new("redirect_refused", message)
                .coded(FailureCode::RedirectRefused),
            Self::NotConnected(message) => OperationFailure::new("network", message).retryable(),
            Self::Broken(message) => OperationFailure {
                retryable: is_repeatable,
                ..OperationFailure::new("network", message)
            },
            Self::TooLarge(message) => {
                OperationFailure::new("too_large", message).coded(FailureCode::LimitExceeded)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                value.parse().expect("a value"),
            )
        };
        of.iter().map(header).collect()
    }

    #[test]
    fn a_service_says_how_long_it_is_to_be_left_alone() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (said, expected) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:49:37 GMT", Some(3600)),
            ("-1", None),
            ("soon", None),
        ] {
            let pause = retry_after(&headers(&[("retry-after", said), ("date", date)]));
            assert_eq!(pause.map(|pause| pause.as_secs()), expected, "{said}");
        }
        assert_eq!(
            retry_after(&headers(&[("retry-after", date)])),
            None,
            "nothing to count from"
        );
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_kept_of_a_failure_is_bounded() {
        assert_eq!(kept(&Value::Null), None);
        assert_eq!(
            kept(&json!({ "a": 1 })).expect("it").value(),
            json!({ "a": 1 })
        );
        for long in ["x".repeat(9000), "\u{1}".repeat(9000), "ü".repeat(9000)] {
            for value in [json!(long), json!({ "long": long })] {
                let bytes = kept(&value).expect("it").as_str().len();
                assert!(
                    bytes > 1000 && bytes <= limits::CALL_ERROR_BYTES_MAX,
                    "{bytes}"
                );
            }
        }
    }

    #[test]
    fn a_body_is_what_its_answer_says_where_that_is_so() {
        let of = |media_type: &str, bytes: &[u8]| {
            Payload::of(
                &headers(&[("content-type", media_type)]),
                bytes.to_vec(),
                &Mask::default(),
            )
        };
        assert_eq!(
            of("application/json; charset=utf-8", b"{}"),
            Payload::Json(json!({}))
        );
        assert_eq!(
            of("application/problem+json", b"[1]"),
            Payload::Json(json!([1]))
        );
        assert_eq!(
            of("application/json", b"<html>"),
            Payload::Text("<html>".into())
        );
        assert_eq!(of("text/plain", b"1"), Payload::Text("1".into()));
        assert_eq!(of("application/json", b""), Payload::Empty);
        let bytes = Payload::Bytes {
            media_type: "image/png".into(),
            bytes: vec![0x89, 0xff],
        };
        assert_eq!(of("image/png", &[0x89, 0xff]), bytes);
        assert_eq!(
            bytes.into_value(),
            json!({ "content_type": "image/png", "base64": "if8=" })
        );
        let deep = "[".repeat(100_000);
        assert_eq!(of("application/json", deep.as_bytes()), Payload::Text(deep));
    }
}
