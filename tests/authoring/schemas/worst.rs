//! Schemas and values with the most work that could be thought of. The bench measures the same ones.

use serde_json::{Map, Value, json};

/// An expression tree, of which a wrong leaf fails each branch of each level.
pub(crate) fn expressions(of: &str) -> Value {
    json!({ "$ref": "#/$defs/e", "$defs": { "e": { of: [
        { "type": "number" },
        { "type": "object", "required": ["add"], "properties": { "add": { "items": { "$ref": "#/$defs/e" } } } },
        { "type": "object", "properties": { "add": { "items": { "$ref": "#/$defs/e" } } } },
    ] } } })
}

pub(crate) fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({ "add": [inner] }))
}

/// Schemas with the most work that could be thought of for a text, a list, a mapping or a nest.
pub(crate) fn worst() -> Vec<(&'static str, Value, Value)> {
    let wide = |schema: Value| vec![schema; 400];
    let numbers: Value = (0..100_000).collect();
    let names: Map<_, _> = (0..20_000).map(|at| (format!("name{at}"), json!(at))).collect();
    let options: Value = (0..5000).map(|at| json!(format!("option {at}"))).collect();
    let patterns: Map<_, _> = (0..150).map(|at| (format!("(a|b)*{at}$"), json!(true))).collect();
    let mut seed = 7_u32;
    let letter = |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if seed & (1 << 20) == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..1_000_000).map(letter).collect();
    let marks: Vec<_> = (0..300)
        .map(|at| json!({ "properties": { at.to_string(): true }, "items": true }))
        .collect();
    let long: Map<_, _> =
        (0..50).map(|at| (format!("{at}{}", "x".repeat(10_000)), json!(true))).collect();
    vec![
        (
            "items, many schemas each",
            json!({ "items": { "allOf": wide(json!({ "type": "number" })) } }),
            numbers.clone(),
        ),
        ("items, all options each", json!({ "items": { "enum": options } }), numbers.clone()),
        ("names, many patterns each", json!({ "patternProperties": patterns }), json!(names)),
        (
            "no order",
            json!({ "not": { "uniqueItems": true } }),
            json!([numbers.clone(), numbers.clone()]),
        ),
        ("a long text, a wide pattern", json!({ "pattern": "(a|b)*a(a|b){100}c" }), json!(text)),
        (
            "many long texts",
            json!({ "items": { "pattern": "(a|b)*a(a|b){14}c" } }),
            json!(vec![&text[..20_000]; 100]),
        ),
        (
            "unevaluated",
            json!({ "items": { "anyOf": marks, "unevaluatedProperties": false } }),
            json!(vec![names.clone(); 4]),
        ),
        (
            "names that are schemas",
            json!({ "propertyNames": { "allOf": wide(json!({ "minLength": 1 })) } }),
            json!(names),
        ),
        (
            "texts that are expressions",
            json!({ "items": { "format": "regex" } }),
            json!(vec![format!("(?i){}", "\\p{L}".repeat(199)); 200]),
        ),
        (
            "many multiples",
            json!({ "items": { "allOf": wide(json!({ "multipleOf": 0.01 })) } }),
            (0..20_000).map(|at| json!(f64::from(at) + 0.25)).collect(),
        ),
        (
            "whole numbers, all options each",
            json!({ "items": { "enum": (0..5000).map(|at| json!(f64::from(at) + 0.5)).collect::<Value>() } }),
            (0..50_000).map(|at| json!(f64::from(at))).collect(),
        ),
        (
            "long names, many of them asked for",
            json!({ "items": { "properties": long } }),
            json!(vec![json!({ "x": 1, "y": 2 }); 100_000]),
        ),
        (
            "all of it looked at, many times",
            json!({ "allOf": wide(json!({ "$ref": "#/$defs/all", "unevaluatedProperties": false })),
                    "$defs": { "all": { "unevaluatedProperties": true } } }),
            json!(names),
        ),
        (
            "many at every level",
            several_times(50),
            json!({ "add": vec![nested(20, json!(1)); 3000] }),
        ),
    ]
}

/// A schema that looks through the whole value so many times before it finds a branch that holds, at each level.
fn several_times(times: usize) -> Value {
    let through = json!({ "properties": { "add": { "items": { "$ref": "#/$defs/e" } } } });
    let branch = |at: usize| json!({ "allOf": [through, { "required": [at.to_string()] }] });
    let branches: Vec<_> = (0..times).map(branch).chain([json!(true)]).collect();
    json!({ "$ref": "#/$defs/e", "$defs": { "e": { "anyOf": branches } } })
}
