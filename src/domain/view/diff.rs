//! The difference of two executions: their definitions, inputs, steps, outputs and times.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::{DefinitionView, FailureView, HistoryRow};
use crate::{
    definition::Definition,
    event::Payload,
    execution::Execution,
    limits,
    truncate::{json_length, truncate_to_chars, truncate_value},
};

/// Unchanged lines that are shown around a changed line.
const CONTEXT_LINES: usize = 2;

/// The difference of two executions. Everything called `before` (`a` in JSON) is of the first, and `after` (`b`) of the
/// second.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiffView {
    /// The first execution.
    #[serde(rename = "a")]
    pub before: ComparedExecution,
    /// The second execution.
    #[serde(rename = "b")]
    pub after: ComparedExecution,
    /// Changed parts of the workflow and its personas, such as `/steps/build/instructions`. Empty on later pages.
    pub definition: ChangeList,
    /// Changed inputs. Empty on later pages.
    pub inputs: ChangeList,
    /// The number of visits that are in both and do not differ.
    pub same_steps: usize,
    /// The visits that differ in their path, status, error, answer or output.
    pub steps: Vec<StepDiff>,
    /// The visits whose durations differ most. Empty on later pages.
    pub times: Vec<StepTimes>,
    /// What to pass as `offset` for more `steps`; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// One of two executions that are compared.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ComparedExecution {
    /// Its id.
    pub execution_id: String,
    /// Its workflow.
    pub workflow_name: String,
    /// The definition that it follows.
    pub definition: DefinitionView,
    /// Its state.
    pub state: String,
    /// When it started.
    pub started_at: String,
    /// The time from its start to its end in milliseconds; null before the end.
    pub duration_ms: Option<u64>,
}

/// Changes of one JSON value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeList {
    /// The first changes.
    pub changes: Vec<ValueChange>,
    /// The number of further changes, which are not listed.
    pub more: usize,
    #[serde(skip)]
    bytes: usize,
}

/// A part of a JSON value that was added, removed or changed. Long values are cut, which `…` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueChange {
    /// A JSON pointer to the part.
    pub path: String,
    /// Its old value; absent if it was added.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its new value; absent if it was removed.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// For texts of several lines, in place of both: the changed lines as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
}

/// A visit that differs, or that only one of both executions has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StepDiff {
    /// The visit: `step`, `step#visit` or `step[item]`.
    pub step: String,
    /// Absent if the first execution did not enter it.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub before: Option<VisitSummary>,
    /// Absent if the second execution did not enter it.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<VisitSummary>,
    /// The changes of its output, if both have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ChangeList>,
}

/// How a visit went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VisitSummary {
    /// The status of its last attempt.
    pub status: String,
    /// The number of its attempts.
    pub attempts: u32,
    /// The duration of the last attempt in milliseconds; null while it runs.
    pub duration_ms: Option<u64>,
    /// The error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// The answer, if it is a gate that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// The option that was chosen of those that it offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// The durations of a visit in both executions, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTimes {
    /// The visit.
    pub step: String,
    /// In the first execution.
    #[serde(rename = "a_ms")]
    pub before_ms: u64,
    /// In the second execution.
    #[serde(rename = "b_ms")]
    pub after_ms: u64,
}

/// One execution to compare.
#[derive(Debug)]
pub struct DiffSide<'a> {
    /// The execution.
    pub execution: &'a Execution,
    /// The definition that it follows.
    pub definition: &'a Definition,
    /// Its inputs.
    pub inputs: Value,
    /// Its history, outputs that lie outside of the rows left out.
    pub history: Vec<HistoryRow>,
}

/// A visit by the last attempts in both executions.
#[derive(Debug)]
pub struct VisitPair {
    name: String,
    before: Option<HistoryRow>,
    after: Option<HistoryRow>,
}

impl DiffView {
    /// The difference of two executions without [`DiffView::steps`], and the visits that differ, for [`DiffView::add_step`].
    /// `offset`: how many of these earlier pages have listed.
    pub fn new(before: DiffSide<'_>, after: DiffSide<'_>, offset: usize) -> (Self, Vec<VisitPair>) {
        let executions = [&before, &after].map(ComparedExecution::new);
        let is_first_page = offset == 0;
        let (mut definition, mut inputs) = (ChangeList::default(), ChangeList::default());
        if is_first_page && before.definition.digest() != after.definition.digest() {
            definition = compare_definitions(before.definition, after.definition);
        }
        if is_first_page {
            inputs.compare("", &before.inputs, &after.inputs);
        }
        let pairs = pair_visits(before.history, after.history);
        let times = if is_first_page { longest_time_differences(&pairs) } else { Vec::new() };
        let visit_count = pairs.len();
        let differing: Vec<_> = pairs.into_iter().filter(VisitPair::differs).collect();
        let [before, after] = executions;
        let view = Self {
            before,
            after,
            definition,
            inputs,
            same_steps: visit_count - differing.len(),
            steps: Vec::new(),
            times,
            next_offset: None,
        };
        (view, differing.into_iter().skip(offset).collect())
    }

