//! The provider of an input: an operation that answers a list of objects, of which a person chooses one. What it is given is
//! written down or comes from other inputs. Nothing is called here.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Input, Inputs};
use crate::expression::{Expression, Reference, Root, Roots, Template};

/// Which fields of the objects count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Select {
    /// The one that becomes the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_field: Option<String>,
    /// The one that a person reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_field: Option<String>,
    /// The one that tells two objects apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_field: Option<String>,
}

/// What happens where an argument of a provider has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnMissing {
    Prompt,
    Skip,
    Fail,
}

/// The words for that.
pub const ON_MISSING: &[&str] = &["prompt", "skip", "fail"];

/// An argument of a provider that is bound to an input: `{from_input: owner, path: id}`.
#[derive(Clone, Debug, Deserialize)]
struct Binding {
    from_input: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    required: Option<bool>,
    #[serde(default)]
    on_missing: Option<OnMissing>,
}

impl Binding {
    /// A mapping that names an input is one; any other value stands for itself.
    fn read(written: &Value) -> Option<Self> {
        written.get("from_input")?;
        serde_json::from_value(written.clone()).ok()
    }

    fn expression(&self) -> String {
        let name = Value::from(self.from_input.as_str());
        let path = self.path.as_deref().unwrap_or_default();
        let dot = if path.is_empty() || path.starts_with('[') {
            ""
        } else {
            "."
        };
        format!("${{{{ inputs[{name}]{dot}{path} }}}}")
    }

    fn on_missing(&self) -> OnMissing {
        let usual = match self.required {
            Some(true) => OnMissing::Fail,
            _ => OnMissing::Prompt,
        };
        self.on_missing.unwrap_or(usual)
    }
}

/// What an argument of a provider is worked out by.
fn template(written: &Value) -> Option<Template> {
    let bound = Binding::read(written).map(|binding| Value::from(binding.expression()));
    Template::parse(bound.as_ref().unwrap_or(written)).ok()
}

/// The inputs that an argument of a provider is worked out from; `None` where it cannot be read.
pub fn inputs_of(written: &Value) -> Option<BTreeSet<String>> {
    let template = template(written)?;
    let of_inputs = template.references().iter();
    let of_inputs = of_inputs.filter(|reference| reference.root == Root::Inputs);
    let names = of_inputs.filter_map(|reference| Some(reference.path.first()?.key().into_owned()));
    Some(names.collect())
}

/// What becomes of an argument of a provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ProviderOutcome {
    /// It has a value.
    Resolved {
        /// The value.
        value: Value,
    },
    /// Somebody must give it.
    Prompt {
        /// Whether the provider cannot do without it.
        required: bool,
        /// Why it has none.
        reason: String,
        /// Where it would come from.
        path: String,
    },
    /// The provider is asked without it, or not at all.
    Skip {
        /// Why.
        reason: String,
    },
    /// It cannot be worked out.
    Error {
        /// Why.
        message: String,
    },
}

/// Who an argument of a provider comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderSource {
    /// It is worked out.
    Automatic,
    /// A person gives it.
    Manual,
}

/// An argument of a provider, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderResolution {
    /// The input whose choices the provider has.
    pub input: String,
    /// The argument.
    pub argument: String,
    /// Who it comes from.
    pub source: ProviderSource,
    /// What becomes of it.
    pub outcome: ProviderOutcome,
}

impl ProviderResolution {
    /// Whether somebody must do something before the provider can be asked.
    pub fn is_open(&self) -> bool {
        let outcome = &self.outcome;
        matches!(
            outcome,
            ProviderOutcome::Prompt { .. } | ProviderOutcome::Error { .. }
        )
    }
}

impl Input {
    /// What its provider is given, by argument. `depends_on` counts where `provider_args` is silent.
    fn bindings(&self) -> impl Iterator<Item = (&String, &Value)> {
        let is_silent = |name: &String| !self.provider_args.contains_key(name);
        let others = self
            .depends_on
            .iter()
            .filter(move |(name, _)| is_silent(name));
        self.provider_args.iter().chain(others)
    }

    /// The inputs that its choices depend on, each once.
    pub fn dependencies(&self) -> BTreeSet<String> {
        let of_each = self
            .bindings()
            .filter_map(|(_, written)| inputs_of(written));
        of_each.flatten().collect()
    }

    /// What becomes of an argument of its provider. `is_needed` says whether the provider cannot do without it.
    fn outcome(
        &self,
        (argument, written): (&str, &Value),
        known: &Map<String, Value>,
        is_needed: bool,
    ) -> ProviderOutcome {
        let Some(template) = template(written) else {
            let message = format!("what `{argument}` is given cannot be read");
            return ProviderOutcome::Error { message };
        };
        let inputs = known.clone();
        let roots = Roots {
            inputs,
            ..Roots::default()
        };
        let is_missing = |reference: &&Reference| !reference.is_guarded && !has(reference, &roots);
        let path = match template.references().iter().find(is_missing) {
            Some(missing) => missing.to_string(),
            None => match template.render(&roots) {
                Ok(Value::Null) => format!("inputs.{}", self.key),
                Ok(value) => return ProviderOutcome::Resolved { value },
                Err(fault) => {
                    return ProviderOutcome::Error {
                        message: fault.message,
                    };
                }
            },
        };
        let reason = format!("`{path}` has no value");
        let binding = Binding::read(written);
        let required = binding.as_ref().and_then(|binding| binding.required);
        match binding.map_or(OnMissing::Prompt, |binding| binding.on_missing()) {
            // There is nothing to choose, so nobody is asked for what the choices depend on.
            _ if known
                .get(self.key.as_str())
                .is_some_and(|value| !value.is_null()) =>
            {
                let reason = format!("`{}` has a value, so its provider is not asked", self.key);
                ProviderOutcome::Skip { reason }
            }
            OnMissing::Skip => ProviderOutcome::Skip { reason },
            OnMissing::Fail => ProviderOutcome::Error { message: reason },
            OnMissing::Prompt => ProviderOutcome::Prompt {
                required: required.unwrap_or(is_needed),
                reason,
                path,
            },
        }
    }
}

/// Whether a path leads to a value; null is none.
fn has(reference: &Reference, roots: &Roots) -> bool {
    let value = Expression::parse(&reference.to_string()).map(|path| path.evaluate(roots));
    matches!(value, Ok(Ok(value)) if !value.is_null())
}

impl Inputs {
    /// What becomes of each argument of each provider with the inputs that are known. `needs` says whether an argument of a
    /// provider is one that it cannot do without.
    pub fn provider_resolutions(
        &self,
        known: &Map<String, Value>,
        needs: impl Fn(&str, &str) -> bool,
    ) -> Vec<ProviderResolution> {
        let mut resolutions = Vec::new();
        for input in self.iter() {
            let Some(provider) = &input.provider else {
                continue;
            };
            for (argument, written) in input.bindings() {
                let is_needed = needs(provider, argument);
                let outcome = input.outcome((argument, written), known, is_needed);
                let source = match outcome {
                    ProviderOutcome::Prompt { .. } => ProviderSource::Manual,
                    _ => ProviderSource::Automatic,
                };
                let (input, argument) = (input.key.to_string(), argument.clone());
                resolutions.push(ProviderResolution {
                    input,
                    argument,
                    source,
                    outcome,
                });
            }
        }
        resolutions
    }
}
