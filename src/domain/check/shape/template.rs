//! Finds expressions in places where none are evaluated: in literal values and in keys.

use super::{
    super::super::{
        finding::{Finding, Place, Rule},
        grammar::{Shape, Templates, is_template},
        node::{Content, Node, join},
    },
    last,
};

/// Adds a finding for each expression in a value whose shape is not evaluated.
pub(super) fn check(found: &mut Vec<Finding>, node: &Node, path: &str, shape: &Shape) {
    let templates = shape.templates();
    let mut refuse = |node: &Node, text: &str, path: &str| {
        if is_template(text) {
            found.push(not_evaluated(node.place, path, templates));
        }
    };
    match (templates, shape, node.text()) {
        (
            Templates::Evaluated,
            Shape::Value | Shape::Values | Shape::Items | Shape::Memory(_) | Shape::Bindings(_),
            _,
        ) => {
            keys(found, node, path);
        }
        (Templates::Evaluated, ..) => {}
        (Templates::Shown, ..) | (_, Shape::NotNull | Shape::Ids, _) => {
            node.each_text(path, &mut refuse);
        }
        (Templates::Refused, _, text) => {
            if let Some(text) = text {
                refuse(node, text, path);
            }
        }
    }
}

fn not_evaluated(place: Place, path: &str, templates: Templates) -> Finding {
    let key = last(path).split('[').next().unwrap_or_default();
    if templates == Templates::Shown {
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
fn keys(found: &mut Vec<Finding>, node: &Node, path: &str) {
    match &node.content {
        Content::List(items) => {
            for (at, item) in items.iter().enumerate() {
                keys(found, item, &format!("{path}[{at}]"));
            }
        }
        Content::Map(entries) => {
            for entry in entries {
                let path = join(path, &entry.key);
                if is_template(&entry.key) {
                    let message = "a key is taken as it is: no expression is evaluated there";
                    let finding = Finding::new(Rule::NotATemplate, &path, entry.place, message);
                    let hint = "write the key itself, or make the whole mapping in a step before";
                    found.push(finding.suggest(hint.to_owned()));
                }
                keys(found, &entry.value, &path);
            }
        }
        _ => {}
    }
}
