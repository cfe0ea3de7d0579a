//! Evaluation ends with its budget. Time is not looked at: what is counted are steps, of which each takes a bounded time.

use super::{worst::*, *};

/// The fewest steps that an evaluation of the value needs, to the next power of two; `None` where the budget of a call
/// does not suffice.
fn steps(schema: &Schema, value: &Value) -> Option<u64> {
    let ends = |steps: &u64| {
        let found = schema.violations_within(value, "it", *steps);
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
        assert_ne!(schema.violations(&nested(40, json!("wrong"))), []);
    }
    let chain = |levels: usize| {
        let level = |at: usize| {
            let next = format!("#/$defs/{}", at + 1);
            (
                at.to_string(),
                json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }),
            )
        };
        let last = (levels.to_string(), json!({ "type": "string" }));
        let levels: Map<_, _> = (0..levels).map(level).chain([last]).collect();
        json!({ "$ref": "#/$defs/0", "$defs": levels })
    };
    let schema = sound(&chain(20));
    for value in [json!("valid"), json!(1)] {
        assert!(steps(&schema, &value) <= Some(1 << 9), "{value}");
    }
}

/// None of them takes more steps than it may, be they few or many: what comes back says that the budget ended.
#[test]
fn the_worst_schemas_end_with_their_budget() {
    for (what, schema, value) in worst() {
        let schema = sound(&schema);
        assert!(schema.is_long(Measure::of(&value)), "{what}");
        for steps in [0, 100, 10_000] {
            let found = schema.violations_within(&value, "it", steps);
            assert_eq!(
                found.first().map(|first| &*first.rule),
                Some(BUDGET_RULE),
                "{what}"
            );
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
    let last = (
        "20".to_owned(),
        json!({ "properties": { "add": { "items": { "$ref": "#/$defs/0" } } } }),
    );
    let levels: Map<_, _> = (0..20).map(level).chain([last]).collect();
    let schema = sound(&json!({ "$ref": "#/$defs/0", "$defs": levels }));
    let found = schema.violations(&nested(49, json!(1)));
    assert_eq!(found[0].rule, BUDGET_RULE);
    assert_eq!(schema.violations(&nested(5, json!(1))), []);
}
