//! Checks the `properties` of `input` and `extract` steps: each must be a declared input, and an `input` step must ask
//! only for inputs that a start may omit.

use super::super::{
    draft::{RawField, StepDraft, WorkflowDraft},
    finding::{Finding, Rule, has_room_for_suggestions},
    node::{DocumentNode, MappingEntry, NodeContent},
};

/// Checks the `properties` of every step that has any.
pub(super) fn check_requested_inputs(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
) {
    let declared = match draft.field("inputs").map(|field| field.value.entries()) {
        Some(Some(inputs)) => inputs,
        None => &[],
        // Malformed `inputs` have a finding of their own.
        Some(None) => return,
    };
    for field in steps.iter().flat_map(|step| &step.fields) {
        if ["input", "extract"].contains(&field.key.name) {
            check_properties(findings, declared, field);
        }
    }
}

fn check_properties(findings: &mut Vec<Finding>, declared: &[MappingEntry], field: &RawField) {
    let names = field.value.get("properties").and_then(DocumentNode::items);
    for (at, node) in names.unwrap_or_default().iter().enumerate() {
        let Some(name) = node.as_text() else { continue };
        let path = format!("{}.properties[{at}]", field.path);
        let input = declared.iter().find(|input| input.key == name);
        findings.extend(match input {
            None => Some(undeclared_input_finding(
                declared,
                node,
                name,
                path,
                has_room_for_suggestions(findings),
            )),
            // An `extract` step may also correct inputs that were given.
            Some(input) if field.key.name == "input" => {
                needless_ask_finding(&input.value, node, name, path.clone())
                    .or_else(|| unsupported_form_finding(field, &input.value, node, name, path))
            }
            Some(_) => None,
        });
    }
}

fn undeclared_input_finding(
    declared: &[MappingEntry],
    node: &DocumentNode,
    name: &str,
    path: String,
    has_room: bool,
) -> Finding {
    let message = if declared.is_empty() {
        format!("no input is called `{name}`: the workflow declares none")
    } else {
        format!("no input is called `{name}`")
    };
    let known = declared.iter().filter(|_| has_room);
    let known = known.map(|input| input.key.as_str());
    Finding::new(Rule::UnknownReference, path, node.place, message)
        .did_you_mean(node.place, name, known)
}

/// The finding for an input that every start must provide, so that the step never has to ask for it.
fn needless_ask_finding(
    input: &DocumentNode,
    node: &DocumentNode,
    name: &str,
    path: String,
) -> Option<Finding> {
    let is_not_false = |node: &DocumentNode| node.content != NodeContent::Bool(false);
    let is_optional = input.get("optional").is_some_and(is_not_false);
    let is_required = !is_optional && input.get("default").is_none();
    let message = format!("`{name}` is never asked for: no execution starts without it");
    is_required.then(|| {
        Finding::new(Rule::NoEffect, path, node.place, message).suggest(format!(
            "add `optional: true` to the input `{name}`, so that a start may leave it open"
        ))
    })
}

/// The finding for an input that only the user may provide (`via: elicitation`) and whose type a form cannot represent:
/// forms of clients hold scalars and choices between texts.
fn unsupported_form_finding(
    field: &RawField,
    input: &DocumentNode,
    node: &DocumentNode,
    name: &str,
    path: String,
) -> Option<Finding> {
    let is_user_form =
        field.value.get("via").and_then(DocumentNode::as_text) == Some("elicitation");
    let kind = input.get("type").and_then(DocumentNode::as_text);
    let validate_enum = input.get("validate").and_then(|rules| rules.get("enum"));
    let lists = [input.get("enum"), validate_enum].into_iter().flatten();
    let mut options = lists.filter_map(DocumentNode::items).flatten();
    let is_scalar = !matches!(kind, Some("array" | "object"));
    let has_non_text = options.any(|option| option.as_text().is_none());
    let message = format!(
        "the user cannot be asked for `{name}` in a form: a form holds texts, numbers, true or false, and choices between texts"
    );
    (is_user_form && (!is_scalar || has_non_text)).then(|| {
        Finding::new(Rule::Contradiction, path, node.place, message)
            .suggest("say `via: auto`, so that the agent may ask".to_owned())
    })
}
