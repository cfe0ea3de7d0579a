//! The compiled form of a schema: nodes, which refer to each other by number, each with its keywords.

use std::{
    cmp::Ordering::{self, Greater, Less},
    collections::HashMap,
};

use serde_json::{Number, Value};

use super::{equal, format::EnforcedFormat, keyword::TYPE_NAMES, pattern::RegexPattern};

/// The number of a node.
pub(super) type NodeId = usize;
/// The number of a regular expression.
pub(super) type PatternId = usize;

/// A compiled schema. Its first node is the root.
#[derive(Debug, Default)]
pub(super) struct SchemaProgram {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) patterns: Vec<RegexPattern>,
}

/// A subschema.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// The keywords, the cheap ones first.
    pub(super) keywords: Vec<Keyword>,
    /// The steps that an evaluation spends before it visits subschemas.
    pub(super) cost: u64,
    /// Whether it may be evaluated more than once against one value, by references or by `unevaluated…`. Its results
    /// are cached then.
    pub(super) is_shared: bool,
}

/// A compiled keyword, or several that belong together.
#[derive(Debug)]
pub(super) enum Keyword {
    /// No value is valid: the schema `false`.
    FalseSchema,
    Type(TypeSet),
    Const(Value),
    Enum(Vec<Value>),
    Bound(&'static NumericBound, Number),
    MultipleOf(Number),
    CountBound(&'static CountLimit, u64),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    Pattern(PatternId, String),
    Format(&'static EnforcedFormat),
    UniqueItems,
    Properties(Box<PropertyKeywords>),
    PropertyNames(NodeId),
    Items {
        prefix: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        min_count: u64,
        max_count: Option<u64>,
    },
    DependentSchemas(Vec<(String, NodeId)>),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    /// `discriminator` of OpenAPI next to `oneOf` or `anyOf`. It validates nothing, but selects the alternative whose
    /// violations are reported.
    Discriminator(Box<Discriminator>),
    Not(NodeId, String),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Reference(NodeId),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

/// `properties`, `patternProperties` and `additionalProperties`, which depend on each other.
#[derive(Debug, Default)]
pub(super) struct PropertyKeywords {
    pub(super) named: Vec<(String, NodeId)>,
    /// The index of each name in `named`.
    pub(super) index_by_name: HashMap<String, usize>,
    pub(super) patterns: Vec<(PatternId, NodeId)>,
    pub(super) additional: Option<NodeId>,
}

/// A discriminator: a property whose value selects the alternative.
#[derive(Debug)]
pub(super) struct Discriminator {
    pub(super) property: String,
    /// The values of the property, each with its alternative.
    pub(super) options: Vec<(String, NodeId)>,
    /// An `enum` keyword of these values, for messages.
    pub(super) values: Keyword,
}

/// The steps of traversing names.
fn name_traversal_steps<'n>(names: impl IntoIterator<Item = &'n String>) -> u64 {
    let steps = names.into_iter().map(|name| equal::text_traversal_steps(name));
    steps.sum()
}

/// A numeric limit: its keyword, the description of a violating number, and whether an ordering of number and limit
/// violates it.
pub(super) type NumericBound = (&'static str, &'static str, fn(Ordering) -> bool);

pub(super) static NUMERIC_BOUNDS: [NumericBound; 4] = [
    ("minimum", "less than the minimum", Ordering::is_lt),
    ("maximum", "greater than the maximum", Ordering::is_gt),
    ("exclusiveMinimum", "less than or equal to the minimum", Ordering::is_le),
    ("exclusiveMaximum", "greater than or equal to the maximum", Ordering::is_ge),
];

/// A limit of a length or count: its keyword, the description of a violation, the counted unit, and the ordering of
/// count and limit that violates it.
pub(super) type CountLimit = (&'static str, &'static str, CountUnit, Ordering);

/// The unit of a count.
#[derive(Clone, Copy, Debug)]
pub(super) enum CountUnit {
    Character,
    Item,
    Property,
}

pub(super) static COUNT_LIMITS: [CountLimit; 6] = [
    ("minLength", "is shorter than", CountUnit::Character, Less),
    ("maxLength", "is longer than", CountUnit::Character, Greater),
    ("minItems", "has fewer than", CountUnit::Item, Less),
    ("maxItems", "has more than", CountUnit::Item, Greater),
    ("minProperties", "has fewer than", CountUnit::Property, Less),
    ("maxProperties", "has more than", CountUnit::Property, Greater),
];

/// A set of types, with a bit for each of [`TYPE_NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    /// Adds the type of this name; `None` if there is no such type.
    pub(super) fn add_type(self, name: &str) -> Option<Self> {
        let bit_index = TYPE_NAMES.iter().position(|known| *known == name)?;
        Some(Self(self.0 | 1 << bit_index))
    }

    /// The names of the types.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let is_in_set = move |(place, _): &(usize, &&str)| self.0 & (1 << place) != 0;
        TYPE_NAMES.iter().enumerate().filter(is_in_set).map(|(_, name)| *name)
    }

    /// Whether a value has one of the types.
    pub(super) fn has_type_of(self, value: &Value) -> bool {
        // Positions in `TYPE_NAMES`. An integer is a number too.
        let bit_indexes: &[u8] = match value {
            Value::Null => &[0],
            Value::Bool(_) => &[1],
            Value::Number(number) if equal::is_integer(number) => &[2, 3],
            Value::Number(_) => &[3],
            Value::String(_) => &[4],
            Value::Array(_) => &[5],
            Value::Object(_) => &[6],
        };
        bit_indexes.iter().any(|place| self.0 & (1 << place) != 0)
    }
}

/// Comparing names and values is cheaper than evaluating a schema: this many of their steps count as one.
const COMPARISON_STEPS_DIVISOR: u64 = 4;
/// The steps of `multipleOf`, which works with decimal digits.
const MULTIPLE_OF_STEPS: u64 = 8;

impl Keyword {
    /// The steps of evaluating the keyword, without its subschemas. Names of properties are hashed for each value.
    pub(super) fn evaluation_steps(&self) -> u64 {
        match self {
            Self::Const(value) => equal::traversal_steps(value) / COMPARISON_STEPS_DIVISOR,
            Self::Enum(values) => {
                values.iter().map(equal::traversal_steps).sum::<u64>() / COMPARISON_STEPS_DIVISOR
            }
            Self::Required(names) => name_traversal_steps(names) / COMPARISON_STEPS_DIVISOR,
            Self::DependentRequired(lists) => {
                let lists = lists.iter();
                let size = lists.map(|(name, names)| {
                    name_traversal_steps([name]) + name_traversal_steps(names)
                });
                size.sum::<u64>() / COMPARISON_STEPS_DIVISOR
            }
            Self::Properties(properties) => {
                name_traversal_steps(properties.named.iter().map(|(name, _)| name))
                    / COMPARISON_STEPS_DIVISOR
            }
            Self::DependentSchemas(schemas) => {
                name_traversal_steps(schemas.iter().map(|(name, _)| name))
                    / COMPARISON_STEPS_DIVISOR
            }
            Self::MultipleOf(_) => MULTIPLE_OF_STEPS,
            _ => 0,
        }
    }

