//! Serializes the values of parameters: style and explode of `OpenAPI` (3.1.1, 4.8.12.2 and 4.8.12.3, after RFC
//! 6570).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(super) use crate::media_type::is_json;
use crate::operation::{ParameterStyle, ValueStyle};
use midex_domain::{document::to_plain_text, uri};

/// The characters to escape if the document allows reserved ones. Reserved characters without a meaning between the
/// pairs of a query stay unescaped.
const RESERVED_ALLOWED_SET: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// How text is escaped.
#[derive(Clone, Copy)]
pub(super) enum Encoding {
    /// For a URL, a cookie or a form: percent-encoded.
    Percent,
    /// Percent-encoded, except for reserved characters.
    Reserved,
    /// For a header: not escaped.
    Plain,
}

impl Encoding {
    pub(super) fn encode(self, text: &str) -> String {
        match self {
            Self::Percent => uri::encode_segment(text),
            Self::Reserved => utf8_percent_encode(text, RESERVED_ALLOWED_SET).to_string(),
            Self::Plain => text.to_owned(),
        }
    }
}

/// Serializes a value as one text, for a segment of a path or for a header.
pub(super) fn serialize_segment(
    name: &str,
    value: &Value,
    value_style: &ValueStyle,
    encoding: Encoding,
) -> String {
    let (style, explode) = match value_style {
        ValueStyle::Content(media_type) => {
            return encoding.encode(&serialize_content(media_type, value));
        }
        ValueStyle::Styled { style, explode, .. } => (*style, *explode),
    };
    let (prefix, separator) = match style {
        ParameterStyle::Label if explode => (".", "."),
        ParameterStyle::Label => (".", ","),
        ParameterStyle::Matrix if explode => (";", ";"),
        ParameterStyle::Matrix => (";", ","),
        _ => ("", ","),
    };
    let add_name = |text: String| match style {
        ParameterStyle::Matrix if text.is_empty() => encoding.encode(name),
        ParameterStyle::Matrix => format!("{}={text}", encoding.encode(name)),
        _ => text,
    };
    let parts = serialize_parts(value, explode, encoding);
    match (style, explode, value) {
        (ParameterStyle::Matrix, true, Value::Array(_)) => {
            let parts: Vec<_> = parts.into_iter().map(add_name).collect();
            format!("{prefix}{}", parts.join(separator))
        }
        (_, true, Value::Object(_)) => format!("{prefix}{}", parts.join(separator)),
        _ => format!("{prefix}{}", add_name(parts.join(separator))),
    }
}

/// The parts of a value: the items of a list, or the keys and values of an object, which `explode` joins with `=`.
fn serialize_parts(value: &Value, explode: bool, encoding: Encoding) -> Vec<String> {
    match value {
        Value::Array(items) => {
            items.iter().filter_map(|item| serialize_scalar(item, encoding)).collect()
        }
        Value::Object(map) => {
            let pairs = map.iter().filter_map(|(key, value)| {
                Some((encoding.encode(key), serialize_scalar(value, encoding)?))
            });
            if explode {
                pairs.map(|(key, value)| format!("{key}={value}")).collect()
            } else {
                pairs.flat_map(|(key, value)| [key, value]).collect()
            }
        }
        other => serialize_scalar(other, encoding).into_iter().collect(),
    }
}

/// A scalar as text, any other value as JSON; `None` for null.
fn serialize_scalar(value: &Value, encoding: Encoding) -> Option<String> {
    (!value.is_null()).then(|| encoding.encode(&to_plain_text(value)))
}

/// Serializes a value as a document of a media type.
pub(super) fn serialize_content(media_type: &str, value: &Value) -> String {
    match value {
        Value::String(text) if !is_json(media_type) => text.clone(),
        value => value.to_string(),
    }
}

