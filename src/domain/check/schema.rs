//! Checks the output schemas of steps, and the examples next to them.

use super::{
    super::{
        draft::{RawField, StepDraft},
        finding::{Finding, Rule},
        node::{DocumentNode, MappingEntry, NodeContent},
        schema::{BUDGET_RULE, PatternQuota, Schema, SchemaFinding},
    },
    commands::values::check_constant_input,
};
use crate::{limits, orchestrator::without_state_property};

/// Checks the `result` and the `input_schema` of each step, and the values beside them. The regular expressions of all
/// steps share one quota.
pub(super) fn check_step_schemas(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    quota: &mut PatternQuota,
) {
    for step in steps.iter().flat_map(StepDraft::step_and_foreach_body) {
        check_result(findings, step, quota);
        if let Some(field) = step.find_field("input_schema") {
            let schema = field.value.to_json();
            let (_, faults) = Schema::compile_with_faults(&schema, quota);
            findings.extend(faults.iter().map(|fault| schema_fault_finding(fault, field)));
            if faults.is_empty() {
                check_constant_input(findings, step, &without_state_property(&schema));
            }
        }
    }
}

fn check_result(findings: &mut Vec<Finding>, draft: &StepDraft, quota: &mut PatternQuota) {
    let Some(field) = draft.find_field("result") else {
        return;
    };
    let (schema, faults) = Schema::compile_with_faults(&field.value.to_json(), quota);
    findings.extend(faults.iter().map(|fault| schema_fault_finding(fault, field)));
    if let Some(example) = draft.find_field("example").filter(|_| faults.is_empty()) {
        findings.extend(validate_example(&schema, field, example));
    }
}

fn schema_fault_finding(fault: &SchemaFinding, field: &RawField) -> Finding {
    let (node, path) = field.value.find_by_pointer(&fault.pointer, &field.path);
    let entry = fault.key.as_ref().and_then(|key| {
        let mut entries = node.entries()?.iter();
        entries.find(|entry| entry.key == *key)
    });
    let (path, place) = match entry {
        Some(entry) => (format!("{path}.{}", entry.key), entry.place),
        None => (path, node.place),
    };
    let hint = fault.hint.clone().or_else(|| {
        let is_prose = fault.pointer.is_empty() && node.as_text().is_some();
        is_prose.then(|| "write a schema, such as `{ type: object, required: [summary] }`; words belong into what the step is told".to_owned())
    });
    let finding = Finding::new(fault.rule, path, place, &fault.message).suggest(hint);
    match (&fault.replacement, fault.rule) {
        (_, Rule::BareProperties) => suggest_object_schema(finding, node),
        (Some((old, new)), Rule::InvalidSchema) if new.starts_with('{') => {
            finding.edit_rewrite_unquoted(place, old, new)
        }
        (Some((old, new)), _) => finding.edit_replace(place, old, Some(new)),
        (None, _) => finding,
    }
}

/// Wraps bare properties into an object schema, if each property is just a type name.
fn suggest_object_schema(finding: Finding, node: &DocumentNode) -> Finding {
    let entries = node.entries().unwrap_or_default();
    let is_text = |entry: &MappingEntry| matches!(entry.value.content, NodeContent::Text(_));
    let Some((first, last)) = entries.first().zip(entries.last()) else {
        return finding;
    };
    if !entries.iter().all(is_text) {
        return finding;
    }
    let indent = " ".repeat(first.place.column.saturating_sub(1));
    // A block mapping starts at its first key, a flow mapping at its brace.
    let is_block = node.place.start == first.place.start;
    let mut finding = finding;
    for entry in entries {
        let key = &entry.key;
        let is_first = entry.place == first.place;
        let key_text = match (is_block, is_first) {
            (true, true) => format!("type: object\n{indent}properties:\n{indent}  {key}"),
            (true, false) => format!("  {key}"),
            (false, true) => format!("type: object, properties: {{{key}"),
            (false, false) => key.clone(),
        };
        let closing = if !is_block && entry.place == last.place { "}" } else { "" };
        let kind = entry.value.as_text().unwrap_or_default();
        let value_text = format!("{{type: {kind}}}{closing}");
        finding = finding.edit_rewrite_unquoted(entry.place, key, &key_text).edit_rewrite_unquoted(
            entry.value.place,
            kind,
            &value_text,
        );
    }
    finding
}

/// Validates the example, because an example that violates the schema would teach the model to fail. The step limit
/// grows with the size of both values, as the cost of parsing them does.
fn validate_example(schema: &Schema, field: &RawField, example: &RawField) -> Vec<Finding> {
    let values = field.value.value_count() + example.value.value_count();
    let steps = limits::SCHEMA_STEPS_EXAMPLE + limits::SCHEMA_STEPS_PER_VALUE * values as u64;
    let violations = schema.find_violations_within(&example.value.to_json(), "the example", steps);
    let finding = |violation: crate::error::Violation| {
        let (node, path) = example.value.find_by_pointer(&violation.path, &example.path);
        let rule =
            if violation.rule == BUDGET_RULE { Rule::LimitExceeded } else { Rule::ExampleMismatch };
        let message = format!("the example does not satisfy `result`: {}", violation.message);
        let mut finding = Finding::new(rule, path, node.place, message);
        (finding.expected, finding.actual) = (violation.expected, violation.actual);
        finding.suggest(violation.suggestion.map(|meant| meant.text))
    };
    violations.into_iter().map(finding).collect()
}
