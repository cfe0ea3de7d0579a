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
    let named = address.rsplit_once(['?', '&']).and_then(|(whole, pair)| {
        let byte = pair.strip_prefix("part=")?.parse().ok()?;
        Some((whole, Some(byte)))
    });
    named.unwrap_or((address, None))
}

impl ResourceContent {
    /// The part of the content at this address, with the URI of the next part. `is_parsed` tells that a program parses
    /// the content.
    pub(super) fn into_part(mut self, address: &str, is_parsed: bool) -> Self {
        let (whole, byte) = split_part_address(address);
        let joint = if whole.contains('?') { '&' } else { '?' };
        let at = |byte| Some(format!("{whole}{joint}part={byte}"));
        let (bytes, is_text) = match &self.content {
            ContentBody::Text(text) => (json_length(text), true),
            ContentBody::Value(value) => (json_length(value), !is_parsed),
        };
        if byte.is_none() && (bytes <= PART_BYTES_MAX || !is_text) {
            self.parts = at(0).filter(|_| bytes > PART_BYTES_MAX);
            return self;
        }
        let text = self.content.into_text();
        let begin = text.floor_char_boundary(byte.unwrap_or_default());
        let mut left = PART_BYTES_MAX;
        let fits = |c: &char| {
            left = left.saturating_sub(json_char_bytes(*c));
            left > 0
        };
        let room = text[begin..].chars().take_while(fits).map(char::len_utf8);
        let mut end = begin + room.sum::<usize>();
        if end < text.len() {
            // Split between lines, if possible.
            end = text[begin..end].rfind('\n').map_or(end, |line| begin + line + 1);
            self.next = at(end);
        }
        self.content = ContentBody::Text(text[begin..end].to_owned());
        self
    }
}
