//! The key `labels` of a workflow.

use serde_json::Value;

use crate::{
    finding::{Finding, Rule},
    grammar::LABELS_KEY,
    label::{Labels, check_label},
    node::DocumentNode,
};

/// The labels, with numbers and switches as they are written.
pub(super) fn read_labels(document: &DocumentNode) -> Labels {
    let entries = document.get(LABELS_KEY).and_then(DocumentNode::entries).unwrap_or_default();
    let labels = entries.iter().filter_map(|entry| {
        let value = match entry.value.to_json() {
            Value::Bool(is_set) => is_set.to_string(),
            _ => entry.value.text_or_number()?,
        };
        Some((entry.key.clone(), value))
    });
    labels.collect()
}

/// The rules of names and values; that they are scalars is checked with the shape.
pub(super) fn check_labels(findings: &mut Vec<Finding>, document: &DocumentNode) {
    let Some(node) = document.get(LABELS_KEY) else {
        return;
    };
    for (name, value) in read_labels(document) {
        if let Err(message) = check_label(&name, &value) {
            findings.push(node.new_finding(Rule::IllFormedName, LABELS_KEY, message));
        }
    }
}
