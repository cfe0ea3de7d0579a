//! The views `step_history` and `telemetry`, derived from the journal.

use std::{borrow::Cow, collections::HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FailureView, same_keys::deserialize_if_known};
use crate::{
    clock::Timestamp,
    definition::Definition,
    document::Digest,
    event::{Event, GateAnswered, OptionChosen, Outcome, Payload, Row, VisitId},
    execution::StepStatus,
    id::{ExecutionId, StepId},
    offer::{OfferedOptions, StepOption},
    telemetry::{EventType, TelemetryRecord},
};

/// One attempt of a visit of a step (`step_history`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryRow {
    /// The step.
    pub step_name: String,
    /// The title of the visit, where the step has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The agent that acted; null if no agent acted.
    pub agent_name: Option<String>,
    /// The status of the attempt.
    pub status: Cow<'static, str>,
    /// The time when the attempt was opened.
    pub started_at: String,
    /// The time when it ended.
    pub completed_at: Option<String>,
    /// The time between both, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Its output.
    pub output: Option<Value>,
    /// The SHA-256 of the output's JSON, if the history is too long to include the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// The length of the output's JSON in bytes, if the history is too long to include the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Why it failed.
    pub error: Option<FailureView>,
    /// The answer, if the step is a gate that was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<GateAnswerView>,
    /// The options that the step offered to its client.
    #[serde(
        rename = "branchOptions",
        default,
        deserialize_with = "deserialize_if_known",
        skip_serializing_if = "Option::is_none"
    )]
    pub branch_options: Option<Vec<StepOption>>,
    /// The option that the client took (`recordBranchDecision`).
    #[serde(rename = "branchDecision", skip_serializing_if = "Option::is_none")]
    pub branch_decision: Option<BranchDecision>,
    /// What the activity of the step reported besides its outcome, and `executionTimeMs`, the duration of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The number of the visit, from 1; 0 for a step that was skipped.
    pub visit: u32,
    /// The number of the attempt within the visit, from 1.
    pub attempt: u32,
    /// The index of the `foreach` item, from 0; null for other visits.
    pub item: Option<u32>,
    /// Whether the visit ended after its join had been satisfied by others, so that its end had no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Whether a forked execution did it, and this fork kept it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// The hook, or `compensate`; absent for the work of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip)]
    opened_at: Timestamp,
    /// Its output as the journal names it.
    #[serde(skip)]
    pub(super) output_payload: Option<Payload>,
}

/// The option that a client took of those that a step offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchDecision {
    /// The id of the option.
    pub choice: String,
    /// The pattern of the branch, if the option comes from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_pattern: Option<String>,
    /// Its tool.
    pub tool_name: String,
    /// The step whose token came with the choice.
    pub chosen_at: String,
    /// The digests of all offers that were open when the client chose.
    pub offered: Vec<String>,
    /// When.
    pub timestamp: String,
}

/// The answer to a gate. The identity of the person is not verified: the answer was given with the rights of the
/// server's user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GateAnswerView {
    /// Whether they approved.
    pub approved: bool,
    /// The name that they gave.
    pub by: String,
    /// The channel of the answer.
    pub via: String,
    /// The digest of the question that they were shown.
    pub shown: String,
}

impl HistoryRow {
    /// Whether it is work of a step, and not of a hook, that has ended and was not skipped.
    pub fn is_ended_work(&self) -> bool {
        self.body.is_none()
            && self.completed_at.is_some()
            && self.status != StepStatus::Skipped.as_str()
    }

    /// The digest of its output, if the history does not include the output.
    pub fn omitted_output(&self) -> Option<Digest> {
        let payload = self.output_payload.as_ref().filter(|_| self.output.is_none());
        payload.map(|payload| payload.digest)
    }

    /// Adds to its error the step, and the command that the step calls.
    pub fn add_command(&mut self, definition: &Definition) {
        self.error = self.error.take().map(|mut error| {
            error.step_id.get_or_insert_with(|| self.step_name.clone());
            error.with_command(definition)
        });
    }
}

/// The visits of an execution in the order in which they were opened. `load_content` looks up a stored value by digest.
pub fn build_history<'a>(
    rows: impl Iterator<Item = &'a Row>,
    load_content: impl Fn(&Digest) -> Option<Value>,
) -> Vec<HistoryRow> {
    let (mut visits, mut titles) = (Vec::new(), HashMap::new());
    for row in rows {
        for event in &row.events {
            if let Event::VisitTitled { visit_id, title } = event {
                titles.insert(visit_key(visit_id), title);
            }
            apply_event(&mut visits, row, event, &load_content);
        }
    }
    if !titles.is_empty() {
        for visit in &mut visits {
            visit.title = titles.get(&visit.visit_key()).map(|title| String::clone(title));
        }
    }
    visits
}

