//! Steps that ask for inputs: what they ask for must be declared, and must be something that a start may leave open.

use super::super::{
    draft::{Field, Said, StepDraft, WorkflowDraft},
    finding::{Finding, Rule},
    input::draft::InputDraft,
    node::Node,
};

/// Checks the `properties` of every step that has any.
pub(super) fn check(found: &mut Vec<Finding>, draft: &WorkflowDraft, steps: &[StepDraft]) {
    let declared = match &draft.inputs {
        Field::Given(inputs) => inputs.value.as_slice(),
        Field::Absent => &[],
        // There is a finding about them already.
        Field::Broken => return,
    };
    for said in steps.iter().flat_map(|step| &step.said) {
        if ["input", "extract"].contains(&said.key) {
            properties(found, declared, said);
        }
    }
}

fn properties(found: &mut Vec<Finding>, declared: &[InputDraft], said: &Said) {
    let names = said.value.get("properties").and_then(Node::items);
    for (at, node) in names.unwrap_or_default().iter().enumerate() {
        let Some(name) = node.text() else { continue };
        let path = format!("{}.properties[{at}]", said.path);
        let input = declared.iter().find(|input| input.key.value == name);
        found.extend(match input {
            None => Some(undeclared(declared, node, name, path)),
            // Values out of a text may well correct what was given.
            Some(input) if said.key == "input" => never_asked(input, node, name, path.clone())
                .or_else(|| fits_no_form(said, input, node, name, path)),
            Some(_) => None,
        });
    }
}

fn undeclared(declared: &[InputDraft], node: &Node, name: &str, path: String) -> Finding {
    let message = if declared.is_empty() {
        format!("no input is called `{name}`: the workflow declares none")
    } else {
        format!("no input is called `{name}`")
    };
    let known = declared.iter().map(|input| input.key.value.as_str());
    Finding::new(Rule::UnknownReference, path, node.place, message)
        .did_you_mean(node.place, name, known)
}

/// An input that every start must give is never missing later.
fn never_asked(input: &InputDraft, node: &Node, name: &str, path: String) -> Option<Finding> {
    let is_optional = match &input.optional {
        Field::Given(flag) => flag.value,
        Field::Absent => false,
        Field::Broken => true,
    };
    let is_required = !is_optional && matches!(input.default, Field::Absent);
    let message = format!("`{name}` is never asked for: no execution starts without it");
    is_required.then(|| {
        Finding::new(Rule::NoEffect, path, node.place, message).suggest(format!(
            "add `optional: true` to the input `{name}`, so that a start may leave it open"
        ))
    })
}

/// An input that the user alone may give must fit into a form that a client can show: those hold plain values.
fn fits_no_form(
    said: &Said,
    input: &InputDraft,
    node: &Node,
    name: &str,
    path: String,
) -> Option<Finding> {
    let is_of_user = said.value.get("via").and_then(Node::text) == Some("elicitation");
    let kind = input.kind.given().map(|kind| kind.value.as_str());
    let validate = input.validate.given();
    let lists = [Some(&input.one_of), validate.map(|at| &at.value.one_of)];
    let mut options = lists.into_iter().flatten().filter_map(Field::given);
    let is_plain = !matches!(kind, Some("array" | "object"));
    let has_others = options.any(|list| {
        list.value
            .iter()
            .any(|option| option.value.text().is_none())
    });
    let message = format!(
        "the user cannot be asked for `{name}` in a form: a form holds texts, numbers, true or false, and choices between texts"
    );
    (is_of_user && (!is_plain || has_others)).then(|| {
        Finding::new(Rule::Contradiction, path, node.place, message)
            .suggest("say `via: auto`, so that the agent may ask".to_owned())
    })
}
