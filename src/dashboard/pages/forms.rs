//! The forms with which a person acts.

use maud::{Markup, html};
use serde_json::Value;

use crate::{html::execution_path, viewer::Viewer};
use midex_domain::{
    limits,
    view::{ReadyStep, StatusView, WaitView},
};

/// A form that performs an action, and then leads to `back`. Empty if nothing may be changed.
pub(super) fn form(viewer: &Viewer, action: &str, back: &str, fields: &Markup) -> Markup {
    html! {
        @if !viewer.is_read_only {
            form method="post" action={ "/act/" (action) } {
                (hidden("form_token", &viewer.form_token))
                (hidden("back", back))
                (fields)
            }
        }
    }
}

pub(super) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// A form with one button. `question` is asked before a change that cannot be undone.
fn button_form(
    viewer: &Viewer,
    (action, label): (&str, &str),
    id: &str,
    question: Option<&str>,
    back: &str,
) -> Markup {
    let fields = html! {
        (hidden("execution_id", id))
        button data-confirm=[question] class=[question.map(|_| "danger")] { (label) }
    };
    form(viewer, action, back, &fields)
}

/// What can be done with the execution as a whole, which has these steps and inputs. `back` is the page that shows it.
pub(super) fn execution_actions(
    viewer: &Viewer,
    status: &StatusView,
    (steps, inputs): (&[String], Option<&Value>),
    back: &str,
) -> Markup {
    let id = status.execution_id.as_str();
    let state = midex_domain::State::parse(&status.state);
    let is_final = state.is_some_and(midex_domain::State::is_final);
    let can_retry = state.is_some_and(midex_domain::State::can_be_retried);
    let is_child = status.parent.is_some();
    html! {
        div.actions {
            @if status.imported {
                (button_form(viewer, ("fork", "Go on in a fork"), id, Some("Fork it? The fork goes on, and does what the list above says."), back))
            } @else if !is_final {
                @if status.state == "paused" {
                    @if status.needs_resume() { (button_form(viewer, ("resume", "Resume"), id, None, back)) }
                } @else {
                    (button_form(viewer, ("pause", "Pause"), id, None, back))
                }
                @if !is_child { (rewind_form(viewer, id, steps)) }
                (button_form(viewer, ("abandon", "Abandon"), id, Some("Abandon it for good? A retry can go on from where it was."), back))
            } @else if can_retry && !is_child {
                (button_form(viewer, ("retry", "Retry"), id, None, back))
                (retry_form(viewer, id, steps, inputs))
            }
        }
    }
}

fn step_options(steps: &[String], first: &str) -> Markup {
    html! {
        option value="" { (first) }
        @for step in steps { option value=(step) { (step) } }
    }
}

fn retry_form(viewer: &Viewer, id: &str, steps: &[String], inputs: Option<&Value>) -> Markup {
    let inputs = inputs.map(|inputs| format!("{inputs:#}"));
    let inputs = inputs.filter(|text| text.len() <= limits::DASHBOARD_TEXT_CHARS_MAX);
    let inputs = inputs.unwrap_or_default();
    let fields = html! {
        (hidden("execution_id", id))
        (hidden("inputs_before", &inputs))
        label { "From step" select name="from_step" { (step_options(steps, "the one that failed")) } }
        label {
            "Inputs, as JSON; other ones need a step"
            textarea name="inputs" rows="6" placeholder="{ \"name\": \"value\" }" { (inputs) }
        }
        label.check { input type="checkbox" name="with_current_file" value="1"; "Follow the workflow's file as it is now" }
        button { "Retry like this" }
    };
    html! {
        @if !viewer.is_read_only && !steps.is_empty() {
            details { summary { "Retry from a step…" } (form(viewer, "retry", &execution_path(id), &fields)) }
        }
    }
}

