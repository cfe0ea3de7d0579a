//! Warnings about valid workflows that probably have a mistake: inputs that are never read, and loops whose visit limit
//! stops them after one or two rounds.

use std::collections::BTreeSet;

use super::{
    super::{
        draft::{StepDraft, WorkflowDraft},
        finding::{Finding, Rule},
        node::DocumentNode,
    },
    flow::FlowGraph,
    input,
};

/// The inputs that the expressions of a workflow read.
#[derive(Debug, Default)]
pub(super) struct InputUses {
    /// The names of the inputs.
    pub(super) inputs: BTreeSet<String>,
    /// Whether an expression reads the inputs as a whole.
    pub(super) is_whole_read: bool,
}

/// The kinds of steps whose reply shows all inputs to the model.
const KINDS_SHOWN_ALL_INPUTS: [&str; 3] = ["agent", "guidance", "tool"];

/// Warns of each input that no expression reads and no step asks for. If the expressions read no input at all, steps of
/// [`KINDS_SHOWN_ALL_INPUTS`] are assumed to use the inputs that the reply shows.
pub(super) fn warn_unused_inputs(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    uses: &InputUses,
) {
    let declared = draft.field("inputs").and_then(|field| field.value.entries());
    let has_kind = |kinds: &[&str]| {
        let mut bodies = steps.iter().flat_map(StepDraft::step_and_foreach_body);
        bodies.any(|step| kinds.iter().any(|kind| step.find_field(kind).is_some()))
    };
    // An activity without `with` gets all inputs.
    let mut bodies = steps.iter().flat_map(StepDraft::step_and_foreach_body);
    let receives_all_inputs = |step: &StepDraft| {
        step.find_field("activity").is_some() && step.find_field("with").is_none()
    };
    // An input in a text that is not evaluated has a finding of its own there.
    let is_unparsed_expression =
        |one: &Finding| matches!(one.rule, Rule::NotATemplate | Rule::LooksLikeExpression);
    if findings.iter().any(is_unparsed_expression) {
        return;
    }
    if uses.is_whole_read
        || uses.inputs.is_empty() && has_kind(&KINDS_SHOWN_ALL_INPUTS)
        || bodies.any(receives_all_inputs)
    {
        return;
    }
    let requested = steps.iter().flat_map(|step| &step.fields);
    let requested = requested.filter(|field| ["input", "extract"].contains(&field.key.name));
    let requested = requested.filter_map(|field| field.value.get("properties")?.items());
    let requested = requested.flatten().filter_map(DocumentNode::as_text);
    let requested: BTreeSet<_> =
        requested.chain(input::provider::bound_input_names(draft)).collect();
    for input in declared.unwrap_or_default() {
        let name = input.key.as_str();
        if !uses.inputs.contains(name) && !requested.contains(name) {
            let message = format!("nothing reads the input `{name}`");
            let finding =
                Finding::new(Rule::UnusedInput, format!("inputs.{name}"), input.place, message);
            findings.push(finding.suggest(format!(
                "write `${{{{ inputs.{name} }}}}` where it is meant, or leave it out"
            )));
        }
    }
}

/// The highest visit limit that counts as too low for a loop.
const LOW_VISIT_LIMIT_MAX: u64 = 2;

/// Warns of each step that a loop jumps back to and whose visit limit is [`LOW_VISIT_LIMIT_MAX`] or less.
pub(super) fn warn_short_loops(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    flow: &FlowGraph<'_>,
) {
    let workflow_limit = draft.field("limits").and_then(|field| field.value.get("max_visits"));
    for (position, step) in steps.iter().enumerate() {
        let step_limit = step.value("max_visits");
        let Some((node, max_visits)) =
            step_limit.or(workflow_limit).and_then(|node| Some((node, node.as_count()?)))
        else {
            continue;
        };
        if max_visits <= LOW_VISIT_LIMIT_MAX && flow.is_loop_target(position) {
            let id = flow.step_id(position);
            let path = if step_limit.is_some() {
                format!("{}.max_visits", step.path)
            } else {
                "limits.max_visits".to_owned()
            };
            let times = match max_visits {
                1 => "once".to_owned(),
                count => format!("{count} times"),
            };
            let message = format!(
                "a loop leads back to `{id}`, which may be entered {times}: the next round ends the execution as failed"
            );
            let finding = Finding::new(Rule::LoopNearBound, path, node.place, message);
            findings.push(finding.suggest("allow as many rounds as the work may need".to_owned()));
        }
    }
}
