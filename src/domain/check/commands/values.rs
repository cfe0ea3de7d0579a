//! Validates constant arguments of `run` and `activity` steps against the schemas of the operation or the activity, in the
//! same way as the call does, so that a wrong constant is found before the workflow runs.

use serde_json::Value;

use super::{
    super::super::{
        draft::{RawField, StepDraft},
        finding::{Finding, Rule},
        grammar::has_template,
        node::DocumentNode,
    },
    OperationLookup,
};
use crate::{error::Violation, schema::Schema};

/// Adds a finding for each constant value that the operation refuses.
pub(super) fn check_constant_values(
    findings: &mut Vec<Finding>,
    step: &StepDraft,
    lookup: &dyn OperationLookup,
    operation_name: (&str, &str),
) {
    let [with, body] = ["with", "body"].map(|key| step.find_field(key));
    let json = |field: Option<&RawField>| field.map(|field| field.value.to_json());
    let arguments = json(with).unwrap_or(Value::Null);
    let violations = lookup.validate_call(operation_name, &arguments, json(body).as_ref());
    let violation_findings = violations.into_iter().filter_map(|violation| {
        let (field, pointer) = match violation.path.strip_prefix("/with") {
            Some(pointer) => (with?, pointer),
            None => (body?, violation.path.strip_prefix("/body")?),
        };
        violation_finding(field, pointer, &violation)
    });
    findings.extend(violation_findings);
}

/// Adds a finding for each constant value in `with` that the schema refuses, and for each one that is missing.
pub(in super::super) fn check_constant_input(
    findings: &mut Vec<Finding>,
    step: &StepDraft,
    schema: &Value,
) {
    let (Some(with), Ok(schema)) = (step.find_field("with"), Schema::compile(schema)) else {
        return;
    };
    // An expression in place of all values says nothing about them.
    if with.value.as_text().is_some() {
        return;
    }
    for violation in schema.find_violations_named(&with.value.to_json(), "`with`") {
        let finding = violation_finding(with, &violation.path, &violation).or_else(|| {
            // A missing value is reported also beside values that are expressions.
            let (node, path) = with.value.find_by_pointer(&violation.path, &with.path);
            let message = violation.message.as_str();
            let is_missing = violation.rule == "required";
            is_missing.then(|| node.new_finding(Rule::InvalidArgument, &path, message))
        });
        findings.extend(finding);
    }
}

/// The finding for a violation; `None` if its value is absent, contains an expression, or is reported elsewhere.
fn violation_finding(field: &RawField, pointer: &str, violation: &Violation) -> Option<Finding> {
    let is_reported_elsewhere = ["unknown_argument", "body"].contains(&violation.rule.as_str());
    field.value.to_json().pointer(pointer)?;
    let (node, path) = field.value.find_by_pointer(pointer, &field.path);
    if is_reported_elsewhere || has_expression(node) {
        return None;
    }
    let finding = node.new_finding(Rule::InvalidArgument, &path, violation.message.as_str());
    let finding = finding.suggest(violation.suggestion.as_ref().map(|meant| meant.text.clone()));
    Some(match violation.expected.as_ref().zip(violation.actual.as_ref()) {
        Some((expected, actual)) => finding.with_expected(expected, actual),
        None => finding,
    })
}

fn has_expression(node: &DocumentNode) -> bool {
    let mut has_template_text = false;
    node.for_each_text("", &mut |_, text, _| has_template_text |= has_template(text));
    has_template_text
}
