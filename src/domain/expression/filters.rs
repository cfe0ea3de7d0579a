//! The filters and tests that expressions may use, each with its name, its arguments and its function. There are no others.

use std::sync::LazyLock;

use minijinja::{
    Environment, Error, State, UndefinedBehavior, Value as Inner, filters as given, tests,
    value::{Rest, from_args},
};

use super::{
    functions::{FilterCall, FilterFunction, require_text},
    operators,
    parse::ExpressionNode,
    value_to_text,
};
use crate::limits;

/// What expressions are compiled in: our operators, filters and tests, and nothing else.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(limits::EXPRESSION_FUEL_MAX));
    operators::register_operators(&mut environment);
    for filter in FILTERS {
        let run = |state: &State<'_, '_>, value: Inner, arguments: Rest<Inner>| {
            (filter.run)(FilterCall::new(state, filter.name, value, arguments.0)?)
        };
        environment.add_filter(filter.name, run);
    }
    for test in TESTS {
        let run = |value: Inner, arguments: Rest<Inner>| (test.run)(&value, &arguments);
        environment.add_test(test.name, run);
    }
    environment
});

/// A filter: its name, the least and most values it takes besides its subject, the names of its named arguments, and its
/// function.
pub(super) struct JinjaFilter {
    pub(super) name: &'static str,
    pub(super) arguments: (usize, usize),
    named_arguments: &'static [&'static str],
    run: FilterFunction,
}

const fn new_filter(
    name: &'static str,
    arguments: (usize, usize),
    named: &'static [&'static str],
    run: FilterFunction,
) -> JinjaFilter {
    JinjaFilter { name, arguments, named_arguments: named, run }
}

/// A filter without arguments.
const fn filter_without_arguments(name: &'static str, run: FilterFunction) -> JinjaFilter {
    new_filter(name, (0, 0), &[], run)
}

static FILTERS: &[JinjaFilter] = &[
    filter_without_arguments("abs", |call| given::abs(call.value)),
    filter_without_arguments("bool", |call| call.to_boolean()),
    new_filter("default", (0, 2), &[], |call| Ok(call.apply_default())),
    filter_without_arguments("first", |call| given::first(call.expect_text_or_list()?)),
    filter_without_arguments("float", |call| call.to_number(given::float)),
    filter_without_arguments("fromjson", |call| call.parse_json()),
    filter_without_arguments("int", |call| call.to_number(given::int)),
    filter_without_arguments("items", |call| call.map_entries(|key, item| vec![key, item].into())),
    new_filter("join", (0, 1), &[], |call| call.join_items()),
    filter_without_arguments("keys", |call| call.map_entries(|key, _| key)),
    filter_without_arguments("last", |call| given::last(call.expect_text_or_list()?.clone())),
    filter_without_arguments("length", |call| call.compute_length()),
    filter_without_arguments("lower", |call| call.charge_text(call.expect_text()?.to_lowercase())),
    new_filter("map", (0, 0), &["attribute", "default"], |call| call.map_attribute()),
    filter_without_arguments("max", |call| {
        given::max(call.state, call.expect_sortable_list(None)?)
    }),
    filter_without_arguments("min", |call| {
        given::min(call.state, call.expect_sortable_list(None)?)
    }),
    new_filter("rejectattr", (1, 3), &[], |call| call.select_by_attribute(false)),
    new_filter("replace", (2, 2), &[], |call| call.replace()),
    filter_without_arguments("reverse", |call| call.reverse()),
    new_filter("round", (0, 1), &[], |call| {
        let (precision,) = from_args(&call.arguments)?;
        given::round(call.value, precision)
    }),
    new_filter("selectattr", (1, 3), &[], |call| call.select_by_attribute(true)),
    new_filter("sort", (0, 0), &["attribute", "case_sensitive", "reverse"], |call| call.sort()),
    new_filter("split", (0, 1), &[], |call| call.split()),
    filter_without_arguments("string", |call| call.charge_text(value_to_text(&call.to_json()?))),
    filter_without_arguments("sum", |call| call.sum_items()),
    filter_without_arguments("tojson", |call| call.charge_text(call.to_json()?.to_string())),
    filter_without_arguments("trim", |call| {
        call.charge_text(call.expect_text()?.trim().to_owned())
    }),
    new_filter("unique", (0, 0), &["attribute", "case_sensitive"], |call| call.unique()),
    filter_without_arguments("upper", |call| call.charge_text(call.expect_text()?.to_uppercase())),
    filter_without_arguments("values", |call| call.map_entries(|_, item| item)),
];

/// The tests that `selectattr` and `rejectattr` take by name, each with a value to compare with.
const ATTRIBUTE_TESTS: &[&str] = &["equalto", "eq", "==", "ne", "!=", "in"];

/// Jinja's other names for some filters.
const ALIASES: &[(&str, &str)] = &[("count", "length"), ("d", "default")];

