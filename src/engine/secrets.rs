//! Secrets: known by name to everybody, and by value to attempts alone.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use midex_domain::{
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

    /// What a step works on with its secrets in their places, and what must not be seen of them. The cover of a secret that came
    /// in as data, from memory or an output, is refused: it would be sent in place of the secret.
    pub(super) fn fill(&self, input: &Rendered) -> Result<(Value, Mask), OperationFailure> {
        let sent = ["with", "body"].map(|part| input.value[part].to_string());
        let is_data = |name: &&String| {
            let cover = placeholder(name);
            let named = input.secrets.iter().filter(|place| place.name == **name);
            let there = sent.iter().map(|text| text.matches(&cover).count());
            there.sum::<usize>() > named.count()
        };
        if let Some(name) = self.names.iter().find(is_data) {
            let message = format!(
                "the secret `{name}` is not kept in memory and outputs: name it as `secrets.{name}` in the step that sends it"
            );
            let failure = OperationFailure::new("secret_not_allowed", message);
            return Err(failure.coded(FailureCode::SecretNotAllowed));
        }
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
