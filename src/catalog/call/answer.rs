//! The answer to a call: read within limits, with secrets masked, and returned as a value or as a failure.

use std::{collections::BTreeMap, time::Duration};

use jiff::fmt::rfc2822;
use reqwest::{
    Response,
    header::{CONTENT_DISPOSITION, DATE, HeaderMap, HeaderName, RETRY_AFTER},
};
use serde_json::{Value, json};

use super::{
    client::{REDIRECT, exchange_error, format_causes},
    payload::{ResponseBody, choose_file_name, get_header_text, strip_media_type_parameters},
};
use midex_domain::{
    FailureCode, JsonText, SecretMask,
    document::to_plain_text,
    error::{Code, Error, Result},
    event,
    execution::{Attachment, EffectOutput, OperationFailure},
    limits,
    truncate::truncate_to_chars,
};

/// Headers that an answer keeps, because later steps may use them.
const KEPT_HEADERS: &[&str] = &[
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
/// JSON pointers at which services put the text of an error.
const ERROR_TEXT_POINTERS: &[&str] =
    &["/message", "/error/message", "/detail", "/error_description", "/error", "/title"];
/// JSON pointers at which services list the details of an error, separated by spaces.
const ERROR_LIST_POINTERS: &str = "/detail /errors /error/errors /error/details";
/// JSON pointers within such a detail: to its reason, and (`ERROR_PLACE_POINTERS`) to the part of the request that it is about.
const ERROR_REASON_POINTERS: &str = "/msg /detail /message /title /description /code";
const ERROR_PLACE_POINTERS: &str =
    "/loc /source/pointer /source/parameter /path /field /param /property";

/// The answer of an operation. Secrets of the catalog are masked in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers that are kept, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub payload: ResponseBody,
    /// The file name for the body. The service suggests it, so it may be any text, even a path.
    pub name: String,
    /// The number of pages that it combines.
    pub pages: u32,
    /// Notes for the caller, for example that the call was redirected or that there are more pages.
    pub notes: Vec<String>,
}

impl Answer {
    /// Takes the body out of the answer, as a file.
    fn take_attachment(&mut self) -> Attachment {
        let payload = std::mem::replace(&mut self.payload, ResponseBody::Empty);
        let declared_type =
            self.headers.get("content-type").map(|said| strip_media_type_parameters(said));
        let is_short = |said: &&str| (1..=limits::ARTIFACT_NAME_CHARS_MAX).contains(&said.len());
        let content_type = declared_type.filter(is_short).unwrap_or(payload.default_media_type());
        Attachment {
            name: self.name.clone(),
            content_type: content_type.to_owned(),
            content: payload.into_bytes(),
            envelope: None,
        }
    }

    /// The output of the step: the body, or the whole answer if `is_whole`. A body that is too large becomes an
    /// artifact.
    pub fn into_step_output(mut self, is_whole: bool) -> EffectOutput {
        if !self.payload.is_stored_as_artifact(is_whole) {
            return EffectOutput::Output(if is_whole {
                self.into_value()
            } else {
                self.payload.into_value()
            });
        }
        let attachment = self.take_attachment();
        let envelope = is_whole.then(|| self.into_value());
        EffectOutput::Attachment(Attachment { envelope, ..attachment })
    }

    /// The whole answer: status code, headers, body, number of pages and notes.
    pub fn into_value(self) -> Value {
        let mut answer = json!({
            "status_code": self.status,
            "headers": self.headers,
            "payload": self.payload.into_value(),
        });
        if self.pages > 1 {
            answer["pages"] = self.pages.into();
        }
        if !self.notes.is_empty() {
            answer["notes"] = self.notes.into();
        }
        answer
    }
}

/// Reads at most `max_bytes` bytes of the decompressed body. A longer body exceeds the limit, and a connection may be
/// [`exchange_error`]. If it `can_truncate`, both return the bytes that were read.
pub(super) async fn read_body(
    response: &mut Response,
    max_bytes: usize,
    can_truncate: bool,
) -> Result<Vec<u8>> {
    let too_large = || {
        Error::limit_exceeded(format!(
            "an answer may have {max_bytes} bytes, and this one has more"
        ))
    };
    let content_length = response.content_length().unwrap_or_default();
    if !can_truncate && content_length > max_bytes as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(bytes),
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Err(_) if can_truncate => return Ok(bytes),
            Err(error) => {
                return Err(exchange_error(format!(
                    "the answer broke off: {}",
                    format_causes(error)
                )));
            }
        }
        if bytes.len() > max_bytes {
            bytes.truncate(max_bytes);
            return if can_truncate { Ok(bytes) } else { Err(too_large()) };
        }
    }
}