impl JinjaFilter {
    pub(super) fn find_by_name(name: &str) -> Option<&'static Self> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| *name);
        FILTERS.iter().find(|filter| filter.name == name)
    }

    pub(super) fn is_default(&self) -> bool {
        self.name == "default"
    }

    /// The tests that `selectattr` and `rejectattr` take by name; `None` for other filters.
    pub(super) fn attribute_tests(&self) -> Option<&'static [&'static str]> {
        matches!(self.name, "selectattr" | "rejectattr").then_some(ATTRIBUTE_TESTS)
    }

    /// Checks the number and the names of the arguments; the error says what the filter takes.
    pub(super) fn check_arguments(&self, arguments: &[FilterArgument]) -> Result<(), String> {
        let (min_count, max_count) = self.arguments;
        let unnamed = arguments.iter().filter(|argument| argument.name.is_none());
        let count = unnamed.count();
        let named = || arguments.iter().filter_map(|a| a.name.as_deref());
        let unknown = named().find(|name| !self.named_arguments.contains(name));
        let needs_attribute = self.name == "map" && !named().any(|name| name == "attribute");
        if count < min_count || count > max_count || unknown.is_some() || needs_attribute {
            return Err(self.usage_text());
        }
        Ok(())
    }

    fn usage_text(&self) -> String {
        let (min_count, max_count) = self.arguments;
        let count = match (min_count, max_count) {
            (0, 0) => "no values".to_owned(),
            (least, most) if least == most => format!("{least} values"),
            (least, most) => format!("{least} to {most} values"),
        };
        let named: Vec<_> = self.named_arguments.iter().map(|name| format!("`{name}=`")).collect();
        let named = if named.is_empty() {
            String::new()
        } else {
            format!(", and by name {}", named.join(", "))
        };
        format!("the filter `{}` takes {count}{named}", self.name)
    }
}

pub(super) fn filter_names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|filter| filter.name)
}

/// A test: its name, the number of values it takes besides its subject, and its function.
pub(super) struct JinjaTest {
    name: &'static str,
    pub(super) arguments: usize,
    run: fn(&Inner, &[Inner]) -> Result<bool, Error>,
}

const fn new_test(
    name: &'static str,
    arguments: usize,
    run: fn(&Inner, &[Inner]) -> Result<bool, Error>,
) -> JinjaTest {
    JinjaTest { name, arguments, run }
}

static TESTS: &[JinjaTest] = &[
    new_test("defined", 0, |value, _| Ok(tests::is_defined(value))),
    new_test("undefined", 0, |value, _| Ok(tests::is_undefined(value))),
    new_test("none", 0, |value, _| Ok(tests::is_none(value))),
    new_test("null", 0, |value, _| Ok(tests::is_none(value))),
    new_test("true", 0, |value, _| Ok(tests::is_true(value))),
    new_test("false", 0, |value, _| Ok(tests::is_false(value))),
    new_test("boolean", 0, |value, _| Ok(tests::is_boolean(value))),
    new_test("number", 0, |value, _| Ok(tests::is_number(value))),
    new_test("integer", 0, |value, _| Ok(tests::is_integer(value))),
    new_test("float", 0, |value, _| Ok(tests::is_float(value))),
    new_test("string", 0, |value, _| Ok(tests::is_string(value))),
    new_test("sequence", 0, |value, _| Ok(tests::is_sequence(value))),
    new_test("mapping", 0, |value, _| Ok(tests::is_mapping(value))),
    new_test("odd", 0, |value, _| Ok(is_divisible_by(value, 2) == Some(false))),
    new_test("even", 0, |value, _| Ok(is_divisible_by(value, 2) == Some(true))),
    new_test("divisibleby", 1, |value, arguments| {
        let (divisor,) = from_args(arguments)?;
        Ok(is_divisible_by(value, divisor) == Some(true))
    }),
    new_test("startingwith", 1, |value, arguments| {
        let (start,): (&str,) = from_args(arguments)?;
        Ok(require_text(value, "startingwith")?.starts_with(start))
    }),
    new_test("endingwith", 1, |value, arguments| {
        let (end,): (&str,) = from_args(arguments)?;
        Ok(require_text(value, "endingwith")?.ends_with(end))
    }),
];

fn is_divisible_by(value: &Inner, divisor: i128) -> Option<bool> {
    let number = i128::try_from(value.clone()).ok().filter(|_| value.is_integer())?;
    number.checked_rem_euclid(divisor).map(|rest| rest == 0)
}

impl JinjaTest {
    pub(super) fn find_by_name(name: &str) -> Option<&'static Self> {
        TESTS.iter().find(|test| test.name == name)
    }

    /// Whether the test asks if a path leads to anything.
    pub(super) fn is_presence_test(&self) -> bool {
        matches!(self.name, "defined" | "undefined")
    }
}

pub(super) fn test_names() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|test| test.name)
}

/// An argument of a filter or test.
pub(super) struct FilterArgument {
    pub(super) name: Option<String>,
    pub(super) node: ExpressionNode,
}

impl FilterArgument {
    pub(super) fn to_source(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}={}", self.node.text),
            None => self.node.text.clone(),
        }
    }
}
