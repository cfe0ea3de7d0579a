//! The key `labels` of a workflow.

use crate::{
    finding::{Finding, Rule},
    grammar::LABELS_KEY,
    label::{Labels, check_label},
    node::{DocumentNode, NodeContent, join_path},
};

/// The labels, with numbers and switches as they are written.
pub(super) fn read_labels(document: &DocumentNode) -> Labels {
    let entries = document.get(LABELS_KEY).and_then(DocumentNode::entries).unwrap_or_default();
    let labels =
        entries.iter().filter_map(|entry| Some((entry.key.clone(), label_value(&entry.value)?)));
    labels.collect()
}

fn label_value(node: &DocumentNode) -> Option<String> {
    match node.content {
        NodeContent::Bool(is_set) => Some(is_set.to_string()),
        _ => node.text_or_number(),
    }
}

/// The rules of names and values. The shape allows `null`, and reports lists and mappings.
pub(super) fn check_labels(findings: &mut Vec<Finding>, document: &DocumentNode) {
    let entries = document.get(LABELS_KEY).and_then(DocumentNode::entries).unwrap_or_default();
    for entry in entries {
        let path = join_path(LABELS_KEY, &entry.key);
        if entry.value.content == NodeContent::Null {
            let message = format!("the label `{}` has no value", entry.key);
            findings.push(Finding::new(Rule::WrongType, &path, entry.place, message));
        } else if let Some(value) = label_value(&entry.value)
            && let Err(message) = check_label(&entry.key, &value)
        {
            findings.push(Finding::new(Rule::IllFormedName, &path, entry.place, message));
        }
    }
}
