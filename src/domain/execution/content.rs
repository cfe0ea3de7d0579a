//! Values as events hold them: small ones in place, others by digest.

use std::sync::Arc;

use serde_json::Value;

use super::Payload;
use crate::{
    domain::document::{Digest, Document, depth},
    error::{Error, Result},
    limits,
};

/// Content that lies elsewhere than in the row, under its digest.
pub(super) type Content = Option<(Digest, Arc<[u8]>)>;

/// A value as an event holds it, and its content where that lies elsewhere.
pub(super) fn payload(value: &Value, bytes_max: usize, what: &str) -> Result<(Payload, Content)> {
    if depth(value) > limits::JSON_DEPTH_MAX {
        let most = limits::JSON_DEPTH_MAX;
        return Err(Error::limit(format!(
            "the {what} may be nested {most} levels deep"
        )));
    }
    let document = Document::of(value);
    let bytes = document.as_str().len();
    if bytes > bytes_max {
        let limit = format!("the {what} may have {bytes_max} bytes");
        let message = format!("the {what} has {bytes} bytes of JSON, the limit is {bytes_max}");
        return Err(Error::limit(limit).with_message(message));
    }
    let digest = document.digest();
    let inline = bytes <= limits::INLINE_BYTES_MAX;
    let content = (!inline).then(|| (digest, document.as_str().as_bytes().into()));
    Ok((
        Payload {
            digest,
            bytes: bytes as u64,
            inline: inline.then_some(document),
        },
        content,
    ))
}

/// The payload with its value stored by digest whatever its size, so that it is read without the journal.
pub(super) fn stored(
    (payload, content): (Payload, Content),
    contents: &mut Vec<(Digest, Arc<[u8]>)>,
) -> Payload {
    let inline = payload
        .inline
        .as_ref()
        .map(|document| (payload.digest, document.as_str().as_bytes().into()));
    contents.extend(content.or(inline));
    Payload {
        inline: None,
        ..payload
    }
}
