//! JSON values as the domain keeps them: as text, under the digest of the text. Also a digest of a value that does not depend
//! on the order of its keys.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::limits;

/// The SHA-256 of content, under which the content is stored once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses 64 hexadecimal digits, as [`fmt::Display`] writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let is_hex =
            text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        is_hex.then_some(Self(bytes))
    }

    /// The digest that consists of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// In JSON a digest is its hexadecimal digits; in the records of the store its 32 bytes.
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Self);
        }
        match DigestJson::deserialize(deserializer)? {
            DigestJson::Numbers(bytes) => Ok(Self(bytes)),
            DigestJson::Digits(text) => Self::parse(&text)
                .ok_or_else(|| de::Error::custom("a digest has 64 hexadecimal digits")),
        }
    }
}

/// A digest in a JSON text. Contents that earlier versions stored have lists of 32 numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum DigestJson {
    Digits(String),
    Numbers([u8; 32]),
}

/// Writes at most 32 bytes as two hexadecimal digits each, in one piece.
pub(super) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    f.write_str(str::from_utf8(&text[..2 * bytes.len()]).map_err(|_| fmt::Error)?)
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string()[..8])
    }
}

/// A JSON value as text, which keeps the order of keys. Clones share the text.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// The text of `value`.
    pub fn from_value(value: &Value) -> Self {
        Self(value.to_string().into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A document of a text that should be JSON; if it is not, [`Self::value`] is a string.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Parses the value.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.as_ref().into()))
    }

    /// The digest of the text.
    pub fn digest(&self) -> Digest {
        Digest::compute(self.0.as_bytes())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(limits::NAME_SHOWN_CHARS).collect();
        f.write_str(&shown)
    }
}

/// In JSON it is the value itself where that gives back the same text. A string is the text: of a value that is null or a
/// string, and of a text that is written in another way than midex writes it.
impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_str(&self.0);
        }
        let value = self.value();
        let is_same = Self::from_value(&value) == *self;
        if value.is_null() || value.is_string() || !is_same {
            return serializer.serialize_str(&self.0);
        }
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Ok(match Value::deserialize(deserializer)? {
                Value::String(text) => Self(text.into()),
                value => Self::from_value(&value),
            })
        } else {
            String::deserialize(deserializer).map(|text| Self(text.into()))
        }
    }
}

/// A value as plain text: a string as it is, anything else as JSON.
pub fn to_plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// How many values a JSON text holds, told without parsing it: parsed, a small one takes a hundred times the memory of its
/// text. An empty list counts as two.
pub fn count_json_values(json: &[u8]) -> usize {
    let (mut at, mut values) = (0, 1);
    while at < json.len() {
        // Each value but the first has one of these before it.
        values += usize::from(matches!(json[at], b',' | b'[' | b'{'));
        at = match json[at] {
            b'"' => string_literal_end(json, at),
            _ => at + 1,
        };
    }
    values
}

/// The message about the first integer of a JSON text that does not fit 64 bits: parsing would change it.
pub fn oversized_integer_message(json: &[u8]) -> Option<String> {
    let shown: String = find_oversized_integer(json)?.chars().take(40).collect();
    Some(format!("the whole number {shown} is too large to be kept as it is: send it as a text"))
}

fn find_oversized_integer(json: &[u8]) -> Option<&str> {
    let mut at = 0;
    while at < json.len() {
        match json[at] {
            b'"' => at = string_literal_end(json, at),
            b'-' | b'0'..=b'9' => {
                let is_number_byte =
                    |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let length = json[at..].iter().take_while(|byte| is_number_byte(byte)).count();
                let number = std::str::from_utf8(&json[at..at + length]).ok()?;
                let digits = number.strip_prefix('-').unwrap_or(number);
                let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
                let fits = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
                if is_whole && !digits.is_empty() && !fits {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// The byte after the string literal that begins at `start`.
fn string_literal_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < json.len() && json[at] != b'"' {
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A digest of `value` that does not depend on the order of its keys: it tells whether two calls mean the same.
pub fn canonical_digest(value: &Value) -> Digest {
    let mut hasher = Sha256::new();
    hash_value(&mut hasher, value);
    Digest(hasher.finalize().into())
}

/// The [`canonical_digest`] of a list of these values.
pub fn canonical_list_digest<const N: usize>(items: [&Value; N]) -> Digest {
    let mut hasher = Sha256::new();
    hash_list(&mut hasher, items.into_iter());
    Digest(hasher.finalize().into())
}

fn hash_value(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Array(items) => hash_list(hasher, items.iter()),
        Value::Object(map) => {
            hash_length(hasher, b"{", map.len());
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, item) in entries {
                hash_length(hasher, b"", key.len());
                hasher.update(key);
                hash_value(hasher, item);
            }
        }
        Value::String(text) => {
            hash_length(hasher, b"\"", text.len());
            hasher.update(text);
        }
        scalar => hash_text(hasher, format_args!("{scalar};")),
    }
}

fn hash_list<'a>(hasher: &mut Sha256, items: impl ExactSizeIterator<Item = &'a Value>) {
    hash_length(hasher, b"[", items.len());
    for item in items {
        hash_value(hasher, item);
    }
}

fn hash_length(hasher: &mut Sha256, kind: &[u8], length: usize) {
    hasher.update(kind);
    hash_text(hasher, format_args!("{length}:"));
}

/// A text that is not made for it.
fn hash_text(hasher: &mut Sha256, text: fmt::Arguments<'_>) {
    struct HashWriter<'a>(&'a mut Sha256);
    impl fmt::Write for HashWriter<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text);
            Ok(())
        }
    }
    // A hasher takes whatever comes.
    let _ = fmt::Write::write_fmt(&mut HashWriter(hasher), text);
}

