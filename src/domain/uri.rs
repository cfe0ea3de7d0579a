//! Percent-encoding of one path segment, so that ids with spaces, slashes and Unicode work in
//! resource addresses (RFC 3986, section 2).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const ESCAPED_CHARS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes `text` as one path segment.
pub fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED_CHARS).to_string()
}

/// The address of a resource of an execution, such as `midex://workflow/workflow_status/ID`.
pub fn execution_uri(resource: &str, execution_id: &str) -> String {
    format!("midex://workflow/{resource}/{}", encode_segment(execution_id))
}

/// Decodes one path segment; `None` if it is not UTF-8.
pub fn decode_segment(segment: &str) -> Option<String> {
    percent_decode_str(segment).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_as_one_segment() {
        for text in ["plain", "a b/c?d#e%f", "ключ/鍵", "..", "%2F"] {
            let segment = encode_segment(text);
            assert!(!segment.contains(['/', '?', '#', ' ']), "{segment}");
            assert_eq!(decode_segment(&segment).as_deref(), Some(text));
        }
        assert_eq!(decode_segment("%ff"), None);
    }
}