/// The answer with a success status.
pub(super) async fn read_success(response: &mut Response, mask: &SecretMask) -> Result<Answer> {
    let bytes = read_body(response, limits::CALL_ANSWER_BYTES_MAX, false).await?;
    let headers = response.headers();
    let name =
        choose_file_name(get_header_text(headers, &CONTENT_DISPOSITION).as_deref(), response.url());
    let is_retained = |name: &HeaderName| KEPT_HEADERS.contains(&name.as_str());
    let retained_headers = headers.keys().filter(|name| is_retained(name)).filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name.to_string(), mask.mask_text(value).into_owned()))
    });
    Ok(Answer {
        status: response.status().as_u16(),
        headers: retained_headers.collect(),
        payload: ResponseBody::from_answer(headers, bytes, mask)?,
        name: mask.mask_text(&name).into_owned(),
        pages: 1,
        notes: Vec::new(),
    })
}

/// The failure for any other status. `call_name` names the call in the message.
pub(super) async fn read_failure(
    response: &mut Response,
    call_name: &str,
    mask: &SecretMask,
) -> OperationFailure {
    let bytes =
        read_body(response, limits::CALL_ERROR_READ_BYTES_MAX, true).await.unwrap_or_default();
    let status = response.status().as_u16();
    let payload = ResponseBody::from_answer(response.headers(), bytes, mask);
    let payload = payload.unwrap_or(ResponseBody::Empty).into_value();
    let message_suffix = extract_error_message(&payload).map(|words| {
        format!(": {}", truncate_to_chars(words.trim(), limits::CALL_ERROR_WORDS_CHARS_MAX))
    });
    let reason = response.status().canonical_reason().unwrap_or_default();
    let message =
        format!("{call_name} answered {status} {reason}{}", message_suffix.unwrap_or_default());
    OperationFailure {
        code: Some(format!("HTTP_{status}")),
        is_retryable: matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        retry_after: parse_retry_after(response.headers()),
        response: Some(Box::new(event::Response {
            status,
            payload: truncate_error_body(&payload),
        })),
        ..OperationFailure::new(classify_failure(status), message.trim_end())
    }
}

/// The message in an error body: its text and its details. If it has neither, the whole body.
fn extract_error_message(payload: &Value) -> Option<String> {
    let error_text =
        ERROR_TEXT_POINTERS.iter().find_map(|pointer| payload.pointer(pointer)?.as_str());
    let details = ERROR_LIST_POINTERS.split(' ').filter_map(|pointer| payload.pointer(pointer));
    let parts =
        error_text.into_iter().map(str::to_owned).chain(details.flat_map(format_error_details));
    let all: Vec<_> = parts.collect();
    match payload {
        Value::Null => None,
        payload if all.is_empty() => Some(to_plain_text(payload)),
        _ => Some(all.join("; ")),
    }
}

/// Formats the details of an error: a list, or an object that maps fields to reasons.
fn format_error_details(list: &Value) -> Vec<String> {
    let join_values = |value: &Value, sign: &str| match value {
        Value::Array(parts) => parts.iter().map(to_plain_text).collect::<Vec<_>>().join(sign),
        value => to_plain_text(value),
    };
    let text_at = |entry: &Value, pointers: &str| {
        let value = pointers.split(' ').find_map(|pointer| entry.pointer(pointer));
        value.map(|found| join_values(found, "."))
    };
    let reason = |entry: &Value| match (
        text_at(entry, ERROR_PLACE_POINTERS),
        text_at(entry, ERROR_REASON_POINTERS),
    ) {
        (Some(place), Some(reason)) => format!("{place}: {reason}"),
        (None, Some(one)) | (Some(one), None) => one,
        _ => to_plain_text(entry),
    };
    match list {
        Value::Array(entries) => entries.iter().map(reason).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(name, value)| format!("{name}: {}", join_values(value, "; "))).collect()
        }
        _ => Vec::new(),
    }
}

