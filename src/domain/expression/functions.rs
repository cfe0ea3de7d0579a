//! The implementations of filters and tests. Each charges for its result: a thousand items joined with a megabyte of text
//! make a gigabyte.

use std::sync::LazyLock;

use minijinja::{
    Environment, Error, State, UndefinedBehavior, Value as Inner, filters as given, tests,
    value::{Kwargs, Rest, ValueKind},
};

use super::{
    engine::{Budget, Scope, charge, from_engine, pairs, to_engine, unsuitable},
    operators::{self, added, described, have_order},
    text_of,
};
use crate::{domain::document::oversized_integer, limits};

/// What expressions are compiled in: our operators, filters and tests, and nothing else.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(limits::EXPRESSION_FUEL_MAX));
    operators::add_to(&mut environment);
    add_texts(&mut environment);
    add_lists(&mut environment);
    add_values(&mut environment);
    add_tests(&mut environment);
    environment
});

fn add_texts(environment: &mut Environment<'static>) {
    environment.add_filter("lower", |state: &State<'_, '_>, value: Inner| {
        made(state, text(&value, "lower")?.to_lowercase())
    });
    environment.add_filter("upper", |state: &State<'_, '_>, value: Inner| {
        made(state, text(&value, "upper")?.to_uppercase())
    });
    environment.add_filter("trim", |state: &State<'_, '_>, value: Inner| {
        made(state, text(&value, "trim")?.trim().to_owned())
    });
    environment.add_filter("replace", replace);
    environment.add_filter("split", split);
    environment.add_filter("string", |state: &State<'_, '_>, value: Inner| {
        let text = text_of(&from_engine(&value, budget(state)?.as_ref(), 0)?);
        made(state, text)
    });
    environment.add_filter("tojson", |state: &State<'_, '_>, value: Inner| {
        made(
            state,
            from_engine(&value, budget(state)?.as_ref(), 0)?.to_string(),
        )
    });
    environment.add_filter("fromjson", from_json);
}

fn add_lists(environment: &mut Environment<'static>) {
    environment.add_filter("join", join);
    environment.add_filter("keys", |state: &State<'_, '_>, value: Inner| {
        entries(state, &value, "keys", |key, _| key)
    });
    environment.add_filter("values", |state: &State<'_, '_>, value: Inner| {
        entries(state, &value, "values", |_, item| item)
    });
    environment.add_filter("items", |state: &State<'_, '_>, value: Inner| {
        entries(state, &value, "items", |key, item| {
            Inner::from(vec![key, item])
        })
    });
    environment.add_filter("reverse", reverse);
    environment.add_filter(
        "sort",
        |state: &State<'_, '_>, value: Inner, named: Kwargs| {
            let path = named.peek::<Option<String>>("attribute")?;
            ordered(state, &value, "sort", path.as_deref())?;
            given::sort(state, value, named)
        },
    );
    environment.add_filter(
        "unique",
        |state: &State<'_, '_>, value: Inner, named: Kwargs| {
            charge_comparisons(state, &value, "unique")?;
            given::unique(state, value, named)
        },
    );
    environment.add_filter("min", |state: &State<'_, '_>, value: Inner| {
        ordered(state, &value, "min", None)?;
        given::min(state, value)
    });
    environment.add_filter("max", |state: &State<'_, '_>, value: Inner| {
        ordered(state, &value, "max", None)?;
        given::max(state, value)
    });
    environment.add_filter("sum", sum);
    environment.add_filter(
        "map",
        |state: &State<'_, '_>, value: Inner, named: Kwargs| map(state, &value, &named),
    );
    environment.add_filter(
        "selectattr",
        |state: &State<'_, '_>, value: Inner, by: Rest<Inner>| select(state, &value, &by, true),
    );
    environment.add_filter(
        "rejectattr",
        |state: &State<'_, '_>, value: Inner, by: Rest<Inner>| select(state, &value, &by, false),
    );
}

