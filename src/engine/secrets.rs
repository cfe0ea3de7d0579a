//! Secrets. Their names are public, and only attempts get their values.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use midex_domain::{
    FailureCode, SecretMask,
    execution::{EffectOutput, OperationFailure},
    expression::{RenderedValue, SecretPlace, secret_placeholder},
};

/// The result of an attempt.
pub(super) type AttemptResult = Result<EffectOutput, OperationFailure>;

/// Secrets by name. Cheap to clone. `Debug` shows only the names.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Arc<BTreeMap<String, String>>,
    names: Arc<[String]>,
}

impl FromIterator<(String, String)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        let values: BTreeMap<_, _> = entries.into_iter().collect();
        Self { names: values.keys().cloned().collect(), values: Arc::new(values) }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names.iter()).finish()
    }
}

impl Secrets {
    /// The names of the secrets, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The input of a step with its secrets filled in, and the mask that hides them in its outcome. Fails if the
    /// placeholder of a secret came in as data, from memory or an output: the placeholder would be sent in place of the
    /// secret.
    pub(super) fn fill_secrets(
        &self,
        input: &RenderedValue,
    ) -> Result<(Value, SecretMask), OperationFailure> {
        let sent_texts = ["with", "body"].map(|part| input.value[part].to_string());
        let is_data = |name: &&String| {
            let placeholder = secret_placeholder(name);
            let places = input.secrets.iter().filter(|place| place.name == **name);
            let match_counts = sent_texts.iter().map(|text| text.matches(&placeholder).count());
            match_counts.sum::<usize>() > places.count()
        };
        if let Some(name) = self.names.iter().find(is_data) {
            let message = format!(
                "the secret `{name}` is not kept in memory and outputs: name it as `secrets.{name}` in the step that sends it"
            );
            let failure = OperationFailure::new("secret_not_allowed", message);
            return Err(failure.with_code(FailureCode::SecretNotAllowed));
        }
        let mask = build_mask(self, &input.secrets);
        let filled = input.fill_secrets(|name| self.values.get(name).cloned());
        filled.map(|value| (value, mask)).map_err(|name| missing_secret_failure(&name))
    }
}

fn missing_secret_failure(name: &str) -> OperationFailure {
    OperationFailure::new("secret_missing", format!("there is no secret `{name}`"))
        .with_code(FailureCode::SecretMissing)
}

/// The mask of the secrets that an attempt was given.
fn build_mask(secrets: &Secrets, places: &[SecretPlace]) -> SecretMask {
    let replacements = places.iter().filter_map(|place| {
        let value = secrets.values.get(&place.name)?;
        Some((value.clone(), secret_placeholder(&place.name)))
    });
    replacements.collect()
}

/// Replaces secrets in the outcome with their placeholders.
pub(super) fn mask_outcome(outcome: AttemptResult, mask: &SecretMask) -> AttemptResult {
    if mask.is_empty() {
        return outcome;
    }
    match outcome {
        Ok(output) => Ok(output.with_secrets_masked(mask)),
        Err(failure) => Err(failure.with_secrets_masked(mask)),
    }
}