    /// Adds a visit with its outputs in both executions, as far as it has them. Returns true once the page is full.
    pub fn add_step(&mut self, pair: VisitPair, outputs: [Option<&Value>; 2]) -> bool {
        let output = match outputs {
            [Some(before), Some(after)] => {
                let mut changes = ChangeList::default();
                changes.compare("", before, after);
                Some(changes).filter(|output| !output.changes.is_empty())
            }
            _ => None,
        };
        self.steps.push(StepDiff {
            step: pair.name,
            before: pair.before.as_ref().map(VisitSummary::new),
            after: pair.after.as_ref().map(VisitSummary::new),
            output,
        });
        json_length(&self.steps) >= limits::DIFF_PAGE_BYTES_MAX
    }

    /// True if nothing but times differs.
    pub fn is_same(&self) -> bool {
        self.definition.changes.is_empty()
            && self.inputs.changes.is_empty()
            && self.steps.is_empty()
            && self.next_offset.is_none()
    }
}

impl ComparedExecution {
    fn new(side: &DiffSide<'_>) -> Self {
        let execution = side.execution;
        let duration = execution.completed_at().map(|end| end.since(execution.started_at()));
        Self {
            execution_id: execution.id().to_string(),
            workflow_name: execution.workflow().to_string(),
            definition: DefinitionView::new(side.definition),
            state: execution.state().as_str().to_owned(),
            started_at: execution.started_at().to_string(),
            duration_ms: duration.and_then(|duration| u64::try_from(duration.as_millis()).ok()),
        }
    }
}

impl VisitSummary {
    fn new(row: &HistoryRow) -> Self {
        Self {
            status: row.status.clone().into_owned(),
            attempts: row.attempt,
            duration_ms: row.duration_ms,
            error: row.error.clone().map(|error| FailureView { response_payload: None, ..error }),
            approved: row.answered.as_ref().map(|answer| answer.approved),
            choice: row.branch_decision.as_ref().map(|decision| decision.choice.clone()),
        }
    }

    /// Whether the visits went the same way. Times are not compared.
    fn is_like(&self, other: &Self) -> bool {
        *self == Self { duration_ms: self.duration_ms, ..other.clone() }
    }
}

impl VisitPair {
    /// The outputs of both executions.
    pub fn outputs(&self) -> [Option<&Payload>; 2] {
        [&self.before, &self.after].map(|row| row.as_ref()?.output_payload.as_ref())
    }

    fn differs(&self) -> bool {
        let (Some(before), Some(after)) = (&self.before, &self.after) else {
            return true;
        };
        let [output, other] = self.outputs().map(|payload| payload.map(|payload| payload.digest));
        output != other || !VisitSummary::new(before).is_like(&VisitSummary::new(after))
    }

    fn times(&self) -> Option<StepTimes> {
        Some(StepTimes {
            step: self.name.clone(),
            before_ms: self.before.as_ref()?.duration_ms?,
            after_ms: self.after.as_ref()?.duration_ms?,
        })
    }
}

/// The visits of both executions, in the order of the first, then those that only the second has.
fn pair_visits(before: Vec<HistoryRow>, after: Vec<HistoryRow>) -> Vec<VisitPair> {
    let mut pairs: Vec<VisitPair> = Vec::new();
    let mut positions = HashMap::new();
    let sides = before.into_iter().map(|row| (true, row));
    for (is_before, row) in sides.chain(after.into_iter().map(|row| (false, row))) {
        let position = *positions.entry(row.visit_name()).or_insert_with_key(|name| {
            pairs.push(VisitPair { name: name.clone(), before: None, after: None });
            pairs.len() - 1
        });
        let pair = &mut pairs[position];
        // A later attempt replaces an earlier one.
        *(if is_before { &mut pair.before } else { &mut pair.after }) = Some(row);
    }
    pairs
}

