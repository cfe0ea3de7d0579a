//! From a tree to a draft: which keys are read, and as what. Whether the values make sense is for
//! [`crate::domain::check`] to say.

use super::{
    inputs::inputs,
    keys::{FRONT_MATTER, Keys, MANIFEST, PERSONA, PHASE, STEP},
    mapping::{Mapping, boolean, repeated_keys, scalar, text, text_or_texts, texts},
    markdown::Markdown,
    meant,
};
use crate::domain::{
    check::wrong_type,
    draft::{Field, Form, PersonaDraft, Said, StepDraft, WorkflowDraft},
    finding::Finding,
    grammar,
    node::{At, Content, Node},
};

/// What a Markdown file says about a workflow: its front matter has phases, or is a manifest whose steps find their
/// instructions in sections of the body.
pub(super) fn markdown(file: &Markdown) -> (WorkflowDraft, Vec<Finding>) {
    let (front, body) = (&file.front, &file.body.value);
    let has = |key| front.get(key).is_some();
    if has(Form::Phases.steps_key()) || !(has("workflow") || has("steps")) {
        return workflow(Form::Phases, &FRONT_MATTER, front, body);
    }
    let (mut draft, findings) = manifest(front, body);
    draft.sections.clone_from(&file.sections);
    (draft, findings)
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
    let document = &meant::document(found, document, form, keys);
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
        inputs: map.take(found, "inputs", inputs),
        steps: map.take(found, form.steps_key(), |found, node, path| {
            steps(found, node, path, form)
        }),
        said: map.said(grammar::WORKFLOW.iter().map(|key| key.name)),
        sections: Vec::new(),
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
    let mut draft = StepDraft {
        place: node.place,
        id: map.take(found, form.id_key(), text),
        kinds,
        agent: map.take(found, "agent", text),
        description: map.take(found, "description", text),
        depends_on: match depends_on {
            // A manifest may also use the other form's spelling; with both, that one is a duplicate.
            Field::Absent => map.take(found, "dependsOn", text_or_texts),
            said => said,
        },
        allow_parallel: map.take(found, "allowParallel", boolean),
        said: map.said(said_keys()),
        each: None,
        path: path.to_owned(),
    };
    map.refuse_rest(found);
    draft.each = draft.said("foreach").and_then(|said| each(found, said));
    draft
}

/// The keys of a step whose values are held against their shapes by the check.
fn said_keys() -> impl Iterator<Item = &'static str> {
    let kinds = grammar::KINDS.iter().map(|kind| kind.key.name);
    let fields = grammar::FIELDS.iter().map(|field| field.key.name);
    kinds.chain(fields).filter(|key| *key != "agent")
}

/// What a `foreach` does with each item.
fn each(found: &mut Vec<Finding>, foreach: &Said) -> Option<Box<StepDraft>> {
    let node = foreach.value.get("do")?;
    let path = format!("{}.do", foreach.path);
    Some(Box::new(step(found, node, &path, Form::Manifest)))
}
