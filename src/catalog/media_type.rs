//! Media types, classified by how a body is encoded.

/// How a body is encoded, the easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "HTTP says what they are")]
pub enum BodyFormat {
    Json,
    Form,
    Multipart,
    Text,
    Bytes,
}

impl BodyFormat {
    /// The kind of a media type.
    pub fn from_media_type(media_type: &str) -> Self {
        let media_type = media_type.to_ascii_lowercase();
        let is_text = media_type.starts_with("text/")
            || media_type.ends_with("xml")
            || ["yaml", "javascript", "graphql", "ndjson", "jsonl", "csv"]
                .iter()
                .any(|word| media_type.contains(word));
        match media_type.as_str() {
            media_type if is_json(media_type) => Self::Json,
            "application/x-www-form-urlencoded" => Self::Form,
            media_type if media_type.starts_with("multipart/") => Self::Multipart,
            _ if is_text => Self::Text,
            _ => Self::Bytes,
        }
    }
}

/// Whether a media type is JSON. The wildcard `*/*` counts as JSON, which is what services mean by it.
pub(crate) fn is_json(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    media_type.ends_with("/json") || media_type.ends_with("+json") || media_type == "*/*"
}
