//! Replaces secrets by placeholders where a response repeats them. Encoded forms are recognised too: percent-encoding,
//! JSON escapes, hexadecimal digits and base64 at any offset of a longer text.

use std::borrow::Cow;

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};
use serde_json::{Map, Value};

use crate::limits;

/// Secrets with the placeholders that replace them.
#[derive(Clone, Default)]
pub struct SecretMask {
    secrets: Vec<MaskedSecret>,
    /// For each byte value whether an occurrence of a secret, in any encoding, may begin with it.
    possible_first_bytes: Vec<bool>,
}

#[derive(Clone)]
struct MaskedSecret {
    plain: Vec<u8>,
    base64: Vec<Vec<u8>>,
    placeholder: String,
}

impl std::fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let placeholders = self.secrets.iter().map(|secret| &secret.placeholder);
        f.debug_set().entries(placeholders).finish()
    }
}

impl FromIterator<(String, String)> for SecretMask {
    /// Collects pairs of secrets and placeholders. Secrets shorter than [`limits::SECRET_COVERED_BYTES_MIN`] are
    /// ignored.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let is_long_enough = |secret: &str| secret.len() >= limits::SECRET_COVERED_BYTES_MIN;
        let pairs = pairs.into_iter().filter(|(secret, _)| is_long_enough(secret));
        let mut pairs: Vec<_> = pairs.collect();
        // Longer secrets first, so that a secret that contains another one is replaced as a whole.
        pairs.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        pairs.dedup_by(|(a, _), (b, _)| a == b);
        let secrets: Vec<_> = pairs
            .into_iter()
            .map(|(secret, placeholder)| MaskedSecret::new(secret, placeholder))
            .collect();
        let mut first_bytes = vec![false; if secrets.is_empty() { 0 } else { 256 }];
        for byte in secrets.iter().flat_map(MaskedSecret::first_bytes) {
            first_bytes[usize::from(byte)] = true;
        }
        Self { secrets, possible_first_bytes: first_bytes }
    }
}

impl MaskedSecret {
    fn new(secret: String, placeholder: String) -> Self {
        let plain = secret.into_bytes();
        let base64 = (0..3).flat_map(|offset| base64_forms(&plain, offset)).collect();
        Self { plain, base64, placeholder }
    }

    /// The bytes with which an occurrence may begin: literal, escaped, in hexadecimal digits or in base64.
    fn first_bytes(&self) -> impl Iterator<Item = u8> {
        let first = self.plain[0];
        let space = (first == b' ').then_some(b'+');
        let hex_digit = b"0123456789abcdef"[usize::from(first >> 4)];
        let first_bytes = [first, b'%', b'\\', hex_digit, hex_digit.to_ascii_uppercase()];
        let base64_first_bytes = self.base64.iter().map(|text| text[0]);
        first_bytes.into_iter().chain(space).chain(base64_first_bytes)
    }

    /// The length of the occurrence of the secret at the start of `text`, if there is one.
    fn match_length(&self, text: &[u8]) -> Option<usize> {
        let in_base64 = || {
            let mut all = self.base64.iter();
            all.find(|encoded| text.starts_with(encoded)).map(Vec::len)
        };
        let is_plain = text.starts_with(&self.plain);
        is_plain
            .then_some(self.plain.len())
            .or_else(|| encoded_match_length(&self.plain, text, decode_byte))
            .or_else(|| encoded_match_length(&self.plain, text, decode_hex))
            .or_else(in_base64)
    }
}

/// The base64 forms of `secret` at offset `offset` (modulo 3) of a longer text, in both alphabets. Characters at the
/// edges that depend on neighbouring bytes are left out.
fn base64_forms(secret: &[u8], offset: usize) -> [Vec<u8>; 2] {
    let text = [&[0; 2][..offset], secret].concat();
    let (start, end) = ((offset * 8).div_ceil(6), text.len() * 8 / 6);
    [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD]
        .map(|alphabet| alphabet.encode(&text).as_bytes()[start..end].to_vec())
}

