//! The implementations of filters. Each charges for its result: a thousand items joined with a megabyte of text make a
//! gigabyte.

use std::sync::Arc;

use minijinja::{
    Error, State, Value as Inner, filters as given,
    value::{Kwargs, ValueKind, from_args},
};
use serde_json::Value;

use super::{
    engine::{Budget, Scope, charge, from_engine, pairs, to_engine, unsuitable},
    operators::{added, described, have_order},
    text_of,
};
use crate::document::oversized_integer;

/// One use of a filter: its subject `value`, and the arguments after it.
pub(super) struct Call<'c, 't, 'e> {
    pub(super) state: &'c State<'t, 'e>,
    name: &'static str,
    pub(super) value: Inner,
    pub(super) arguments: Vec<Inner>,
    budget: Arc<Budget>,
}

/// The function of a filter.
pub(super) type Run = fn(Call<'_, '_, '_>) -> Result<Inner, Error>;

impl<'c, 't, 'e> Call<'c, 't, 'e> {
    pub(super) fn of(
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
            budget: Arc::clone(&Scope::of(state)?.budget),
        })
    }

    pub(super) fn text(&self) -> Result<&str, Error> {
        text(&self.value, self.name)
    }

    fn list(&self) -> Result<(), Error> {
        list(&self.value, self.name)
    }

    pub(super) fn text_or_list(&self) -> Result<&Inner, Error> {
        match self.value.kind() {
            ValueKind::String | ValueKind::Seq | ValueKind::Iterable => Ok(&self.value),
            _ => Err(self.wants("text or a list")),
        }
    }

    fn wants(&self, what: &str) -> Error {
        wants(self.name, what, &self.value)
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> Result<Value, Error> {
        from_engine(&self.value, &self.budget, 0)
    }

    /// Charges for a text that the filter made.
    pub(super) fn made(&self, text: String) -> Result<Inner, Error> {
        self.budget.spend(text.len())?;
        Ok(text.into())
    }

    /// Converts `true`, `false` and the texts of these names; any other value would be a guess.
    pub(super) fn boolean(&self) -> Result<Inner, Error> {
        match (self.value.kind(), self.value.as_str()) {
            (ValueKind::Bool, _) => Ok(self.value.clone()),
            (_, Some("true")) => Ok(true.into()),
            (_, Some("false")) => Ok(false.into()),
            (_, Some(_)) => Err(unsuitable("`bool`: the text is neither `true` nor `false`")),
            _ => Err(self.wants("true, false, or one of them as text")),
        }
    }

    /// Converts the value to a number.
    pub(super) fn number(
        &self,
        of: fn(&State<'_, '_>, &Inner) -> Result<Inner, Error>,
    ) -> Result<Inner, Error> {
        of(self.state, &self.value).map_err(|_| match self.value.as_str() {
            Some(_) => unsuitable(format!("`{}`: the text is not a number", self.name)),
            None => self.wants("a number or text"),
        })
    }

    /// Returns the list after charging for sorting it, and refuses one whose items have no order; with `path` the values at
    /// that path of the items are compared.
    pub(super) fn ordered(&self, path: Option<&str>) -> Result<Inner, Error> {
        self.charge_comparisons()?;
        let found = |item: Inner| path.map_or_else(|| item.clone(), |path| attribute(&item, path));
        let mut items = self.value.try_iter()?.map(found).peekable();
        let first = items.peek().cloned().unwrap_or_default();
        match items.find(|item| !have_order(&first, item)) {
            None => Ok(self.value.clone()),
            Some(other) => Err(unsuitable(format!(
                "`{}` orders numbers, or texts: here are {} and {}",
                self.name,
                described(&first),
                described(&other)
            ))),
        }
    }

    pub(super) fn sort(&self) -> Result<Inner, Error> {
        let named = self.by_letter()?;
        let path = named.peek::<Option<String>>("attribute")?;
        given::sort(self.state, self.ordered(path.as_deref())?, named)
    }

    /// Returns the items of the list that differ from those before them.
    pub(super) fn unique(&self) -> Result<Inner, Error> {
        self.charge_comparisons()?;
        given::unique(self.state, self.value.clone(), self.by_letter()?)
    }

    /// The named arguments. Strings are compared by code point, as `==`, `<`, `min` and `max` do, unless an argument
    /// says otherwise.
    fn by_letter(&self) -> Result<Kwargs, Error> {
        let (named,): (Kwargs,) = from_args(&self.arguments)?;
        if named.peek::<Option<bool>>("case_sensitive")?.is_some() {
            return Ok(named);
        }
        let given = named.args().map(|key| Ok((key, named.peek::<Inner>(key)?)));
        let given = given.collect::<Result<Vec<_>, Error>>()?.into_iter();
        Ok(given.chain([("case_sensitive", true.into())]).collect())
    }

    /// Charges for a list whose items are about to be compared with each other.
    pub(super) fn charge_comparisons(&self) -> Result<(), Error> {
        self.list()?;
        let before = self.budget.left();
        charge(&self.value, &self.budget)?;
        let rounds = self.value.len().unwrap_or(0).max(1).ilog2() as usize;
        let spent = before - self.budget.left();
        self.budget.spend(spent.saturating_mul(rounds))
    }

    /// `default(value)` replaces undefined and null; `default(value, true)` everything that counts as false.
    pub(super) fn default(&self) -> Inner {
        let all = self.arguments.get(1).is_some_and(Inner::is_true);
        let missing = self.value.is_undefined() || self.value.is_none();
        if missing || (all && !self.value.is_true()) {
            let other = self.arguments.first().cloned();
            return other.unwrap_or_else(|| "".into());
        }
        self.value.clone()
    }

    pub(super) fn length(&self) -> Result<Inner, Error> {
        let length = self.value.len();
        length
            .map(Inner::from)
            .ok_or_else(|| self.wants("text, a list or a map"))
    }

    pub(super) fn replace(&self) -> Result<Inner, Error> {
        let (from, to): (&str, &str) = from_args(&self.arguments)?;
        let text = self.text()?;
        let longer = text.matches(from).count().saturating_mul(to.len());
        self.budget.spend(text.len().saturating_add(longer))?;
        Ok(text.replace(from, to).into())
    }

    pub(super) fn split(&self) -> Result<Inner, Error> {
        let (by,): (Option<&str>,) = from_args(&self.arguments)?;
        let text = self.text()?;
        let part = |part: &str| self.budget.spend(part.len()).map(|()| Inner::from(part));
        let parts: Result<Vec<_>, _> = match by {
            Some("") => return Err(unsuitable("`split` needs a text to split at")),
            Some(by) => text.split(by).map(part).collect(),
            None => text.split_whitespace().map(part).collect(),
        };
        parts.map(Inner::from)
    }

    pub(super) fn parsed(&self) -> Result<Inner, Error> {
        /// The bytes of memory that a byte of dense JSON may take once it is parsed.
        const GROWTH: usize = 8;
        let text = self.text()?;
        self.budget.spend(text.len().saturating_mul(GROWTH))?;
        if let Some(fault) = oversized_integer(text.as_bytes()) {
            return Err(unsuitable(format!("`fromjson`: {fault}")));
        }
        let parsed = serde_json::from_str(text);
        let parsed = parsed.map_err(|error| unsuitable(format!("`fromjson`: {error}")))?;
        to_engine(&parsed, &self.budget)
    }

    pub(super) fn join(&self) -> Result<Inner, Error> {
        let (by,): (Option<&str>,) = from_args(&self.arguments)?;
        self.list()?;
        let mut joined = String::new();
        for (at, item) in self.value.try_iter()?.enumerate() {
            let by = by.filter(|_| at > 0).unwrap_or_default();
            let part = text_of(&from_engine(&item, &self.budget, 0)?);
            self.budget.spend(part.len() + by.len())?;
            joined.extend([by, &part]);
        }
        Ok(joined.into())
    }

    pub(super) fn entries(&self, entry: fn(Inner, Inner) -> Inner) -> Result<Inner, Error> {
        if self.value.kind() != ValueKind::Map {
            return Err(self.wants("a map"));
        }
        let entry = |(key, item)| self.budget.spend(0).map(|()| entry(key, item));
        let entries: Result<Vec<_>, _> = pairs(&self.value).map(entry).collect();
        entries.map(Inner::from)
    }

    pub(super) fn reverse(&self) -> Result<Inner, Error> {
        if let Some(text) = self.value.as_str() {
            return self.made(text.chars().rev().collect());
        }
        self.text_or_list()?;
        let mut items = self.items()?;
        items.reverse();
        Ok(items.into())
    }

    /// The items of a list, each of them charged for.
    fn items(&self) -> Result<Vec<Inner>, Error> {
        let items = self.value.try_iter()?;
        let items = items.map(|item| self.budget.spend(0).map(|()| item));
        items.collect()
    }

    pub(super) fn sum(&self) -> Result<Inner, Error> {
        self.list()?;
        self.items()?.iter().try_fold(Inner::from(0), |sum, item| {
            if !item.is_number() {
                return Err(wants(self.name, "a list of numbers, and here is", item));
            }
            added(&sum, item, true)
        })
    }

    /// `map(attribute="name")`: the attribute of every item. Items that are null are passed over without a `default`: those of
    /// a `foreach` that went on without them.
    pub(super) fn map(&self) -> Result<Inner, Error> {
        let (named,): (Kwargs,) = from_args(&self.arguments)?;
        self.list()?;
        let path = named.get::<String>("attribute")?;
        let other = named.get::<Option<Inner>>("default")?;
        let found = |item: &Inner| {
            let found = Some(attribute(item, &path)).filter(|found| !found.is_undefined());
            found.or_else(|| other.clone()).ok_or_else(|| {
                unsuitable(format!(
                    "`map`: an item has no `{path}`; `default=` says what then"
                ))
            })
        };
        let mut items = self.items()?;
        items.retain(|item| other.is_some() || !item.is_none());
        let items: Result<Vec<_>, _> = items.iter().map(found).collect();
        items.map(Inner::from)
    }

    /// `selectattr("name")`, `selectattr("name", "equalto", value)`: the items whose attribute passes the test, or with
    /// `wanted` false, fails it.
    pub(super) fn select(&self, wanted: bool) -> Result<Inner, Error> {
        self.list()?;
        let path = self.arguments.first().and_then(Inner::as_str);
        let path =
            path.ok_or_else(|| unsuitable(format!("`{}` needs the name of a field", self.name)))?;
        let mut selected = Vec::new();
        for item in self.items()? {
            if self.holds(&attribute(&item, path))? == wanted {
                selected.push(item);
            }
        }
        Ok(Inner::from(selected))
    }

    /// Whether the attribute `found` of an item passes the test that the arguments name.
    fn holds(&self, found: &Inner) -> Result<bool, Error> {
        let Some(test) = self.arguments.get(1) else {
            return Ok(found.is_true());
        };
        let Some((test, other)) = test.as_str().zip(self.arguments.get(2)) else {
            let takes = "takes a field, or a field, a test and a value";
            return Err(unsuitable(format!("`{}` {takes}", self.name)));
        };
        match test {
            "equalto" | "eq" | "==" => charge(found, &self.budget).map(|()| found == other),
            "ne" | "!=" => charge(found, &self.budget).map(|()| found != other),
            "in" => {
                list(other, self.name)?;
                charge(other, &self.budget)?;
                Ok(other.try_iter()?.any(|item| item == *found))
            }
            _ => Err(unsuitable(format!(
                "`{}` knows the tests `equalto`, `ne` and `in`",
                self.name
            ))),
        }
    }
}

pub(super) fn text<'v>(value: &'v Inner, name: &str) -> Result<&'v str, Error> {
    value.as_str().ok_or_else(|| wants(name, "text", value))
}

fn list(value: &Inner, name: &str) -> Result<(), Error> {
    let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    is_list
        .then_some(())
        .ok_or_else(|| wants(name, "a list", value))
}

fn wants(name: &str, what: &str, value: &Inner) -> Error {
    unsuitable(format!("`{name}` takes {what}, not {}", described(value)))
}

/// Follows the path `a.b.c` from `item`.
fn attribute(item: &Inner, path: &str) -> Inner {
    let step = |item: Inner, key: &str| {
        let index = key.parse().ok().filter(|_| item.kind() != ValueKind::Map);
        let key = index.map_or_else(|| Inner::from(key), |index: usize| Inner::from(index));
        item.get_item(&key).unwrap_or_default()
    };
    path.split('.').fold(item.clone(), step)
}
