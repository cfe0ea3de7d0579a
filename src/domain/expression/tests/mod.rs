mod bounds;
mod faults;
mod foreign;
mod paths;
mod random;
mod secrets;
mod templates;
mod values;

use serde_json::{Map, Value, json};

use super::{EvaluationContext, Expression, ExpressionFault, FaultKind, ForeachItem};

fn to_json_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no map"),
    }
}

fn sample_context() -> EvaluationContext {
    EvaluationContext {
        inputs: to_json_map(json!({
            "name": "midex", "n": 3, "zero": 0, "no": false, "unset": null, "empty": "",
            "tags": ["a", "b"], "none": [], "nothing": {}, "big": u64::MAX, "small": i64::MIN,
            "key": "b", "users": [{"id": 2, "name": "Bo"}, {"id": 1, "name": "Al", "on": true}],
        })),
        steps: to_json_map(json!({
            "code-review": {"x": "yes", "list": [{"y": 7}], "output": {"x": "inner"}},
            "deploy": {"id": "d1", "status": "live", "ratio": 0.1},
        })),
        errors: Map::new(),
        ended: Map::new(),
        memory: to_json_map(json!({"z": 1, "a": {"y": 1, "b": 2}})),
        env: to_json_map(json!({"HOME": "/home"})),
        secrets: vec!["TOKEN".into(), "OTHER".into()],
        run: json!({"visits": {"code-review": 2}}),
        item: Some(ForeachItem { value: json!({"file": "a.rs"}), index: 4 }),
    }
}

fn parse_valid(text: &str) -> Expression {
    Expression::parse_with(text, &["pkg"]).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

fn evaluate_text(text: &str) -> Result<Value, ExpressionFault> {
    parse_valid(text).evaluate(&sample_context())
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn assert_evaluates_to(text: &str, expected: Value) {
    let value = evaluate_text(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    assert_eq!(value, expected, "{text}");
}

/// The fault of an evaluation, and the part of the text that it points at.
#[track_caller]
fn find_evaluation_fault(text: &str) -> (FaultKind, String, String) {
    let fault = evaluate_text(text).expect_err(text);
    let faulty_text = &text[fault.offset..fault.offset + fault.length];
    (fault.kind, faulty_text.to_owned(), fault.to_string())
}

#[track_caller]
fn parse_faults(text: &str) -> Vec<ExpressionFault> {
    Expression::parse(text).expect_err(text)
}

/// The only fault of a text, and the part of the text that it points at.
#[track_caller]
fn find_only_parse_fault(text: &str) -> (FaultKind, String, String) {
    let faults = parse_faults(text);
    assert_eq!(faults.len(), 1, "{text}: {faults:?}");
    let fault = &faults[0];
    let faulty_text = &text[fault.offset..fault.offset + fault.length];
    (fault.kind, faulty_text.to_owned(), fault.to_string())
}