/// The length of the encoded form of `secret` at the start of `text`. `decode_next` decodes the next character, and returns
/// its bytes and its encoded length.
fn encoded_match_length(
    secret: &[u8],
    text: &[u8],
    decode_next: impl Fn(&[u8], u8) -> Option<(DecodedChar, usize)>,
) -> Option<usize> {
    let (mut matched, mut offset) = (0, 0);
    while let Some(expected) = secret.get(matched) {
        let (decoded, length) = decode_next(text.get(offset..)?, *expected)?;
        let decoded = &decoded.0[..decoded.1];
        if !secret[matched..].starts_with(decoded) {
            return None;
        }
        matched += decoded.len();
        offset += length;
    }
    Some(offset)
}

/// The bytes of one decoded character, and their number.
struct DecodedChar([u8; 4], usize);

impl DecodedChar {
    const fn from_byte(byte: u8) -> Self {
        Self([byte, 0, 0, 0], 1)
    }
}

/// Decodes a byte that is literal, percent-encoded or in a JSON escape.
fn decode_byte(text: &[u8], expected: u8) -> Option<(DecodedChar, usize)> {
    match *text.first()? {
        b'%' => decode_hex(text.get(1..)?, expected).map(|(byte, length)| (byte, length + 1)),
        b'\\' => decode_json_escape(text),
        b'+' if expected == b' ' => Some((DecodedChar::from_byte(b' '), 1)),
        byte => (byte == expected).then_some((DecodedChar::from_byte(byte), 1)),
    }
}

/// Decodes a JSON escape: `\n`, `\u0041`…
fn decode_json_escape(text: &[u8]) -> Option<(DecodedChar, usize)> {
    let byte = match *text.get(1)? {
        b'u' => {
            let digits = std::str::from_utf8(text.get(2..6)?).ok()?;
            let letter = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            let mut bytes = [0; 4];
            let length = letter.encode_utf8(&mut bytes).len();
            return Some((DecodedChar(bytes, length), 6));
        }
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        byte @ (b'"' | b'\\' | b'/') => byte,
        _ => return None,
    };
    Some((DecodedChar::from_byte(byte), 2))
}

/// Decodes two hexadecimal digits.
fn decode_hex(text: &[u8], _: u8) -> Option<(DecodedChar, usize)> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    Some((DecodedChar::from_byte(byte), 2))
}

impl SecretMask {
    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The bytes with placeholders in place of secrets; `None` if they contain no secret.
    pub fn mask_bytes(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (mut masked, mut copied_up_to, mut offset) = (None::<Vec<u8>>, 0, 0);
        while offset < text.len() {
            match self.find_secret_at(text, offset) {
                None => offset += 1,
                Some((placeholder, length)) => {
                    let masked = masked.get_or_insert_default();
                    masked.extend_from_slice(&text[copied_up_to..offset]);
                    masked.extend_from_slice(placeholder.as_bytes());
                    offset += length;
                    copied_up_to = offset;
                }
            }
        }
        masked.map(|mut covered| {
            covered.extend_from_slice(&text[copied_up_to..]);
            covered
        })
    }

    fn find_secret_at(&self, text: &[u8], offset: usize) -> Option<(&str, usize)> {
        if !*self.possible_first_bytes.get(usize::from(text[offset]))? {
            return None;
        }
        let find_match_length = |secret: &MaskedSecret| secret.match_length(&text[offset..]);
        let mut matches = self.secrets.iter().map(|secret| (secret, find_match_length(secret)));
        matches.find_map(|(secret, length)| Some((secret.placeholder.as_str(), length?)))
    }

