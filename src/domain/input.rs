//! What a workflow asks to be told at its start: the `inputs` of a manifest. An [`Input`] says what its value
//! may be; [`Inputs`] judge what a caller gives, all of it at once, and fill in defaults.

mod default;
mod output;
mod provider;
mod report;
mod resolve;
mod schema;

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

pub use self::{
    default::{DefaultFrom, DefaultSources, InputDefault, read_text},
    provider::{ProviderOutcome, ProviderResolution, ProviderSource, Select},
    report::{InputReport, InputStatus},
    resolve::{Rejected, Taken},
};
pub use self::{
    output::OutputOf,
    provider::{ON_MISSING, inputs_of},
};
use super::{
    id::{InputName, WorkflowName},
    schema::Schema,
};

/// The types that an input may have: those of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputType {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// A mapping.
    Object,
}

impl InputType {
    /// Their names, in their order.
    pub const NAMES: &[&str] = &["string", "integer", "number", "boolean", "array", "object"];

    /// Its name, which is JSON Schema's too.
    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One input of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Its name, by which it is given and referred to.
    pub key: InputName,
    /// What people call it (`name` in the manifest).
    #[serde(default, alias = "name", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it is, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its type, where it declares one.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<InputType>,
    /// Whether it may be left out although it has no default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The values that it may have, those in both `enum` and `validate.enum`; any where empty.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Value>,
    /// What else its value must satisfy.
    #[serde(default, skip_serializing_if = "Validate::is_empty")]
    pub validate: Validate,
    /// Where its value comes from when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<InputDefault>,
    /// What an empty field shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// A word of help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What a value may look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// The operation that lists the choices: a catalog and an operation of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which fields of what it lists count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<Select>,
    /// What it is given, by argument.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub provider_args: Map<String, Value>,
    /// The same for arguments that `provider_args` does not name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub depends_on: Map<String, Value>,
}

/// What a value must satisfy beyond its type. Lengths count Unicode characters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validate {
    /// A regular expression that is found in it; anchored only where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The fewest characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// The most characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// The least number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The greatest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
}

impl Validate {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Input {
    /// The type that its value must have: the declared one, else the one that its rules are about.
    pub fn effective_type(&self) -> Option<InputType> {
        let Validate {
            pattern,
            min_length,
            max_length,
            min,
            max,
        } = &self.validate;
        let about_text = pattern.is_some() || min_length.is_some() || max_length.is_some();
        let about_numbers = min.is_some() || max.is_some();
        self.kind
            .or(about_text.then_some(InputType::String))
            .or(about_numbers.then_some(InputType::Number))
    }

    /// Whether a start must give it.
    pub fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

/// The inputs of a workflow, in the order in which it declares them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Input>", into = "Vec<Input>")]
pub struct Inputs {
    list: Vec<Input>,
    /// What each value is held to, compiled when first asked for.
    compiled: Arc<OnceLock<Vec<Option<Schema>>>>,
}

/// Equal are two that say the same.
impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl From<Vec<Input>> for Inputs {
    fn from(list: Vec<Input>) -> Self {
        Self {
            list,
            compiled: Arc::default(),
        }
    }
}

impl From<Inputs> for Vec<Input> {
    fn from(inputs: Inputs) -> Self {
        inputs.list
    }
}

impl Inputs {
    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.list.iter()
    }

    /// Whether a start that gives `given` takes a default from what ran before.
    pub fn need_history(&self, given: Option<&Value>) -> bool {
        let defaults = self
            .left_open(given)
            .filter_map(|input| input.default.as_ref());
        let mut sources = defaults.map(|default| default.from);
        sources.any(|from| from == DefaultFrom::History)
    }

    /// The workflows whose last outputs a start that gives `given` takes defaults from.
    pub fn needed_outputs(&self, given: Option<&Value>) -> Vec<WorkflowName> {
        let outputs = self.left_open(given).filter_map(Input::output_of);
        outputs.map(|output| output.workflow).collect()
    }

    /// The inputs that a start that gives `given` leaves to their defaults.
    fn left_open(&self, given: Option<&Value>) -> impl Iterator<Item = &Input> {
        self.list.iter().filter(move |input| {
            let value = given.and_then(|given| given.get(input.key.as_str()));
            value.is_none_or(Value::is_null)
        })
    }

    /// The one of this name, with its place among them.
    fn find(&self, name: &str) -> Option<(usize, &Input)> {
        let mut all = self.list.iter().enumerate();
        all.find(|(_, input)| input.key.as_str() == name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|input| input.key.as_str())
    }
}
