//! JSON Schema as midex evaluates it: the same answers as another evaluator gives, within a budget.

use midex_domain::{
    finding::Rule,
    limits,
    schema::{BUDGET_RULE, PatternQuota, Schema, SchemaFinding, ValueSize},
};
use serde_json::{Map, Value, json};

use midex_test::long::{Dice, rounds, seed};

mod budget;
mod served;
mod worst;

fn read(schema: &Value) -> (Schema, Vec<SchemaFinding>) {
    Schema::compile_with_faults(schema, &mut PatternQuota::default())
}

#[track_caller]
fn sound(schema: &Value) -> Schema {
    let (read, faults) = read(schema);
    assert_eq!(faults, [], "{schema}");
    read
}

/// Names that schemas and values share, so that they meet.
const NAMES: [&str; 4] = ["a", "b", "ab", "c"];

fn name(dice: &mut Dice) -> String {
    NAMES[usize::try_from(dice.roll(4)).unwrap()].to_owned()
}

fn value(dice: &mut Dice, depth: u64) -> Value {
    match dice.roll(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => json!(dice.roll(2) == 0),
        2 => json!(dice.roll(4)),
        3 => json!([0.5, 1.0, 1.5, 2.0][usize::try_from(dice.roll(4)).unwrap()]),
        4 | 5 => json!(name(dice)),
        6 | 7 => (0..dice.roll(4)).map(|_| value(dice, depth - 1)).collect(),
        _ => (0..dice.roll(4))
            .map(|_| (name(dice), value(dice, depth - 1)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

fn schemas(dice: &mut Dice, depth: u64) -> Value {
    (0..=dice.roll(2)).map(|_| schema(dice, depth)).collect()
}

fn named(dice: &mut Dice, depth: u64) -> Value {
    let pairs = (0..=dice.roll(2)).map(|_| (name(dice), schema(dice, depth)));
    pairs.collect::<Map<_, _>>().into()
}

fn names(dice: &mut Dice) -> Value {
    let mut names: Vec<_> = (0..dice.roll(3)).map(|_| name(dice)).collect();
    names.sort();
    names.dedup();
    json!(names)
}

fn reference(dice: &mut Dice) -> Value {
    json!(["#", "#/$defs/x", "#/$defs/y", "#/$defs/z"][usize::try_from(dice.roll(4)).unwrap()])
}

/// A schema without definitions of its own; at depth 0 one without schemas in it, references aside.
fn schema(dice: &mut Dice, depth: u64) -> Value {
    let mut map = Map::new();
    for _ in 0..=dice.roll(3) {
        let (word, value) = match dice.roll(if depth == 0 { 16 } else { 34 }) {
            0 if depth > 0 => return json!(dice.roll(2) == 0),
            0..3 => {
                let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
                ("type", json!(types[usize::try_from(dice.roll(7)).unwrap()]))
            }
            3 => ("const", value(dice, 1)),
            4 => ("enum", json!([value(dice, 1), value(dice, 1)])),
            5 => ("minimum", json!(dice.roll(3))),
            6 => ("exclusiveMaximum", json!(dice.roll(3))),
            7 => ("multipleOf", json!(0.5)),
            8 => ("minLength", json!(dice.roll(3))),
            9 => ("maxItems", json!(dice.roll(3))),
            10 => ("minProperties", json!(dice.roll(3))),
            11 => ("pattern", json!("^a")),
            12 => ("required", names(dice)),
            13 => ("uniqueItems", json!(true)),
            14 => ("dependentRequired", json!({ name(dice): names(dice) })),
            15 | 16 => ("$ref", reference(dice)),
            17 | 18 => ("properties", named(dice, depth - 1)),
            19 => ("patternProperties", json!({ "b$": schema(dice, depth - 1) })),
            20 => ("additionalProperties", schema(dice, depth - 1)),
            21 => ("propertyNames", schema(dice, depth - 1)),
            22 => ("items", schema(dice, depth - 1)),
            23 => ("prefixItems", schemas(dice, depth - 1)),
            24 => ("contains", schema(dice, depth - 1)),
            25 => ("allOf", schemas(dice, depth - 1)),
            26 => ("anyOf", schemas(dice, depth - 1)),
            27 => ("oneOf", schemas(dice, depth - 1)),
            28 => ("not", schema(dice, depth - 1)),
            29 => {
                map.insert("if".into(), schema(dice, depth - 1));
                map.insert("else".into(), schema(dice, depth - 1));
                ("then", schema(dice, depth - 1))
            }
            30 => ("dependentSchemas", named(dice, depth - 1)),
            31 => ("unevaluatedProperties", schema(dice, depth - 1)),
            32 => ("unevaluatedItems", schema(dice, depth - 1)),
            _ => {
                map.insert("contains".into(), schema(dice, depth - 1));
                map.insert("maxContains".into(), json!(dice.roll(3)));
                ("minContains", json!(dice.roll(3)))
            }
        };
        map.insert(word.into(), value);
    }
    map.into()
}

/// Words that draft 7 does not have.
const LATER: [&str; 5] = ["prefixItems", "unevaluated", "dependent", "minContains", "$dynamic"];

/// A random schema and value get the same answer from both, and the violations say whether there are any.
#[test]
fn another_evaluator_gives_the_same_answers() {
    let dice = &mut Dice(seed(7));
    let (mut held, mut valid) = (0, 0);
    for round in 0..rounds(2500, 300_000) {
        let mut schema = json!({ "$defs": {
            "x": schema(dice, 1), "y": schema(dice, 2), "z": schema(dice, 0)
        }, "allOf": [schema(dice, 3)] });
        // An earlier draft does not have all of the words; ours does not mind them there.
        let text = schema.to_string();
        let is_later = LATER.iter().any(|word| text.contains(word));
        if !is_later && dice.roll(2) == 0 {
            schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        }
        let (ours, faults) = read(&schema);
        if !faults.is_empty() {
            // References that lead round, which the other evaluator takes for nothing.
            assert!(faults.iter().all(|fault| fault.message.contains("to itself")), "{faults:?}");
            continue;
        }
        let theirs = jsonschema::options().build(&schema).expect("a schema");
        for _ in 0..4 {
            let value = value(dice, 3);
            let violations = ours.find_violations(&value);
            let is_valid = theirs.is_valid(&value);
            assert_eq!(
                violations.is_empty(),
                is_valid,
                "round {round}: {schema} {value} {violations:?}"
            );
            held += 1;
            valid += u32::from(is_valid);
        }
    }
    assert!(valid > held / 20 && valid < held * 19 / 20, "{valid} of {held} are valid");
}

/// What the random schemas do not say: each schema with values that it takes, and with values and the rules and places
/// that they break.
#[test]
fn each_violation_has_its_rule_and_its_place() {
    let cases = json!([
        [{ "maxLength": 2 }, "日本", "日本語", "maxLength "],
        [{ "type": "integer" }, 1.0, 1.5, "type "],
        [{ "type": ["string", "null"] }, null, 1, "type "],
        [{ "const": { "a": [1] } }, { "a": [1.0] }, { "a": 1 }, "const "],
        [false, null, 1, "falseSchema "],
        [
            { "properties": { "a/b": { "items": { "type": "string" } } } },
            { "a/b": ["x"] }, { "a/b": ["x", 1] }, "type /a~1b/1"
        ],
        [
            { "properties": { "a": true }, "additionalProperties": false },
            { "a": 1 }, { "a": 1, "b": 2 }, "additionalProperties "
        ],
        [
            { "anyOf": [{ "required": ["a"] }], "unevaluatedProperties": false, "$ref": "#/$defs/a",
              "$defs": { "a": { "properties": { "a": true } } } },
            { "a": 1 }, { "a": 1, "b": 2 }, "unevaluatedProperties "
        ],
        [
            { "$schema": "http://json-schema.org/draft-07/schema#", "items": [{ "type": "string" }],
              "additionalItems": { "type": "number" } },
            ["a", 1], ["a", "b"], "type /1"
        ],
        [
            { "$schema": "http://json-schema.org/draft-07/schema#", "dependencies": { "a": ["b"],
              "c": { "required": ["d"] } } },
            { "a": 1, "b": 1 }, { "a": 1 }, "dependentRequired "
        ],
        [
            { "$ref": "#tree", "$defs": { "tree": { "$anchor": "tree", "type": "object",
              "properties": { "children": { "items": { "$ref": "#tree" } } } } } },
            { "children": [{ "children": [{}] }] }, { "children": [{ "children": [3] }] },
              "type /children/0/children/0"
        ],
        [
            { "$id": "https://example.com/root", "items": { "$ref": "item" }, "$defs": { "i": { "$id": "item",
              "$ref": "#/$defs/t", "$defs": { "t": { "type": "string" } } } } },
            ["a"], [1], "type /0"
        ],
        [
            { "$dynamicAnchor": "node", "type": "object", "properties": { "next": { "$dynamicRef": "#node" } } },
            { "next": {} }, { "next": 1 }, "type /next"
        ],
    ]);
    for case in cases.as_array().unwrap() {
        let [schema, good, bad, expected] = &case.as_array().unwrap()[..] else { panic!("{case}") };
        let read = sound(schema);
        if *schema != json!(false) {
            assert_eq!(read.find_violations(good), [], "{schema}");
        }
        let found = read.find_violations(bad);
        let found: Vec<_> = found
            .iter()
            .map(|violation| format!("{} {}", violation.rule, violation.path))
            .collect();
        assert_eq!(json!(found), json!([expected]), "{schema}");
    }
}

/// What a violation says of the options of an `enum`, and which of them it takes a value for.
fn options(options: &Value, value: &Value) -> (String, Option<String>) {
    let found = sound(&json!({ "enum": options })).find_violations_named(value, "it");
    let [violation] = &found[..] else {
        panic!("{found:?}");
    };
    let expected = violation.expected.as_ref().unwrap();
    assert!(expected.chars().count() <= limits::SCHEMA_OPTIONS_SHOWN_CHARS + 1);
    let named = violation.message.strip_prefix("it is not one of ").unwrap();
    let meant = violation.suggestion.as_ref();
    (named.to_owned(), meant.map(|meant| meant.text.clone()))
}

#[test]
fn all_options_of_an_enum_are_named_and_the_near_one_is_meant() {
    let months = "january february march april may june july august september october november december unknown";
    let months: Value = months.split(' ').collect();
    for (value, meant) in [
        (json!("agust"), Some("did you mean `august`?")),
        (json!("March"), Some("did you mean `march`?")),
        (json!("easter"), None),
        (json!(3), None),
        (json!(["may"]), None),
    ] {
        let (named, found) = options(&months, &value);
        assert_eq!(found.as_deref(), meant, "{value}");
        assert!(named.starts_with(r#""january", "february", "#), "{named}");
        assert!(named.ends_with(r#""december" or "unknown""#), "{named}");
    }
    assert_eq!(options(&json!(["a"]), &json!(1)).0, r#""a""#);
}

#[test]
fn options_past_a_limit_are_counted_and_not_compared() {
    let many: Value = (0..5000).map(|at| format!("option {at}")).collect();
    let (named, meant) = options(&many, &json!("optoin 4999"));
    let (shown, more) = named.rsplit_once(" or ").unwrap();
    let shown = shown.split(", ").count();
    assert_eq!(more, format!("{} others", 5000 - shown));
    assert!(shown > 30 && named.len() < limits::SCHEMA_OPTIONS_SHOWN_CHARS * 2);
    assert_eq!(meant, None);
    // One option is shown as far as any text is, so the first of them always is.
    let long = json!(["a".repeat(5000), "b".repeat(5000), "c".repeat(5000)]);
    let (named, meant) = options(&long, &json!("a".repeat(4999)));
    assert_eq!(meant, None);
    assert!(named.ends_with(" or 1 other"), "{named}");
}

/// Faults, as `rule pointer key` with the hint.
#[test]
fn every_fault_of_a_schema_is_found_at_once() {
    let (_, faults) = read(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "x-note": 1,
        "require": ["a"],
        "properties": {
            "a": { "type": "strin", "minimun": 3 },
            "b": { "format": "datetime", "default": { "minimun": 3 }, "enum": [{ "type": "strin" }] },
            "c": { "pattern": "(", "items": [true] },
            "d": { "approved": "boolean", "count": { "type": "integer" } },
            "e": { "$ref": "https://example.com/other" },
            "f": "string",
            "g": { "type": "object", "nullable": true, "required": ["x", "x"] },
            "h": { "allOf": [], "maxLength": -1 }
        }
    }));
    let shown: Vec<_> = faults
        .iter()
        .map(|fault| {
            let key = fault.key.as_deref().unwrap_or("-");
            let hint = fault.hint.as_deref().unwrap_or("-");
            let hint: String = hint.chars().take(40).collect();
            format!("{:?} {} {key} | {hint}", fault.rule, fault.pointer)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_schema_that_comes_to_no_end_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }],
                "$defs": { "a": { "if": { "$ref": "#/$defs/b" } }, "b": { "not": { "$ref": "#/$defs/a" } } } }),
    ] {
        let (_, faults) = read(&schema);
        let itself = |fault: &SchemaFinding| fault.message.contains("refers to itself");
        assert!(faults.iter().any(itself), "{schema} {faults:?}");
    }
    let chain: Map<_, _> = (0..200)
        .map(|at| (at.to_string(), json!({ "$ref": format!("#/$defs/{}", at + 1) })))
        .chain([("200".to_owned(), json!(true))])
        .collect();
    let (_, faults) = read(&json!({ "$ref": "#/$defs/0", "$defs": chain }));
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].rule, Rule::LimitExceeded);
}

/// Up to draft 7 whatever stands beside a `$ref` counts for nothing, an `$id` too; and a reference is resolved as RFC 3986
/// says.
#[test]
fn references_are_resolved_as_their_draft_has_it() {
    let seven = |mut schema: Value| {
        schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        schema
    };
    let beside = json!({
        "$id": "http://localhost/sibling/base/",
        "definitions": {
            "foo": { "$id": "http://localhost/sibling/foo.json", "type": "string" },
            "base_foo": { "$id": "foo.json", "type": "number" }
        },
        "allOf": [{ "$id": "http://localhost/sibling/", "$ref": "foo.json" }]
    });
    let dots = |reference: &str| {
        json!({
            "$id": "http://localhost/a/b/c.json",
            "$ref": reference,
            "$defs": { "x": { "$id": "http://localhost/a/x.json", "type": "string" }, "y": { "$id": "../y.json", "type": "boolean" } }
        })
    };
    for (schema, good, bad) in [
        (seven(beside), json!(1), json!("text")),
        (dots("../x.json"), json!("text"), json!(1)),
        (dots("./../b/.././x.json"), json!("text"), json!(1)),
        (dots("/a/b/../x.json"), json!("text"), json!(1)),
        (dots("http://localhost/a/b/../x.json"), json!("text"), json!(1)),
        (dots("../y.json"), json!(true), json!(1)),
    ] {
        let made = sound(&schema);
        assert!(made.find_violations(&good).is_empty(), "{schema}");
        assert!(!made.find_violations(&bad).is_empty(), "{schema}");
    }
}

/// Names of hosts are held to nothing: RFC 5890 asks for tables that nobody here has.
#[test]
fn no_format_is_claimed_that_is_not_held() {
    for name in ["hostname", "idn-hostname"] {
        let made = sound(&json!({ "format": name }));
        assert!(made.find_violations(&json!("xn--X")).is_empty(), "{name}");
        assert!(!midex_domain::schema::formats().any(|known| known == name));
    }
    let made = sound(&json!({ "format": "email" }));
    assert!(!made.find_violations(&json!("a@-b.example")).is_empty());
}
