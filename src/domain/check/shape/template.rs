//! Finds expressions in places where none are evaluated: in literal values and in keys.

use super::{
    super::super::{
        finding::{Finding, Place, Rule},
        grammar::{TemplateHandling, ValueShape, has_template},
        node::{DocumentNode, NodeContent, join_path},
    },
    last_path_key,
};

/// Adds a finding for each expression in a value whose shape is not evaluated.
pub(super) fn check_unevaluated_expressions(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    shape: &ValueShape,
) {
    let templates = shape.template_handling();
    let mut report_expression = |node: &DocumentNode, text: &str, path: &str| {
        if has_template(text) {
            findings.push(unevaluated_finding(node.place, path, templates));
        }
    };
    match (templates, shape, node.as_text()) {
        (
            TemplateHandling::Evaluated,
            ValueShape::Value
            | ValueShape::Values
            | ValueShape::ValuesOrTemplate
            | ValueShape::Items
            | ValueShape::Memory(_)
            | ValueShape::Bindings(_),
            _,
        ) => {
            check_expressions_in_keys(findings, node, path);
        }
        (TemplateHandling::Evaluated, ..) => {}
        (TemplateHandling::Shown, ..) | (_, ValueShape::NotNull | ValueShape::Ids, _) => {
            node.for_each_text(path, &mut report_expression);
        }
        (TemplateHandling::Refused, _, text) => {
            if let Some(text) = text {
                report_expression(node, text, path);
            }
        }
    }
}

fn unevaluated_finding(place: Place, path: &str, templates: TemplateHandling) -> Finding {
    let key = last_path_key(path).split('[').next().unwrap_or_default();
    if templates == TemplateHandling::Shown {
        let message = format!("`{key}` is shown as it is: an expression in it has no value");
        let finding = Finding::new(Rule::LooksLikeExpression, path, place, message);
        return finding.suggest("say it without the expression".to_owned());
    }
    let message = format!("`{key}` is taken as it is: no expression is evaluated there");
    let hint = match key {
        "code" => "write a name, and the value in `message`",
        _ => "write the value itself; a `branch` before one step for each chooses by a value",
    };
    Finding::new(Rule::NotATemplate, path, place, message).suggest(hint.to_owned())
}

/// A finding for each key with an expression, at any depth.
fn check_expressions_in_keys(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    match &node.content {
        NodeContent::List(items) => {
            for (at, item) in items.iter().enumerate() {
                check_expressions_in_keys(findings, item, &format!("{path}[{at}]"));
            }
        }
        NodeContent::Map(entries) => {
            for entry in entries {
                let path = join_path(path, &entry.key);
                if has_template(&entry.key) {
                    let message = "a key is taken as it is: no expression is evaluated there";
                    let finding = Finding::new(Rule::NotATemplate, &path, entry.place, message);
                    let hint = "write the key itself, or make the whole mapping in a step before";
                    findings.push(finding.suggest(hint.to_owned()));
                }
                check_expressions_in_keys(findings, &entry.value, &path);
            }
        }
        _ => {}
    }
}