    /// The text with placeholders in place of secrets.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            None => Cow::Borrowed(text),
            Some(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    /// Replaces secrets in every text, key and number of `value`.
    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask_text(text) {
                    *text = masked;
                }
            }
            Value::Number(number) => {
                if let Cow::Owned(masked) = self.mask_text(&number.to_string()) {
                    *value = Value::String(masked);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => self.mask_map(map),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn mask_map(&self, map: &mut Map<String, Value>) {
        if map.keys().any(|key| matches!(self.mask_text(key), Cow::Owned(_))) {
            let entries = std::mem::take(map).into_iter();
            *map = entries.map(|(key, value)| (self.mask_text(&key).into_owned(), value)).collect();
        }
        map.values_mut().for_each(|value| self.mask_value(value));
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
    use serde_json::json;

    use super::*;

    const SECRET: &str = "s3cr\"t / ü?~key";

    fn sample_secrets() -> impl Iterator<Item = (String, String)> {
        let given = [(SECRET, "${env:KEY}"), ("1234567890", "${env:PIN}"), ("short", "no")];
        let owned =
            |(secret, placeholder): (&str, &str)| (secret.to_owned(), placeholder.to_owned());
        given.into_iter().map(owned)
    }

    fn sample_mask() -> SecretMask {
        sample_secrets().collect()
    }

    #[test]
    fn a_secret_is_covered_however_it_is_written() {
        let percent = crate::uri::encode_segment(SECRET);
        let ascii: Vec<_> = SECRET.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        let hex: Vec<_> = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
        let (ascii, hex) = (ascii.concat(), hex.concat());
        let spelled = [
            SECRET.to_owned(),
            percent.to_lowercase(),
            percent.replace("%20", "+"),
            percent,
            json!(SECRET).to_string(),
            json!(SECRET).to_string().replace('/', "\\/"),
            ascii,
            hex.to_lowercase(),
            hex,
        ];
        for text in spelled {
            let covered = sample_mask().mask_text(&format!("a {text} b")).into_owned();
            assert!(covered.contains("${env:KEY}"), "{text}: {covered}");
            assert!(covered.starts_with("a ") && covered.ends_with(" b"), "{covered}");
            assert!(!covered.contains("s3") && !covered.contains("key"), "{covered}");
        }
    }

    #[test]
    fn in_base64_a_secret_is_covered_at_any_place() {
        for before in ["", "u", "us", "use", "user:"] {
            for after in ["", "x", "xx"] {
                let text = format!("{before}{SECRET}{after}");
                for encoded in [BASE64_STANDARD.encode(&text), BASE64_URL_SAFE.encode(&text)] {
                    let covered = sample_mask().mask_text(&encoded).into_owned();
                    assert!(covered.contains("${env:KEY}"), "{text}: {covered}");
                }
            }
        }
    }

    #[test]
    fn values_are_covered_with_their_keys_and_numbers_and_else_left_alone() {
        let mut value = json!({ SECRET: [SECRET, 1_234_567_890, "short", null], "b": { "c": 1 } });
        sample_mask().mask_value(&mut value);
        let covered =
            json!({ "${env:KEY}": ["${env:KEY}", "${env:PIN}", "short", null], "b": { "c": 1 } });
        assert_eq!(value, covered);
        assert_eq!(sample_mask().mask_bytes(b"nothing of it"), None);
        assert!(
            SecretMask::default().is_empty() && SecretMask::default().mask_bytes(b"x").is_none()
        );
        assert_eq!(
            sample_mask().mask_bytes(b"\xff1234567890\xfe").as_deref(),
            Some(&b"\xff${env:PIN}\xfe"[..])
        );
    }

    #[test]
    fn secrets_of_two_sources_are_covered_by_one_mask() {
        let other = ("another-one".to_owned(), "${file:B}".to_owned());
        let both: SecretMask = sample_secrets().chain([other]).collect();
        let covered = both.mask_text("another-one, 1234567890").into_owned();
        assert_eq!(covered, "${file:B}, ${env:PIN}");
        assert!(!format!("{both:?}").contains("another-one"));
    }
}
