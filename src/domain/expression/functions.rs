//! The implementations of filters. Each charges for its result: a thousand items joined with a megabyte of text make a
//! gigabyte.

use std::sync::Arc;

use minijinja::{
    Error, State, Value as Inner, filters as given,
    value::{Kwargs, ValueKind, from_args},
};
use serde_json::Value;

use super::{
    engine::{
        EvaluationBudget, EvaluationScope, charge_value, from_engine_value, invalid_value_error,
        map_pairs, to_engine_value,
    },
    operators::{add_values, are_orderable, describe_type},
    value_to_text,
};
use crate::document::oversized_integer_message;

/// One use of a filter: its subject `value`, and the arguments after it.
pub(super) struct FilterCall<'c, 't, 'e> {
    pub(super) state: &'c State<'t, 'e>,
    name: &'static str,
    pub(super) value: Inner,
    pub(super) arguments: Vec<Inner>,
    budget: Arc<EvaluationBudget>,
}

/// The function of a filter.
pub(super) type FilterFunction = fn(FilterCall<'_, '_, '_>) -> Result<Inner, Error>;

impl<'c, 't, 'e> FilterCall<'c, 't, 'e> {
    pub(super) fn new(
        state: &'c State<'t, 'e>,
        name: &'static str,
        value: Inner,
        arguments: Vec<Inner>,
    ) -> Result<Self, Error> {
        Ok(Self {
            state,
            name,
            value,
            arguments,
            budget: Arc::clone(&EvaluationScope::from_state(state)?.budget),
        })
    }

    pub(super) fn expect_text(&self) -> Result<&str, Error> {
        require_text(&self.value, self.name)
    }

    fn expect_list(&self) -> Result<(), Error> {
        require_list(&self.value, self.name)
    }

    pub(super) fn expect_text_or_list(&self) -> Result<&Inner, Error> {
        match self.value.kind() {
            ValueKind::String | ValueKind::Seq | ValueKind::Iterable => Ok(&self.value),
            _ => Err(self.type_error("text or a list")),
        }
    }

    fn type_error(&self, expected: &str) -> Error {
        wrong_type_error(self.name, expected, &self.value)
    }

    /// The value as JSON.
    pub(super) fn to_json(&self) -> Result<Value, Error> {
        from_engine_value(&self.value, &self.budget, 0)
    }

    /// Charges for a text that the filter made.
    pub(super) fn charge_text(&self, text: String) -> Result<Inner, Error> {
        self.budget.spend_bytes(text.len())?;
        Ok(text.into())
    }

    /// Converts `true`, `false` and the texts of these names; any other value would be a guess.
    pub(super) fn to_boolean(&self) -> Result<Inner, Error> {
        match (self.value.kind(), self.value.as_str()) {
            (ValueKind::Bool, _) => Ok(self.value.clone()),
            (_, Some("true")) => Ok(true.into()),
            (_, Some("false")) => Ok(false.into()),
            (_, Some(_)) => {
                Err(invalid_value_error("`bool`: the text is neither `true` nor `false`"))
            }
            _ => Err(self.type_error("true, false, or one of them as text")),
        }
    }

    /// Converts the value to a number.
    pub(super) fn to_number(
        &self,
        convert: fn(&State<'_, '_>, &Inner) -> Result<Inner, Error>,
    ) -> Result<Inner, Error> {
        convert(self.state, &self.value).map_err(|_| match self.value.as_str() {
            Some(_) => invalid_value_error(format!("`{}`: the text is not a number", self.name)),
            None => self.type_error("a number or text"),
        })
    }

    /// Returns the list after charging for sorting it, and refuses one whose items have no order; with `path` the values at
    /// that path of the items are compared.
    pub(super) fn expect_sortable_list(&self, path: Option<&str>) -> Result<Inner, Error> {
        self.charge_comparisons()?;
        let sort_key = |item: Inner| {
            path.map_or_else(|| item.clone(), |path| follow_attribute_path(&item, path))
        };
        let mut items = self.value.try_iter()?.map(sort_key).peekable();
        let first = items.peek().cloned().unwrap_or_default();
        match items.find(|item| !are_orderable(&first, item)) {
            None => Ok(self.value.clone()),
            Some(other) => Err(invalid_value_error(format!(
                "`{}` orders numbers, or texts: here are {} and {}",
                self.name,
                describe_type(&first),
                describe_type(&other)
            ))),
        }
    }

    pub(super) fn sort(&self) -> Result<Inner, Error> {
        let arguments = self.case_sensitive_arguments()?;
        let path = arguments.peek::<Option<String>>("attribute")?;
        given::sort(self.state, self.expect_sortable_list(path.as_deref())?, arguments)
    }

    /// Returns the items of the list that differ from those before them.
    pub(super) fn unique(&self) -> Result<Inner, Error> {
        self.charge_comparisons()?;
        given::unique(self.state, self.value.clone(), self.case_sensitive_arguments()?)
    }

    /// The named arguments. Strings are compared by code point, as `==`, `<`, `min` and `max` do, unless an argument
    /// says otherwise.
    fn case_sensitive_arguments(&self) -> Result<Kwargs, Error> {
        let (arguments,): (Kwargs,) = from_args(&self.arguments)?;
        if arguments.peek::<Option<bool>>("case_sensitive")?.is_some() {
            return Ok(arguments);
        }
        let pairs = arguments.args().map(|key| Ok((key, arguments.peek::<Inner>(key)?)));
        let pairs = pairs.collect::<Result<Vec<_>, Error>>()?.into_iter();
        Ok(pairs.chain([("case_sensitive", true.into())]).collect())
    }

    /// Charges for a list whose items are about to be compared with each other.
    pub(super) fn charge_comparisons(&self) -> Result<(), Error> {
        self.expect_list()?;
        let cost_before = self.budget.remaining_cost();
        charge_value(&self.value, &self.budget)?;
        let rounds = self.value.len().unwrap_or(0).max(1).ilog2() as usize;
        let spent = cost_before - self.budget.remaining_cost();
        self.budget.spend_bytes(spent.saturating_mul(rounds))
    }

    /// `default(value)` replaces undefined and null; `default(value, true)` everything that counts as false.
    pub(super) fn apply_default(&self) -> Inner {
        let replaces_false = self.arguments.get(1).is_some_and(Inner::is_true);
        let missing = self.value.is_undefined() || self.value.is_none();
        if missing || (replaces_false && !self.value.is_true()) {
            let fallback = self.arguments.first().cloned();
            return fallback.unwrap_or_else(|| "".into());
        }
        self.value.clone()
    }

    pub(super) fn compute_length(&self) -> Result<Inner, Error> {
        let length = self.value.len();
        length.map(Inner::from).ok_or_else(|| self.type_error("text, a list or a map"))
    }

    pub(super) fn replace(&self) -> Result<Inner, Error> {
        let (from, to): (&str, &str) = from_args(&self.arguments)?;
        let text = self.expect_text()?;
        let longer = text.matches(from).count().saturating_mul(to.len());
        self.budget.spend_bytes(text.len().saturating_add(longer))?;
        Ok(text.replace(from, to).into())
    }

    pub(super) fn split(&self) -> Result<Inner, Error> {
        let (by,): (Option<&str>,) = from_args(&self.arguments)?;
        let text = self.expect_text()?;
        let part = |part: &str| self.budget.spend_bytes(part.len()).map(|()| Inner::from(part));
        let parts: Result<Vec<_>, _> = match by {
            Some("") => return Err(invalid_value_error("`split` needs a text to split at")),
            Some(by) => text.split(by).map(part).collect(),
            None => text.split_whitespace().map(part).collect(),
        };
        parts.map(Inner::from)
    }

    pub(super) fn parse_json(&self) -> Result<Inner, Error> {
        /// The bytes of memory that a byte of dense JSON may take once it is parsed.
        const PARSED_BYTES_PER_BYTE: usize = 8;
        let text = self.expect_text()?;
        self.budget.spend_bytes(text.len().saturating_mul(PARSED_BYTES_PER_BYTE))?;
        if let Some(fault) = oversized_integer_message(text.as_bytes()) {
            return Err(invalid_value_error(format!("`fromjson`: {fault}")));
        }
        let parsed = serde_json::from_str(text);
        let parsed = parsed.map_err(|error| invalid_value_error(format!("`fromjson`: {error}")))?;
        to_engine_value(&parsed, &self.budget)
    }

    pub(super) fn join_items(&self) -> Result<Inner, Error> {
        let (by,): (Option<&str>,) = from_args(&self.arguments)?;
        self.expect_list()?;
        let mut joined = String::new();
        for (index, item) in self.value.try_iter()?.enumerate() {
            let by = by.filter(|_| index > 0).unwrap_or_default();
            let part = value_to_text(&from_engine_value(&item, &self.budget, 0)?);
            self.budget.spend_bytes(part.len() + by.len())?;
            joined.extend([by, &part]);
        }
        Ok(joined.into())
    }

    pub(super) fn map_entries(&self, entry: fn(Inner, Inner) -> Inner) -> Result<Inner, Error> {
        if self.value.kind() != ValueKind::Map {
            return Err(self.type_error("a map"));
        }
        let entry = |(key, item)| self.budget.spend_bytes(0).map(|()| entry(key, item));
        let entries: Result<Vec<_>, _> = map_pairs(&self.value).map(entry).collect();
        entries.map(Inner::from)
    }

    pub(super) fn reverse(&self) -> Result<Inner, Error> {
        if let Some(text) = self.value.as_str() {
            return self.charge_text(text.chars().rev().collect());
        }
        self.expect_text_or_list()?;
        let mut items = self.charge_items()?;
        items.reverse();
        Ok(items.into())
    }

    /// The items of a list, each of them charged for.
    fn charge_items(&self) -> Result<Vec<Inner>, Error> {
        let items = self.value.try_iter()?;
        let items = items.map(|item| self.budget.spend_bytes(0).map(|()| item));
        items.collect()
    }

    pub(super) fn sum_items(&self) -> Result<Inner, Error> {
        self.expect_list()?;
        self.charge_items()?.iter().try_fold(Inner::from(0), |sum, item| {
            if !item.is_number() {
                return Err(wrong_type_error(self.name, "a list of numbers, and here is", item));
            }
            add_values(&sum, item, true)
        })
    }

    /// `map(attribute="name")`: the attribute of every item. Items that are null are passed over without a `default`: those of
    /// a `foreach` that went on without them.
    pub(super) fn map_attribute(&self) -> Result<Inner, Error> {
        let (named,): (Kwargs,) = from_args(&self.arguments)?;
        self.expect_list()?;
        let path = named.get::<String>("attribute")?;
        let default = named.get::<Option<Inner>>("default")?;
        let find_attribute = |item: &Inner| {
            let attribute =
                Some(follow_attribute_path(item, &path)).filter(|found| !found.is_undefined());
            attribute.or_else(|| default.clone()).ok_or_else(|| {
                invalid_value_error(format!(
                    "`map`: an item has no `{path}`; `default=` says what then"
                ))
            })
        };
        let mut items = self.charge_items()?;
        items.retain(|item| default.is_some() || !item.is_none());
        let items: Result<Vec<_>, _> = items.iter().map(find_attribute).collect();
        items.map(Inner::from)
    }

    /// `selectattr("name")`, `selectattr("name", "equalto", value)`: the items whose attribute passes the test, or with
    /// `is_selected` false, fails it.
    pub(super) fn select_by_attribute(&self, is_selected: bool) -> Result<Inner, Error> {
        self.expect_list()?;
        let path = self.arguments.first().and_then(Inner::as_str);
        let path = path.ok_or_else(|| {
            invalid_value_error(format!("`{}` needs the name of a field", self.name))
        })?;
        let mut selected = Vec::new();
        for item in self.charge_items()? {
            if self.is_test_passed(&follow_attribute_path(&item, path))? == is_selected {
                selected.push(item);
            }
        }
        Ok(Inner::from(selected))
    }

    /// Whether the attribute `attribute` of an item passes the test that the arguments name.
    fn is_test_passed(&self, attribute: &Inner) -> Result<bool, Error> {
        let Some(test) = self.arguments.get(1) else {
            return Ok(attribute.is_true());
        };
        let Some((test, operand)) = test.as_str().zip(self.arguments.get(2)) else {
            let usage = "takes a field, or a field, a test and a value";
            return Err(invalid_value_error(format!("`{}` {usage}", self.name)));
        };
        match test {
            "equalto" | "eq" | "==" => {
                charge_value(attribute, &self.budget).map(|()| attribute == operand)
            }
            "ne" | "!=" => charge_value(attribute, &self.budget).map(|()| attribute != operand),
            "in" => {
                require_list(operand, self.name)?;
                charge_value(operand, &self.budget)?;
                Ok(operand.try_iter()?.any(|item| item == *attribute))
            }
            _ => Err(invalid_value_error(format!(
                "`{}` knows the tests `equalto`, `ne` and `in`",
                self.name
            ))),
        }
    }
}

pub(super) fn require_text<'v>(value: &'v Inner, name: &str) -> Result<&'v str, Error> {
    value.as_str().ok_or_else(|| wrong_type_error(name, "text", value))
}

fn require_list(value: &Inner, name: &str) -> Result<(), Error> {
    let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    is_list.then_some(()).ok_or_else(|| wrong_type_error(name, "a list", value))
}

fn wrong_type_error(name: &str, expected: &str, value: &Inner) -> Error {
    invalid_value_error(format!("`{name}` takes {expected}, not {}", describe_type(value)))
}

/// Follows the path `a.b.c` from `item`.
fn follow_attribute_path(item: &Inner, path: &str) -> Inner {
    let step = |item: Inner, key: &str| {
        let index = key.parse().ok().filter(|_| item.kind() != ValueKind::Map);
        let key = index.map_or_else(|| Inner::from(key), |index: usize| Inner::from(index));
        item.get_item(&key).unwrap_or_default()
    };
    path.split('.').fold(item.clone(), step)
}
