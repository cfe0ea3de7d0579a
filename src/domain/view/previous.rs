//! The outputs of earlier steps, as a later step is shown them, and the final output of an execution.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    ViewContext,
    subject::{TruncatedValue, deciding_visit_end},
};
use crate::{
    definition::{Definition, Step, StepKind},
    execution::Execution,
    id::ExecutionId,
    limits,
    state::State,
    truncate::{CUT_MARK, divide_fairly, json_length, truncate_value},
    uri,
};

/// What a step before decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreviousOutput {
    /// The step.
    pub step_name: String,
    /// Who did it; null where no agent does.
    pub agent_name: Option<String>,
    /// Its output, shortened where `truncated` says so; `midex://workflow/step_history/{execution_id}` has it whole.
    pub output: Value,
    /// Where the output is read, once it was sent with an earlier item of the same `foreach`: `…` stands in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_uri: Option<String>,
    /// Whether the output is shortened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl PreviousOutput {
    /// Replaces a long output with its address.
    pub(super) fn with_output_address(self, execution: &Execution) -> Self {
        if json_length(&self.output) <= limits::SENT_ONCE_BYTES_MIN {
            return self;
        }
        let [id, step] = [execution.id().as_str(), &self.step_name].map(uri::encode_segment);
        Self {
            output: CUT_MARK.into(),
            output_uri: Some(format!("midex://workflow/step_history/{id}/{step}")),
            truncated: false,
            ..self
        }
    }
}

/// The predecessors of the step at `position` whose outputs are shown, in authoring order. `branch` and `set` steps
/// decide nothing by themselves, so their own predecessors are taken instead.
pub(super) fn deciding_predecessors(definition: &Definition, position: usize) -> BTreeSet<usize> {
    let (graph, steps) = (definition.graph(), &definition.workflow.steps);
    let mut pending = graph.dependencies(position).to_vec();
    let (mut visited, mut predecessors) = (BTreeSet::new(), BTreeSet::new());
    while let Some(at) = pending.pop() {
        let kind = steps.get(at).map(|step| &step.kind);
        let is_passed_over = matches!(kind, Some(StepKind::Branch { .. } | StepKind::Set { .. }));
        if !is_passed_over {
            predecessors.insert(at);
        } else if visited.insert(at) {
            pending.extend(graph.dependencies(at));
        }
    }
    predecessors
}

/// The outputs of the steps at `deciders`, in at most `bytes_max` bytes of JSON.
pub(super) fn previous_decisions(
    context: &ViewContext<'_>,
    deciders: BTreeSet<usize>,
    bytes_max: usize,
) -> Vec<PreviousOutput> {
    let entries = deciders.into_iter();
    let mut entries: Vec<_> =
        entries.filter_map(|at| unfilled_entry(context, at, bytes_max)).collect();
    let total = entries.len();
    // With very many steps the list would consist of names only, so it is cut to the entries that have room for
    // content.
    let shown_count = total.min(bytes_max / ENTRY_BYTES_MIN);
    entries.truncate(shown_count);
    let mut previous = share_bytes_among_entries(entries, bytes_max);
    if let Some(last) = previous.last_mut().filter(|_| shown_count < total) {
        let omitted_count = total - shown_count + 1;
        let note = format!("{omitted_count} more steps decided something: see step_history");
        last.output = note.into();
        last.truncated = true;
    }
    previous
}

fn share_bytes_among_entries(
    entries: Vec<(PreviousOutput, TruncatedValue)>,
    bytes_max: usize,
) -> Vec<PreviousOutput> {
    let needed_bytes = |(entry, output): &(PreviousOutput, TruncatedValue)| {
        entry_bytes(entry) + json_length(&output.value)
    };
    let needed: Vec<_> = entries.iter().map(needed_bytes).collect();
    let shares = divide_fairly(&needed, bytes_max.saturating_sub(2));
    let rooms = needed.into_iter().zip(shares);
    entries
        .into_iter()
        .zip(rooms)
        .map(|(entry, (needed_bytes, share))| fill_entry_output(entry, needed_bytes, share))
        .collect()
}

/// The outputs of the steps that were completed last, the latest first, in at most `bytes_max` bytes of JSON.
pub(super) fn latest_decisions(context: &ViewContext<'_>, bytes_max: usize) -> Vec<PreviousOutput> {
    let completed = last_completed_steps(context.execution, limits::RESUME_DECIDED_MAX).into_iter();
    let entries: Vec<_> =
        completed.filter_map(|at| unfilled_entry(context, at, bytes_max)).collect();
    share_bytes_among_entries(entries, bytes_max)
}

