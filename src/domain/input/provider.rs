//! Providers of inputs. A provider is an operation that returns a list of objects, from which a person chooses one. Its
//! arguments are literals or come from other inputs. This module resolves the arguments; the server calls the operation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Choices, Input, Inputs};
use crate::expression::{EvaluationContext, Expression, Reference, ReferenceRoot, Template};

/// The reaction to a provider argument without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnMissing {
    Prompt,
    Skip,
    Fail,
}

/// The values of `on_missing` in manifests.
pub const ON_MISSING_VALUES: &[&str] = &["prompt", "skip", "fail"];

/// A provider argument that is bound to an input: `{from_input: owner, path: id}`.
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
    /// Reads a binding: a mapping with `from_input`. Any other value is a literal.
    fn parse_binding(argument_value: &Value) -> Option<Self> {
        argument_value.get("from_input")?;
        serde_json::from_value(argument_value.clone()).ok()
    }

    fn to_template_text(&self) -> String {
        let name = Value::from(self.from_input.as_str());
        let path = self.path.as_deref().unwrap_or_default();
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        format!("${{{{ inputs[{name}]{dot}{path} }}}}")
    }

    fn on_missing(&self) -> OnMissing {
        let default = match self.required {
            Some(true) => OnMissing::Fail,
            _ => OnMissing::Prompt,
        };
        self.on_missing.unwrap_or(default)
    }
}

/// The template that yields the value of a provider argument.
fn parse_template(argument_value: &Value) -> Option<Template> {
    let template_text = Binding::parse_binding(argument_value)
        .map(|binding| Value::from(binding.to_template_text()));
    Template::parse(template_text.as_ref().unwrap_or(argument_value)).ok()
}

/// The names of the inputs that a provider argument depends on; `None` if the argument does not parse.
pub fn find_argument_inputs(argument_value: &Value) -> Option<BTreeSet<String>> {
    let template = parse_template(argument_value)?;
    let input_references = template.references().iter();
    let input_references =
        input_references.filter(|reference| reference.root == ReferenceRoot::Inputs);
    let names = input_references
        .filter_map(|reference| Some(reference.path.first()?.as_key().into_owned()));
    Some(names.collect())
}

/// The result of resolving a provider argument, or of listing the choices of an input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ProviderOutcome {
    /// The argument has a value, or the choices of an optional input are listed.
    Resolved {
        /// The value of the argument.
        #[serde(skip_serializing_if = "Value::is_null")]
        value: Value,
    },
    /// A person must provide the value.
    Prompt {
        /// Whether the provider requires the argument, or the workflow the input.
        required: bool,
        /// The reason why it has no value.
        reason: String,
        /// The path that has no value.
        path: String,
    },
    /// The argument is omitted, or the provider is not called at all.
    Skip {
        /// The reason.
        reason: String,
    },
    /// The argument cannot be resolved, or the choices cannot be listed.
    Error {
        /// The reason.
        message: String,
    },
}

/// The origin of a provider argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderSource {
    /// The server resolves it.
    Automatic,
    /// A person provides it.
    Manual,
}

/// A provider argument with the result of resolving it, or an input with the result of listing its choices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderResolution {
    /// The input whose choices the provider lists.
    pub input: String,
    /// The name of the argument; `None` for the choices of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// The origin of its value.
    pub source: ProviderSource,
    /// The result of resolving it.
    pub outcome: ProviderOutcome,
    /// The choices of the input, if they are listed.
    #[serde(flatten)]
    pub choices: Option<Choices>,
}

impl ProviderResolution {
    /// The outcome for an argument, or for the choices of the input if there is no argument.
    pub fn new(input: &Input, argument: Option<&str>, outcome: ProviderOutcome) -> Self {
        let source = match outcome {
            ProviderOutcome::Prompt { .. } => ProviderSource::Manual,
            _ => ProviderSource::Automatic,
        };
        let (input, argument) = (input.key.to_string(), argument.map(str::to_owned));
        Self { input, argument, source, outcome, choices: None }
    }

    /// Whether a person must act before the provider can be called.
    pub fn needs_person(&self) -> bool {
        let outcome = &self.outcome;
        matches!(outcome, ProviderOutcome::Prompt { .. } | ProviderOutcome::Error { .. })
    }
}

impl Input {
    /// The arguments of the provider. `depends_on` applies to arguments that `provider_args` does not contain.
    fn provider_arguments(&self) -> impl Iterator<Item = (&String, &Value)> {
        let is_only_dependency = |name: &String| !self.provider_args.contains_key(name);
        let others = self.depends_on.iter().filter(move |(name, _)| is_only_dependency(name));
        self.provider_args.iter().chain(others)
    }