fn apply_event(
    visits: &mut Vec<HistoryRow>,
    row: &Row,
    event: &Event,
    load_content: &impl Fn(&Digest) -> Option<Value>,
) {
    match event {
        Event::VisitOpened(opened) => {
            let agent = opened.agent.as_ref().map(ToString::to_string);
            visits.push(HistoryRow::new_running(row, &opened.visit_id, 1, agent));
        }
        Event::WaitingChanged { visit_id, attempt, .. } => {
            let Some(entry) = latest_row_of_visit(visits, visit_id) else {
                return;
            };
            // A new attempt gets an entry of its own. Otherwise only the kind of wait changed, or an attempt that had
            // not begun was postponed.
            if entry.attempt < *attempt {
                let agent = entry.agent_name.clone();
                visits.push(HistoryRow::new_running(row, visit_id, *attempt, agent));
            }
        }
        Event::AttemptEnded(ended) => {
            if let Some(entry) = latest_row_of_visit(visits, &ended.visit_id) {
                entry.set_end_time(row.at);
                let status = match ended.failure {
                    None => StepStatus::Completed,
                    Some(_) => StepStatus::Failed,
                };
                entry.status = status.as_str().into();
                entry.error = ended.failure.as_ref().map(Into::into);
            }
        }
        Event::PollKept { visit_id, output } => {
            if let Some(entry) = latest_row_of_visit(visits, visit_id) {
                entry.set_output(output, load_content);
            }
        }
        Event::MetadataReported { visit_id, metadata } => {
            if let Some(entry) = latest_row_of_visit(visits, visit_id) {
                entry.metadata = Some(metadata.value());
            }
        }
        Event::GateAnswered(answer) => {
            if let Some(entry) = latest_row_of_visit(visits, &answer.visit_id) {
                entry.answered = Some((&**answer).into());
            }
        }
        Event::OptionsOffered { visit_id, options } => {
            if let Some(entry) = latest_row_of_visit(visits, visit_id) {
                let offered = resolve_payload(options, load_content);
                entry.branch_options =
                    offered.map(|value| OfferedOptions::from_value(&value).options);
            }
        }
        Event::OptionChosen(chosen) => {
            let offering_visit = chosen.offered_by.as_ref().unwrap_or(&chosen.visit_id);
            if let Some(entry) = latest_row_of_visit(visits, offering_visit) {
                entry.branch_decision = Some(BranchDecision::from_chosen_option(row, chosen));
            }
        }
        Event::StepDone { visit_id, outcome } => {
            let mut entry = HistoryRow::new_running(row, visit_id, 1, None);
            entry.set_end_time(row.at);
            close_row(&mut entry, outcome, load_content);
            visits.push(entry);
        }
        Event::StepInherited(step) => {
            let (agent, opened_at) = (step.agent.as_ref().map(ToString::to_string), step.opened_at);
            let mut entry = HistoryRow::new_running(row, &step.visit_id, step.attempt, agent);
            (entry.opened_at, entry.started_at) = (opened_at, opened_at.to_string());
            entry.set_end_time(step.closed_at);
            close_row(&mut entry, &step.outcome, load_content);
            entry.inherited = true;
            visits.push(entry);
        }
        Event::CameLate { visit_id } => {
            if let Some(entry) = latest_row_of_visit(visits, visit_id) {
                entry.late = true;
            }
        }
        Event::StepFailed { visit_id, failure } => {
            if let Some(entry) = latest_row_of_visit(visits, visit_id) {
                entry.status = StepStatus::Failed.as_str().into();
                entry.error = Some(failure.into());
            }
        }
        Event::StepSkipped { step, .. } => {
            let visit_id = VisitId::for_step_work(step.clone(), 0, None);
            let mut entry = HistoryRow::new_running(row, &visit_id, 0, None);
            entry.set_end_time(row.at);
            entry.status = StepStatus::Skipped.as_str().into();
            visits.push(entry);
        }
        Event::VisitClosed(closed) => {
            // A visit that was voided between two attempts keeps the result of its latest attempt.
            let is_between_attempts = |entry: &HistoryRow| {
                closed.outcome == Outcome::Voided && entry.completed_at.is_some()
            };
            let entry = latest_row_of_visit(visits, &closed.visit_id);
            if let Some(entry) = entry.filter(|entry| !is_between_attempts(entry)) {
                entry.set_end_time(row.at);
                close_row(entry, &closed.outcome, load_content);
            }
        }
        _ => {}
    }
}

impl BranchDecision {
    fn from_chosen_option(row: &Row, chosen: &OptionChosen) -> Self {
        Self {
            choice: chosen.option.clone(),
            branch_pattern: chosen.pattern.clone(),
            tool_name: chosen.tool_name.clone(),
            chosen_at: chosen.visit_id.step().to_string(),
            offered: chosen.offered.iter().map(Digest::to_string).collect(),
            timestamp: row.at.to_string(),
        }
    }
}

impl From<&GateAnswered> for GateAnswerView {
    fn from(answer: &GateAnswered) -> Self {
        Self {
            approved: answer.approved,
            by: answer.by.clone(),
            via: answer.via.as_str().to_owned(),
            shown: answer.shown.to_string(),
        }
    }
}