/// The outputs that a person needs for the step at `position`: those of its predecessors and of the steps completed
/// last. In authoring order, in at most `bytes_max` bytes of JSON.
pub(super) fn decisions_before_step(
    context: &ViewContext<'_>,
    position: usize,
    bytes_max: usize,
) -> Vec<PreviousOutput> {
    let mut steps = deciding_predecessors(context.definition, position);
    let recent = last_completed_steps(context.execution, limits::PERSON_DECIDED_MAX);
    steps.extend(recent.into_iter().filter(|at| *at != position));
    previous_decisions(context, steps, bytes_max)
}

/// The positions of the steps that were completed last, the latest first, at most `count_max` of them.
fn last_completed_steps(execution: &Execution, count_max: usize) -> Vec<usize> {
    let all = 0..execution.steps().len();
    let mut done: Vec<_> =
        all.filter_map(|at| Some((deciding_visit_end(execution, at)?.revision, at))).collect();
    done.sort_unstable_by(|one, two| two.cmp(one));
    done.into_iter().take(count_max).map(|(_, at)| at).collect()
}

/// The smallest useful size of an entry, in bytes of JSON.
const ENTRY_BYTES_MIN: usize = 400;

fn unfilled_entry(
    context: &ViewContext<'_>,
    position: usize,
    bytes_max: usize,
) -> Option<(PreviousOutput, TruncatedValue)> {
    let output = context.output(position, bytes_max)?;
    let step = context.definition.workflow.steps.get(position)?;
    let entry = PreviousOutput {
        step_name: step.id.to_string(),
        agent_name: step.agent_name().map(ToString::to_string),
        output: Value::Null,
        output_uri: None,
        truncated: true,
    };
    Some((entry, output))
}

fn entry_bytes(entry: &PreviousOutput) -> usize {
    json_length(entry) + 1
}

/// The entry with its output: whole if its size `needed_bytes` fits into `share`, else shortened.
fn fill_entry_output(
    (entry, output): (PreviousOutput, TruncatedValue),
    needed_bytes: usize,
    share: usize,
) -> PreviousOutput {
    let (value, is_cut) = if needed_bytes <= share {
        (output.value, false)
    } else {
        truncate_value(&output.value, share.saturating_sub(entry_bytes(&entry)))
    };
    PreviousOutput { output: value, truncated: is_cut || output.truncated, ..entry }
}

/// The final output of a completed execution, shortened: the declared one, else the output of its last step, or the
/// outputs of all steps without dependents by step id. The second value says whether anything was left out.
pub(super) fn final_output(context: &ViewContext<'_>, state: State) -> Option<(Value, bool)> {
    if state != State::Completed {
        return None;
    }
    if let Some(value) = context.execution.final_output {
        let value = context.value(value)?;
        return Some(truncate_value(&value, limits::FINAL_OUTPUT_BYTES_MAX));
    }
    let (whole, is_cut) = merge_leaf_outputs(context, limits::FINAL_OUTPUT_BYTES_MAX);
    let (value, is_cut_again) = truncate_value(&whole, limits::FINAL_OUTPUT_BYTES_MAX);
    Some((value, is_cut || is_cut_again))
}

/// The address of the final output in full.
pub(super) fn final_output_uri(id: &ExecutionId) -> String {
    format!("midex://workflow/final_output/{}", uri::encode_segment(id.as_str()))
}

/// The final output in full.
pub fn full_output(context: &ViewContext<'_>) -> Option<Value> {
    match context.execution.final_output {
        Some(value) => context.value(value).map(|value| Value::clone(&value)),
        None => Some(merge_leaf_outputs(context, usize::MAX).0),
    }
}

/// The output of the step without dependents, or of several such steps by step id; and whether one was shortened.
fn merge_leaf_outputs(context: &ViewContext<'_>, bytes_max: usize) -> (Value, bool) {
    let step = |position: usize| context.definition.workflow.steps.get(position);
    let step_output = |position: usize| -> Option<(&Step, TruncatedValue)> {
        let output = context.output(position, bytes_max)?;
        Some((step(position)?, output))
    };
    let leaves = context.definition.graph().leaves();
    let leaf_outputs: Vec<_> = leaves.filter_map(step_output).collect();
    let is_cut = leaf_outputs.iter().any(|(_, output)| output.truncated);
    let whole = match leaf_outputs.as_slice() {
        [(_, output)] => output.value.clone(),
        all => {
            let fields =
                all.iter().map(|(step, output)| (step.id.to_string(), output.value.clone()));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    };
    (whole, is_cut)
}