/// The type of a value, as a message names it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// The items of a list, or the values of a map with their keys.
pub(crate) fn child_values(value: &Value) -> impl Iterator<Item = (Option<&String>, &Value)> {
    let items = value.as_array().into_iter().flatten();
    let entries = value.as_object().into_iter().flatten();
    let entries = entries.map(|(key, value)| (Some(key), value));
    items.map(|item| (None, item)).chain(entries)
}

/// The depth of nesting of `value`; a scalar has depth 1. Does not recurse.
pub fn nesting_depth(value: &Value) -> usize {
    let mut max_depth = 0;
    let mut pending = vec![(value, 1)];
    while let Some((value, level)) = pending.pop() {
        max_depth = max_depth.max(level);
        pending.extend(child_values(value).map(|(_, part)| (part, level + 1)));
    }
    max_depth
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn oversized_integers_are_found_anywhere() {
        for (json, found) in [
            ("18446744073709551615", None),
            ("[1, -9223372036854775808, 0]", None),
            ("{\"a\": [18446744073709551616]}", Some("18446744073709551616")),
            ("-9223372036854775809", Some("-9223372036854775809")),
            ("\"18446744073709551616\"", None),
            ("\"\\\"18446744073709551616\"", None),
            ("184467440737095516160.5", None),
            ("1e30", None),
            ("\"", None),
            ("-", None),
        ] {
            assert_eq!(find_oversized_integer(json.as_bytes()), found, "{json}");
        }
    }

    #[test]
    fn parsed_numbers_keep_their_value() {
        let mut bits = 0x3fd3_3333_3333_3334_u64;
        for _ in 0..2_000 {
            let number = json!(f64::from_bits(bits));
            assert_eq!(JsonText::from_value(&number).value(), number, "{bits:#x}");
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
    }

    #[test]
    fn a_document_is_the_same_after_json() {
        for text in [
            "null",
            "\"a\"",
            "\"{}\"",
            "{\"b\":1,\"a\":[null,\"x\",1.5e300]}",
            "{ \"spaced\": 1 }",
            "[1,1.0]",
            "no JSON",
            "",
            "7",
            "true",
        ] {
            let document = Some(JsonText::from_text(text));
            let json = serde_json::to_string(&document).expect("JSON");
            assert_eq!(serde_json::from_str::<Option<JsonText>>(&json).expect(text), document);
        }
        let value = serde_json::to_value(JsonText::from_text("{\"a\":1}")).expect("JSON");
        assert_eq!(value, json!({ "a": 1 }), "a value is readable");
    }

    #[test]
    fn a_digest_is_hexadecimal_in_json() {
        let digest = Digest::compute(b"a");
        let json = serde_json::to_value(digest).expect("JSON");
        assert_eq!(json, json!(digest.to_string()));
        assert_eq!(serde_json::from_value::<Digest>(json).expect("a digest"), digest);
        let numbers = serde_json::to_value(digest.as_bytes()).expect("JSON");
        assert_eq!(serde_json::from_value::<Digest>(numbers).expect("a digest"), digest);
        for wrong in [json!("ab"), json!([1, 2]), json!(digest.to_string().to_uppercase())] {
            assert!(serde_json::from_value::<Digest>(wrong).is_err());
        }
    }

    #[test]
    fn canonical_digest_ignores_only_key_order() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":[true,null]}"#).expect("JSON");
        let two: Value = serde_json::from_str(r#"{"b":[true,null],"a":1}"#).expect("JSON");
        assert_eq!(canonical_digest(&one), canonical_digest(&two));
        for other in
            [json!({"a":1,"b":[null,true]}), json!({"a":"1","b":[true,null]}), json!(["a", 1])]
        {
            assert_ne!(canonical_digest(&one), canonical_digest(&other), "{other}");
        }
        assert_ne!(canonical_digest(&json!(["ab", "c"])), canonical_digest(&json!(["a", "bc"])));
        assert_ne!(canonical_digest(&json!([[], 1])), canonical_digest(&json!([[1]])));
        assert_eq!(canonical_list_digest([&one, &two]), canonical_digest(&json!([one, two])));
    }

    #[test]
    fn depth_counts_levels() {
        assert_eq!(nesting_depth(&json!(1)), 1);
        assert_eq!(nesting_depth(&json!({"a": [1, {"b": []}]})), 4);
    }
}