/// The visits whose durations differ most, the largest difference first.
fn longest_time_differences(pairs: &[VisitPair]) -> Vec<StepTimes> {
    let difference = |times: &StepTimes| times.before_ms.abs_diff(times.after_ms);
    let times = pairs.iter().filter_map(VisitPair::times);
    let mut times: Vec<_> = times.filter(|times| difference(times) > 0).collect();
    times.sort_by_key(|times| std::cmp::Reverse(difference(times)));
    times.truncate(limits::DIFF_TIMES_MAX);
    times
}

fn compare_definitions(before: &Definition, after: &Definition) -> ChangeList {
    let mut list = ChangeList::default();
    let mut documents = [before, after].map(definition_document);
    // The text of a file repeats its steps. It is compared only if nothing else tells what changed.
    let texts = documents.each_mut().map(|document| document.remove("content"));
    let [before, after] = documents.map(Value::Object);
    list.compare("", &before, &after);
    if let ([Some(before), Some(after)], true) = (&texts, list.changes.is_empty()) {
        list.compare("/content", before, after);
    }
    list
}

/// A definition as an object: the keys of the workflow, with `steps` by id, and `personas` by name.
fn definition_document(definition: &Definition) -> Map<String, Value> {
    // Definitions are serialisable: the store keeps them in this form.
    let Ok(Value::Object(mut document)) = serde_json::to_value(&definition.workflow) else {
        return Map::new();
    };
    let steps = definition.workflow.steps.iter().map(|step| {
        let mut value = json!(step);
        if let Value::Object(keys) = &mut value {
            keys.remove("id");
            // `kind` is no key of a file: a step has a key with the name of its kind.
            match keys.remove("kind") {
                Some(Value::Object(kind)) => keys.extend(kind),
                Some(Value::String(kind)) => keys.extend([(kind, json!({}))]),
                _ => {}
            }
        }
        (step.id.to_string(), value)
    });
    document.insert("steps".to_owned(), Value::Object(steps.collect()));
    document.insert("personas".to_owned(), json!(definition.personas));
    document
}

impl ChangeList {
    /// Lists the changes from one value to another. `path` is a JSON pointer to both.
    fn compare(&mut self, path: &str, before: &Value, after: &Value) {
        let child = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        match (before, after) {
            _ if before == after => {}
            (Value::Object(before), Value::Object(after)) => {
                for (key, old) in before {
                    self.compare_optional(child(key), Some(old), after.get(key));
                }
                for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                    self.compare_optional(child(key), None, Some(new));
                }
            }
            (Value::Array(before), Value::Array(after)) => {
                for index in 0..before.len().max(after.len()) {
                    let path = format!("{path}/{index}");
                    self.compare_optional(path, before.get(index), after.get(index));
                }
            }
            _ => self.add(path.to_owned(), Some(before), Some(after)),
        }
    }

    fn compare_optional(&mut self, path: String, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (Some(before), Some(after)) => self.compare(&path, before, after),
            _ => self.add(path, before, after),
        }
    }

    fn add(&mut self, path: String, before: Option<&Value>, after: Option<&Value>) {
        if self.bytes >= limits::DIFF_LIST_BYTES_MAX {
            self.more += 1;
            return;
        }
        let lines = match (before, after) {
            (Some(Value::String(before)), Some(Value::String(after))) => {
                compare_lines(before, after)
            }
            _ => None,
        };
        let shorten = |value: &Value| truncate_value(value, limits::DIFF_VALUE_BYTES_MAX).0;
        let change = match lines {
            Some(_) => ValueChange { path, before: None, after: None, lines },
            None => ValueChange {
                path,
                before: before.map(shorten),
                after: after.map(shorten),
                lines: None,
            },
        };
        self.bytes += json_length(&change);
        self.changes.push(change);
    }
}

/// The changed lines of two texts as a unified diff; `None` if neither has several lines, or one is too long.
fn compare_lines(before: &str, after: &str) -> Option<String> {
    let is_too_long = before.len().max(after.len()) > limits::DIFF_TEXT_BYTES_MAX;
    if is_too_long || !(before.contains('\n') || after.contains('\n')) {
        return None;
    }
    let diff = TextDiff::from_lines(before, after);
    let mut unified = diff.unified_diff();
    let lines = unified.context_radius(CONTEXT_LINES).missing_newline_hint(false).to_string();
    Some(truncate_to_chars(&lines, limits::DIFF_LIST_BYTES_MAX).into_owned())
}
