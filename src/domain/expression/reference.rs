//! References: the paths that an expression reads, and the values that they are resolved against.

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

use super::{
    fault::{ExpressionFault, FaultKind},
    run::{ENDED_KEY, ERROR_KEY, LAST_OUTPUT_FIELD},
    segment::Segment,
    token::shorten_for_message,
};
use crate::nearest;

/// The key under which memory holds all inputs.
pub const ALL_INPUTS_MEMORY_KEY: &str = "__workflow_input__";

/// The first word of a path: the values that an expression can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceRoot {
    /// The inputs that the execution was started with.
    Inputs,
    /// The outputs of earlier steps, by id.
    Steps,
    /// The memory of the execution.
    Memory,
    /// Environment variables that the configuration allows.
    Env,
    /// Secrets: their names can be used, their values are never seen.
    Secrets,
    /// The execution itself: its id, visits, attempts.
    Run,
    /// The item of a `foreach`, as `item` or under the name that `as` gives it.
    Item,
    /// The position of that item, from 0.
    Index,
}

impl ReferenceRoot {
    /// Every root with its word.
    pub const ALL: &[(&str, Self)] = &[
        ("inputs", Self::Inputs),
        ("steps", Self::Steps),
        ("memory", Self::Memory),
        ("env", Self::Env),
        ("secrets", Self::Secrets),
        ("run", Self::Run),
        ("item", Self::Item),
        ("index", Self::Index),
    ];

    /// The word that an expression writes for this root.
    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, root)| *root == self);
        found.map_or("", |(word, _)| word)
    }

    pub(super) fn from_word(word: &str, names: &[&str]) -> Option<Self> {
        let root = Self::ALL.iter().find(|(known, _)| *known == word);
        root.map(|(_, root)| *root).or_else(|| names.contains(&word).then_some(Self::Item))
    }
}

/// A path that an expression reads, up to the first segment that is computed: for `inputs.users[inputs.n].name` it is
/// `inputs.users`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The root.
    pub root: ReferenceRoot,
    /// The segments after the root. For a step the first is its id; an `output` straight after that is left out.
    pub path: Vec<Segment>,
    /// The first byte of the path in the source.
    pub offset: usize,
    /// The length of the path in bytes.
    pub length: usize,
    /// Whether every use of the path may lead to nothing, because `default` or `is defined` stands after it.
    pub is_guarded: bool,
}

impl Reference {
    /// The id of the step whose output the path reads.
    pub fn step_id(&self) -> Option<Cow<'_, str>> {
        self.first_segment_below(ReferenceRoot::Steps)
    }

    /// Whether the path is below `steps.ID.error`, which is the failure of a step that has no output.
    pub fn is_error(&self) -> bool {
        let is_error_key = |segment: &Segment| segment.as_key() == ERROR_KEY;
        self.root == ReferenceRoot::Steps && self.path.get(1).is_some_and(is_error_key)
    }

    /// Whether the path is below `steps.ID.ended`, which counts how the items of a `foreach` ended.
    pub fn is_ended(&self) -> bool {
        let is_ended_key = |segment: &Segment| segment.as_key() == ENDED_KEY;
        self.root == ReferenceRoot::Steps && self.path.get(1).is_some_and(is_ended_key)
    }

    /// Whether the path reads `run.last`, the output of the last poll.
    pub fn is_last_output(&self) -> bool {
        let first = self.first_segment_below(ReferenceRoot::Run);
        self.root == ReferenceRoot::Run && first.is_none_or(|field| field == LAST_OUTPUT_FIELD)
    }

    /// The name of the secret that the path reads.
    pub fn secret_name(&self) -> Option<Cow<'_, str>> {
        self.first_segment_below(ReferenceRoot::Secrets)
    }

    /// The bytes of the path in the source.
    pub(super) fn span(&self) -> (usize, usize) {
        (self.offset, self.offset + self.length)
    }

    fn first_segment_below(&self, root: ReferenceRoot) -> Option<Cow<'_, str>> {
        let first = self.path.first().filter(|_| self.root == root);
        first.map(Segment::as_key)
    }

    /// Whether this path leads to the same value as `other`, or to one that contains it.
    pub(crate) fn is_prefix_of(&self, other: &Self) -> bool {
        self.root == other.root && other.path.starts_with(&self.path)
    }

    /// The first `count` segments of the path, as text.
    pub(crate) fn path_prefix(&self, count: usize) -> String {
        path_prefix_text(self, count)
    }

    pub(super) fn is_same_path(&self, other: &Self) -> bool {
        self.root == other.root && self.path == other.path
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root.word())?;
        self.path.iter().try_for_each(|segment| segment.fmt(f))
    }
}

