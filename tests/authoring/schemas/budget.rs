//! Evaluation ends with its budget. Time is not looked at: what is counted are steps, of which each takes a bounded time.

use midex_domain::limits;

use super::{worst::*, *};

/// The fewest steps that an evaluation of the value needs, to the next power of two; `None` where the budget of a call
/// does not suffice.
fn steps(schema: &Schema, value: &Value) -> Option<u64> {
    let ends = |steps: &u64| {
        let found = schema.find_violations_within(value, "it", *steps);
        found.iter().all(|violation| violation.rule != BUDGET_RULE)
    };
    (0..=22).map(|power| 1 << power).find(ends)
}

#[test]
fn what_would_double_with_each_level_grows_with_the_value() {
    for of in ["anyOf", "oneOf"] {
        let schema = sound(&expressions(of));
        for leaf in [json!("wrong"), json!(1)] {
            let short = steps(&schema, &nested(10, leaf.clone())).expect("an answer");
            let long = steps(&schema, &nested(40, leaf.clone())).expect("an answer");
            assert!(long <= short * 8, "{of} {leaf}: {short} {long}");
        }
        assert_ne!(schema.find_violations(&nested(40, json!("wrong"))), []);
    }
}

/// The fewest steps that an evaluation of the value needs.
fn cost(schema: &Value, value: &Value) -> u64 {
    let schema = sound(schema);
    let suffice = |steps: u64| {
        let found = schema.find_violations_within(value, "it", steps);
        found.iter().all(|violation| violation.rule != BUDGET_RULE)
    };
    let (mut few, mut enough) = (0, limits::SCHEMA_STEPS_MAX);
    assert!(suffice(enough), "{enough} steps do not suffice");
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if suffice(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    enough
}

/// A chain of definitions, each of which refers to the next twice.
fn chain(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
    let level = |at: usize| {
        let next = json!({ "$ref": format!("#/$defs/{}", at + 1) });
        (at.to_string(), twice(next))
    };
    let last = (levels.to_string(), json!({ "type": "string" }));
    let levels: Map<_, _> = (0..levels).map(level).chain([last]).collect();
    json!({ "$ref": "#/$defs/0", "$defs": levels })
}

/// A schema that is put into itself so many times.
fn within(levels: usize, around: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!({ "type": "object" }), |inner, _| around(inner))
}

fn lists(levels: usize, leaf: Value) -> Value {
    (0..levels).fold(leaf, |inner, _| json!([inner]))
}

type Shape = fn(usize) -> (Value, Value);

/// Shapes that would double with each level, of schema, of value or of both, if nothing were remembered.
const DOUBLING: [(&str, Shape); 12] = [
    ("allOf, valid", |levels| (chain(levels, |next| json!({ "allOf": [next, next] })), json!("x"))),
    ("allOf, wrong", |levels| (chain(levels, |next| json!({ "allOf": [next, next] })), json!(1))),
    ("anyOf, wrong", |levels| (chain(levels, |next| json!({ "anyOf": [next, next] })), json!(1))),
    ("oneOf, wrong", |levels| (chain(levels, |next| json!({ "oneOf": [next, next] })), json!(1))),
    ("if and then", |levels| {
        (chain(levels, |next| json!({ "if": next, "then": next })), json!("x"))
    }),
    ("not and anyOf", |levels| {
        (chain(levels, |next| json!({ "not": next, "anyOf": [next] })), json!(1))
    }),
    ("a name", |levels| {
        let chain = chain(levels, |next| json!({ "allOf": [next, next] }));
        (
            json!({ "propertyNames": { "$ref": "#/$defs/0" }, "$defs": chain["$defs"] }),
            json!({ "a": 1 }),
        )
    }),
    ("anyOf of itself", |levels| {
        let items = json!({ "items": { "$ref": "#/$defs/e" }, "type": "array" });
        (
            json!({ "$ref": "#/$defs/e", "$defs": { "e": { "anyOf": [items, items] } } }),
            lists(levels, json!(1)),
        )
    }),
    ("oneOf of itself", |levels| {
        let items = json!({ "items": { "$ref": "#/$defs/e" } });
        (
            json!({ "$ref": "#/$defs/e", "$defs": { "e": { "oneOf": [items, items] } } }),
            lists(levels, json!(1)),
        )
    }),
    ("unevaluated properties", |levels| {
        (
            within(levels, |inner| json!({ "allOf": [inner], "unevaluatedProperties": true })),
            json!({ "a": 1 }),
        )
    }),
    ("unevaluated properties, wrong", |levels| {
        (
            within(levels, |inner| json!({ "anyOf": [inner], "unevaluatedProperties": false })),
            json!({ "a": 1 }),
        )
    }),
    ("unevaluated items", |levels| {
        (
            within(levels, |inner| json!({ "contains": inner, "unevaluatedItems": true })),
            lists(levels, json!({})),
        )
    }),
];