fn add_values(environment: &mut Environment<'static>) {
    environment.add_filter("default", default);
    environment.add_filter("bool", |value: Inner| boolean(&value));
    environment.add_filter("length", length);
    environment.add_filter("first", |value: Inner| end(&value, "first", given::first));
    environment.add_filter("last", |value: Inner| {
        end(&value, "last", |value| given::last(value.clone()))
    });
    environment.add_filter("abs", |value: Inner| given::abs(value));
    environment.add_filter("round", |value: Inner, precision: Option<i32>| {
        given::round(value, precision)
    });
    environment.add_filter("int", |state: &State<'_, '_>, value: Inner| {
        given::int(state, &value).map_err(|_| unreadable(&value, "int"))
    });
    environment.add_filter("float", |state: &State<'_, '_>, value: Inner| {
        given::float(state, &value).map_err(|_| unreadable(&value, "float"))
    });
}

fn add_tests(environment: &mut Environment<'static>) {
    environment.add_test("defined", tests::is_defined);
    environment.add_test("undefined", tests::is_undefined);
    environment.add_test("none", tests::is_none);
    environment.add_test("true", tests::is_true);
    environment.add_test("false", tests::is_false);
    environment.add_test("boolean", tests::is_boolean);
    environment.add_test("number", tests::is_number);
    environment.add_test("integer", tests::is_integer);
    environment.add_test("float", tests::is_float);
    environment.add_test("string", tests::is_string);
    environment.add_test("sequence", tests::is_sequence);
    environment.add_test("mapping", tests::is_mapping);
    environment.add_test("odd", |value: Inner| divides(&value, 2) == Some(false));
    environment.add_test("even", |value: Inner| divides(&value, 2) == Some(true));
    environment.add_test("divisibleby", |value: Inner, by: i128| {
        divides(&value, by) == Some(true)
    });
    environment.add_test("startingwith", |value: Inner, start: &str| {
        text(&value, "startingwith").map(|text| text.starts_with(start))
    });
    environment.add_test("endingwith", |value: Inner, end: &str| {
        text(&value, "endingwith").map(|text| text.ends_with(end))
    });
}

/// Converts `true`, `false` and the texts of these names; any other value would be a guess.
fn boolean(value: &Inner) -> Result<bool, Error> {
    match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) => Ok(value.is_true()),
        (_, Some("true")) => Ok(true),
        (_, Some("false")) => Ok(false),
        (_, Some(_)) => Err(unsuitable("`bool`: the text is neither `true` nor `false`")),
        _ => Err(wants("bool", "true, false, or one of them as text", value)),
    }
}

/// Charges for sorting a list, and refuses one whose items have no order; with `path` the values at that path of the items are compared.
fn ordered(
    state: &State<'_, '_>,
    value: &Inner,
    name: &str,
    path: Option<&str>,
) -> Result<(), Error> {
    charge_comparisons(state, value, name)?;
    let found = |item: Inner| path.map_or_else(|| item.clone(), |path| attribute(&item, path));
    let mut items = value.try_iter()?.map(found);
    let Some(first) = items.next() else {
        return Ok(());
    };
    let other = std::iter::once(first.clone())
        .chain(items)
        .find(|item| !have_order(&first, item));
    match other {
        None => Ok(()),
        Some(other) => Err(unsuitable(format!(
            "`{name}` orders numbers, or texts: here are {} and {}",
            described(&first),
            described(&other)
        ))),
    }
}

fn divides(value: &Inner, by: i128) -> Option<bool> {
    let number = i128::try_from(value.clone())
        .ok()
        .filter(|_| value.is_integer())?;
    number.checked_rem_euclid(by).map(|rest| rest == 0)
}

fn budget(state: &State<'_, '_>) -> Result<std::sync::Arc<Budget>, Error> {
    Scope::of(state).map(|scope| std::sync::Arc::clone(&scope.budget))
}

/// Charges for a text that a filter made.
fn made(state: &State<'_, '_>, text: String) -> Result<Inner, Error> {
    budget(state)?.spend(text.len())?;
    Ok(text.into())
}

