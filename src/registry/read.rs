//! From a tree to a draft: which keys are read, and as what. Whether the values make sense is for
//! [`crate::domain::check`] to say.

use super::{
    keys::{FRONT_MATTER, Keys, MANIFEST, PERSONA, PHASE, STEP},
    mapping::{Mapping, boolean, repeated_keys, scalar, text, text_or_texts, texts, wrong_type},
};
use crate::domain::{
    draft::{Field, Form, PersonaDraft, StepDraft, WorkflowDraft},
    finding::Finding,
    node::{At, Content, Node},
};

/// What the front matter and the body of a Markdown file say about a workflow.
pub(super) fn front_matter(front: &Node, body: &str) -> (WorkflowDraft, Vec<Finding>) {
    workflow(Form::Phases, &FRONT_MATTER, front, body)
}

/// What a manifest says about a workflow.
pub(super) fn manifest(document: &Node, text: &str) -> (WorkflowDraft, Vec<Finding>) {
    workflow(Form::Manifest, &MANIFEST, document, text)
}

/// What the front matter and the body of a Markdown file say about an agent.
pub(super) fn persona(front: &Node, body: At<String>) -> (PersonaDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    repeated_keys(found, front, "");
    let mut map = Mapping::new(found, front, "", &PERSONA);
    let draft = PersonaDraft {
        place: front.place,
        name: map.take(found, "name", text),
        description: map.take(found, "description", text),
        tags: map.take(found, "tags", texts),
        version: map.take(found, "version", scalar),
        content: body,
        extra: map
            .entries
            .iter()
            .map(|entry| (entry.key.clone(), entry.value.to_json()))
            .collect(),
    };
    (draft, findings)
}

fn workflow(
    form: Form,
    keys: &'static Keys,
    document: &Node,
    content: &str,
) -> (WorkflowDraft, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    repeated_keys(found, document, "");
    let mut map = Mapping::new(found, document, "", keys);
    let draft = WorkflowDraft {
        form,
        place: document.place,
        name: map.take(found, form.name_key(), text),
        title: map.take(found, "title", text),
        description: map.take(found, "description", text),
        version: map.take(found, "version", scalar),
        tags: map.take(found, "tags", texts),
        complexity: map.take(found, "complexity", text),
        steps: map.take(found, form.steps_key(), |found, node, path| {
            steps(found, node, path, form)
        }),
        content: content.to_owned(),
    };
    map.refuse_rest(found);
    (draft, findings)
}

fn steps(found: &mut Vec<Finding>, node: &Node, path: &str, form: Form) -> Option<Vec<StepDraft>> {
    let Content::List(items) = &node.content else {
        found.push(wrong_type(node, path, "a list"));
        return None;
    };
    let steps = items.iter().enumerate().map(|(at, item)| {
        let path = format!("{path}[{at}]");
        step(found, item, &path, form)
    });
    Some(steps.collect())
}

fn step(found: &mut Vec<Finding>, node: &Node, path: &str, form: Form) -> StepDraft {
    let keys = match form {
        Form::Phases => &PHASE,
        Form::Manifest => &STEP,
    };
    let mut map = Mapping::new(found, node, path, keys);
    let kinds = map.kinds();
    let depends_on = map.take(found, form.depends_on_key(), text_or_texts);
    let draft = StepDraft {
        place: node.place,
        id: map.take(found, form.id_key(), text),
        kinds,
        agent: map.take(found, "agent", text),
        description: map.take(found, "description", text),
        instructions: map.take(found, "instructions", text),
        depends_on: match depends_on {
            // A manifest may also use the other form's spelling; with both, that one is a duplicate.
            Field::Absent => map.take(found, "dependsOn", text_or_texts),
            said => said,
        },
        allow_parallel: map.take(found, "allowParallel", boolean),
        result: map.take(found, "result", |_, node, _| Some(node.clone())),
        path: path.to_owned(),
    };
    map.refuse_rest(found);
    draft
}
