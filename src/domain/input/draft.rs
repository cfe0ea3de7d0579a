//! What a manifest says about its inputs, with the place of everything it says.

use serde_json::Number;

use crate::domain::{
    draft::Field,
    finding::Place,
    node::{At, Node},
};

/// What a manifest says about one input.
#[derive(Clone, Debug, PartialEq)]
pub struct InputDraft {
    /// Its name: the key, with its path and place.
    pub key: At<String>,
    /// Where the mapping begins.
    pub place: Place,
    /// What people call it.
    pub label: Field<String>,
    /// What it is.
    pub description: Field<String>,
    /// Its type.
    pub kind: Field<String>,
    /// The values that it may have.
    pub one_of: Field<Vec<At<Node>>>,
    /// What else its value must satisfy.
    pub validate: Field<ValidateDraft>,
    /// Whether it may be left out.
    pub optional: Field<bool>,
    /// Where its value comes from when it is not given.
    pub default: Field<DefaultDraft>,
    /// What an empty field shows.
    pub placeholder: Field<String>,
    /// A word of help.
    pub hint: Field<String>,
    /// What a value may look like.
    pub example: Field<Node>,
    /// Where candidates come from.
    pub provider: Field<ProviderDraft>,
    /// What of a candidate is the value.
    pub select: Field<SelectDraft>,
    /// How many candidates are chosen.
    pub mode: Field<String>,
    /// How several are made one text.
    pub join: Field<JoinDraft>,
    /// How long candidates are kept.
    pub cache_ttl_sec: Field<u64>,
    /// What to do where the provider fails.
    pub on_error: Field<String>,
    /// What the provider is asked with.
    pub provider_args: Field<Vec<ArgumentDraft>>,
    /// What must be known before.
    pub depends_on: Field<Vec<ArgumentDraft>>,
}

/// What a manifest says under `validate`.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidateDraft {
    /// Whether it must be given.
    pub required: Field<bool>,
    /// The values that it may have.
    pub one_of: Field<Vec<At<Node>>>,
    /// A regular expression.
    pub pattern: Field<String>,
    /// The fewest characters.
    pub min_length: Field<u64>,
    /// The most characters.
    pub max_length: Field<u64>,
    /// The least number.
    pub min: Field<Number>,
    /// The greatest number.
    pub max: Field<Number>,
}

/// What a manifest says under `default`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultDraft {
    /// Where it begins.
    pub place: Place,
    /// Where the default comes from.
    pub from: Field<String>,
    /// The value, or what names it.
    pub value: Field<Node>,
}

/// What a manifest says under `provider`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderDraft {
    /// Where it begins.
    pub place: Place,
    /// The operation.
    pub id: Field<String>,
    /// The field of its answer.
    pub field: Field<String>,
}

/// What a manifest says under `select`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectDraft {
    /// The value.
    pub value_field: Field<String>,
    /// What people are shown.
    pub display_field: Field<String>,
    /// What tells candidates apart.
    pub id_field: Field<String>,
}

/// What a manifest says under `join`.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinDraft {
    /// Where it begins.
    pub place: Place,
    /// What stands between them.
    pub separator: Field<String>,
    /// What stands around each.
    pub wrap_each: Field<String>,
}

/// One argument of a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentDraft {
    /// Its name, with its path and place.
    pub key: At<String>,
    /// What it is given.
    pub value: ArgumentValueDraft,
}

/// What an argument is given.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentValueDraft {
    /// Something of the wrong type: there is a finding about it already.
    Broken,
    /// A text, which may hold templates.
    Text(At<String>),
    /// Something of another input or of a step.
    Binding(Box<BindingDraft>),
}

/// Where an argument finds its value.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingDraft {
    /// Where it begins.
    pub place: Place,
    /// In the output of this step.
    pub from_step: Field<String>,
    /// In this input.
    pub from_input: Field<String>,
    /// Where in it.
    pub path: Field<String>,
    /// Whether something must be there.
    pub required: Field<bool>,
    /// What to do where nothing is.
    pub on_missing: Field<String>,
}
