//! Why an execution does not move, in words.

use maud::{Markup, html};

use super::forms::wait_form;
use crate::{
    html::{block, execution_link, joined_lines, line, time_left},
    viewer::Viewer,
};
use midex_domain::{
    clock::Timestamp,
    id::StepId,
    view::{StatusView, WaitView},
};

/// One sentence on why the execution is where it is.
pub(super) fn reason_sentence(status: &StatusView, now: Timestamp) -> Markup {
    let step = status.current_title.as_deref().or(status.current_step.as_deref());
    html! {
        @if status.imported {
            "It was imported, and is read-only: it goes on only as a fork."
        } @else if let Some(error) = &status.error {
            @if let Some(step) = &error.step_name { "Step " strong { (line(step)) } " failed: " }
            (joined_lines(&error.message))
        } @else if status.completed_at.is_some() {
            @if status.state == "completed" { "It is done." } @else { "It ended as " (line(&status.state)) "." }
            @if let Some(reason) = &status.reason { " " (joined_lines(reason)) }
        } @else if status.needs_resume() {
            "It is paused"
            @if let Some(reason) = &status.reason { ": " (joined_lines(reason)) }
            ". It goes on when somebody resumes it."
        } @else if let Some(wait) = most_pressing(&status.waits) {
            (wait_sentence(wait, now))
        } @else if let Some(step) = step {
            "An agent works on " strong { (line(step)) } ", or will: the step waits for its result."
        } @else {
            "The server works on it."
        }
    }
}

/// The wait that a person should know of first: one that a person ends.
fn most_pressing(waits: &[WaitView]) -> Option<&WaitView> {
    const ORDER: [&str; 6] = ["unknown", "gate", "output_invalid", "catalog", "held", "signal"];
    let rank = |wait: &&WaitView| {
        ORDER.iter().position(|kind| *kind == wait.waits_for).unwrap_or(ORDER.len())
    };
    waits.iter().min_by_key(rank)
}

/// The step of a wait, with its hook and its item.
fn wait_name(wait: &WaitView) -> Markup {
    html! {
        @if let Some(body) = &wait.body { (line(body)) " of " }
        @if wait.step_name == StepId::workflow_pseudo_step().as_str() { "a hook of the workflow" } @else {
            strong { (line(wait.title.as_deref().unwrap_or(&wait.step_name))) }
        }
        @if let Some(item) = wait.item { " #" (item + 1) }
    }
}

/// A wait in a sentence.
pub(super) fn wait_sentence(wait: &WaitView, now: Timestamp) -> Markup {
    let due = wait.due.as_deref().unwrap_or_default();
    let left = time_left(due, now);
    html! {
        (wait_name(wait))
        @match wait.waits_for.as_str() {
            "operation" => {
                ": the server works on it"
                @if let Some(progress) = &wait.progress {
                    " – " (progress.done) @if let Some(total) = progress.total { " of " (total) } " " (line(&progress.text))
                }
                "."
            }
            "timer" => { " waits until " (due) (left) "." }
            "retry" => { " failed, and is tried again" (left) "." }
            "signal" => { " waits for the signal " code { (line(wait.signal.as_deref().unwrap_or_default())) } (left) "." }
            "gate" => { " waits for a person's approval" (left) "." }
            "catalog" => { " waits for the catalog " code { (line(wait.catalog.as_deref().unwrap_or_default())) } ", which is not there or is disabled." }
            "unknown" => " was cut off, and nobody knows whether it took effect.",
            "child" => " waits for its child.",
            "output_invalid" => ": too many of its outputs broke its schema.",
            _ => " has come to its end, and waits for the resume.",
        }
    }
}

/// Every wait, each with what a person needs to end it.
pub(super) fn wait_list(viewer: &Viewer, status: &StatusView, back: &str) -> Markup {
    let now = viewer.now();
    html! {
        @for wait in &status.waits {
            article.wait data-key={ (wait.step_name) "-" (wait.visit) "-" (wait.item.unwrap_or_default()) } {
                // The only wait is the reason that stands above already.
                @if status.waits.len() > 1 || status.needs_resume() { p { (wait_sentence(wait, now)) } }
                @if let Some(child) = &wait.execution_id { p { "In " (execution_link(child)) } }
                @if let Some(gate) = &wait.gate {
                    (block(&gate.ask))
                    @if !gate.approvers.is_empty() { p { "To be answered by " (line(&gate.approvers.join(", "))) } }
                }
                (wait_form(viewer, &status.execution_id, wait, back))
            }
        }
    }
}