/// A visit as `step`, `step#visit` or `step[item]`; items are counted from 1.
pub(super) fn format_visit(step: &str, visit: u32, item: Option<u32>) -> String {
    let item = item.map_or_else(String::new, |item| format!("[{}]", item + 1));
    let number = if visit > 1 { format!("#{visit}") } else { String::new() };
    format!("{step}{number}{item}")
}

/// A visit among those of an execution: its step, its body unless that is the work, its number and its item.
type VisitKey<'a> = (&'a str, Option<&'a str>, u32, Option<u32>);

fn visit_key(visit_id: &VisitId) -> VisitKey<'_> {
    let body = visit_id.body.name_unless_work();
    (visit_id.step().as_str(), body, visit_id.visit, visit_id.item)
}

/// The latest entry of a visit.
fn latest_row_of_visit<'a>(
    visits: &'a mut [HistoryRow],
    visit_id: &VisitId,
) -> Option<&'a mut HistoryRow> {
    visits.iter_mut().rev().find(|entry| entry.is_of_visit(visit_id))
}

impl HistoryRow {
    fn new_running(
        row: &Row,
        visit_id: &VisitId,
        attempt: u32,
        agent_name: Option<String>,
    ) -> Self {
        Self {
            step_name: visit_id.step().to_string(),
            title: None,
            agent_name,
            status: StepStatus::Running.as_str().into(),
            started_at: row.at.to_string(),
            completed_at: None,
            duration_ms: None,
            output: None,
            output_digest: None,
            output_bytes: None,
            error: None,
            answered: None,
            branch_options: None,
            branch_decision: None,
            metadata: None,
            visit: visit_id.visit,
            attempt,
            item: visit_id.item,
            late: false,
            inherited: false,
            body: visit_id.body.name_unless_work().map(str::to_owned),
            opened_at: row.at,
            output_payload: None,
        }
    }

    fn is_of_visit(&self, visit_id: &VisitId) -> bool {
        self.visit_key() == visit_key(visit_id)
    }

    fn visit_key(&self) -> VisitKey<'_> {
        (&self.step_name, self.body.as_deref(), self.visit, self.item)
    }

    /// The visit as `step`, `step#visit` or `step[item]`, and `/hook` for a hook.
    pub(super) fn visit_name(&self) -> String {
        let hook = self.body.as_ref().map_or_else(String::new, |body| format!("/{body}"));
        format!("{}{hook}", format_visit(&self.step_name, self.visit, self.item))
    }

    fn set_output(&mut self, payload: &Payload, load_content: &impl Fn(&Digest) -> Option<Value>) {
        self.output_payload = Some(payload.clone());
        self.output = resolve_payload(payload, load_content);
        if self.output.is_none() {
            self.output_digest = Some(payload.digest.to_string());
            self.output_bytes = Some(payload.bytes);
        }
    }

    fn set_end_time(&mut self, at: Timestamp) {
        let duration = at.since(self.opened_at).as_millis();
        self.completed_at = Some(at.to_string());
        self.duration_ms = u64::try_from(duration).ok();
    }
}

fn close_row(
    entry: &mut HistoryRow,
    outcome: &Outcome,
    load_content: &impl Fn(&Digest) -> Option<Value>,
) {
    match outcome {
        Outcome::Completed(payload) => {
            entry.status = StepStatus::Completed.as_str().into();
            entry.set_output(payload, load_content);
        }
        Outcome::Failed(failure) => {
            entry.status = StepStatus::Failed.as_str().into();
            entry.error = Some(failure.into());
        }
        Outcome::Voided => entry.status = StepStatus::Skipped.as_str().into(),
    }
}

fn resolve_payload(
    payload: &Payload,
    load_content: &impl Fn(&Digest) -> Option<Value>,
) -> Option<Value> {
    match &payload.inline {
        Some(document) => Some(document.value()),
        None => load_content(&payload.digest),
    }
}

/// One telemetry event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TelemetryEvent {
    /// The sequence number in the order of all telemetry.
    pub id: u64,
    /// Its type.
    pub event_type: EventType,
    /// The execution it is about.
    pub execution_id: Option<String>,
    /// The step that it is about.
    pub step_name: Option<String>,
    /// The agent of the step.
    pub agent_name: Option<String>,
    /// Further data, by event type.
    pub metadata: Value,
    /// The time of the event.
    pub created_at: String,
}

/// The view of one telemetry record.
pub fn telemetry_event(
    id: u64,
    execution: Option<&ExecutionId>,
    at: Timestamp,
    telemetry: TelemetryRecord,
) -> TelemetryEvent {
    TelemetryEvent {
        id,
        event_type: telemetry.event_type,
        execution_id: execution.map(ToString::to_string),
        step_name: telemetry.step.as_ref().map(StepId::to_string),
        agent_name: telemetry.agent.as_ref().map(ToString::to_string),
        metadata: telemetry.metadata,
        created_at: at.to_string(),
    }
}
