//! The outputs of earlier steps, as a later step is shown them, and the final output of an execution.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Subject,
    subject::{Shortened, deciding_visit_end},
};
use crate::{
    definition::{Definition, Step, StepKind},
    execution::Execution,
    limits,
    state::State,
    truncate::{CUT_MARK, divide_fairly, json_length, truncate_value},
    uri,
};

/// What a step before decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Previous {
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

impl Previous {
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
    let mut left = graph.dependencies(position).to_vec();
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(at) = left.pop() {
        let kind = steps.get(at).map(|step| &step.kind);
        let passes = matches!(kind, Some(StepKind::Branch { .. } | StepKind::Set { .. }));
        if !passes {
            found.insert(at);
        } else if seen.insert(at) {
            left.extend(graph.dependencies(at));
        }
    }
    found
}

/// The outputs of the steps at `deciders`, in at most `bytes_max` bytes of JSON.
pub(super) fn previous_decisions(
    subject: &Subject<'_>,
    deciders: BTreeSet<usize>,
    bytes_max: usize,
) -> Vec<Previous> {
    let told = deciders.into_iter();
    let mut told: Vec<_> = told.filter_map(|at| unfilled_entry(subject, at, bytes_max)).collect();
    let all = told.len();
    // With very many steps the list would consist of names only, so it is cut to the entries that have room for
    // content.
    let shown = all.min(bytes_max / ENTRY_BYTES_MIN);
    told.truncate(shown);
    let mut previous = share_bytes_among_entries(told, bytes_max);
    if let Some(last) = previous.last_mut().filter(|_| shown < all) {
        let more = all - shown + 1;
        let words = format!("{more} more steps decided something: see step_history");
        last.output = words.into();
        last.truncated = true;
    }
    previous
}

fn share_bytes_among_entries(told: Vec<(Previous, Shortened)>, bytes_max: usize) -> Vec<Previous> {
    let want =
        |(entry, output): &(Previous, Shortened)| entry_bytes(entry) + json_length(&output.value);
    let wants: Vec<_> = told.iter().map(want).collect();
    let shares = divide_fairly(&wants, bytes_max.saturating_sub(2));
    let rooms = wants.into_iter().zip(shares);
    told.into_iter()
        .zip(rooms)
        .map(|(told, (want, share))| fill_entry_output(told, want, share))
        .collect()
}

/// The outputs of the steps that were completed last, the latest first, in at most `bytes_max` bytes of JSON.
pub(super) fn latest_decisions(subject: &Subject<'_>, bytes_max: usize) -> Vec<Previous> {
    let done = last_completed_steps(subject.execution, limits::RESUME_DECIDED_MAX).into_iter();
    let told: Vec<_> = done.filter_map(|at| unfilled_entry(subject, at, bytes_max)).collect();
    share_bytes_among_entries(told, bytes_max)
}

/// The outputs that a person needs for the step at `position`: those of its predecessors and of the steps completed
/// last. In authoring order, in at most `bytes_max` bytes of JSON.
pub(super) fn decisions_before_step(
    subject: &Subject<'_>,
    position: usize,
    bytes_max: usize,
) -> Vec<Previous> {
    let mut steps = deciding_predecessors(subject.definition, position);
    let lately = last_completed_steps(subject.execution, limits::PERSON_DECIDED_MAX);
    steps.extend(lately.into_iter().filter(|at| *at != position));
    previous_decisions(subject, steps, bytes_max)
}

/// The positions of the steps that were completed last, the latest first, at most `most` of them.
fn last_completed_steps(execution: &Execution, most: usize) -> Vec<usize> {
    let all = 0..execution.steps().len();
    let mut done: Vec<_> =
        all.filter_map(|at| Some((deciding_visit_end(execution, at)?.revision, at))).collect();
    done.sort_unstable_by(|one, two| two.cmp(one));
    done.into_iter().take(most).map(|(_, at)| at).collect()
}

/// The smallest useful size of an entry, in bytes of JSON.
const ENTRY_BYTES_MIN: usize = 400;

fn unfilled_entry(
    subject: &Subject<'_>,
    position: usize,
    bytes_max: usize,
) -> Option<(Previous, Shortened)> {
    let output = subject.output(position, bytes_max)?;
    let step = subject.definition.workflow.steps.get(position)?;
    let entry = Previous {
        step_name: step.id.to_string(),
        agent_name: step.agent_name().map(ToString::to_string),
        output: Value::Null,
        output_uri: None,
        truncated: true,
    };
    Some((entry, output))
}

fn entry_bytes(entry: &Previous) -> usize {
    json_length(entry) + 1
}

/// The entry with its output: whole if its size `want` fits into `share`, else shortened.
fn fill_entry_output(
    (entry, output): (Previous, Shortened),
    want: usize,
    share: usize,
) -> Previous {
    let (shown, cut) = if want <= share {
        (output.value, false)
    } else {
        truncate_value(&output.value, share.saturating_sub(entry_bytes(&entry)))
    };
    Previous { output: shown, truncated: cut || output.truncated, ..entry }
}

/// The final output of a completed execution, shortened: the declared one, else the output of its last step, or the
/// outputs of all steps without dependents by step id. The second value says whether anything was left out.
pub(super) fn final_output(subject: &Subject<'_>, state: State) -> Option<(Value, bool)> {
    if state != State::Completed {
        return None;
    }
    if let Some(value) = subject.execution.final_output {
        let value = subject.value(value)?;
        return Some(truncate_value(&value, limits::FINAL_OUTPUT_BYTES_MAX));
    }
    let (whole, cut) = last_outputs(subject, limits::FINAL_OUTPUT_BYTES_MAX);
    let (value, cut_now) = truncate_value(&whole, limits::FINAL_OUTPUT_BYTES_MAX);
    Some((value, cut || cut_now))
}

/// The final output in full.
pub fn whole_output(subject: &Subject<'_>) -> Option<Value> {
    match subject.execution.final_output {
        Some(value) => subject.value(value).map(|value| Value::clone(&value)),
        None => Some(last_outputs(subject, usize::MAX).0),
    }
}

/// The output of the step without dependents, or of several such steps by step id; and whether one was shortened.
fn last_outputs(subject: &Subject<'_>, bytes_max: usize) -> (Value, bool) {
    let step = |position: usize| subject.definition.workflow.steps.get(position);
    let named = |position: usize| -> Option<(&Step, Shortened)> {
        let output = subject.output(position, bytes_max)?;
        Some((step(position)?, output))
    };
    let leaves = subject.definition.graph().leaves();
    let last: Vec<_> = leaves.filter_map(named).collect();
    let cut = last.iter().any(|(_, output)| output.truncated);
    let whole = match last.as_slice() {
        [(_, output)] => output.value.clone(),
        all => {
            let fields =
                all.iter().map(|(step, output)| (step.id.to_string(), output.value.clone()));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    };
    (whole, cut)
}