/// Escapes a key for a JSON pointer.
pub(super) fn escape_pointer_key(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Serializes a value as pairs for a query, a cookie or a form, with encoded names and values.
pub(super) fn serialize_pairs(
    name: &str,
    value: &Value,
    value_style: &ValueStyle,
) -> Vec<(String, String)> {
    let (style, explode, encoding) = match value_style {
        ValueStyle::Content(media_type) => {
            return vec![(
                uri::encode_segment(name),
                uri::encode_segment(&serialize_content(media_type, value)),
            )];
        }
        ValueStyle::Styled { style, explode, allow_reserved: true } => {
            (*style, *explode, Encoding::Reserved)
        }
        ValueStyle::Styled { style, explode, .. } => (*style, *explode, Encoding::Percent),
    };
    let encoded = uri::encode_segment(name);
    match (style, value) {
        (ParameterStyle::DeepObject, Value::Object(_) | Value::Array(_)) => {
            serialize_nested(name, value, encoding)
        }
        (ParameterStyle::Form, Value::Object(map)) if explode => {
            let pairs = map.iter().filter_map(|(key, value)| {
                Some((uri::encode_segment(key), serialize_scalar(value, encoding)?))
            });
            pairs.collect()
        }
        (_, Value::Array(_)) if explode => {
            let parts = serialize_parts(value, true, encoding);
            parts.into_iter().map(|part| (encoded.clone(), part)).collect()
        }
        (_, Value::Array(_) | Value::Object(_)) => {
            let parts = serialize_parts(value, false, encoding);
            // An empty list is omitted, because an empty text would be read as one item.
            let joined = parts.join(separator(style));
            if parts.is_empty() { Vec::new() } else { vec![(encoded, joined)] }
        }
        (_, value) => {
            serialize_scalar(value, encoding).map(|text| (encoded, text)).into_iter().collect()
        }
    }
}

fn separator(style: ParameterStyle) -> &'static str {
    match style {
        ParameterStyle::SpaceDelimited => "%20",
        ParameterStyle::PipeDelimited => "%7C",
        _ => ",",
    }
}

/// Serializes nested values: `name[key]=value`, `name[key][inner]=value`. `OpenAPI` does not define lists in this
/// style. Items get an index, `name[0]`, which is what services with such names expect (Stripe, Rack, PHP, `qs`):
/// they read a repeated plain name as one text.
fn serialize_nested(name: &str, value: &Value, encoding: Encoding) -> Vec<(String, String)> {
    match value {
        Value::Object(map) => {
            let pairs = map.iter().flat_map(|(key, value)| {
                serialize_nested(&format!("{name}[{key}]"), value, encoding)
            });
            pairs.collect()
        }
        Value::Array(items) => {
            // Empty items are skipped before the items are numbered, because a list with a gap is not read as a list.
            let pairs = items.iter().filter(|item| !is_empty(item)).enumerate();
            pairs
                .flat_map(|(place, item)| {
                    serialize_nested(&format!("{name}[{place}]"), item, encoding)
                })
                .collect()
        }
        value => serialize_scalar(value, encoding)
            .map(|text| (uri::encode_segment(name), text))
            .into_iter()
            .collect(),
    }
}

