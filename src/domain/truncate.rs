//! Truncates JSON values to a number of bytes: small parts stay whole, long ones are cut, which `…` shows.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

/// Values nested deeper than this are replaced as a whole.
const SHOWN_DEPTH_MAX: usize = 6;
/// The least bytes in which an item of a list or a field of an object is worth showing.
const ITEM_BYTES_MIN: usize = 32;
/// The mark in place of a part that was cut.
pub(crate) const CUT_MARK: &str = "…";

/// Truncates `value` to at most `bytes_max` bytes of JSON text; also returns whether anything was cut. A limit under eight
/// bytes counts as eight.
pub fn truncate_value(value: &Value, bytes_max: usize) -> (Value, bool) {
    if json_length_within(value, bytes_max).is_some() {
        return (value.clone(), false);
    }
    (cut_value(value, bytes_max.max(8), 0), true)
}

/// A text of at most so many characters, cut with `…`.
pub fn truncate_to_chars(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}{CUT_MARK}", &text[..end]).into(),
        None => text.into(),
    }
}

/// The length of `value` as JSON text, in bytes.
pub fn json_length(value: &impl Serialize) -> usize {
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The length of `value` as JSON text, in bytes, or `None` if that is more than `max_bytes`. Does not look at the rest of
/// longer values.
fn json_length_within(value: &Value, max_bytes: usize) -> Option<usize> {
    let mut length = 0;
    match value {
        Value::String(text) => length = text_length_within(text, max_bytes)?,
        Value::Array(items) => {
            length += 2 + items.len().saturating_sub(1);
            for item in items {
                length += json_length_within(item, max_bytes.checked_sub(length)?)?;
            }
        }
        Value::Object(map) => {
            length += 2 + map.len().saturating_sub(1);
            for (key, value) in map {
                length += text_length_within(key, max_bytes.checked_sub(length)?)? + 1;
                length += json_length_within(value, max_bytes.checked_sub(length)?)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => length = json_length(value),
    }
    (length <= max_bytes).then_some(length)
}

fn text_length_within(text: &str, max_bytes: usize) -> Option<usize> {
    let is_too_long = text.len() + 2 > max_bytes;
    (!is_too_long).then(|| json_length(&text)).filter(|length| *length <= max_bytes)
}

/// Divides `max_bytes` fairly: small wants are met, the others share the rest evenly.
pub fn divide_fairly(wants: &[usize], max_bytes: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|&at| wants[at]);
    let (mut shares, mut remaining) = (vec![0; wants.len()], max_bytes);
    for (served_count, &at) in order.iter().enumerate() {
        let fair_share = remaining / (wants.len() - served_count);
        shares[at] = wants[at].min(fair_share);
        remaining -= shares[at];
    }
    shares
}

fn cut_value(value: &Value, max_bytes: usize, depth: usize) -> Value {
    match value {
        _ if json_length_within(value, max_bytes).is_some() => value.clone(),
        Value::String(text) => Value::String(cut_text(text, max_bytes)),
        Value::Array(items) if depth < SHOWN_DEPTH_MAX && max_bytes >= ITEM_BYTES_MIN => {
            cut_items(items, max_bytes, depth)
        }
        Value::Object(map) if depth < SHOWN_DEPTH_MAX && max_bytes >= ITEM_BYTES_MIN => {
            cut_fields(map, max_bytes, depth)
        }
        _ => CUT_MARK.into(),
    }
}

/// The longest beginning of `text` whose JSON text, with the mark behind it, has at most `max_bytes` bytes.
fn cut_text(text: &str, max_bytes: usize) -> String {
    let mut remaining = max_bytes.saturating_sub(2 + CUT_MARK.len());
    let fits = |c: &char| {
        let bytes = json_char_bytes(*c);
        let fits = bytes <= remaining;
        remaining = remaining.saturating_sub(bytes);
        fits
    };
    text.chars().take_while(fits).chain(CUT_MARK.chars()).collect()
}

/// The bytes of a character in JSON text.
pub fn json_char_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c.is_ascii_control() => 6,
        c => c.len_utf8(),
    }
}

