//! Content longer than [`limits::ANSWER_BYTES_MAX`] is read in parts of its text, each of which names the URI of the
//! next. JSON stays whole for a program that parses it.

use super::{ContentBody, ResourceContent};
use midex_domain::{
    limits,
    truncate::{json_char_bytes, json_length},
};

/// The maximum size of a part as JSON. It leaves room for the rest of the answer.
const PART_BYTES_MAX: usize = limits::ANSWER_BYTES_MAX - 1_000;

/// Splits the address into that of the whole resource and the byte offset of the requested part, if any.
fn split_part_address(address: &str) -> (&str, Option<usize>) {
    let part_pair = address.rsplit_once(['?', '&']).and_then(|(whole, pair)| {
        let byte = pair.strip_prefix("part=")?.parse().ok()?;
        Some((whole, Some(byte)))
    });
    part_pair.unwrap_or((address, None))
}

impl ResourceContent {
    /// The part of the content at this address, with the URI of the next part. `is_parsed` tells that a program parses
    /// the content.
    pub(super) fn into_part(mut self, address: &str, is_parsed: bool) -> Self {
        let (base_address, offset) = split_part_address(address);
        let separator = if base_address.contains('?') { '&' } else { '?' };
        let part_address = |byte| Some(format!("{base_address}{separator}part={byte}"));
        let (bytes, is_text) = match &self.content {
            ContentBody::Text(text) => (json_length(text), true),
            ContentBody::Value(value) => (json_length(value), !is_parsed),
        };
        if offset.is_none() && (bytes <= PART_BYTES_MAX || !is_text) {
            self.first_part_uri = part_address(0).filter(|_| bytes > PART_BYTES_MAX);
            return self;
        }
        let text = self.content.into_text();
        let begin = text.floor_char_boundary(offset.unwrap_or_default());
        let mut bytes_left = PART_BYTES_MAX;
        let is_within_limit = |c: &char| {
            bytes_left = bytes_left.saturating_sub(json_char_bytes(*c));
            bytes_left > 0
        };
        let part_lengths = text[begin..].chars().take_while(is_within_limit).map(char::len_utf8);
        let mut end = begin + part_lengths.sum::<usize>();
        if end < text.len() {
            // Split between lines, if possible.
            end = text[begin..end].rfind('\n').map_or(end, |line| begin + line + 1);
            self.next_uri = part_address(end);
        }
        self.content = ContentBody::Text(text[begin..end].to_owned());
        self
    }
}
