//! A schema as it is evaluated: nodes that know each other by number, each with what it asks for.

use std::collections::HashMap;

use serde_json::{Number, Value};

use super::{equal, format::Format, keyword::TYPES, pattern::Pattern};

/// The number of a node.
pub(super) type NodeId = usize;
/// The number of a regular expression.
pub(super) type PatternId = usize;

/// A compiled schema: its first node is the whole.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) nodes: Vec<Node>,
    pub(super) patterns: Vec<Pattern>,
}

/// One schema of those that a schema is made of.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// What it asks for, the cheap first.
    pub(super) keywords: Vec<Keyword>,
    /// Steps that a look at it costs at least.
    pub(super) cost: u64,
    /// Whether one value may meet it more than once: references lead to it, or `unevaluated…` asks it again.
    pub(super) shared: bool,
}

/// What a schema asks for.
#[derive(Debug)]
pub(super) enum Keyword {
    /// Nothing satisfies it.
    Never,
    Type(Types),
    Const(Value),
    Enum(Vec<Value>),
    Bound(Bound, Number),
    MultipleOf(Number),
    Amount(Amount, u64),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    Pattern(PatternId, String),
    Format(&'static Format),
    UniqueItems,
    Properties(Box<Properties>),
    PropertyNames(NodeId),
    Items {
        prefix: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        least: u64,
        most: Option<u64>,
    },
    DependentSchemas(Vec<(String, NodeId)>),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
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

/// `properties`, `patternProperties` and `additionalProperties`, which know of each other.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) named: Vec<(String, NodeId)>,
    pub(super) position: HashMap<String, usize>,
    pub(super) patterns: Vec<(PatternId, NodeId)>,
    pub(super) additional: Option<NodeId>,
}

/// What the names come to of schemas by name.
fn names_steps(schemas: &[(String, NodeId)]) -> u64 {
    schemas
        .iter()
        .map(|(name, _)| equal::text_steps(name))
        .sum()
}

/// An end of the range of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// An end of how many there may be of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

/// Some types, a bit for each of [`TYPES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    /// These and the one of that name, where there is one.
    pub(super) fn with(self, name: &str) -> Option<Self> {
        let place = TYPES.iter().position(|known| *known == name)?;
        Some(Self(self.0 | 1 << place))
    }

    /// Their names.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let has = move |(place, _): &(usize, &&str)| self.0 & (1 << place) != 0;
        TYPES.iter().enumerate().filter(has).map(|(_, name)| *name)
    }

    /// Whether a value is of one of them.
    pub(super) fn hold(self, value: &Value) -> bool {
        let places: &[u8] = match value {
            Value::Null => &[0],
            Value::Bool(_) => &[1],
            Value::Number(number) if equal::is_integer(number) => &[2, 3],
            Value::Number(_) => &[3],
            Value::String(_) => &[4],
            Value::Array(_) => &[5],
            Value::Object(_) => &[6],
        };
        places.iter().any(|place| self.0 & (1 << place) != 0)
    }
}

/// Steps that the search for a multiple costs, which works with the digits as they are written.
const MULTIPLE_STEPS: u64 = 8;

impl Keyword {
    /// Steps that it costs besides those of the schemas in it. Names of properties are hashed for each value.
    pub(super) fn cost(&self) -> u64 {
        let sizes = |names: &[String]| {
            names
                .iter()
                .map(|name| equal::text_steps(name))
                .sum::<u64>()
        };
        match self {
            Self::Const(value) => equal::steps(value) / 4,
            Self::Enum(values) => values.iter().map(equal::steps).sum::<u64>() / 4,
            Self::Required(names) => sizes(names) / 4,
            Self::DependentRequired(lists) => {
                let lists = lists.iter();
                let size = lists.map(|(name, names)| equal::text_steps(name) + sizes(names));
                size.sum::<u64>() / 4
            }
            Self::Properties(properties) => names_steps(&properties.named) / 4,
            Self::DependentSchemas(schemas) => names_steps(schemas) / 4,
            Self::MultipleOf(_) => MULTIPLE_STEPS,
            _ => 0,
        }
    }

    /// Looks at states of regular expressions that a byte of a text may cost besides those of patterns.
    pub(super) fn states(&self) -> u64 {
        match self {
            Self::Format(format) => format.states(),
            _ => 0,
        }
    }

    /// Whether it asks schemas a second time that the value, or an item of it, was held to.
    pub(super) fn is_unevaluated(&self) -> bool {
        matches!(
            self,
            Self::UnevaluatedItems(_) | Self::UnevaluatedProperties(_)
        )
    }

    /// The schemas in it that the same value is held to.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::OneOf(nodes) => nodes.clone(),
            Self::Not(node, _) | Self::Reference(node) => vec![*node],
            Self::DependentSchemas(schemas) => schemas.iter().map(|(_, node)| *node).collect(),
            Self::If {
                condition,
                then,
                otherwise,
            } => [Some(*condition), *then, *otherwise]
                .into_iter()
                .flatten()
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The schemas in it that `unevaluated…` may ask again.
    pub(super) fn revisited(&self) -> Vec<NodeId> {
        match self {
            Self::Contains { node, .. } => vec![*node],
            keyword => keyword.in_place(),
        }
    }

    /// Its place in the order of evaluation: what is cheap comes first, what others must have been looked at for last.
    pub(super) fn order(&self) -> u8 {
        match self {
            Self::Never | Self::Type(_) => 0,
            Self::Const(_) | Self::Enum(_) | Self::Bound(..) | Self::MultipleOf(_) => 1,
            Self::Amount(..) | Self::Required(_) | Self::DependentRequired(_) => 2,
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