fn text<'v>(value: &'v Inner, name: &str) -> Result<&'v str, Error> {
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

fn unreadable(value: &Inner, name: &str) -> Error {
    match value.as_str() {
        Some(_) => unsuitable(format!("`{name}`: the text is not a number")),
        None => wants(name, "a number or text", value),
    }
}

/// Charges for a list whose items are about to be compared with each other.
fn charge_comparisons(state: &State<'_, '_>, value: &Inner, name: &str) -> Result<(), Error> {
    list(value, name)?;
    let budget = budget(state)?;
    let before = budget.left();
    charge(value, &budget)?;
    let rounds = value.len().unwrap_or(0).max(1).ilog2() as usize;
    budget.spend((before - budget.left()).saturating_mul(rounds))
}

/// `default(value)` replaces undefined and null; `default(value, true)` everything that counts as false.
fn default(value: Inner, arguments: Rest<Inner>) -> Inner {
    let mut arguments = arguments.0.into_iter();
    let other = arguments.next();
    let all = arguments.next().is_some_and(|all| all.is_true());
    let missing = value.is_undefined() || value.is_none();
    if missing || (all && !value.is_true()) {
        return other.unwrap_or_else(|| "".into());
    }
    value
}

fn length(value: &Inner) -> Result<usize, Error> {
    value
        .len()
        .ok_or_else(|| wants("length", "text, a list or a map", value))
}

/// The first or last letter or item; undefined for an empty text or list.
fn end(
    value: &Inner,
    name: &str,
    take: impl Fn(&Inner) -> Result<Inner, Error>,
) -> Result<Inner, Error> {
    if value.as_str().is_none() {
        list(value, name).map_err(|_| wants(name, "text or a list", value))?;
    }
    take(value)
}

fn replace(state: &State<'_, '_>, value: &Inner, from: &str, to: &str) -> Result<String, Error> {
    let text = text(value, "replace")?;
    let longer = text.matches(from).count().saturating_mul(to.len());
    budget(state)?.spend(text.len().saturating_add(longer))?;
    Ok(text.replace(from, to))
}

fn split(state: &State<'_, '_>, value: &Inner, by: Option<&str>) -> Result<Inner, Error> {
    let (text, budget) = (text(value, "split")?, budget(state)?);
    let part = |part: &str| budget.spend(part.len()).map(|()| Inner::from(part));
    let parts: Result<Vec<_>, _> = match by {
        Some("") => return Err(unsuitable("`split` needs a text to split at")),
        Some(by) => text.split(by).map(part).collect(),
        None => text.split_whitespace().map(part).collect(),
    };
    parts.map(Inner::from)
}

fn from_json(state: &State<'_, '_>, value: &Inner) -> Result<Inner, Error> {
    /// The bytes of memory that a byte of dense JSON may take once it is parsed.
    const GROWTH: usize = 8;
    let (text, budget) = (text(value, "fromjson")?, budget(state)?);
    budget.spend(text.len().saturating_mul(GROWTH))?;
    if let Some(fault) = oversized_integer(text.as_bytes()) {
        return Err(unsuitable(format!("`fromjson`: {fault}")));
    }
    let parsed = serde_json::from_str(text);
    to_engine(
        &parsed.map_err(|error| unsuitable(format!("`fromjson`: {error}")))?,
        &budget,
    )
}

fn join(state: &State<'_, '_>, value: &Inner, by: Option<&str>) -> Result<String, Error> {
    list(value, "join")?;
    let (budget, mut joined) = (budget(state)?, String::new());
    for (at, item) in value.try_iter()?.enumerate() {
        let by = by.filter(|_| at > 0).unwrap_or_default();
        let part = text_of(&from_engine(&item, &budget, 0)?);
        budget.spend(part.len() + by.len())?;
        joined.extend([by, &part]);
    }
    Ok(joined)
}

