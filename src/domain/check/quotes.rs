//! Warns of quotes around an expression: `"'${{ inputs.count }}'"` yields the text `'3'` with its quotes instead of the
//! number 3.

use std::collections::BTreeMap;

use super::super::{
    draft::WorkflowDraft,
    expression::{Expression, ReferenceRoot, Segment},
    finding::{Finding, Rule},
    node::DocumentNode,
};
use super::site::ExpressionSite;

/// The declared types of the inputs.
pub(super) fn input_types(draft: &WorkflowDraft) -> BTreeMap<&str, &str> {
    let inputs = draft.field("inputs").and_then(|field| field.value.entries());
    let inputs = inputs.unwrap_or_default().iter();
    let types = inputs.filter_map(|input| {
        let kind = input.value.get("type").and_then(DocumentNode::as_text)?;
        Some((input.key.as_str(), kind))
    });
    types.collect()
}

/// The warning for a value that is a single quoted expression which reads an input of a type other than string. The
/// quotes turn the value into a text.
pub(super) fn quoted_expression_finding(
    site: &ExpressionSite<'_>,
    types: &BTreeMap<&str, &str>,
) -> Option<Finding> {
    let text = site.text.trim();
    let inner = ['\'', '"', '`'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        inner.trim_start().starts_with("${{").then_some(inner)
    })?;
    let expression = Expression::parse(inner).ok()?;
    let [reference] = expression.references() else {
        return None;
    };
    let [Segment::Key(name)] = reference.path.as_slice() else {
        return None;
    };
    let kind = types.get(name.as_str()).filter(|kind| **kind != "string")?;
    if reference.root != ReferenceRoot::Inputs {
        return None;
    }
    let message = format!(
        "the quotes are part of the value: `{name}` is of type {kind}, and this is a text around it"
    );
    let finding = Finding::new(Rule::QuotedTemplate, &site.path, site.place, message);
    let full_range = (0, site.text.len());
    Some(
        finding
            .suggest(format!("write `{inner}` without the inner quotes"))
            .edit_replace_part(site.place, site.text, full_range, inner),
    )
}