/// The current item of a `foreach`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeachItem {
    /// The item.
    pub value: Value,
    /// The position of the item, from 0.
    pub index: usize,
}

/// The values that expressions see. Only those that their references read need to be filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvaluationContext {
    /// The inputs by name; an optional one that is not set is null.
    pub inputs: Map<String, Value>,
    /// The outputs of steps by step id.
    pub steps: Map<String, Value>,
    /// The failures of steps by step id, each as an object with the field `error`.
    pub errors: Map<String, Value>,
    /// How the items of `foreach` steps ended by step id, each as an object with the field `ended`.
    pub ended: Map<String, Value>,
    /// The memory of the execution.
    pub memory: Map<String, Value>,
    /// The environment variables that the configuration allows.
    pub env: Map<String, Value>,
    /// The names of the secrets that exist.
    pub secrets: Vec<String>,
    /// The execution itself: its id, visits, attempts.
    pub run: Value,
    /// The item, inside a `foreach`.
    pub item: Option<ForeachItem>,
}

impl EvaluationContext {
    /// Adds the values that other references need.
    pub(crate) fn add_values(&mut self, other: Self) {
        self.inputs.extend(other.inputs);
        self.steps.extend(other.steps);
        self.errors.extend(other.errors);
        self.ended.extend(other.ended);
        self.memory.extend(other.memory);
        self.env.extend(other.env);
        if !other.secrets.is_empty() {
            self.secrets = other.secrets;
        }
    }

    /// Resolves a reference to its value.
    pub(super) fn resolve_reference(
        &self,
        reference: &Reference,
    ) -> Result<Cow<'_, Value>, ExpressionFault> {
        let map = match reference.root {
            ReferenceRoot::Inputs => &self.inputs,
            ReferenceRoot::Steps => &self.steps,
            ReferenceRoot::Memory => &self.memory,
            ReferenceRoot::Env => &self.env,
            ReferenceRoot::Secrets => return self.resolve_secret(reference).map(Cow::Owned),
            ReferenceRoot::Run => return follow_path(&self.run, reference, 0),
            ReferenceRoot::Item => {
                return follow_path(&self.foreach_item(reference)?.value, reference, 0);
            }
            ReferenceRoot::Index => {
                let index = Value::from(self.foreach_item(reference)?.index);
                return follow_path(&index, reference, 0)
                    .map(|found| Cow::Owned(found.into_owned()));
            }
        };
        let Some(first) = reference.path.first() else {
            return Ok(Cow::Owned(Value::Object(map.clone())));
        };
        let key = first.as_key();
        let error = reference.is_error().then(|| self.errors.get(&*key)).flatten();
        let ended = reference.is_ended().then(|| self.ended.get(&*key)).flatten();
        match ended.or_else(|| map.get(&*key)).or(error) {
            Some(value) => follow_path(value, reference, 1),
            None => Err(missing_segment_fault(reference, 0, Some(map))),
        }
    }

    fn resolve_secret(&self, reference: &Reference) -> Result<Value, ExpressionFault> {
        let name = reference.secret_name().unwrap_or_default();
        if self.secrets.iter().any(|known| *known == name) {
            return Ok(Value::from(super::secret_placeholder(&name)));
        }
        let secret_names = self.secrets.iter().map(String::as_str);
        let mut fault = unresolved_fault(
            reference,
            format!("there is no secret `{}`", shorten_for_message(&name)),
        );
        fault.suggestion = nearest::suggest_nearest(&name, secret_names);
        Err(fault)
    }

    fn foreach_item(&self, reference: &Reference) -> Result<&ForeachItem, ExpressionFault> {
        self.item.as_ref().ok_or_else(|| {
            let message = format!("`{}` is only known inside a `foreach`", reference.root.word());
            unresolved_fault(reference, message)
        })
    }
}

