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
    begins: Vec<bool>,
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
    fn from_iter<I: IntoIterator<Item = (String, String)>>(given: I) -> Self {
        let is_telling = |secret: &str| secret.len() >= limits::SECRET_COVERED_BYTES_MIN;
        let given = given.into_iter().filter(|(secret, _)| is_telling(secret));
        let mut given: Vec<_> = given.collect();
        // Longer secrets first, so that a secret that contains another one is replaced as a whole.
        given.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        given.dedup_by(|(a, _), (b, _)| a == b);
        let secrets: Vec<_> = given
            .into_iter()
            .map(|(secret, placeholder)| MaskedSecret::new(secret, placeholder))
            .collect();
        let mut begins = vec![false; if secrets.is_empty() { 0 } else { 256 }];
        for byte in secrets.iter().flat_map(MaskedSecret::first_bytes) {
            begins[usize::from(byte)] = true;
        }
        Self { secrets, begins }
    }
}

impl MaskedSecret {
    fn new(secret: String, placeholder: String) -> Self {
        let plain = secret.into_bytes();
        let base64 = (0..3).flat_map(|place| base64_forms(&plain, place)).collect();
        Self { plain, base64, placeholder }
    }

    /// The bytes with which an occurrence may begin: literal, escaped, in hexadecimal digits or in base64.
    fn first_bytes(&self) -> impl Iterator<Item = u8> {
        let first = self.plain[0];
        let space = (first == b' ').then_some(b'+');
        let digit = b"0123456789abcdef"[usize::from(first >> 4)];
        let spelled = [first, b'%', b'\\', digit, digit.to_ascii_uppercase()];
        let of_base64 = self.base64.iter().map(|text| text[0]);
        spelled.into_iter().chain(space).chain(of_base64)
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

/// The base64 forms of `secret` at offset `place` (modulo 3) of a longer text, in both alphabets. Characters at the
/// edges that depend on neighbouring bytes are left out.
fn base64_forms(secret: &[u8], place: usize) -> [Vec<u8>; 2] {
    let text = [&[0; 2][..place], secret].concat();
    let (start, end) = ((place * 8).div_ceil(6), text.len() * 8 / 6);
    [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD]
        .map(|alphabet| alphabet.encode(&text).as_bytes()[start..end].to_vec())
}

/// The length of the encoded form of `secret` at the start of `text`. `read` decodes the next character, and returns
/// its bytes and its encoded length.
fn encoded_match_length(
    secret: &[u8],
    text: &[u8],
    read: impl Fn(&[u8], u8) -> Option<(DecodedChar, usize)>,
) -> Option<usize> {
    let (mut matched, mut at) = (0, 0);
    while let Some(wanted) = secret.get(matched) {
        let (spelled, length) = read(text.get(at..)?, *wanted)?;
        let spelled = &spelled.0[..spelled.1];
        if !secret[matched..].starts_with(spelled) {
            return None;
        }
        matched += spelled.len();
        at += length;
    }
    Some(at)
}

/// The bytes of one decoded character, and their number.
struct DecodedChar([u8; 4], usize);

impl DecodedChar {
    const fn from_byte(byte: u8) -> Self {
        Self([byte, 0, 0, 0], 1)
    }
}

/// Decodes a byte that is literal, percent-encoded or in a JSON escape.
fn decode_byte(text: &[u8], wanted: u8) -> Option<(DecodedChar, usize)> {
    match *text.first()? {
        b'%' => decode_hex(text.get(1..)?, wanted).map(|(byte, length)| (byte, length + 1)),
        b'\\' => decode_json_escape(text),
        b'+' if wanted == b' ' => Some((DecodedChar::from_byte(b' '), 1)),
        byte => (byte == wanted).then_some((DecodedChar::from_byte(byte), 1)),
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
        let (mut covered, mut kept, mut at) = (None::<Vec<u8>>, 0, 0);
        while at < text.len() {
            match self.find_secret_at(text, at) {
                None => at += 1,
                Some((placeholder, length)) => {
                    let covered = covered.get_or_insert_default();
                    covered.extend_from_slice(&text[kept..at]);
                    covered.extend_from_slice(placeholder.as_bytes());
                    at += length;
                    kept = at;
                }
            }
        }
        covered.map(|mut covered| {
            covered.extend_from_slice(&text[kept..]);
            covered
        })
    }

    fn find_secret_at(&self, text: &[u8], at: usize) -> Option<(&str, usize)> {
        if !*self.begins.get(usize::from(text[at]))? {
            return None;
        }
        let found = |secret: &MaskedSecret| secret.match_length(&text[at..]);
        let mut found = self.secrets.iter().map(|secret| (secret, found(secret)));
        found.find_map(|(secret, length)| Some((secret.placeholder.as_str(), length?)))
    }

    /// The text with placeholders in place of secrets.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            None => Cow::Borrowed(text),
            Some(covered) => Cow::Owned(String::from_utf8_lossy(&covered).into_owned()),
        }
    }

    /// Replaces secrets in every text, key and number of `value`.
    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(covered) = self.mask_text(text) {
                    *text = covered;
                }
            }
            Value::Number(number) => {
                if let Cow::Owned(covered) = self.mask_text(&number.to_string()) {
                    *value = Value::String(covered);
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
