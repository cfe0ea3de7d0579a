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
    pub(super) fn check_values(&self, found: &mut Vec<Finding>, quota: &mut PatternQuota) {
        found.extend(self.pattern_finding(quota));
        let all = self.input.constraints();
        let mut others = all.clone();
        others.shift_remove("enum");
        for (list, path) in self.enum_lists() {
            for (at, node) in list.items().unwrap_or_default().iter().enumerate() {
                if node.content != NodeContent::Null {
                    let path = format!("{path}[{at}]");
                    check_constraints(
                        found,
                        (node, &path),
                        &others,
                        (Rule::InvalidEnum, "the value"),
                    );
                }
            }
        }
        self.check_default(found, &all);
    }

    fn pattern_finding(&self, quota: &mut PatternQuota) -> Option<Finding> {
        let pattern = self.input.validate.pattern.as_ref()?;
        let fault = Schema::pattern_fault(pattern, quota)?;
        self.validate_rule_finding(fault.rule, "pattern", fault.message)
    }

    fn enum_lists(&self) -> impl Iterator<Item = (&DocumentNode, String)> {
        let own = self.node.get("enum");
        let own = own.map(|list| (list, format!("{}.enum", self.path)));
        own.into_iter().chain(self.nested_value("validate", "enum"))
    }

    fn check_default(&self, found: &mut Vec<Finding>, constraints: &Map<String, Value>) {
        let Some(from) = self.input.default.as_ref().map(|default| default.from) else {
            return;
        };
        let Some((node, path)) = self.nested_value("default", "value") else {
            found.extend(self.missing_default_finding(from));
            return;
        };
        match from {
            DefaultFrom::Literal => {
                let rule = (Rule::InvalidDefault, "the default");
                check_constraints(found, (node, &path), constraints, rule);
            }
            DefaultFrom::Env => found.extend(default_variable_finding(node, path)),
            DefaultFrom::WorkflowOutput => found.extend(default_output_finding(node, path)),
            DefaultFrom::History => {}
        }
    }

    fn missing_default_finding(&self, from: DefaultFrom) -> Option<Finding> {
        let what = match from {
            DefaultFrom::History => return None,
            DefaultFrom::Env => "the name of an environment variable",
            DefaultFrom::WorkflowOutput => "the workflow whose output it is",
            DefaultFrom::Literal => "the default itself",
        };
        let message = format!("`value` is missing: {what}");
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
    found: &mut Vec<Finding>,
    (node, path): (&DocumentNode, &str),
    constraints: &Map<String, Value>,
    (rule, what): (Rule, &str),
) {
    // Invalid rules have findings of their own.
    let Ok(schema) = Schema::compile(&Value::Object(constraints.clone())) else {
        return;
    };
    let violations = schema.violations_named(&node.to_json(), what);
    for violation in violations {
        let meant = violation.suggestion.map(|meant| meant.text);
        let finding = Finding::new(rule, path, node.place, violation.message).suggest(meant);
        found.push(match violation.expected.zip(violation.actual) {
            Some((expected, actual)) => finding.with_expected(expected, actual),
            None => finding,
        });
    }
}