/// None of them doubles: twice as many levels cost about twice as many steps, and where `unevaluated…` stand inside each
/// other, about four times as many.
#[test]
fn no_shape_of_schema_explodes() {
    for (what, shape) in DOUBLING {
        let costs = [5, 10, 20].map(|levels| {
            let (schema, value) = shape(levels);
            cost(&schema, &value)
        });
        let factor = if what.starts_with("unevaluated properties") { 5 } else { 3 };
        let grows = costs.windows(2).all(|pair| pair[1] <= pair[0] * factor);
        assert!(grows && costs[2] < 2000, "{what}: {costs:?}");
    }
}

fn text(length: usize) -> String {
    "x".repeat(length)
}

/// An object whose only name is that long, so many times, each with another property.
fn long_names(length: usize) -> Value {
    let name = text(length);
    json!(vec![json!({ name.as_str(): 1, "y": 1 }); 20])
}

/// So many properties by long names.
fn named(length: usize) -> Value {
    (0..10).map(|at| (format!("{at}{}", text(length)), json!(true))).collect::<Map<_, _>>().into()
}

fn many(count: usize) -> Value {
    (0..count).map(|at| (format!("n{at}"), json!(at))).collect::<Map<_, _>>().into()
}

/// Objects with two properties: of one alone nothing is hashed.
fn objects() -> Value {
    json!(vec![json!({ "x": 1, "y": 2 }); 20])
}

/// Work that grows with the size it is given, each in the way that its name says.
const GROWING: [(&str, Shape); 17] = [
    ("names in the schema", |size| (json!({ "items": { "properties": named(size) } }), objects())),
    ("required names", |size| {
        let names: Vec<_> = (0..10).map(|at| format!("{at}{}", text(size))).collect();
        (json!({ "items": { "not": { "required": names } } }), objects())
    }),
    ("dependent schemas", |size| {
        (json!({ "items": { "dependentSchemas": named(size) } }), objects())
    }),
    ("dependent names", |size| {
        let lists: Map<_, _> =
            (0..10).map(|at| (format!("{at}{}", text(size)), json!(["x"]))).collect();
        (json!({ "items": { "dependentRequired": lists } }), objects())
    }),
    ("names in the value", |size| {
        (
            json!({ "items": { "properties": { "z": true }, "additionalProperties": true } }),
            long_names(size * 20),
        )
    }),
    ("names that are looked at", |size| {
        let schema = json!({ "additionalProperties": true, "unevaluatedProperties": false });
        (json!({ "items": schema }), long_names(size * 20))
    }),
    ("names that are schemas", |size| {
        (json!({ "items": { "propertyNames": { "maxLength": 9_999_999 } } }), long_names(size * 20))
    }),
    ("names against patterns", |size| {
        (json!({ "propertyNames": { "pattern": "^(x|n)" } }), many(size))
    }),
    ("many names, many patterns", |size| {
        let patterns: Map<_, _> = (0..20).map(|at| (format!("^a{at}"), json!(true))).collect();
        (json!({ "patternProperties": patterns }), many(size))
    }),
    ("long names, many patterns", |size| {
        let patterns: Map<_, _> = (0..20).map(|at| (format!("a{at}$"), json!(true))).collect();
        (json!({ "items": { "patternProperties": patterns } }), long_names(size * 10))
    }),
    ("length of a text", |size| (json!({ "maxLength": 9_999_999 }), json!(text(size * 1000)))),
    ("a text against a pattern", |size| (json!({ "pattern": "x$" }), json!(text(size * 100)))),
    ("a format", |size| (json!({ "format": "email" }), json!(text(size * 100)))),
    ("options", |size| {
        (json!({ "items": { "enum": [text(size * 10), "b"] } }), json!(vec![text(size * 10); 20]))
    }),
    ("items that differ", |size| {
        (json!({ "uniqueItems": true }), (0..size).map(|at| json!([at, "y"])).collect())
    }),
    ("long items that differ", |size| {
        let items: Vec<_> = (0..20).map(|at| format!("{at}{}", text(size * 10))).collect();
        (json!({ "uniqueItems": true }), json!(items))
    }),
    ("all that was looked at", |size| {
        let again = json!({ "$ref": "#/$defs/all", "unevaluatedProperties": false });
        (
            json!({ "allOf": vec![again; 50], "$defs": { "all": { "unevaluatedProperties": true } } }),
            many(size),
        )
    }),
];