    /// The states of regular expressions that a byte of a text may have to be matched against, except for patterns.
    pub(super) fn regex_states_per_byte(&self) -> u64 {
        match self {
            Self::Format(format) => format.regex_states_per_byte(),
            _ => 0,
        }
    }

    /// Whether the keyword lists alternatives.
    pub(super) fn is_choice(&self) -> bool {
        matches!(self, Self::AnyOf(_) | Self::OneOf(_))
    }

    /// Whether the keyword is `unevaluated…`, which evaluates other schemas of the value or its items again.
    pub(super) fn is_unevaluated(&self) -> bool {
        matches!(self, Self::UnevaluatedItems(_) | Self::UnevaluatedProperties(_))
    }

    /// The subschemas that apply to the same value.
    pub(super) fn in_place_subschemas(&self) -> Vec<NodeId> {
        match self {
            Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::OneOf(nodes) => nodes.clone(),
            Self::Not(node, _) | Self::Reference(node) => vec![*node],
            Self::DependentSchemas(schemas) => schemas.iter().map(|(_, node)| *node).collect(),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The subschemas that `unevaluated…` may evaluate again.
    pub(super) fn revisited_subschemas(&self) -> Vec<NodeId> {
        match self {
            Self::Contains { node, .. } => vec![*node],
            keyword => keyword.in_place_subschemas(),
        }
    }

    /// The position in the order of evaluation: cheap keywords first, `unevaluated…`, which depends on the others, last.
    pub(super) fn evaluation_order(&self) -> u8 {
        match self {
            Self::FalseSchema | Self::Type(_) => 0,
            Self::Const(_) | Self::Enum(_) | Self::Bound(..) | Self::MultipleOf(_) => 1,
            Self::CountBound(..) | Self::Required(_) | Self::DependentRequired(_) => 2,
            Self::Pattern(..) | Self::Format(_) => 3,
            Self::UniqueItems => 4,
            Self::Properties(_)
            | Self::PropertyNames(_)
            | Self::Items { .. }
            | Self::Contains { .. } => 5,
            Self::UnevaluatedItems(_) | Self::UnevaluatedProperties(_) => 7,
            _ => 6,
        }
    }
}
