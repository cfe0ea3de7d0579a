//! The pattern of a branch that a step offers: `key:value`, or `key.nested:value`.

use serde_json::Value;

use crate::{error::Violation, schema::is_equal};

/// A path into an output, and the value that the output must have there.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputPattern {
    keys: Vec<String>,
    value: Value,
}

impl OutputPattern {
    /// Parses a pattern. Everything after the first `:` is the value: JSON if it parses as JSON, else a string.
    ///
    /// # Errors
    /// If the text could never match: without a `:`, with an empty key or value, or with white space around either. The
    /// violation expects the correction to make.
    pub fn parse(text: &str) -> Result<Self, Box<Violation>> {
        let fault = |message: String, hint: String| {
            let violation = Violation::new("", "pattern", message);
            Err(Box::new(violation.with_expected(hint)))
        };
        let Some((key, value)) = text.split_once(':') else {
            let message = format!("`{text}` does not say which value it is compared with");
            return fault(message, format!("write a key and a value: `{text}:true`"));
        };
        if key.trim() != key || value.trim() != value {
            let message = format!("`{text}` has white space around its key or its value");
            let hint = format!("write `{}:{}`", key.trim(), value.trim());
            return fault(message, hint);
        }
        if key.split('.').any(str::is_empty) {
            let message = format!("`{text}` does not name a key of the output");
            let hint = "write the key before the `:`, nested ones with `.`: `status.code:approved`";
            return fault(message, hint.to_owned());
        }
        if value.is_empty() {
            let message = format!("`{text}` has no value");
            return fault(message, format!("write `{key}:\"\"` for an empty text"));
        }
        Ok(Self {
            keys: key.split('.').map(str::to_owned).collect(),
            value: serde_json::from_str(value).unwrap_or_else(|_| value.into()),
        })
    }

    /// Whether the output has the value at the path. A missing key never matches, not even a pattern for `null`.
    pub fn matches(&self, output: &Value) -> bool {
        let mut current = output;
        for key in &self.keys {
            let child = match current {
                Value::Object(map) => map.get(key),
                Value::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
                _ => None,
            };
            let Some(child) = child else { return false };
            current = child;
        }
        is_equal(current, &self.value)
    }
}