/// The first items of a list that fit, and the number of those that are missing.
fn cut_items(items: &[Value], max_bytes: usize, depth: usize) -> Value {
    let mut remaining = max_bytes.saturating_sub(ITEM_BYTES_MIN);
    let mut shown_items = Vec::new();
    for item in items {
        let fits = json_length_within(item, remaining.saturating_sub(1)).is_some();
        if !fits && remaining < ITEM_BYTES_MIN {
            break;
        }
        let item = cut_value(item, remaining - 1, depth + 1);
        remaining = remaining.saturating_sub(json_length(&item) + 1);
        shown_items.push(item);
    }
    if shown_items.len() < items.len() {
        shown_items.push(format!("{CUT_MARK} {} more", items.len() - shown_items.len()).into());
    }
    Value::Array(shown_items)
}

/// All fields, with long ones cut; of very many fields the first ones.
fn cut_fields(map: &Map<String, Value>, max_bytes: usize, depth: usize) -> Value {
    let max_bytes = max_bytes.saturating_sub(ITEM_BYTES_MIN);
    let shown_count = map.len().min(max_bytes / ITEM_BYTES_MIN);
    let key_bytes = |key: &String| json_length(&Value::String(key.clone())) + 2;
    let wants: Vec<_> = map
        .iter()
        .take(shown_count)
        .map(|(key, value)| {
            // More than all that there is to divide counts as that.
            key_bytes(key) + json_length_within(value, max_bytes).unwrap_or(max_bytes)
        })
        .collect();
    let mut shown_fields = Map::new();
    for ((key, value), share) in map.iter().zip(divide_fairly(&wants, max_bytes)) {
        // A key that leaves no room for its value is not worth showing.
        let remaining = share.saturating_sub(key_bytes(key));
        if remaining >= 8 || json_length_within(value, remaining).is_some() {
            shown_fields.insert(key.clone(), cut_value(value, remaining, depth + 1));
        }
    }
    if shown_fields.len() < map.len() {
        shown_fields
            .insert(CUT_MARK.into(), format!("{} more", map.len() - shown_fields.len()).into());
    }
    Value::Object(shown_fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fitting_values_stay_unchanged() {
        let value = json!({ "summary": "done", "findings": [1, 2, 3] });
        assert_eq!(truncate_value(&value, json_length(&value)), (value.clone(), false));
        assert!(truncate_value(&value, json_length(&value) - 1).1);
    }

    #[test]
    fn the_short_fields_stay_whole_and_the_long_ones_are_cut() {
        let value = json!({
            "summary": "All three criteria hold.", "log": "x\n\"".repeat(5000), "findings": vec!["a finding"; 1000]
        });
        let (short, cut) = truncate_value(&value, 1000);
        assert!(cut && json_length(&short) <= 1000, "{short}");
        assert_eq!(short["summary"], value["summary"]);
        assert!(
            short["log"].as_str().is_some_and(|log| log.ends_with(CUT_MARK) && log.len() > 200),
            "{short}"
        );
        let findings = short["findings"].as_array().expect("a list");
        assert_eq!(findings[0], "a finding");
        let shown = findings.len() - 1;
        assert_eq!(findings[shown], format!("… {} more", 1000 - shown));
    }

    #[test]
    fn results_fit_the_byte_limit() {
        let deep = (0..200).fold(json!("x".repeat(100)), |inner, _| json!([inner]));
        let wide: Map<String, Value> =
            (0..5000).map(|at| (format!("key {at}"), json!(at))).collect();
        let controls = "\u{1}\u{7f}é\u{2028}\\".repeat(300);
        for value in
            [deep, Value::Object(wide), json!(controls), json!([[controls], { "a": controls }])]
        {
            for room in [8, 31, 32, 33, 64, 100, 1000, 5000] {
                let (short, _) = truncate_value(&value, room);
                assert!(json_length(&short) <= room, "{room}: {short}");
            }
        }
    }

    #[test]
    fn shares_are_fair() {
        assert_eq!(divide_fairly(&[10, 10], 30), [10, 10]);
        assert_eq!(divide_fairly(&[100, 2, 100], 30), [14, 2, 14]);
        assert!(divide_fairly(&[], 30).is_empty());
        assert_eq!(divide_fairly(&[5, 5, 5], 1), [0, 0, 1]);
    }
}
