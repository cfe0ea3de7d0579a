//! Warnings of what an author hardly means, though it can be run: inputs that nobody reads, and loops that end before they
//! have gone round.

use std::collections::BTreeSet;

use super::{
    super::{
        draft::{StepDraft, WorkflowDraft},
        finding::{Finding, Rule},
        node::Node,
    },
    flow::Flow,
    input,
};

/// Which inputs a workflow reads.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// Their names.
    pub(super) inputs: BTreeSet<String>,
    /// Whether something reads all of them at once.
    pub(super) all: bool,
}

/// The kinds of steps whose worker is shown all inputs, whatever its instructions say.
const SHOWN_ALL: [&str; 3] = ["agent", "guidance", "tool"];

/// Warns of each input that no expression reads and no step asks for. Where none is read at all, whoever works on the
/// steps is meant to read them in what it is shown.
pub(super) fn unused_inputs(
    found: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    uses: &Uses,
) {
    let declared = draft
        .field("inputs")
        .and_then(|field| field.value.entries());
    let has = |kinds: &[&str]| {
        let mut bodies = steps.iter().flat_map(StepDraft::bodies);
        bodies.any(|step| kinds.iter().any(|kind| step.field(kind).is_some()))
    };
    // An activity without `with` works on all of them.
    let mut bodies = steps.iter().flat_map(StepDraft::bodies);
    let takes_all =
        |step: &StepDraft| step.field("activity").is_some() && step.field("with").is_none();
    // An input that is read where nothing is evaluated has a finding there.
    let is_misread =
        |one: &Finding| matches!(one.rule, Rule::NotATemplate | Rule::LooksLikeExpression);
    if found.iter().any(is_misread) {
        return;
    }
    if uses.all || uses.inputs.is_empty() && has(&SHOWN_ALL) || bodies.any(takes_all) {
        return;
    }
    let asked = steps.iter().flat_map(|step| &step.fields);
    let asked = asked.filter(|field| ["input", "extract"].contains(&field.key.name));
    let asked = asked.filter_map(|field| field.value.get("properties")?.items());
    let asked = asked.flatten().filter_map(Node::text);
    let asked: BTreeSet<_> = asked.chain(input::provider::bound(draft)).collect();
    for input in declared.unwrap_or_default() {
        let name = input.key.as_str();
        if !uses.inputs.contains(name) && !asked.contains(name) {
            let message = format!("nothing reads the input `{name}`");
            let finding = Finding::new(
                Rule::UnusedInput,
                format!("inputs.{name}"),
                input.place,
                message,
            );
            found.push(finding.suggest(format!(
                "write `${{{{ inputs.{name} }}}}` where it is meant, or leave it out"
            )));
        }
    }
}

/// So few entries that a loop has hardly begun.
const FEW: u64 = 2;

/// Warns of each step that control comes back to and that may be entered twice at most.
pub(super) fn short_loops(
    found: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    flow: &Flow<'_>,
) {
    let of_all = draft
        .field("limits")
        .and_then(|field| field.value.get("max_visits"));
    for (position, step) in steps.iter().enumerate() {
        let own = step.value("max_visits");
        let Some((node, most)) = own.or(of_all).and_then(|node| Some((node, node.count()?))) else {
            continue;
        };
        if most <= FEW && flow.is_led_back_to(position) {
            let id = flow.id(position);
            let path = if own.is_some() {
                format!("{}.max_visits", step.path)
            } else {
                "limits.max_visits".to_owned()
            };
            let times = match most {
                1 => "once".to_owned(),
                most => format!("{most} times"),
            };
            let message = format!(
                "a loop leads back to `{id}`, which may be entered {times}: the next round ends the execution as failed"
            );
            let finding = Finding::new(Rule::LoopNearBound, path, node.place, message);
            found.push(finding.suggest("allow as many rounds as the work may need".to_owned()));
        }
    }
}
