//! The filters and tests that expressions may use, by name. There are no others.

/// A filter: its name, the least and most values it takes besides its subject, and the names of its named arguments.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) arguments: (usize, usize),
    named: &'static [&'static str],
}

const fn filter(
    name: &'static str,
    arguments: (usize, usize),
    named: &'static [&'static str],
) -> Filter {
    Filter {
        name,
        arguments,
        named,
    }
}

const FILTERS: &[Filter] = &[
    filter("abs", (0, 0), &[]),
    filter("bool", (0, 0), &[]),
    filter("default", (0, 2), &[]),
    filter("first", (0, 0), &[]),
    filter("float", (0, 0), &[]),
    filter("fromjson", (0, 0), &[]),
    filter("int", (0, 0), &[]),
    filter("items", (0, 0), &[]),
    filter("join", (0, 1), &[]),
    filter("keys", (0, 0), &[]),
    filter("last", (0, 0), &[]),
    filter("length", (0, 0), &[]),
    filter("lower", (0, 0), &[]),
    filter("map", (0, 0), &["attribute", "default"]),
    filter("max", (0, 0), &[]),
    filter("min", (0, 0), &[]),
    filter("rejectattr", (1, 3), &[]),
    filter("replace", (2, 2), &[]),
    filter("reverse", (0, 0), &[]),
    filter("round", (0, 1), &[]),
    filter("selectattr", (1, 3), &[]),
    filter("sort", (0, 0), &["attribute", "case_sensitive", "reverse"]),
    filter("split", (0, 1), &[]),
    filter("string", (0, 0), &[]),
    filter("sum", (0, 0), &[]),
    filter("tojson", (0, 0), &[]),
    filter("trim", (0, 0), &[]),
    filter("unique", (0, 0), &["attribute", "case_sensitive"]),
    filter("upper", (0, 0), &[]),
    filter("values", (0, 0), &[]),
];

/// The tests that `selectattr` and `rejectattr` take by name, each with a value to compare with.
const ATTRIBUTE_TESTS: &[&str] = &["equalto", "eq", "==", "ne", "!=", "in"];

/// Jinja's other names for some filters.
const ALIASES: &[(&str, &str)] = &[("count", "length"), ("d", "default")];

impl Filter {
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| *name);
        FILTERS.iter().find(|filter| filter.name == name)
    }

    pub(super) fn is_default(&self) -> bool {
        self.name == "default"
    }

    /// The tests that `selectattr` and `rejectattr` take by name; `None` for other filters.
    pub(super) fn tests(&self) -> Option<&'static [&'static str]> {
        matches!(self.name, "selectattr" | "rejectattr").then_some(ATTRIBUTE_TESTS)
    }

    /// Checks the number and the names of the arguments; the error says what the filter takes.
    pub(super) fn check(&self, arguments: &[Argument]) -> Result<(), String> {
        let (least, most) = self.arguments;
        let unnamed = arguments.iter().filter(|argument| argument.name.is_none());
        let count = unnamed.count();
        let named = || arguments.iter().filter_map(|a| a.name.as_deref());
        let unknown = named().find(|name| !self.named.contains(name));
        let needs_attribute = self.name == "map" && !named().any(|name| name == "attribute");
        if count < least || count > most || unknown.is_some() || needs_attribute {
            return Err(self.usage());
        }
        Ok(())
    }

    fn usage(&self) -> String {
        let (least, most) = self.arguments;
        let count = match (least, most) {
            (0, 0) => "no values".to_owned(),
            (least, most) if least == most => format!("{least} values"),
            (least, most) => format!("{least} to {most} values"),
        };
        let named: Vec<_> = self.named.iter().map(|name| format!("`{name}=`")).collect();
        let named = if named.is_empty() {
            String::new()
        } else {
            format!(", and by name {}", named.join(", "))
        };
        format!("the filter `{}` takes {count}{named}", self.name)
    }
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|filter| filter.name)
}

/// A test: its name, its name in minijinja, and the number of values it takes besides its subject.
#[derive(Debug)]
pub(super) struct Test {
    name: &'static str,
    pub(super) meant: &'static str,
    pub(super) arguments: usize,
}

const fn test(name: &'static str, meant: &'static str, arguments: usize) -> Test {
    Test {
        name,
        meant,
        arguments,
    }
}

const TESTS: &[Test] = &[
    test("defined", "defined", 0),
    test("undefined", "undefined", 0),
    test("none", "none", 0),
    test("null", "none", 0),
    test("true", "true", 0),
    test("false", "false", 0),
    test("boolean", "boolean", 0),
    test("number", "number", 0),
    test("integer", "integer", 0),
    test("float", "float", 0),
    test("string", "string", 0),
    test("sequence", "sequence", 0),
    test("mapping", "mapping", 0),
    test("odd", "odd", 0),
    test("even", "even", 0),
    test("divisibleby", "divisibleby", 1),
    test("startingwith", "startingwith", 1),
    test("endingwith", "endingwith", 1),
];

impl Test {
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        TESTS.iter().find(|test| test.name == name)
    }

    /// Whether the test asks if a path leads to anything.
    pub(super) fn is_presence(&self) -> bool {
        matches!(self.meant, "defined" | "undefined")
    }
}

pub(super) fn tests() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|test| test.name)
}

/// An argument of a filter or test.
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value: String,
}

impl Argument {
    pub(super) fn text(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}={}", self.value),
            None => self.value.clone(),
        }
    }
}
