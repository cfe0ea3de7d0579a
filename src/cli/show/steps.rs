//! The steps of an execution in order, each with its state and its result.

use super::{DisplayOptions, short_result};
use crate::{
    picture::{StepNotes, draw_graph},
    screen::one_line,
    value::format_duration,
    waits,
    when::time_since,
};
use midex_domain::{
    clock::Timestamp,
    view::{ExecutionView, GateAnswerView, GraphNode, GraphView, HistoryRow},
};

/// The steps of `execution` with their states, and what each waits for at time `now`.
pub(super) fn steps_section(
    graph: &GraphView,
    execution: &ExecutionView,
    options: &DisplayOptions<'_>,
    now: Timestamp,
) -> String {
    let notes = |node: &GraphNode| step_notes(node, execution, now, options.is_served);
    draw_graph(graph, options.screen, notes)
}

fn step_notes(
    node: &GraphNode,
    execution: &ExecutionView,
    now: Timestamp,
    is_served: bool,
) -> StepNotes {
    // A gate that is to be asked again is pending. The answer of an earlier round would look like one that counts.
    let is_pending = node.standing.as_ref().is_some_and(|standing| standing.status == "pending");
    let is_reset_gate = is_pending && node.kind == "gate";
    let is_shown =
        |row: &&HistoryRow| !is_reset_gate && row.step_name == node.id && row.body.is_none();
    let rows = execution.history.iter().filter(is_shown);
    let latest = rows.clone().rev().find(|row| row.item.is_none());
    let waits = execution.status.waits.iter();
    let own_waits = waits.filter(|wait| wait.step_name == node.id && wait.body.is_none());
    let is_of_latest_visit =
        |row: &&HistoryRow| latest.is_none_or(|latest| row.visit == latest.visit);
    let answers = rows.clone().filter(is_of_latest_visit).filter_map(|row| row.answered.as_ref());
    let earlier_attempts =
        rows.filter(|row| latest.is_some_and(|latest| is_earlier_attempt(row, latest)));
    // Each page of a paginated list is an attempt without a result; those are not shown.
    let earlier_attempts = earlier_attempts.map(|row| (row.attempt, short_result(row)));
    let earlier_attempts = earlier_attempts.filter(|(_, result)| !result.is_empty());
    let earlier_attempts: Vec<_> =
        earlier_attempts.map(|(attempt, result)| format!("attempt {attempt}: {result}")).collect();
    StepNotes {
        line_note: latest
            .map_or_else(String::new, |row| describe_visit(row, now, earlier_attempts.len())),
        detail_notes: own_waits
            .map(|wait| waits::describe_wait(wait, now, is_served))
            .chain(answers.map(gate_answer_text))
            .chain(earlier_attempts)
            .collect(),
    }
}

/// Whether the row is an earlier attempt of the same visit as `latest`.
fn is_earlier_attempt(row: &HistoryRow, latest: &HistoryRow) -> bool {
    row.item.is_none() && row.visit == latest.visit && row.attempt != latest.attempt
}

/// The duration of a visit and its result.
fn describe_visit(row: &HistoryRow, now: Timestamp, failures: usize) -> String {
    let time = if row.status == "running" {
        let since = time_since(&row.started_at, now);
        since.map_or_else(String::new, |since| format!("for {since}"))
    } else {
        row.duration_ms.map_or_else(String::new, format_duration)
    };
    let attempt = if row.attempt >= 2 && failures > 0 {
        format!("attempt {}", failures + 1)
    } else {
        String::new()
    };
    let late_note = if row.late { "late" } else { "" };
    let title = row.title.as_deref().map_or_else(String::new, one_line);
    let result = short_result(row);
    let parts = [title.as_str(), &time, &attempt, late_note, &result];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// Whether a gate was approved or rejected, and by whom.
fn gate_answer_text(answer: &GateAnswerView) -> String {
    let verdict = if answer.approved { "approved" } else { "rejected" };
    format!("{verdict} by {}", one_line(&answer.by))
}
