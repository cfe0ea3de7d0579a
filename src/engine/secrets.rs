//! Secrets: known by name to everybody, and by value to attempts alone.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use crate::domain::{
    FailureCode, Mask,
    execution::{Brought, OperationFailure},
    expression::{Rendered, SecretPlace, placeholder},
};

/// What an attempt comes to.
pub(super) type AttemptResult = Result<Brought, OperationFailure>;

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
        let mask = mask(self, &input.secrets);
        let filled = input.fill(|name| self.values.get(name).cloned());
        filled
            .map(|value| (value, mask))
            .map_err(|name| missing(&name))
    }
}

fn missing(name: &str) -> OperationFailure {
    OperationFailure::new("secret_missing", format!("there is no secret `{name}`"))
        .coded(FailureCode::SecretMissing)
}

/// What must not be seen of the secrets that an attempt was given.
fn mask(secrets: &Secrets, places: &[SecretPlace]) -> Mask {
    let given = places.iter().filter_map(|place| {
        let value = secrets.values.get(&place.name)?;
        Some((value.clone(), placeholder(&place.name)))
    });
    given.collect()
}

/// The outcome with placeholders where it repeats a secret.
pub(super) fn covered(outcome: AttemptResult, mask: &Mask) -> AttemptResult {
    if mask.is_empty() {
        return outcome;
    }
    match outcome {
        Ok(brought) => Ok(brought.covered(mask)),
        Err(failure) => Err(failure.covered(mask)),
    }
}