/// Whether nothing is written for a value in this style.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(map) => map.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value_style(style: ParameterStyle, explode: bool) -> ValueStyle {
        ValueStyle::Styled { style, explode, allow_reserved: false }
    }

    /// The examples of `OpenAPI`: `color` as a text, a list and an object.
    fn serialize_color_examples(style: ParameterStyle, explode: bool) -> [String; 3] {
        let values = [json!("blue"), json!(["blue", "black"]), json!({ "R": 100, "G": 200 })];
        values.map(|value| match style {
            ParameterStyle::Simple | ParameterStyle::Label | ParameterStyle::Matrix => {
                serialize_segment("color", &value, &value_style(style, explode), Encoding::Percent)
            }
            _ => {
                let pairs =
                    serialize_pairs("color", &value, &value_style(style, explode)).into_iter();
                let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
                pairs.join("&")
            }
        })
    }

    #[test]
    fn styles_match_the_openapi_examples() {
        for (style, explode, expected) in [
            (
                ParameterStyle::Matrix,
                false,
                [";color=blue", ";color=blue,black", ";color=R,100,G,200"],
            ),
            (
                ParameterStyle::Matrix,
                true,
                [";color=blue", ";color=blue;color=black", ";R=100;G=200"],
            ),
            (ParameterStyle::Label, false, [".blue", ".blue,black", ".R,100,G,200"]),
            (ParameterStyle::Label, true, [".blue", ".blue.black", ".R=100.G=200"]),
            (ParameterStyle::Simple, false, ["blue", "blue,black", "R,100,G,200"]),
            (ParameterStyle::Simple, true, ["blue", "blue,black", "R=100,G=200"]),
            (ParameterStyle::Form, false, ["color=blue", "color=blue,black", "color=R,100,G,200"]),
            (ParameterStyle::Form, true, ["color=blue", "color=blue&color=black", "R=100&G=200"]),
            (
                ParameterStyle::SpaceDelimited,
                false,
                ["color=blue", "color=blue%20black", "color=R%20100%20G%20200"],
            ),
            (
                ParameterStyle::PipeDelimited,
                false,
                ["color=blue", "color=blue%7Cblack", "color=R%7C100%7CG%7C200"],
            ),
            (
                ParameterStyle::DeepObject,
                true,
                [
                    "color=blue",
                    "color%5B0%5D=blue&color%5B1%5D=black",
                    "color%5BR%5D=100&color%5BG%5D=200",
                ],
            ),
        ] {
            assert_eq!(serialize_color_examples(style, explode), expected, "{style:?} {explode}");
        }
    }

    #[test]
    fn separators_in_values_are_encoded_and_reserved_ones_stay_where_that_is_allowed() {
        let value = json!(["a,b", "c d", "e&f=g"]);
        let written = serialize_pairs("x", &value, &value_style(ParameterStyle::Form, false));
        assert_eq!(written, [("x".to_owned(), "a%2Cb,c%20d,e%26f%3Dg".to_owned())]);
        let reserved =
            ValueStyle::Styled { style: ParameterStyle::Form, explode: true, allow_reserved: true };
        let written = serialize_pairs("x", &json!("a/b?c:d#e&f+g[h]"), &reserved);
        assert_eq!(written[0].1, "a/b?c:d%23e%26f%2Bg%5Bh%5D");
        let deep = serialize_pairs(
            "f",
            &json!({ "a": { "b": [1, { "c": 2 }] }, "n": null }),
            &value_style(ParameterStyle::DeepObject, true),
        );
        let deep: Vec<_> = deep
            .iter()
            .map(|(name, value)| (name.replace("%5B", "[").replace("%5D", "]"), value.as_str()))
            .collect();
        assert_eq!(deep, [("f[a][b][0]".to_owned(), "1"), ("f[a][b][1][c]".to_owned(), "2")]);
        let gaps = json!([null, { "a": 1 }, {}, { "a": [{}, 2] }]);
        let written = serialize_pairs("l", &gaps, &value_style(ParameterStyle::DeepObject, true));
        assert_eq!(written[0].0, "l%5B0%5D%5Ba%5D");
        assert_eq!(written[1].0, "l%5B1%5D%5Ba%5D%5B0%5D");
        assert!(
            serialize_pairs("x", &json!([]), &value_style(ParameterStyle::Form, false)).is_empty()
        );
        assert_eq!(
            serialize_segment(
                "x",
                &json!(""),
                &value_style(ParameterStyle::Matrix, false),
                Encoding::Percent
            ),
            ";x"
        );
    }

    #[test]
    fn a_document_is_written_as_json() {
        let json_content = ValueStyle::Content("application/json".into());
        let written = serialize_pairs("filter", &json!({ "a": 1 }), &json_content);
        assert_eq!(written, [("filter".to_owned(), "%7B%22a%22%3A1%7D".to_owned())]);
        assert_eq!(serialize_segment("x", &json!("a"), &json_content, Encoding::Plain), "\"a\"");
        assert_eq!(serialize_content("text/plain", &json!("a")), "a");
    }
}
