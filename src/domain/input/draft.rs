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