fn entries(
    state: &State<'_, '_>,
    value: &Inner,
    name: &str,
    entry: fn(Inner, Inner) -> Inner,
) -> Result<Inner, Error> {
    if value.kind() != ValueKind::Map {
        return Err(wants(name, "a map", value));
    }
    let budget = budget(state)?;
    let entry = |(key, item)| budget.spend(0).map(|()| entry(key, item));
    pairs(value)
        .map(entry)
        .collect::<Result<Vec<_>, _>>()
        .map(Inner::from)
}

fn reverse(state: &State<'_, '_>, value: &Inner) -> Result<Inner, Error> {
    if let Some(text) = value.as_str() {
        return made(state, text.chars().rev().collect());
    }
    list(value, "reverse").map_err(|_| wants("reverse", "text or a list", value))?;
    let mut items = counted(state, value)?;
    items.reverse();
    Ok(items.into())
}

fn counted(state: &State<'_, '_>, value: &Inner) -> Result<Vec<Inner>, Error> {
    let budget = budget(state)?;
    let items = value.try_iter()?;
    items.map(|item| budget.spend(0).map(|()| item)).collect()
}

fn sum(state: &State<'_, '_>, value: &Inner) -> Result<Inner, Error> {
    list(value, "sum")?;
    counted(state, value)?
        .iter()
        .try_fold(Inner::from(0), |sum, item| {
            if !item.is_number() {
                return Err(wants("sum", "a list of numbers, and here is", item));
            }
            added(&sum, item, true)
        })
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

/// `map(attribute="name")`: the attribute of every item.
fn map(state: &State<'_, '_>, value: &Inner, named: &Kwargs) -> Result<Inner, Error> {
    list(value, "map")?;
    let (path, other) = (
        named.get::<String>("attribute")?,
        named.get::<Option<Inner>>("default")?,
    );
    let found = |item: &Inner| {
        let found = attribute(item, &path);
        let found = Some(found)
            .filter(|found| !found.is_undefined())
            .or_else(|| other.clone());
        found.ok_or_else(|| {
            unsuitable(format!(
                "`map`: an item has no `{path}`; `default=` says what then"
            ))
        })
    };
    let items = counted(state, value)?;
    items
        .iter()
        .map(found)
        .collect::<Result<Vec<_>, _>>()
        .map(Inner::from)
}

/// `selectattr("name")`, `selectattr("name", "equalto", value)`: the items whose attribute passes the test, or with
/// `wanted` false, fails it.
fn select(
    state: &State<'_, '_>,
    value: &Inner,
    by: &[Inner],
    wanted: bool,
) -> Result<Inner, Error> {
    list(value, "selectattr")?;
    let path = by.first().and_then(Inner::as_str);
    let path = path.ok_or_else(|| unsuitable("`selectattr` needs the name of a field"))?;
    let (test, other) = (by.get(1), by.get(2));
    let budget = budget(state)?;
    let mut selected = Vec::new();
    for item in counted(state, value)? {
        if holds(&attribute(&item, path), test, other, &budget)? == wanted {
            selected.push(item);
        }
    }
    Ok(Inner::from(selected))
}

fn holds(
    found: &Inner,
    test: Option<&Inner>,
    other: Option<&Inner>,
    budget: &Budget,
) -> Result<bool, Error> {
    let Some((test, other)) = test.and_then(Inner::as_str).zip(other) else {
        return match test {
            None => Ok(found.is_true()),
            Some(_) => Err(unsuitable(
                "`selectattr` takes a field, or a field, a test and a value",
            )),
        };
    };
    match test {
        "equalto" | "eq" | "==" => charge(found, budget).map(|()| found == other),
        "ne" | "!=" => charge(found, budget).map(|()| found != other),
        "in" => {
            list(other, "selectattr")?;
            charge(other, budget)?;
            Ok(other.try_iter()?.any(|item| item == *found))
        }
        _ => Err(unsuitable(
            "`selectattr` knows the tests `equalto`, `ne` and `in`",
        )),
    }
}
