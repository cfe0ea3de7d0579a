//! Secrets: known by name to everybody, and by value to attempts alone.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use crate::{
    domain::{
        FailureCode,
        execution::OperationFailure,
        expression::{Rendered, SecretPlace, placeholder},
    },
    limits,
};

/// What an attempt comes to.
pub(super) type AttemptResult = Result<Value, OperationFailure>;

/// Secrets by name. Cheap to clone, and shown without their values.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Arc<BTreeMap<String, String>>,
    names: Arc<[String]>,
}

impl FromIterator<(String, String)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        let values: BTreeMap<_, _> = entries.into_iter().collect();
        Self {
            names: values.keys().cloned().collect(),
            values: Arc::new(values),
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names.iter()).finish()
    }
}

impl Secrets {
    /// Their names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What a step works on with its secrets in their places, and what must not be seen of them.
    pub(super) fn fill(&self, input: &Rendered) -> Result<(Value, Mask), OperationFailure> {
        let mask = Mask::of(self, &input.secrets);
        let filled = input.fill(|name| self.values.get(name).cloned());
        filled
            .map(|value| (value, mask))
            .map_err(|name| missing(&name))
    }
}

fn missing(name: &str) -> OperationFailure {
    OperationFailure {
        code: Some(FailureCode::SecretMissing.into()),
        ..OperationFailure::new("secret_missing", format!("there is no secret `{name}`"))
    }
}

/// Secrets that an attempt was given, so that nothing of them is kept where the other side repeats them.
#[derive(Default)]
pub(super) struct Mask(Vec<(String, String)>);

impl Mask {
    fn of(secrets: &Secrets, places: &[SecretPlace]) -> Self {
        let mut given: Vec<_> = places
            .iter()
            .filter_map(|place| {
                let value = secrets.values.get(&place.name)?;
                let is_telling = value.len() >= limits::SECRET_COVERED_BYTES_MIN;
                is_telling.then(|| (value.clone(), placeholder(&place.name)))
            })
            .collect();
        // One that holds another goes first.
        given.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        given.dedup();
        Self(given)
    }

    /// The outcome with placeholders where it repeats a secret.
    pub(super) fn cover(&self, outcome: AttemptResult) -> AttemptResult {
        if self.0.is_empty() {
            return outcome;
        }
        match outcome {
            Ok(mut value) => {
                self.cover_value(&mut value);
                Ok(value)
            }
            Err(failure) => Err(OperationFailure {
                code: failure.code.map(|code| self.covered(&code)),
                message: self.covered(&failure.message),
                ..failure
            }),
        }
    }

    fn cover_value(&self, value: &mut Value) {
        match value {
            Value::String(text) if self.is_in(text) => *text = self.covered(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.cover_value(item)),
            Value::Object(map) => {
                if map.keys().any(|key| self.is_in(key)) {
                    let entries = std::mem::take(map).into_iter();
                    *map = entries
                        .map(|(key, value)| (self.covered(&key), value))
                        .collect();
                }
                map.values_mut().for_each(|value| self.cover_value(value));
            }
            _ => {}
        }
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|(secret, _)| text.contains(secret))
    }

    fn covered(&self, text: &str) -> String {
        let cover = |text: String, (secret, placeholder): &(String, String)| {
            text.replace(secret, placeholder)
        };
        self.0.iter().fold(text.to_owned(), cover)
    }
}