/// True for answers that say that the request was not carried out: 429, and 503 with `Retry-After`.
pub(super) fn is_not_executed(status: u16, failure: &OperationFailure) -> bool {
    status == 429 || status == 503 && failure.retry_after.is_some()
}

/// The failure class of a status, as `retry.on` names it.
fn classify_failure(status: u16) -> String {
    match status {
        429 => "http_429".to_owned(),
        status => format!("http_{}xx", status / 100),
    }
}

/// The error body as it is recorded, truncated to [`limits::CALL_ERROR_BYTES_MAX`].
fn truncate_error_body(payload: &Value) -> Option<JsonText> {
    if payload.is_null() {
        return None;
    }
    let document = JsonText::from_value(payload);
    if document.as_str().len() <= limits::CALL_ERROR_BYTES_MAX {
        return Some(document);
    }
    let text = payload.as_str().unwrap_or(document.as_str());
    // Escapes of JSON make some characters longer, so the text is shortened until it fits.
    let mut max_bytes = limits::CALL_ERROR_BYTES_MAX - 2;
    loop {
        let truncated = JsonText::from_value(&json!(text[..text.floor_char_boundary(max_bytes)]));
        if truncated.as_str().len() <= limits::CALL_ERROR_BYTES_MAX {
            return Some(truncated);
        }
        max_bytes /= 2;
    }
}

/// The delay that the service requests in `Retry-After` (RFC 9110, 10.2.3): in seconds, or as a date relative to the
/// answer's own. At most [`limits::CALL_RETRY_AFTER_MAX`].
fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let retry_after = get_header_text(headers, &RETRY_AFTER)?;
    let date = |text: &str| rfc2822::parse(text.trim()).ok().map(|date| date.timestamp());
    let delay = if let Ok(seconds) = retry_after.trim().parse() {
        Duration::from_secs(seconds)
    } else {
        let start = date(&get_header_text(headers, &DATE)?)?;
        Duration::try_from(date(&retry_after)?.duration_since(start)).unwrap_or_default()
    };
    Some(delay.min(limits::CALL_RETRY_AFTER_MAX))
}

/// The failure of a call, from the error of its request. If it is unknown whether the call was carried out, it may be
/// retried only if it `is_repeatable`.
pub(super) fn failure_from_error(error: &Error, is_repeatable: bool) -> OperationFailure {
    let message = error.message();
    match error.code() {
        Code::AddressRefused => {
            OperationFailure::new("address_refused", message).with_code(FailureCode::AddressRefused)
        }
        Code::LimitExceeded => {
            OperationFailure::new("too_large", message).with_code(FailureCode::LimitExceeded)
        }
        _ if error.context("rule").is_some_and(|rule| rule == REDIRECT) => {
            OperationFailure::new("redirect_refused", message)
                .with_code(FailureCode::RedirectRefused)
        }
        _ => OperationFailure {
            is_retryable: error.is_retryable() || is_repeatable,
            ..OperationFailure::new("network", message)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_map(of: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().expect("a value"))
        };
        of.iter().map(header).collect()
    }

    #[test]
    fn retry_after_sets_the_delay() {
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
            let pause = parse_retry_after(&header_map(&[("retry-after", said), ("date", date)]));
            assert_eq!(pause.map(|pause| pause.as_secs()), expected, "{said}");
        }
        assert_eq!(
            parse_retry_after(&header_map(&[("retry-after", date)])),
            None,
            "nothing to count from"
        );
        assert_eq!(parse_retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn recorded_error_body_is_bounded() {
        assert_eq!(truncate_error_body(&Value::Null), None);
        assert_eq!(truncate_error_body(&json!({ "a": 1 })).expect("it").value(), json!({ "a": 1 }));
        for long in ["x".repeat(9000), "\u{1}".repeat(9000), "ü".repeat(9000)] {
            for value in [json!(long), json!({ "long": long })] {
                let bytes = truncate_error_body(&value).expect("it").as_str().len();
                assert!(bytes > 1000 && bytes <= limits::CALL_ERROR_BYTES_MAX, "{bytes}");
            }
        }
    }
}
