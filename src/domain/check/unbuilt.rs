//! What the grammar knows and nothing acts on yet: refused, so that no file means more than it does. As a kind or field is
//! built its name leaves the list.

use super::super::{
    draft::{StepDraft, WorkflowDraft},
    finding::{Finding, Place, Rule},
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

/// The kinds and fields of steps, and the keys of workflows, that nothing acts on yet, with what to write instead.
const UNBUILT: &[(&str, &str)] = &[
    (
        "run",
        "let the model do it: `guidance: Run …` for a command, `tool: NAME` where the client makes the call; or an `activity` of the program that serves",
    ),
    ("body", "hand over what the step works on in `with:`"),
];

/// A finding for each key of the draft that nothing acts on yet.
pub(super) fn unbuilt(found: &mut Vec<Finding>, draft: &WorkflowDraft, built: Built) {
    if built == Built::All {
        return;
    }
    let steps = draft.steps.given().map(|steps| steps.value.as_slice());
    let of_steps = steps.unwrap_or_default().iter().flat_map(said);
    let of_workflow = draft
        .said
        .iter()
        .map(|said| (said.key, said.path.as_str(), said.place));
    let refused = of_workflow.chain(of_steps);
    found.extend(refused.filter_map(refusal));
}

/// What a step says, and what it does with each item where it is a `foreach`.
fn said(step: &StepDraft) -> impl Iterator<Item = (&'static str, &str, Place)> {
    let each = step.each.iter().flat_map(|each| &each.said);
    let all = step.said.iter().chain(each);
    all.map(|said| (said.key, said.path.as_str(), said.place))
}

fn refusal((key, path, place): (&str, &str, Place)) -> Option<Finding> {
    let (_, instead) = UNBUILT.iter().find(|(unbuilt, _)| *unbuilt == key)?;
    let message = format!("`{key}` is not supported yet");
    Some(Finding::new(Rule::NotSupportedYet, path, place, message).suggest((*instead).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::grammar;

    #[test]
    fn what_is_not_built_is_in_the_grammar() {
        for (key, _) in UNBUILT {
            let known = grammar::kind_of(key).is_some()
                || grammar::field_of(key).is_some()
                || grammar::WORKFLOW.iter().any(|known| known.name == *key);
            assert!(known, "{key}");
        }
    }
}