/// Follows the path of `reference` from its segment `from` on, beginning at `start`. An index into a text is a letter.
fn follow_path<'a>(
    start: &'a Value,
    reference: &Reference,
    from: usize,
) -> Result<Cow<'a, Value>, ExpressionFault> {
    let mut value = start;
    for (position, segment) in reference.path.iter().enumerate().skip(from) {
        if let (Value::String(text), Segment::Index(index)) = (value, segment)
            && let Some(letter) = text.chars().nth(*index)
        {
            let letter = Value::String(letter.into());
            let result = follow_path(&letter, reference, position + 1)?;
            return Ok(Cow::Owned(result.into_owned()));
        }
        let child = match (value, segment) {
            (Value::Object(map), segment) => map.get(segment.as_key().as_ref()),
            (Value::Array(items), Segment::Index(index)) => items.get(*index),
            _ => None,
        };
        let Some(child) = child else {
            let map = value.as_object();
            let mut fault = missing_segment_fault(reference, position, map);
            if map.is_none() {
                let parent = path_prefix_text(reference, position);
                fault.message =
                    format!("{}: `{parent}` is {}", fault.message, describe_value_type(value));
            }
            return Err(fault);
        };
        value = child;
    }
    Ok(Cow::Borrowed(value))
}

/// The fault of a path whose segment `index` leads to nothing.
fn missing_segment_fault(
    reference: &Reference,
    index: usize,
    siblings: Option<&Map<String, Value>>,
) -> ExpressionFault {
    /// The number of keys that are searched for a similar name: enough for what people write.
    const KEYS_SEARCHED_MAX: usize = 200;
    let key = reference.path.get(index).map(Segment::as_key).unwrap_or_default();
    let message = match (reference.root, index) {
        (ReferenceRoot::Steps, 0) => {
            format!("the step `{}` has no output", shorten_for_message(&key))
        }
        (ReferenceRoot::Env, 0) => format!(
            "the environment variable `{}` is not set or not allowed",
            shorten_for_message(&key)
        ),
        _ => format!(
            "`{}` leads to nothing",
            shorten_for_message(&path_prefix_text(reference, index + 1))
        ),
    };
    let mut fault = unresolved_fault(reference, message);
    let subtracted = key.split('-').next().filter(|part| part.len() < key.len());
    let is_difference =
        subtracted.is_some_and(|part| siblings.is_some_and(|map| map.contains_key(part)));
    let keys = siblings.into_iter().flat_map(Map::keys).map(String::as_str);
    fault.suggestion = match key.as_ref() {
        _ if is_difference => {
            Some("a hyphen between letters belongs to the name: write ` - ` to subtract".into())
        }
        "length" | "size" | "count" => Some("write `| length` for how long something is".into()),
        _ => nearest::suggest_nearest(&key, keys.take(KEYS_SEARCHED_MAX)),
    };
    fault
}

fn unresolved_fault(reference: &Reference, message: String) -> ExpressionFault {
    let kind = FaultKind::Unresolved;
    let mut fault = ExpressionFault::new(kind, reference.span(), message);
    fault.path = Some(reference.to_string().into());
    fault
}

/// The first `count` segments of the path of `reference`, as text.
fn path_prefix_text(reference: &Reference, count: usize) -> String {
    let mut text = reference.root.word().to_owned();
    for segment in reference.path.iter().take(count) {
        text.push_str(&segment.to_string());
    }
    text
}

fn describe_value_type(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "true or false".into(),
        Value::Number(_) => "a number".into(),
        Value::String(_) => "text".into(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "a map".into(),
    }
}