    /// The names of the inputs that its choices depend on.
    pub fn dependencies(&self) -> BTreeSet<String> {
        let input_names = self
            .provider_arguments()
            .filter_map(|(_, argument_value)| find_argument_inputs(argument_value));
        input_names.flatten().collect()
    }

    /// The outcome if the input has a value: no choice is needed.
    fn known_value_outcome(&self, known: &Map<String, Value>) -> Option<ProviderOutcome> {
        known.get(self.key.as_str()).filter(|value| !value.is_null())?;
        let reason = format!("`{}` has a value, so its provider is not asked", self.key);
        Some(ProviderOutcome::Skip { reason })
    }

    /// The outcome if the choices are listed: a required input must be given one of them.
    pub fn choosing_outcome(&self) -> ProviderOutcome {
        if self.optional {
            return ProviderOutcome::Resolved { value: Value::Null };
        }
        let reason = format!("`{}` has no value: give one of the choices", self.key);
        ProviderOutcome::Prompt { required: true, reason, path: format!("inputs.{}", self.key) }
    }

    /// The arguments with which the provider lists the choices, from the resolutions of all arguments. An argument that
    /// has no value and is not required is left out.
    ///
    /// # Errors
    /// Why the provider is not called: the input has a value, or an argument must be provided first.
    pub fn provider_call_arguments(
        &self,
        known: &Map<String, Value>,
        resolutions: &[ProviderResolution],
    ) -> Result<Map<String, Value>, ProviderOutcome> {
        if let Some(outcome) = self.known_value_outcome(known) {
            return Err(outcome);
        }
        let mut arguments = Map::new();
        for resolution in resolutions.iter().filter(|one| one.input == self.key.as_str()) {
            let name = resolution.argument.clone().unwrap_or_default();
            match resolution.outcome.clone() {
                ProviderOutcome::Resolved { value } => drop(arguments.insert(name, value)),
                ProviderOutcome::Prompt { required: false, .. } | ProviderOutcome::Skip { .. } => {}
                outcome => return Err(outcome),
            }
        }
        Ok(arguments)
    }

    /// Resolves an argument of the provider. `is_required` says whether the provider requires it.
    fn resolve_argument(
        &self,
        (argument, argument_value): (&str, &Value),
        known: &Map<String, Value>,
        is_required: bool,
    ) -> ProviderOutcome {
        let Some(template) = parse_template(argument_value) else {
            let message = format!("what `{argument}` is given cannot be read");
            return ProviderOutcome::Error { message };
        };
        let inputs = known.clone();
        let context = EvaluationContext { inputs, ..EvaluationContext::default() };
        let is_missing = |reference: &&Reference| {
            !reference.is_guarded && !has_value_at_path(reference, &context)
        };
        let path = match template.references().iter().find(is_missing) {
            Some(missing) => missing.to_string(),
            None => match template.render(&context) {
                Ok(Value::Null) => format!("inputs.{}", self.key),
                Ok(value) => return ProviderOutcome::Resolved { value },
                Err(fault) => {
                    return ProviderOutcome::Error { message: fault.message };
                }
            },
        };
        let reason = format!("`{path}` has no value");
        let binding = Binding::parse_binding(argument_value);
        let required = binding.as_ref().and_then(|binding| binding.required);
        // If no choice is needed, nothing is asked for.
        if let Some(outcome) = self.known_value_outcome(known) {
            return outcome;
        }
        match binding.map_or(OnMissing::Prompt, |binding| binding.on_missing()) {
            OnMissing::Skip => ProviderOutcome::Skip { reason },
            OnMissing::Fail => ProviderOutcome::Error { message: reason },
            OnMissing::Prompt => {
                ProviderOutcome::Prompt { required: required.unwrap_or(is_required), reason, path }
            }
        }
    }
}

/// Whether a path leads to a value other than null.
fn has_value_at_path(reference: &Reference, context: &EvaluationContext) -> bool {
    let value = Expression::parse(&reference.to_string()).map(|path| path.evaluate(context));
    matches!(value, Ok(Ok(value)) if !value.is_null())
}

impl Inputs {
    /// Resolves every argument of every provider with the known inputs. `needs(provider, argument)` says whether a
    /// provider requires an argument.
    pub fn resolve_provider_arguments(
        &self,
        known: &Map<String, Value>,
        is_argument_required: impl Fn(&str, &str) -> bool,
    ) -> Vec<ProviderResolution> {
        let mut resolutions = Vec::new();
        for input in self.iter() {
            let Some(provider) = &input.provider else {
                continue;
            };
            for (argument, argument_value) in input.provider_arguments() {
                let is_required = is_argument_required(provider, argument);
                let outcome =
                    input.resolve_argument((argument, argument_value), known, is_required);
                resolutions.push(ProviderResolution::new(input, Some(argument), outcome));
            }
        }
        resolutions
    }
}