/// Four times as much of anything costs four times as many steps, so a budget ends it however large it is.
#[test]
fn steps_grow_with_every_kind_of_work() {
    for (what, shape) in GROWING {
        let [small, large] = [1000, 4000].map(|size| {
            let (schema, value) = shape(size);
            cost(&schema, &value)
        });
        assert!((3 * small..=5 * small).contains(&large), "{what}: {small} {large}");
    }
}

/// To read a text as a regular expression takes longer than to search in it, and longer still where case does not count.
#[test]
fn texts_that_are_expressions_cost_by_their_bytes() {
    let expressions = |text: &str| cost(&json!({ "format": "regex" }), &json!(text.repeat(40)));
    let plain = expressions("\\p{L}");
    assert!(plain >= 40 * 5 * 8, "{plain}");
    assert!(expressions("(?i)\\p{L}") >= 50 * plain);
    let schema = sound(&json!({ "items": { "format": "regex" } }));
    assert!(schema.is_slow_to_validate(ValueSize::from_value(&json!(["(?i)\\p{L}".repeat(20)]))));
    assert_eq!(schema.find_violations(&json!(["\\p{L}{9999}"])), []);
}

/// None of them takes more steps than it may, be they few or many: what comes back says that the budget ended.
#[test]
fn the_worst_schemas_end_with_their_budget() {
    for (what, schema, value) in worst() {
        let schema = sound(&schema);
        assert!(schema.is_slow_to_validate(ValueSize::from_value(&value)), "{what}");
        for steps in [0, 100, 10_000] {
            let found = schema.find_violations_within(&value, "it", steps);
            assert_eq!(found.first().map(|first| &*first.rule), Some(BUDGET_RULE), "{what}");
        }
    }
}

/// As deep as a value and a chain of references may be: the stack of a worker suffices.
#[test]
fn the_deepest_evaluation_fits_on_the_stack() {
    let level = |at: usize| {
        let next = format!("#/$defs/{}", at + 1);
        (at.to_string(), json!({ "anyOf": [{ "$ref": next }] }))
    };
    let last =
        ("20".to_owned(), json!({ "properties": { "add": { "items": { "$ref": "#/$defs/0" } } } }));
    let levels: Map<_, _> = (0..20).map(level).chain([last]).collect();
    let schema = sound(&json!({ "$ref": "#/$defs/0", "$defs": levels }));
    let found = schema.find_violations(&nested(49, json!(1)));
    assert_eq!(found[0].rule, BUDGET_RULE);
    assert_eq!(schema.find_violations(&nested(5, json!(1))), []);
}
