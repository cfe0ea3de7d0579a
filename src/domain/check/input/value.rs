//! Validates the values that a manifest gives for an input: a default or an allowed value must be one that a caller
//! could pass.

use serde_json::{Map, Value};

use super::{DeclaredInput, Finding, Rule};
use crate::{
    input::{DefaultFrom, WorkflowOutputPath},
    node::{DocumentNode, NodeContent},
    schema::{PatternQuota, Schema},
};

impl DeclaredInput<'_> {
    /// Checks the pattern, the values of `enum` and the default against the rules of the input.
    pub(super) fn check_values(&self, findings: &mut Vec<Finding>, quota: &mut PatternQuota) {
        findings.extend(self.pattern_finding(quota));
        let constraints = self.input.constraints();
        let mut base_constraints = constraints.clone();
        base_constraints.shift_remove("enum");
        for (list, path) in self.enum_lists() {
            for (at, node) in list.items().unwrap_or_default().iter().enumerate() {
                if node.content != NodeContent::Null {
                    let path = format!("{path}[{at}]");
                    check_constraints(
                        findings,
                        (node, &path),
                        &base_constraints,
                        (Rule::InvalidEnum, "the value"),
                    );
                }
            }
        }
        self.check_default(findings, &constraints);
    }

    fn pattern_finding(&self, quota: &mut PatternQuota) -> Option<Finding> {
        let pattern = self.input.validate.pattern.as_ref()?;
        let fault = Schema::check_pattern(pattern, quota)?;
        self.validate_rule_finding(fault.rule, "pattern", fault.message)
    }

    fn enum_lists(&self) -> impl Iterator<Item = (&DocumentNode, String)> {
        let enum_node = self.node.get("enum");
        let enum_list = enum_node.map(|list| (list, format!("{}.enum", self.path)));
        enum_list.into_iter().chain(self.nested_value("validate", "enum"))
    }

    fn check_default(&self, findings: &mut Vec<Finding>, constraints: &Map<String, Value>) {
        let Some(from) = self.input.default.as_ref().map(|default| default.from) else {
            return;
        };
        let Some((node, path)) = self.nested_value("default", "value") else {
            findings.extend(self.missing_default_finding(from));
            return;
        };
        match from {
            DefaultFrom::Literal => {
                let rule = (Rule::InvalidDefault, "the default");
                check_constraints(findings, (node, &path), constraints, rule);
            }
            DefaultFrom::Env => findings.extend(default_variable_finding(node, path)),
            DefaultFrom::WorkflowOutput => findings.extend(default_output_finding(node, path)),
            DefaultFrom::History => {}
        }
    }

    fn missing_default_finding(&self, from: DefaultFrom) -> Option<Finding> {
        let missing_name = match from {
            DefaultFrom::History => return None,
            DefaultFrom::Env => "the name of an environment variable",
            DefaultFrom::WorkflowOutput => "the workflow whose output it is",
            DefaultFrom::Literal => "the default itself",
        };
        let message = format!("`value` is missing: {missing_name}");
        let path = format!("{}.default.value", self.path);
        let place = self.node.get("default")?.place;
        Some(Finding::new(Rule::MissingKey, path, place, message))
    }
}

/// The finding for a default that is not a valid reference to another workflow's output.
fn default_output_finding(node: &DocumentNode, path: String) -> Option<Finding> {
    let expected = match node.as_text() {
        Some(text) => WorkflowOutputPath::parse(text).err()?,
        None => "a text",
    };
    let message = format!("`value` must be {expected}");
    Some(Finding::new(Rule::WrongType, path, node.place, message))
}

/// The finding for a default that is not the name of an environment variable.
fn default_variable_finding(node: &DocumentNode, path: String) -> Option<Finding> {
    let (rule, message) = match node.as_text() {
        Some(name) if !name.trim().is_empty() => return None,
        Some(_) => (Rule::EmptyValue, "`value` is empty: it names an environment variable"),
        None => (Rule::WrongType, "`value` must be a text: the name of an environment variable"),
    };
    Some(Finding::new(rule, path, node.place, message))
}

fn check_constraints(
    findings: &mut Vec<Finding>,
    (node, path): (&DocumentNode, &str),
    constraints: &Map<String, Value>,
    (rule, subject): (Rule, &str),
) {
    // Invalid rules have findings of their own.
    let Ok(schema) = Schema::compile(&Value::Object(constraints.clone())) else {
        return;
    };
    let violations = schema.find_violations_named(&node.to_json(), subject);
    for violation in violations {
        let meant = violation.suggestion.map(|meant| meant.text);
        let finding = Finding::new(rule, path, node.place, violation.message).suggest(meant);
        findings.push(match violation.expected.zip(violation.actual) {
            Some((expected, actual)) => finding.with_expected(expected, actual),
            None => finding,
        });
    }
}
