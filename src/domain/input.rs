//! The inputs of a workflow (`inputs` of a manifest). An [`Input`] declares what its value may be; [`Inputs`] validate
//! all values of a caller at once and fill in defaults.

mod choice;
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
    choice::{Choice, Choices, SelectedFields},
    default::{DefaultFrom, DefaultSources, InputDefault, parse_typed_text},
    provider::{ProviderOutcome, ProviderResolution, ProviderSource},
    report::{InputReport, InputStatus},
    resolve::{AnswerViolation, ResolvedAnswers},
};
pub use self::{
    output::WorkflowOutputPath,
    provider::{ON_MISSING_VALUES, find_argument_inputs},
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
    /// The label for people (`name` in the manifest).
    #[serde(default, alias = "name", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A one-sentence description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The declared type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<InputType>,
    /// Whether it may be left out although it has no default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The allowed values: the intersection of `enum` and `validate.enum`. Empty means any value.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Value>,
    /// What else its value must satisfy.
    #[serde(default, skip_serializing_if = "InputRules::is_empty")]
    pub validate: InputRules,
    /// Where its value comes from when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<InputDefault>,
    /// The placeholder of an empty form field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// A hint for the person who fills in the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// An example value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// The provider: the operation that lists the choices, as a catalog name and an operation name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The fields of the listed objects that are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<SelectedFields>,
    /// The arguments of the provider by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub provider_args: Map<String, Value>,
    /// Further arguments of the provider. Those in `provider_args` take precedence.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub depends_on: Map<String, Value>,
    /// How many seconds a list of choices is used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ttl_sec: Option<u32>,
    /// Further keywords of JSON Schema. A workflow declares none; a call of a utility tool may.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub schema: Map<String, Value>,
}

/// What a value must satisfy beyond its type. Lengths count Unicode characters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputRules {
    /// A regular expression that must match somewhere in the value. It is anchored only if it contains anchors.
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

impl InputRules {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Input {
    /// The required type of the value: the declared one, else the type that the rules of `validate` apply to.
    pub fn effective_type(&self) -> Option<InputType> {
        let InputRules { pattern, min_length, max_length, min, max } = &self.validate;
        let has_text_rules = pattern.is_some() || min_length.is_some() || max_length.is_some();
        let has_number_rules = min.is_some() || max.is_some();
        self.kind
            .or(has_text_rules.then_some(InputType::String))
            .or(has_number_rules.then_some(InputType::Number))
    }

    /// Whether a form can ask for it. Fields of forms have primitive values, and only texts to choose from.
    pub fn fits_form(&self) -> bool {
        let kind = self.effective_type().unwrap_or(InputType::String);
        let is_choice_of_texts =
            kind == InputType::String && self.one_of.iter().all(Value::is_string);
        !matches!(kind, InputType::Array | InputType::Object)
            && (self.one_of.is_empty() || is_choice_of_texts)
    }

    /// Whether a start must provide the input.
    pub fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }
}

/// The inputs of a workflow, in the order in which it declares them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Input>", into = "Vec<Input>")]
pub struct Inputs {
    list: Vec<Input>,
    /// The compiled constraints by position, computed on first use.
    compiled: Arc<OnceLock<Vec<Option<Schema>>>>,
}

/// Compares the declarations. The compiled constraints are a function of them.
impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl From<Vec<Input>> for Inputs {
    fn from(list: Vec<Input>) -> Self {
        Self { list, compiled: Arc::default() }
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

    /// Whether a start with these values needs a default from the history of the workflow.
    pub fn needs_history(&self, provided: Option<&Value>) -> bool {
        let defaults = self.defaulted_inputs(provided).filter_map(|input| input.default.as_ref());
        let mut sources = defaults.map(|default| default.from);
        sources.any(|from| from == DefaultFrom::History)
    }

    /// The workflows whose latest outputs a start with these values needs as defaults.
    pub fn required_outputs(&self, provided: Option<&Value>) -> Vec<WorkflowName> {
        let outputs = self.defaulted_inputs(provided).filter_map(Input::workflow_output_default);
        outputs.map(|output| output.workflow).collect()
    }

    /// The inputs that these values leave to their defaults.
    fn defaulted_inputs(&self, provided: Option<&Value>) -> impl Iterator<Item = &Input> {
        self.list.iter().filter(move |input| {
            let value = provided.and_then(|given| given.get(input.key.as_str()));
            value.is_none_or(Value::is_null)
        })
    }

    /// The input with this name, and its position.
    fn find_input(&self, name: &str) -> Option<(usize, &Input)> {
        let mut inputs = self.list.iter().enumerate();
        inputs.find(|(_, input)| input.key.as_str() == name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|input| input.key.as_str())
    }
}
