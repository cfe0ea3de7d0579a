//! Equality and numbers as JSON Schema defines them: `1` equals `1.0`, and the order of properties does not matter.

use std::{
    cmp::Ordering,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::{Number, Value};

use crate::document::child_values;

/// Whether two values are equal.
pub fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has_equal = |key, value| b.get(key).is_some_and(|other| is_equal(value, other));
            a.len() == b.len() && a.iter().all(|(key, value)| has_equal(key, value))
        }
        (a, b) => a == b,
    }
}

/// A hash that is the same for values that are [`is_equal`].
pub(super) fn hash_value(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Number(number) => match as_integer(number) {
            Some(whole) => whole.hash(&mut hasher),
            None => number.as_f64().unwrap_or(0.0).to_bits().hash(&mut hasher),
        },
        Value::Array(items) => {
            'a'.hash(&mut hasher);
            for item in items {
                hash_value(item).hash(&mut hasher);
            }
        }
        Value::Object(map) => {
            let hash_entry = |(key, value): (&String, &Value)| {
                let mut hasher = DefaultHasher::new();
                (key, hash_value(value)).hash(&mut hasher);
                hasher.finish()
            };
            'o'.hash(&mut hasher);
            map.iter().map(hash_entry).fold(0_u64, u64::wrapping_add).hash(&mut hasher);
        }
        Value::String(text) => text.hash(&mut hasher),
        Value::Bool(value) => value.hash(&mut hasher),
        Value::Null => {}
    }
    hasher.finish()
}

/// The measure of a value: the cost of its validation grows with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueSize {
    /// The number of values, where each name of a property counts as one.
    pub(super) values: u64,
    /// The bytes of all texts and names.
    pub(super) bytes: u64,
}

impl ValueSize {
    /// Measures a value.
    pub fn from_value(value: &Value) -> Self {
        let mut measure = Self::default();
        measure.add_value(value);
        measure
    }

    fn add_value(&mut self, value: &Value) {
        self.values += 1;
        self.bytes += value.as_str().map_or(0, str::len) as u64;
        for (name, value) in child_values(value) {
            self.values += u64::from(name.is_some());
            self.bytes += name.map_or(0, String::len) as u64;
            self.add_value(value);
        }
    }
}

/// The steps of traversing a value: one for each value in it, and more for long texts.
pub(super) fn traversal_steps(value: &Value) -> u64 {
    let count_part = |(name, value): (Option<&String>, &Value)| {
        name.map_or(0, |name| text_traversal_steps(name)) + traversal_steps(value)
    };
    text_traversal_steps(value.as_str().unwrap_or_default())
        + child_values(value).map(count_part).sum::<u64>()
}

/// The steps of traversing a text, or the name of a property.
pub(super) fn text_traversal_steps(text: &str) -> u64 {
    1 + text.len() as u64 / 64
}

/// The integer that a number equals, if it equals one: `3.0` does.
pub(super) fn as_integer(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from);
    exact.or_else(|| number.as_u64().map(i128::from)).or_else(|| {
        let float = number.as_f64()?;
        // Larger floats are always integers, and may not fit.
        let is_whole = float.fract() == 0.0 && float.abs() < 1e30;
        #[expect(clippy::cast_possible_truncation, reason = "it is an integer that fits")]
        is_whole.then_some(float as i128)
    })
}

/// Whether a number is an integer, however large.
pub(super) fn is_integer(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Compares two numbers.
pub(super) fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (as_integer(a), as_integer(b)) {
        return a.cmp(&b);
    }
    let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal)
}

/// Whether `number` is a multiple of `divisor` in decimal notation: 0.3 is a multiple of 0.1.
pub(super) fn is_multiple(number: &Number, divisor: &Number) -> bool {
    if let (Some(number), Some(divisor)) = (decimal_digits(number), decimal_digits(divisor)) {
        let scale = number.1.max(divisor.1);
        let to_scaled = |(digits, places): (i128, u32)| {
            let factor = 10_i128.checked_pow(scale - places)?;
            digits.checked_mul(factor)
        };
        if let (Some(number), Some(divisor)) = (to_scaled(number), to_scaled(divisor)) {
            return divisor != 0 && number % divisor == 0;
        }
    }
    let ratio = number.as_f64().unwrap_or(0.0) / divisor.as_f64().unwrap_or(1.0);
    ratio.is_finite() && ratio.fract() == 0.0
}

/// The digits of a number, and how many of them are behind the decimal point.
fn decimal_digits(number: &Number) -> Option<(i128, u32)> {
    if let Some(whole) = as_integer(number) {
        return Some((whole, 0));
    }
    let float = number.as_f64()?;
    if float.abs() < 1e-15 {
        return None;
    }
    let text = float.to_string();
    let (whole, rest) = text.split_once('.')?;
    let digits = format!("{whole}{rest}").parse().ok()?;
    Some((digits, u32::try_from(rest.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equality_ignores_notation() {
        for (a, b, one) in [
            (json!(1), json!(1.0), true),
            (json!(u64::MAX), json!(u64::MAX), true),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_f64), false),
            (json!(u64::MAX), json!(18_446_744_073_709_551_616_f64), false),
            (json!(-3), json!(-3.0), true),
            (json!(1e29), json!(1e29), true),
            (json!({ "a": 1, "b": [2] }), json!({ "b": [2.0], "a": 1 }), true),
            (json!([1, 2]), json!([2, 1]), false),
            (json!(0), json!(false), false),
            (json!("1"), json!(1), false),
        ] {
            assert_eq!(is_equal(&a, &b), one, "{a} {b}");
            assert!(!one || hash_value(&a) == hash_value(&b), "{a} {b}");
        }
    }

    #[test]
    fn multiples_use_decimal_notation() {
        let number = |value: Value| value.as_number().cloned().expect("a number");
        let is_multiple = |a, b| is_multiple(&number(a), &number(b));
        assert!(is_multiple(json!(0.3), json!(0.1)));
        assert!(is_multiple(json!(0.0075), json!(0.0001)));
        assert!(!is_multiple(json!(0.00751), json!(0.0001)));
        assert!(is_multiple(json!(1e300), json!(0.5)));
        assert!(!is_multiple(json!(7), json!(2)));
        assert!(is_multiple(json!(-6), json!(2)));
    }
}
