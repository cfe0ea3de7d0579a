//! Keys of the grammar that nothing acts on yet: refused, so that no file promises more than midex does.

use super::super::{
    draft::{StepDraft, WorkflowDraft},
    finding::{Finding, Place, Rule},
    grammar::Key,
};

/// How much of the grammar a definition may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Built {
    /// What this version acts on.
    #[default]
    Now,
    /// All that it can read.
    All,
}

/// A finding for each key of a step that is read and that nothing acts on. What is not even read has one already.
pub(super) fn unbuilt(found: &mut Vec<Finding>, draft: &WorkflowDraft, built: Built) {
    if built == Built::All {
        return;
    }
    let bodies = draft.steps.iter().flatten().flat_map(StepDraft::bodies);
    let field = bodies.flat_map(|step| &step.fields);
    for field in field.filter(|field| !field.key.is_planned()) {
        found.extend(not_supported(field.key, &field.path, field.place));
    }
}

/// The finding for a key that nothing acts on.
pub(super) fn not_supported(key: &Key, path: &str, place: Place) -> Option<Finding> {
    let message = format!("`{}` is not supported yet", key.name);
    let finding = Finding::new(Rule::NotSupportedYet, path, place, message);
    Some(finding.suggest(key.unbuilt?.to_owned()))
}
