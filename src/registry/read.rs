//! Makes drafts of parsed documents. Keys and values are judged later, in [`crate::domain::check`].

use std::collections::HashMap;

use super::{markdown::Markdown, recover};
use crate::domain::{
    draft::{Form, PersonaDraft, WorkflowDraft},
    finding::{Finding, Rule},
    node::{At, Content, Entry, Node, join},
};

/// The draft of a workflow in Markdown: its front matter has phases, or is a manifest whose steps find their
/// instructions in sections of the body.
pub(super) fn markdown(file: &Markdown) -> (WorkflowDraft, Vec<Finding>) {
    let (front, body) = (&file.front, &file.body.value);
    let has = |key| front.get(key).is_some();
    if has(Form::Phases.steps_key()) || !(has("workflow") || has("steps")) {
        return workflow(Form::Phases, front, body);
    }
    let (mut draft, findings) = manifest(front, body);
    draft.sections.clone_from(&file.sections);
    (draft, findings)
}

/// The draft of a workflow in a manifest.
pub(super) fn manifest(document: &Node, text: &str) -> (WorkflowDraft, Vec<Finding>) {
    workflow(Form::Manifest, document, text)
}

/// The draft of an agent: front matter, and the persona as the body.
pub(super) fn persona(front: Node, content: At<String>) -> (PersonaDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    repeated_keys(&mut findings, &front, "");
    (PersonaDraft { front, content }, findings)
}

fn workflow(form: Form, document: &Node, content: &str) -> (WorkflowDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    repeated_keys(&mut findings, document, "");
    let document = recover::recover(&mut findings, document, form);
    let draft = WorkflowDraft::new(form, document, content.to_owned());
    (draft, findings)
}

/// A finding for each key of the whole document that stands twice in one mapping.
fn repeated_keys(found: &mut Vec<Finding>, node: &Node, path: &str) {
    match &node.content {
        Content::List(items) => {
            for (at, item) in items.iter().enumerate() {
                repeated_keys(found, item, &format!("{path}[{at}]"));
            }
        }
        Content::Map(entries) => {
            let mut first: HashMap<&str, usize> = HashMap::new();
            for entry in entries {
                let path = join(path, &entry.key);
                if let Some(line) = first.get(entry.key.as_str()) {
                    found.push(twice(entry, &path, *line));
                }
                first.entry(&entry.key).or_insert(entry.place.line);
                repeated_keys(found, &entry.value, &path);
            }
        }
        _ => {}
    }
}

fn twice(entry: &Entry, path: &str, first_line: usize) -> Finding {
    let message = format!("`{}` stands twice: first on line {first_line}", entry.key);
    Finding::new(Rule::DuplicateKey, path, entry.place, message)
}