fn rewind_form(viewer: &Viewer, id: &str, steps: &[String]) -> Markup {
    let fields = html! {
        (hidden("execution_id", id))
        label { "To step" select name="to_step" required { (step_options(steps, "choose a step")) } }
        label { "Why" input name="reason" maxlength="500"; }
        label.check { input type="checkbox" name="compensate" value="1"; "First run what takes the effects back" }
        button data-confirm="Rewind it? That step and everything after it are done again." { "Rewind" }
    };
    html! {
        @if !viewer.is_read_only && !steps.is_empty() {
            details { summary { "Rewind to a step…" } (form(viewer, "rewind", &execution_path(id), &fields)) }
        }
    }
}

/// The form that ends a wait, if a person can end it. A wait in a child is ended on the page of the child.
pub(super) fn wait_form(viewer: &Viewer, id: &str, wait: &WaitView, back: &str) -> Markup {
    let id = wait.execution_id.as_deref().unwrap_or(id);
    match wait.waits_for.as_str() {
        "gate" => gate_form(viewer, id, wait, back),
        "signal" => signal_form(viewer, id, wait, back),
        "unknown" => resolve_form(viewer, id, wait, back),
        "output_invalid" | "held" => {
            let fields = html! { (hidden("execution_id", id)) button { "Resume" } };
            form(viewer, "resume", back, &fields)
        }
        "catalog" => html! { p { a href="/catalogs" { "Look at the catalogs" } } },
        _ => html! {},
    }
}

fn gate_form(viewer: &Viewer, id: &str, wait: &WaitView, back: &str) -> Markup {
    let Some(gate) = &wait.gate else {
        return html! {};
    };
    let fields = html! {
        (hidden("execution_id", id))
        (hidden("step_name", &wait.step_name))
        (hidden("visit", &wait.visit.to_string()))
        (hidden("shown", &gate.shown))
        label { "Comment" input name="comment" maxlength="2000"; }
        div.row {
            button.primary name="answer" value="approve" { "Approve" }
            button.danger name="answer" value="reject" data-confirm="Reject it? The step fails." { "Reject" }
        }
        p.note { "Recorded as " strong { (viewer.person) } ", with the digest " code { (gate.shown.get(..12).unwrap_or_default()) "…" } " of the question." }
    };
    form(viewer, "approve", back, &fields)
}

fn signal_form(viewer: &Viewer, id: &str, wait: &WaitView, back: &str) -> Markup {
    let name = wait.signal.as_deref().unwrap_or_default();
    let fields = html! {
        (hidden("execution_id", id))
        (hidden("signal", name))
        label { "Payload of the signal, as JSON" textarea name="payload" rows="2" placeholder="null" {} }
        button { "Send the signal" }
    };
    form(viewer, "signal", back, &fields)
}

fn resolve_form(viewer: &Viewer, id: &str, wait: &WaitView, back: &str) -> Markup {
    let fields = html! {
        (hidden("execution_id", id))
        (hidden("step_name", &wait.step_name))
        (hidden("visit", &wait.visit.to_string()))
        (hidden("attempt", &wait.attempt.to_string()))
        @if let Some(item) = wait.item { (hidden("item", &item.to_string())) }
        fieldset {
            legend { "Find out what came of it, then say:" }
            label.check { input type="radio" name="verdict" value="retry" required; "It took no effect: do it again" }
            label.check { input type="radio" name="verdict" value="output"; "It took effect, with this output:" }
            textarea name="output" rows="2" aria-label="Output, as JSON" placeholder="null" {}
            label.check { input type="radio" name="verdict" value="failed"; "It failed:" }
            input name="message" aria-label="Why it failed" maxlength="2000";
        }
        button { "Resolve" }
    };
    form(viewer, "resolve", back, &fields)
}

/// The form for a step that only the user may answer.
pub(super) fn answer_form(viewer: &Viewer, step: &ReadyStep, back: &str) -> Markup {
    let fields = html! {
        (hidden("token", &step.continuation_token))
        label { "Your answer, as JSON" textarea name="output" rows="3" required {} }
        button.primary { "Answer" }
    };
    form(viewer, "answer", back, &fields)
}
